/* signed_distance_field: the corners of the triangles are looked up where the vertices live; then surface_distance
 * searches among them as knn does among points. */
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/index/access.h"
#include "ops/points/blocks.h"
#include "ops/points/surface_kernel.h"

#include <shardtensor/ops.h>

#include <string.h>

enum { VERTICES, TRIANGLES, FIELD_POINTS };
enum { CORNERS = STNI_ROWS, POINTS = STNI_QUERIES };
enum { DISTANCE, NEAREST, FACE, WEIGHT };
enum { PACK, SEARCH, FINISH };

stn_tensor *stn_signed_distance_field(stn_tensor *vertices, stn_tensor *triangles, stn_tensor *points,
                                      stn_tensor **nearest, stn_tensor **faces)
{
    stn_tensor *in[] = {vertices, triangles, points}, *out[3] = {NULL};
    stn_tensor *any = vertices ? vertices : triangles ? triangles : points;
    const int n_out = faces ? 3 : nearest ? 2 : 1;
    if (any)
        stni_dispatch(any->context->registry->ops[STNI_OP_signed_distance_field], 3, in, NULL, n_out, out);
    if (nearest)
        *nearest = out[NEAREST];
    if (faces)
        *faces = out[FACE];
    return out[DISTANCE];
}

static stn_status check_triples(const stn_op_call *call, int input, const char *wanted)
{
    const struct stni_layout *x = &call->in_spec[input]->layout;
    char text[STNI_SHAPE_TEXT];
    if (x->ndim == 2 && x->shape[1] == 3)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got shape %s, wanted %s",
                       stn_op_descriptor(call->op)->inputs[input].name, stni_shape_text(x->ndim, x->shape, text),
                       wanted);
}

static stn_status check_field(const stn_op_call *call)
{
    const struct stni_layout *vertices = &call->in_spec[VERTICES]->layout;
    const struct stni_layout *triangles = &call->in_spec[TRIANGLES]->layout;
    STNI_TRY(check_triples(call, VERTICES, "(v, 3)"));
    STNI_TRY(check_triples(call, TRIANGLES, "(f, 3)"));
    STNI_TRY(check_triples(call, FIELD_POINTS, "(m, 3)"));
    STNI_TRY(stni_check_floating(call, VERTICES));
    STNI_TRY(stni_check_dtype(call, FIELD_POINTS, vertices->dtype, "that of 'vertices',"));
    if (!(STNI_INDEX_DTYPES >> triangles->dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'triangles' got %s, wanted i64 or i32",
                           stn_dtype_name(triangles->dtype));
    if (triangles->shape[0] == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'triangles' got none, wanted at least one");
    return STN_OK;
}

/* Nearest points are constants: their gradient would be that of a projection, which has jumps at edges. */
static stn_status signed_distance_field(stn_op_call *call)
{
    stn_tensor *vertices = call->in[VERTICES], *triangles = call->in[TRIANGLES], *points = call->in[FIELD_POINTS];
    const struct stni_access_attrs reads = {.slices = 1, .what = STNI_OP_signed_distance_field, .reads_all = 1};
    STNI_TRY(check_field(call));
    const stn_dtype dtype = call->in_spec[VERTICES]->layout.dtype;
    const int64_t rows[] = {call->in_spec[TRIANGLES]->layout.shape[0], 9};
    stn_tensor *corners = stn_reshape(stni_index_read(vertices, triangles, &reads), 2, rows), *out[3];
    stn_tensor *in[] = {stn_cast(corners, STN_DTYPE_F64), stn_cast(points, STN_DTYPE_F64)};
    STNI_TRY(stni_dispatch(call->context->registry->ops[STNI_OP_surface_distance], 2, in, NULL, 3, out));
    call->out[DISTANCE] = stn_cast(out[DISTANCE], dtype);
    call->out[NEAREST] = stn_cast(stn_detach(out[NEAREST]), dtype);
    call->out[FACE] = out[FACE];
    return stn_context_status(call->context);
}

static stn_status check(stn_op_call *call)
{
    const int64_t m = call->in_spec[POINTS]->layout.shape[0];
    const stn_meta number = {.dtype = STN_DTYPE_F64, .ndim = 1, .shape = {m}};
    STNI_TRY(stni_check_dtype(call, CORNERS, STN_DTYPE_F64, NULL));
    STNI_TRY(stni_check_dtype(call, POINTS, STN_DTYPE_F64, NULL));
    call->out_meta[DISTANCE] = call->out_meta[FACE] = number;
    call->out_meta[FACE].dtype = STN_DTYPE_I64;
    call->out_meta[NEAREST] = call->out_meta[WEIGHT] = (stn_meta){.dtype = STN_DTYPE_F64, .ndim = 2, .shape = {m, 3}};
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    return stni_blocks_place(call, 9 * sizeof(double) + sizeof(int64_t), sizeof(struct stni_hit));
}

struct searching {
    struct stni_blocks blocks;
    struct stni_surface_search_args args; /* of the block that is there */
};

static stn_status visit(void *arg, const struct stni_block_shape *shape, const void *block)
{
    struct searching *s = arg;
    s->args.shape = *shape;
    s->args.block = block;
    if (s->args.queries.rows == 0)
        return STN_OK;
    STNI_TRY(stn_op_launch(s->blocks.call, SEARCH, STN_DTYPE_F64, &s->args, sizeof s->args));
    s->args.fresh = 0;
    return STN_OK;
}

/* Hits lie after those of queries before `first`. */
static stn_status finish(const struct searching *s, int64_t first, int64_t n, int parts, const struct stni_hit *hits)
{
    stn_tensor *const *out = s->blocks.call->out;
    const struct stni_surface_finish_args args = {
        .n = n,
        .parts = parts,
        .hits = hits,
        .distance = (double *)out[DISTANCE]->data + first,
        .nearest = (double *)out[NEAREST]->data + 3 * first,
        .weight = (double *)out[WEIGHT]->data + 3 * first,
        .face = (int64_t *)out[FACE]->data + first,
    };
    return n > 0 ? stn_op_launch(s->blocks.call, FINISH, STN_DTYPE_F64, &args, sizeof args) : STN_OK;
}

static stn_status meet(const struct searching *s)
{
    const int ranks = s->blocks.comm->size;
    const int64_t m = s->args.queries.rows, hit = (int64_t)sizeof(struct stni_hit);
    void *all;
    if (m == 0)
        return STN_OK;
    const int64_t at_once = stni_blocks_at_once(&s->blocks, m, hit);
    STNI_TRY(stn_op_scratch(s->blocks.call, (size_t)(at_once * hit * ranks), &all));
    for (int64_t first = 0; first < m; first += at_once) {
        const int64_t n = m - first < at_once ? m - first : at_once;
        STNI_TRY(stni_blocks_gather(&s->blocks, s->args.hits + first, all, n * hit));
        STNI_TRY(finish(s, first, n, ranks, all));
    }
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    const stn_mesh *mesh = call->in[CORNERS]->spec->layout.mesh;
    struct searching s = {.blocks = {.call = call, .pack_slot = PACK, .visit = visit, .arg = &s}};
    void *hits = NULL;
    if (mesh && !mesh->member)
        return STN_OK;
    s.blocks.shape = (struct stni_block_shape){.dtype = STN_DTYPE_F64, .corners = 3};
    STNI_TRY(stni_blocks_begin(&s.blocks));
    s.args = (struct stni_surface_search_args){.queries = stni_near_rows_of(call, POINTS), .fresh = 1};
    if (s.args.queries.rows > 0)
        STNI_TRY(stn_op_scratch(call, (size_t)s.args.queries.rows * sizeof *s.args.hits, &hits));
    s.args.hits = hits;
    STNI_TRY(stni_blocks_search(&s.blocks));
    return s.blocks.meet ? meet(&s) : finish(&s, 0, s.args.queries.rows, 1, s.args.hits);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    const uint64_t out = UINT64_C(1) << DISTANCE | UINT64_C(1) << NEAREST | UINT64_C(1) << FACE | UINT64_C(1) << WEIGHT;
    (void)call;
    return needs ? 1u << POINTS | out << 32 : 0;
}

/* Where the nearest point is, the distance changes as that point does that its triangle's corners hold by their
 * weights: moving it along the surface changes nothing. On the surface, and where no triangle is, nothing pulls. */
static stn_status backward(stn_backward_call *call)
{
    stn_tensor *distance = call->out[DISTANCE], *grad = call->grad_out[DISTANCE];
    const struct stni_access_attrs adds = {
        .slices = 1, .quiet = 1, .mode = STNI_ACCESS_ADD, .value = {STN_NUMBER_INT, 0, 0}};
    if (!grad)
        return STN_OK;
    stn_tensor *none = stn_logical_or(stn_eq_number(distance, 0), stn_lt_number(call->out[FACE], 0));
    stn_tensor *scale = stn_div(grad, stn_masked_fill(distance, none, 1));
    stn_tensor *pull = stn_mul(stn_unsqueeze(scale, 1), stn_sub(call->in[POINTS], call->out[NEAREST]));
    pull = stn_masked_fill(pull, stn_unsqueeze(none, 1), 0);
    if (call->needs >> POINTS & 1)
        call->grad_in[POINTS] = pull;
    if (call->needs >> CORNERS & 1) {
        const int64_t rows[] = {stn_tensor_shape(distance)[0], 9};
        stn_tensor *corners = stn_neg(stn_mul(stn_unsqueeze(call->out[WEIGHT], 2), stn_unsqueeze(pull, 1)));
        stn_tensor *face = stn_maximum(call->out[FACE], stn_mul_number(call->out[FACE], 0));
        call->grad_in[CORNERS] =
            stni_index_write_zeros(call->in_spec[CORNERS], face, stn_reshape(corners, 2, rows), &adds);
    }
    return stn_context_status(call->context);
}

static const stn_input_schema field_inputs[] = {
    [VERTICES] = {.name = "vertices"}, [TRIANGLES] = {.name = "triangles"}, [FIELD_POINTS] = {.name = "points"}};
static const stn_input_schema inputs[] = {[CORNERS] = {.name = "corners"}, [POINTS] = {.name = "points"}};
static const stn_kernel_slot slots[] = {
    [PACK] = {"pack", sizeof(struct stni_block_pack_args)},
    [SEARCH] = {"search", sizeof(struct stni_surface_search_args)},
    [FINISH] = {"finish", sizeof(struct stni_surface_finish_args)},
};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("pack", STNI_SURFACE_DTYPES, struct stni_block_pack_args, stni_block_pack, stni_block_pack_workspace),
    STNI_ISA_ROWS("search", STNI_SURFACE_DTYPES, struct stni_surface_search_args, stni_surface_search, NULL),
    STNI_ISA_ROWS("finish", STNI_SURFACE_DTYPES, struct stni_surface_finish_args, stni_surface_finish, NULL),
};
static const stn_op_impl impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_signed_distance_field = {
    .size = sizeof(stn_op_desc),
    .name = "signed_distance_field",
    STN_INPUTS(field_inputs),
    .n_outputs = 3,
    .impl = &(const stn_op_impl){.compose = signed_distance_field},
};

const stn_op_desc stni_op_surface_distance = {
    .size = sizeof(stn_op_desc),
    .name = "surface_distance",
    STN_INPUTS(inputs),
    .n_outputs = 4,
    .n_private = 1,
    .flags = STN_OP_INTERNAL | STN_OP_FIRST_ORDER,
    .impl = &impl,
};
