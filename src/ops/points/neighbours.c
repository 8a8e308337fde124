/* knn and radius_search: the points that are nearest to each query, and how far they are. */
#include "ops/points/neighbours.h"

#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/points/blocks.h"
#include "ops/points/neighbours_kernel.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { POINTS = STNI_ROWS, QUERIES = STNI_QUERIES };
enum { INDICES = STNI_NEAR_INDICES, DISTANCES = STNI_NEAR_DISTANCES, COUNTS = STNI_NEAR_COUNTS };

static stn_tensor *search(enum stni_op_index op, stn_tensor *points, stn_tensor *queries,
                          const struct stni_near_attrs *attrs, stn_tensor **distances, stn_tensor **counts)
{
    stn_tensor *any = points ? points : queries, *out[3] = {NULL};
    const int n_out = counts ? 3 : distances ? 2 : 1;
    if (any)
        stni_dispatch(any->context->registry->ops[op], 2, (stn_tensor *[]){points, queries}, attrs, n_out, out);
    if (distances)
        *distances = out[DISTANCES];
    if (counts)
        *counts = out[COUNTS];
    return out[INDICES];
}

stn_tensor *stn_knn(stn_tensor *points, stn_tensor *queries, int64_t k, stn_tensor **distances)
{
    const struct stni_near_attrs attrs = {k, (double)NAN};
    return search(STNI_OP_knn, points, queries, &attrs, distances, NULL);
}

stn_tensor *stn_radius_search(stn_tensor *points, stn_tensor *queries, double radius, int64_t max_points,
                              stn_tensor **distances, stn_tensor **counts)
{
    const struct stni_near_attrs attrs = {max_points, radius};
    return search(STNI_OP_radius_search, points, queries, &attrs, distances, counts);
}

static stn_status check_rows(const stn_op_call *call)
{
    const struct stni_layout *points = &call->in_spec[POINTS]->layout, *queries = &call->in_spec[QUERIES]->layout;
    char text[2][STNI_SHAPE_TEXT];
    if (points->ndim != 2 || queries->ndim != 2 || points->shape[1] != queries->shape[1])
        return stn_op_fail(call, STN_ERR_SHAPE, "'points' and 'queries' got shapes %s and %s, wanted (n, d) and (m, d)",
                           stni_shape_text(points->ndim, points->shape, text[0]),
                           stni_shape_text(queries->ndim, queries->shape, text[1]));
    if (!stni_dtype_is_floating(points->dtype) || points->dtype != queries->dtype)
        return stn_op_fail(call, STN_ERR_DTYPE,
                           "'points' and 'queries' got dtypes %s and %s, wanted one floating dtype",
                           stn_dtype_name(points->dtype), stn_dtype_name(queries->dtype));
    return STN_OK;
}

static void give_metas(stn_op_call *call, int64_t k)
{
    const struct stni_layout *queries = &call->in_spec[QUERIES]->layout;
    const stn_meta rows = {.dtype = queries->dtype, .ndim = 2, .shape = {queries->shape[0], k}};
    call->out_meta[INDICES] = call->out_meta[DISTANCES] = rows;
    call->out_meta[INDICES].dtype = STN_DTYPE_I64;
    if (call->n_out > COUNTS)
        call->out_meta[COUNTS] = (stn_meta){.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {queries->shape[0]}};
}

static stn_status check_knn(stn_op_call *call)
{
    const struct stni_near_attrs *attrs = call->attrs;
    STNI_TRY(check_rows(call));
    const int64_t n = call->in_spec[POINTS]->layout.shape[0];
    if (attrs->k < 1 || attrs->k > n)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'k' got %" PRId64 ", wanted 1 <= k <= %" PRId64 ", the number of points", attrs->k, n);
    give_metas(call, attrs->k);
    return STN_OK;
}

static stn_status check_radius(stn_op_call *call)
{
    const struct stni_near_attrs *attrs = call->attrs;
    STNI_TRY(check_rows(call));
    if (!(attrs->radius >= 0))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'radius' got %g, wanted at least 0", attrs->radius);
    if (attrs->k < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'max_points' got %" PRId64 ", wanted at least 1", attrs->k);
    give_metas(call, attrs->k);
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    const struct stni_layout *points = &call->in_spec[POINTS]->layout;
    const int64_t k = ((const struct stni_near_attrs *)call->attrs)->k;
    const int64_t row = points->shape[1] * (int64_t)stni_near_size(points->dtype) + (int64_t)sizeof(int64_t);
    return stni_blocks_place(call, row, (double)k * sizeof(struct stni_candidate));
}

static const stn_input_schema inputs[] = {[POINTS] = {.name = "points"}, [QUERIES] = {.name = "queries"}};
static const stn_attr_schema knn_schema[] = {{"k", STN_ATTR_INT, offsetof(struct stni_near_attrs, k), NULL}};
static const stn_attr_schema radius_schema[] = {
    {"radius", STN_ATTR_FLOAT, offsetof(struct stni_near_attrs, radius), NULL},
    {"max_points", STN_ATTR_INT, offsetof(struct stni_near_attrs, k), NULL},
};
static const struct stni_near_attrs knn_init = {.k = 1, .radius = (double)NAN};
static const struct stni_near_attrs radius_init = {.k = 1, .radius = 0};

static const stn_kernel_slot slots[] = {
    [STNI_NEAR_PACK] = {"pack", sizeof(struct stni_block_pack_args)},
    [STNI_NEAR_SEARCH] = {"search", sizeof(struct stni_near_search_args)},
    [STNI_NEAR_FINISH] = {"finish", sizeof(struct stni_near_finish_args)},
};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("pack", STNI_NEAR_DTYPES, struct stni_block_pack_args, stni_block_pack, stni_block_pack_workspace),
    STNI_ISA_ROWS("search", STNI_NEAR_DTYPES, struct stni_near_search_args, stni_near_search,
                  stni_near_search_workspace),
    STNI_ISA_ROWS("finish", STNI_NEAR_DTYPES, struct stni_near_finish_args, stni_near_finish, NULL),
};
static const stn_op_impl knn_impl = {
    .check = check_knn,
    .place = place,
    .run = stni_near_run,
    .saves = stni_near_saves,
    .backward = stni_near_backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};
static const stn_op_impl radius_impl = {
    .check = check_radius,
    .place = place,
    .run = stni_near_run,
    .saves = stni_near_saves,
    .backward = stni_near_backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_knn = {
    .size = sizeof(stn_op_desc),
    .name = "knn",
    STN_INPUTS(inputs),
    STN_ATTRS(knn_schema, struct stni_near_attrs),
    .attrs_init = &knn_init,
    .n_outputs = 2,
    .impl = &knn_impl,
    .signature = "points, queries, k",
};

const stn_op_desc stni_op_radius_search = {
    .size = sizeof(stn_op_desc),
    .name = "radius_search",
    STN_INPUTS(inputs),
    STN_ATTRS(radius_schema, struct stni_near_attrs),
    .attrs_init = &radius_init,
    .n_outputs = 3,
    .impl = &radius_impl,
    .signature = "points, queries, radius, max_points",
};
