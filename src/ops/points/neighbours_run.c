/* The communication of knn and radius_search, and their gradient.
 *
 * The points of a rank become a block, which holds their indices. Where blocks go round, each step brings that of the
 * rank one further on, from its owner: no rank holds more than its own and one other. */
#include "ops/points/neighbours.h"

#include "core/base/clamp.h"
#include "core/base/host_alloc.h"
#include "core/tensor/tensor.h"
#include "ops/exchange/messages.h"
#include "ops/index/access.h"
#include "ops/points/neighbours_kernel.h"

#include <shardtensor/ops.h>

#include <math.h>
#include <string.h>

enum { POINTS = STNI_NEAR_POINTS, QUERIES = STNI_NEAR_QUERIES };

struct blocks {
    stn_op_call *call;
    uint32_t axes;
    int own, ranks; /* among the ranks of the axes */
    void *mine, *theirs;
    struct stni_near_search_args search; /* of the block that is there */
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

static struct stni_near_rows rows_of(const stn_tensor *t)
{
    return (struct stni_near_rows){t->data, t->spec->local_shape[0], t->strides[0], t->strides[1]};
}

/* Points of a rank of the axes, and where it is. */
static int64_t points_of(const struct blocks *b, int rank, int *coordinate)
{
    const stn_spec *spec = b->call->in[POINTS]->spec;
    const stn_mesh *mesh = spec->layout.mesh;
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    memcpy(coordinate, mesh->coordinate, sizeof mesh->coordinate);
    for (int a = mesh->ndim - 1; a >= 0; a--)
        if (b->axes >> a & 1) {
            coordinate[a] = rank % mesh->sizes[a];
            rank /= mesh->sizes[a];
        }
    stni_spec_chunk_at(spec, coordinate, shape, offset);
    return shape[0];
}

/* What a device's block of n points takes. */
static int64_t block_bytes(const struct blocks *b, int64_t n)
{
    const struct stni_near_pack_args args = {.dtype = b->search.dtype, .points = {.rows = n}, .d = b->search.d};
    return n > 0 ? (int64_t)stn_op_workspace(b->call, STNI_NEAR_PACK, args.dtype, &args) : 0;
}

static stn_status pack(struct blocks *b)
{
    const stn_tensor *points = b->call->in[POINTS];
    struct stni_near_pack_args args = {
        .dtype = b->search.dtype, .points = rows_of(points), .d = b->search.d, .first = points->spec->local_offset[0]};
    if (args.points.rows == 0)
        return STN_OK;
    STNI_TRY(stn_op_scratch(b->call, (size_t)block_bytes(b, args.points.rows), &b->mine));
    args.block = b->mine;
    return stn_op_launch(b->call, STNI_NEAR_PACK, args.dtype, &args, sizeof args);
}

static stn_status search(struct blocks *b, const void *block, int64_t n)
{
    b->search.block = block;
    b->search.n = n;
    if (b->search.queries.rows == 0 || (n == 0 && !b->search.fresh))
        return STN_OK;
    STNI_TRY(stn_op_launch(b->call, STNI_NEAR_SEARCH, b->search.dtype, &b->search, sizeof b->search));
    b->search.fresh = 0;
    return STN_OK;
}

static stn_status add_message(struct stni_messages *messages, struct stni_message_list *list, const int *coordinate,
                              void *data, int64_t bytes)
{
    const stn_box box = {data, 1, {bytes}, {1}};
    return bytes > 0 ? stni_messages_add(messages, list, coordinate, &box) : STN_OK;
}

/* This rank's block goes `step` ranks back, and that of the rank `step` further on comes. */
static stn_status step_round(struct blocks *b, int step)
{
    struct stni_messages messages = {
        .context = b->call->context, .mesh = b->call->in[POINTS]->spec->layout.mesh, .axes = b->axes};
    int to[STN_MAX_MESH_NDIM], from[STN_MAX_MESH_NDIM];
    points_of(b, (b->own - step + b->ranks) % b->ranks, to);
    const int64_t n = points_of(b, (b->own + step) % b->ranks, from);
    stn_status status =
        add_message(&messages, &messages.send, to, b->mine, block_bytes(b, b->call->in[POINTS]->spec->local_shape[0]));
    if (status == STN_OK)
        status = add_message(&messages, &messages.recv, from, b->theirs, block_bytes(b, n));
    if (status == STN_OK)
        status = stni_messages_exchange(&messages, STN_DTYPE_U8);
    stni_messages_fini(&messages);
    return status == STN_OK ? search(b, b->theirs, n) : status;
}

static stn_status go_round(struct blocks *b)
{
    int coordinate[STN_MAX_MESH_NDIM];
    int64_t largest = 0;
    for (int r = 0; r < b->ranks; r++) {
        const int64_t n = r == b->own ? 0 : points_of(b, r, coordinate);
        largest = n > largest ? n : largest;
    }
    STNI_TRY(stn_op_scratch(b->call, (size_t)block_bytes(b, largest), &b->theirs));
    for (int step = 1; step < b->ranks; step++)
        STNI_TRY(step_round(b, step));
    return STN_OK;
}

static stn_status finish(const struct blocks *b, int64_t first, int64_t n, int parts, struct stni_candidate *candidates)
{
    const stn_op_call *call = b->call;
    const int64_t k = b->search.k;
    const size_t size = stn_dtype_size(b->search.dtype);
    struct stni_near_finish_args args = {
        .dtype = b->search.dtype, .n = n, .k = k, .parts = parts, .candidates = candidates};
    if (n == 0)
        return STN_OK;
    args.indices = (int64_t *)call->out[STNI_NEAR_INDICES]->data + first * k;
    args.distances = (char *)call->out[STNI_NEAR_DISTANCES]->data + (size_t)(first * k) * size;
    if (call->n_out > STNI_NEAR_COUNTS)
        args.counts = (int64_t *)call->out[STNI_NEAR_COUNTS]->data + first;
    return stn_op_launch(call, STNI_NEAR_FINISH, args.dtype, &args, sizeof args);
}

static stn_status gather(const struct blocks *b, stn_comm *comm, const void *own, void *all, int64_t n_candidates)
{
    const size_t bytes = (size_t)comm->size * sizeof(int64_t);
    int64_t *counts = stni_malloc(bytes);
    if (!counts)
        return stni_fail_memory(b->call->context, "counts of candidates", bytes);
    for (int r = 0; r < comm->size; r++)
        counts[r] = n_candidates * (int64_t)(sizeof(struct stni_candidate) / sizeof(int64_t));
    const stn_status status = stni_comm_all_gather(comm, b->call->context->queue, own, all, counts, STN_DTYPE_I64);
    stni_free(counts);
    return status;
}

/* The candidates of some queries at a time meet on every rank. */
static stn_status meet(const struct blocks *b, stn_comm *comm)
{
    enum { BUFFER = 1 << 20 };
    const int64_t m = b->search.queries.rows, k = b->search.k,
                  line = k * (int64_t)sizeof(struct stni_candidate) * comm->size;
    const int64_t at_once = stni_clamp(BUFFER / line, 1, m);
    void *all;
    if (m == 0)
        return STN_OK;
    STNI_TRY(stn_op_scratch(b->call, (size_t)(at_once * line), &all));
    for (int64_t first = 0; first < m; first += at_once) {
        const int64_t n = m - first < at_once ? m - first : at_once;
        STNI_TRY(gather(b, comm, b->search.candidates + first * k, all, n * k));
        STNI_TRY(finish(b, first, n, comm->size, all));
    }
    return STN_OK;
}

static stn_status begin(struct blocks *b, stn_op_call *call, stn_comm *comm)
{
    const struct stni_near_attrs *attrs = call->attrs;
    const stn_tensor *queries = call->in[QUERIES];
    const stn_dtype dtype = queries->spec->layout.dtype;
    void *candidates = NULL, *work = NULL;
    *b = (struct blocks){
        .call = call, .axes = (uint32_t)call->note, .own = comm ? comm->rank : 0, .ranks = comm ? comm->size : 1};
    b->search = (struct stni_near_search_args){.dtype = dtype,
                                               .queries = rows_of(queries),
                                               .d = queries->spec->layout.shape[1],
                                               .k = attrs->k,
                                               .fresh = 1,
                                               .limit = limit_of(dtype, attrs->radius)};
    if (b->search.queries.rows > 0)
        STNI_TRY(stn_op_scratch(call, (size_t)(b->search.queries.rows * attrs->k) * sizeof(struct stni_candidate),
                                &candidates));
    b->search.candidates = candidates;
    const size_t bytes = stn_op_workspace(call, STNI_NEAR_SEARCH, dtype, &b->search);
    if (bytes > 0)
        STNI_TRY(stn_op_scratch(call, bytes, &work));
    b->search.work = work;
    return STN_OK;
}

stn_status stni_near_run(stn_op_call *call)
{
    const stn_spec *points = call->in[POINTS]->spec;
    const int apart = (call->note & STNI_NEAR_MEET) != 0;
    stn_comm *comm = NULL;
    struct blocks b;
    if (points->layout.mesh && !points->layout.mesh->member)
        return STN_OK;
    if ((uint32_t)call->note)
        STNI_TRY(stni_mesh_comm(points->layout.mesh, (uint32_t)call->note, &comm));
    STNI_TRY(begin(&b, call, comm));
    STNI_TRY(pack(&b));
    STNI_TRY(search(&b, b.mine, points->local_shape[0]));
    if (comm && apart)
        return meet(&b, comm);
    if (comm)
        STNI_TRY(go_round(&b));
    return finish(&b, 0, b.search.queries.rows, 1, b.search.candidates);
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
    struct stni_access_attrs access = {.slices = 1, .what = STNI_OP_index_select, .reads_all = 1};
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
