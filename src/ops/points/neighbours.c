/* knn and radius_search: the points that are nearest to each query, and how far they are. Queries stay where they are;
 * what of the points goes where is decided here, by bytes. */
#include "ops/points/neighbours.h"

#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/placement/splits.h"
#include "ops/points/neighbours_kernel.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { POINTS = STNI_NEAR_POINTS, QUERIES = STNI_NEAR_QUERIES };
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

/* Rows that are cut stay so; what is cut along columns or pending becomes rows by one exchange. Returns the axes that
 * cut rows then. */
static uint32_t cut_rows(struct stni_layout *layout)
{
    uint32_t axes = 0;
    for (int a = 0; layout->mesh && a < layout->mesh->ndim; a++)
        if (layout->placement[a].kind != STN_PLACE_REPLICATE) {
            layout->placement[a] = stn_shard(0);
            axes |= 1u << a;
        }
    return axes;
}

/* Where the points are cut among p ranks, two ways lead to all of them. They go round: a rank receives what the others
 * have of n points, and searches for its share of the queries. Or each rank searches for all queries among its own:
 * then it receives k candidates for each query from every other rank. */
static int candidates_are_fewer(const stn_op_call *call, uint32_t axes)
{
    const struct stni_layout *points = &call->in_spec[POINTS]->layout;
    const struct stni_near_attrs *attrs = call->attrs;
    double ranks = 1;
    for (int a = 0; a < points->mesh->ndim; a++)
        ranks *= axes >> a & 1 ? points->mesh->sizes[a] : 1;
    const double row = (double)(points->shape[1] * (int64_t)stni_near_size(points->dtype)) + sizeof(int64_t);
    const double candidates =
        ranks * (double)call->in_spec[QUERIES]->layout.shape[0] * (double)attrs->k * sizeof(struct stni_candidate);
    return candidates <= (double)points->shape[0] * row;
}

/* The layout with its placements set wants its rows cut as they were, where the same axes cut them. */
static stn_status want(stn_op_call *call, int input, struct stni_layout *layout)
{
    memset(layout->split, 0, sizeof layout->split);
    if (layout->mesh)
        stni_splits_take(layout, 0, &call->in_spec[input]->layout, 0, 1);
    return stni_spec_intern(call->context, layout, &call->want[input]);
}

static stn_status give(stn_op_call *call, int output)
{
    const struct stni_layout *queries = &call->want[QUERIES]->layout;
    const stn_meta *meta = &call->out_meta[output];
    struct stni_layout out;
    stni_layout_init(&out, queries->mesh, meta->dtype, meta->ndim, meta->shape);
    memcpy(out.placement, queries->placement, sizeof out.placement);
    memcpy(out.axis_order, queries->axis_order, sizeof out.axis_order);
    out.split[0] = queries->split[0];
    return stni_spec_intern(call->context, &out, &call->out_spec[output]);
}

static stn_status place(stn_op_call *call)
{
    struct stni_layout points = call->in_spec[POINTS]->layout, queries = call->in_spec[QUERIES]->layout;
    const uint32_t axes = cut_rows(&points);
    const int meet = axes && candidates_are_fewer(call, axes);
    cut_rows(&queries);
    for (int a = 0; queries.mesh && a < queries.mesh->ndim; a++)
        if (axes >> a & 1)
            queries.placement[a] = meet ? stn_replicate() : stn_shard(0);
    STNI_TRY(want(call, POINTS, &points));
    STNI_TRY(want(call, QUERIES, &queries));
    for (int k = 0; k < call->n_out; k++)
        STNI_TRY(give(call, k));
    call->note = axes | (meet ? STNI_NEAR_MEET : 0);
    return STN_OK;
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
    [STNI_NEAR_PACK] = {"pack", sizeof(struct stni_near_pack_args)},
    [STNI_NEAR_SEARCH] = {"search", sizeof(struct stni_near_search_args)},
    [STNI_NEAR_FINISH] = {"finish", sizeof(struct stni_near_finish_args)},
};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("pack", STNI_NEAR_DTYPES, struct stni_near_pack_args, stni_near_pack, stni_near_pack_workspace),
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
