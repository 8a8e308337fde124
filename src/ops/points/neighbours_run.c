/* How knn and radius_search run, and their gradient. */
#include "ops/points/neighbours.h"

#include "core/tensor/tensor.h"
#include "ops/index/access.h"
#include "ops/points/blocks.h"
#include "ops/points/neighbours_kernel.h"

#include <shardtensor/ops.h>

#include <math.h>
#include <string.h>

enum { POINTS = STNI_ROWS, QUERIES = STNI_QUERIES };

struct searching {
    struct stni_blocks blocks;
    struct stni_near_search_args args; /* of the block that is there */
};

/* The key that is one above those of distances that count. Roots are what users see, and so what is compared; a
 * radius is in the type that is computed in, as a number beside a tensor is. */
static uint64_t limit_of(stn_dtype dtype, double radius)
{
    if (isnan(radius))
        return UINT64_MAX;
    if (dtype == STN_DTYPE_F64) {
        double square = radius * radius;
        while (sqrt(square) > radius)
            square = nextafter(square, 0);
        for (double more = nextafter(square, (double)INFINITY); sqrt(more) <= radius && more > square;
             more = nextafter(more, (double)INFINITY))
            square = more;
        return stni_near_key_f64(square) + 1;
    }
    const float r = (float)radius;
    float square = r * r;
    while (sqrtf(square) > r)
        square = nextafterf(square, 0);
    for (float more = nextafterf(square, (float)INFINITY); sqrtf(more) <= r && more > square;
         more = nextafterf(more, (float)INFINITY))
        square = more;
    return stni_near_key_f32(square) + 1;
}

static stn_status visit(void *arg, const struct stni_block_shape *shape, const void *block)
{
    struct searching *s = arg;
    s->args.shape = *shape;
    s->args.block = block;
    if (s->args.queries.rows == 0)
        return STN_OK;
    STNI_TRY(stn_op_launch(s->blocks.call, STNI_NEAR_SEARCH, shape->dtype, &s->args, sizeof s->args));
    s->args.fresh = 0;
    return STN_OK;
}

static stn_status finish(const struct searching *s, int64_t first, int64_t n, int parts,
                         struct stni_candidate *candidates)
{
    const stn_op_call *call = s->blocks.call;
    const int64_t k = s->args.k;
    const stn_dtype dtype = s->args.shape.dtype;
    struct stni_near_finish_args args = {.dtype = dtype, .n = n, .k = k, .parts = parts, .candidates = candidates};
    if (n == 0)
        return STN_OK;
    args.indices = (int64_t *)call->out[STNI_NEAR_INDICES]->data + first * k;
    args.distances = (char *)call->out[STNI_NEAR_DISTANCES]->data + first * k * (int64_t)stn_dtype_size(dtype);
    if (call->n_out > STNI_NEAR_COUNTS)
        args.counts = (int64_t *)call->out[STNI_NEAR_COUNTS]->data + first;
    return stn_op_launch(call, STNI_NEAR_FINISH, dtype, &args, sizeof args);
}

/* The candidates of some queries at a time meet on every rank. */
static stn_status meet(const struct searching *s)
{
    const int ranks = s->blocks.comm->size;
    const int64_t m = s->args.queries.rows, k = s->args.k, own = k * (int64_t)sizeof(struct stni_candidate);
    void *all;
    if (m == 0)
        return STN_OK;
    const int64_t at_once = stni_blocks_at_once(&s->blocks, m, own);
    STNI_TRY(stn_op_scratch(s->blocks.call, (size_t)(at_once * own * ranks), &all));
    for (int64_t first = 0; first < m; first += at_once) {
        const int64_t n = m - first < at_once ? m - first : at_once;
        STNI_TRY(stni_blocks_gather(&s->blocks, s->args.candidates + first * k, all, n * own));
        STNI_TRY(finish(s, first, n, ranks, all));
    }
    return STN_OK;
}

static stn_status begin(struct searching *s, stn_op_call *call)
{
    const struct stni_near_attrs *attrs = call->attrs;
    const stn_dtype dtype = call->in[STNI_QUERIES]->spec->layout.dtype;
    void *candidates = NULL;
    *s = (struct searching){.blocks = {.call = call, .pack_slot = STNI_NEAR_PACK, .visit = visit, .arg = s}};
    s->blocks.shape = (struct stni_block_shape){.dtype = dtype, .corners = 1};
    STNI_TRY(stni_blocks_begin(&s->blocks));
    s->args = (struct stni_near_search_args){.shape = s->blocks.shape,
                                             .queries = stni_near_rows_of(call, STNI_QUERIES),
                                             .k = attrs->k,
                                             .fresh = 1,
                                             .limit = limit_of(dtype, attrs->radius)};
    const size_t candidates_bytes = (size_t)(s->args.queries.rows * attrs->k) * sizeof *s->args.candidates;
    if (candidates_bytes > 0)
        STNI_TRY(stn_op_scratch(call, candidates_bytes, &candidates));
    s->args.candidates = candidates;
    const size_t bytes = stn_op_workspace(call, STNI_NEAR_SEARCH, dtype, &s->args);
    return bytes > 0 ? stn_op_scratch(call, bytes, &s->args.work) : STN_OK;
}

stn_status stni_near_run(stn_op_call *call)
{
    const stn_mesh *mesh = call->in[STNI_ROWS]->spec->layout.mesh;
    struct searching s;
    if (mesh && !mesh->member)
        return STN_OK;
    STNI_TRY(begin(&s, call));
    STNI_TRY(stni_blocks_search(&s.blocks));
    return s.blocks.meet ? meet(&s) : finish(&s, 0, s.args.queries.rows, 1, s.args.candidates);
}

uint64_t stni_near_saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1u << POINTS | 1u << QUERIES | UINT64_C(1) << (32 + STNI_NEAR_INDICES) |
                       UINT64_C(1) << (32 + STNI_NEAR_DISTANCES)
                 : 0;
}

/* A distance pulls its query away from its point, and the point away from the query, by the cotangent. Points are
 * looked up where they live, and gradients are added there. Distances of 0, and those of no point, pull nowhere. */
stn_status stni_near_backward(stn_backward_call *call)
{
    stn_tensor *points = call->in[POINTS], *queries = call->in[QUERIES], *indices = call->out[STNI_NEAR_INDICES];
    stn_tensor *distances = call->out[STNI_NEAR_DISTANCES], *grad = call->grad_out[STNI_NEAR_DISTANCES];
    const stn_dtype dtype = call->in_spec[POINTS]->layout.dtype, wide = dtype == STN_DTYPE_F64 ? dtype : STN_DTYPE_F32;
    /* Quiet: what stands for no point is index 0, which is out of range where there are none at all. */
    struct stni_access_attrs access = {.slices = 1, .what = STNI_OP_index_select, .quiet = 1, .reads_all = 1};
    const int near = 1;
    if (!grad)
        return STN_OK;
    stn_tensor *none = stn_eq_number(distances, 0);
    stn_tensor *weight = stn_div(stn_cast(grad, wide), stn_masked_fill(stn_cast(distances, wide), none, 1));
    stn_tensor *rows = stn_cast(stni_index_read(points, indices, &access), wide);
    stn_tensor *pull = stn_mul(stn_unsqueeze(weight, 2), stn_sub(stn_unsqueeze(stn_cast(queries, wide), 1), rows));
    pull = stn_masked_fill(pull, stn_unsqueeze(none, 2), 0);
    if (call->needs >> QUERIES & 1)
        call->grad_in[QUERIES] = stn_cast(stn_sum(pull, 1, &near, 0), dtype);
    access = stni_access_like(&access, STNI_ACCESS_ADD);
    if (call->needs >> POINTS & 1)
        call->grad_in[POINTS] =
            stn_cast(stni_index_write_zeros(call->in_spec[POINTS], indices, stn_neg(pull), &access), dtype);
    return stn_context_status(call->context);
}
