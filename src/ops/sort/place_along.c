/* order_place and order_take: elements put to places along a dim, and taken from there; each is the other's adjoint.
 * Ranks that cut the dim put, or give, what lies in their range: so indices are whole there, and what is taken is a
 * pending sum. */
#include "ops/sort/sort_family.h"

#include "ops/reduce/reduction.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/placement/splits.h"
#include "ops/common/dims.h"
#include "ops/common/like.h"

#include <stddef.h>
#include <string.h>

enum { PART, INDICES, LIKE }; /* of order_place */
enum { WHOLE, TAKE_INDICES }; /* of order_take */

struct along_attrs {
    int64_t dim, keepdim;
};

/* Where each dim of the whole stands in the part; returns the number of dims there. */
static int part_dims(const stn_op_call *call, const struct stni_layout *whole, uint32_t *dims, int to[STN_MAX_NDIM])
{
    const struct along_attrs *attrs = call->attrs;
    *dims = (1u << attrs->dim) & ((1u << whole->ndim) - 1);
    return stni_reduction_dims(whole->ndim, *dims, attrs->keepdim, to);
}

stn_tensor *stni_sort_place(stn_tensor *grad, stn_tensor *indices, const stn_spec *like, int dim, int keepdim)
{
    struct along_attrs attrs = {stni_dim_from_front(dim, like->layout.ndim), keepdim};
    stn_tensor *in[] = {grad, indices, NULL};
    if (stn_tensor_is_error(grad) || stni_like(grad->context, like, &in[LIKE]) != STN_OK)
        return grad->context->error_tensor;
    stn_tensor *out = stni_call(STNI_OP_order_place, 3, in, &attrs);
    stni_tensor_drop(&in[LIKE]);
    return out;
}

/* The part's shape is the indices', which is the whole's but for the dim. */
static stn_status check_shapes(const stn_op_call *call, const struct stni_layout *whole,
                               const struct stni_layout *indices)
{
    const struct along_attrs *attrs = call->attrs;
    uint32_t dims;
    int to[STN_MAX_NDIM], same;
    if (attrs->dim < 0 || attrs->dim >= (whole->ndim > 0 ? whole->ndim : 1))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'dim' got %d, wanted one of %d", (int)attrs->dim, whole->ndim);
    if (indices->dtype != STN_DTYPE_I64)
        return stn_op_fail(call, STN_ERR_DTYPE, "'indices' got %s, wanted i64", stn_dtype_name(indices->dtype));
    same = part_dims(call, whole, &dims, to) == indices->ndim;
    for (int d = 0; same && d < whole->ndim; d++)
        same = dims >> d & 1 || whole->shape[d] == indices->shape[to[d]];
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    return same ? STN_OK
                : stn_op_fail(call, STN_ERR_SHAPE, "'indices' got shape %s, wanted that of %s but for the dim",
                              stni_shape_text(indices->ndim, indices->shape, got),
                              stni_shape_text(whole->ndim, whole->shape, wanted));
}

static void take_meta(const struct stni_layout *shape, stn_dtype dtype, stn_meta *meta)
{
    meta->dtype = dtype;
    meta->ndim = shape->ndim;
    memcpy(meta->shape, shape->shape, sizeof meta->shape);
}

static stn_status place_check(stn_op_call *call)
{
    const struct stni_layout *part = &call->in_spec[PART]->layout, *indices = &call->in_spec[INDICES]->layout;
    const struct stni_layout *like = &call->in_spec[LIKE]->layout;
    STNI_TRY(check_shapes(call, like, indices));
    take_meta(like, part->dtype, &call->out_meta[0]);
    return stni_check_shape(call, PART, indices->ndim, indices->shape, "indices'");
}

static int cuts(stn_placement p)
{
    return p.kind == STN_PLACE_SHARD;
}

/* The dim of the whole that an axis cuts in a tensor without it, as a placement; Replicate where it cuts none, or
 * the dim itself. */
static stn_placement from_part(stn_placement p, uint32_t dims, const int *to, int ndim)
{
    for (int d = 0; cuts(p) && d < ndim; d++)
        if (!(dims >> d & 1) && to[d] == p.dim)
            return stn_shard(d);
    return stn_replicate();
}

/* What an axis that cuts the whole does to the part. */
static stn_placement to_part(stn_placement p, uint32_t dims, const int *to)
{
    return cuts(p) && !(dims >> p.dim & 1) ? stn_shard(to[p.dim]) : stn_replicate();
}

/* `in` with the placements of the whole, and its cuts. */
static stn_status want_part(const stn_op_call *call, int i, const struct stni_layout *whole, uint32_t dims,
                            const int *to)
{
    struct stni_layout part = call->in_spec[i]->layout;
    memset(part.split, 0, sizeof part.split);
    for (int a = 0; part.mesh && a < part.mesh->ndim; a++) {
        int pending = i == PART && whole->placement[a].kind == STN_PLACE_PARTIAL;
        part.placement[a] = pending ? stn_partial(STN_SUM) : to_part(whole->placement[a], dims, to);
    }
    for (int d = 0; part.mesh && d < whole->ndim; d++)
        if (!(dims >> d & 1))
            stni_splits_take(&part, to[d], whole, d, 1);
    return stni_spec_intern(call->context, &part, &call->want[i]);
}

static stn_status place_place(stn_op_call *call)
{
    const struct stni_layout *like = &call->in_spec[LIKE]->layout;
    struct stni_layout out = *like;
    uint32_t dims;
    int to[STN_MAX_NDIM];
    part_dims(call, like, &dims, to);
    out.dtype = call->out_meta[0].dtype;
    memset(out.split, 0, sizeof out.split);
    for (int a = 0; out.mesh && a < out.mesh->ndim; a++) {
        stn_placement part = call->in_spec[PART]->layout.placement[a],
                      index = call->in_spec[INDICES]->layout.placement[a];
        stn_placement p = from_part(index, dims, to, like->ndim);
        if (!cuts(p))
            p = from_part(part, dims, to, like->ndim);
        if (!cuts(p) && part.kind == STN_PLACE_PARTIAL && part.op == STN_SUM)
            p = part;
        out.placement[a] = cuts(like->placement[a]) ? like->placement[a] : p;
    }
    for (int d = 0; out.mesh && d < out.ndim; d++) {
        stni_splits_take(&out, d, like, d, 1);
        for (int i = INDICES; i >= PART && !(dims >> d & 1); i--)
            stni_splits_take(&out, d, &call->in_spec[i]->layout, to[d], 1);
    }
    STNI_TRY(stni_spec_intern(call->context, &out, &call->out_spec[0]));
    STNI_TRY(want_part(call, PART, &call->out_spec[0]->layout, dims, to));
    return want_part(call, INDICES, &call->out_spec[0]->layout, dims, to);
}

static struct stni_sort_along_args make_args(const stn_op_call *call, const stn_tensor *whole, const stn_tensor *part,
                                              const stn_tensor *indices)
{
    const struct along_attrs *attrs = call->attrs;
    struct stni_sort_along_args args = {.size = stn_dtype_size(whole->spec->layout.dtype),
                                        .whole = whole->data,
                                        .part = part->data,
                                        .whole_bytes = whole->spec->local_bytes,
                                        .indices = indices->data,
                                        .k = 1};
    uint32_t dims;
    int to[STN_MAX_NDIM];
    part_dims(call, &whole->spec->layout, &dims, to);
    stni_sort_lines_make(&args.lines, dims, attrs->keepdim != 0, whole, part, indices);
    if (dims && attrs->keepdim)
        args.k = indices->spec->local_shape[attrs->dim];
    return args;
}

static stn_status place_run(stn_op_call *call)
{
    const stn_tensor *whole = call->out[0];
    struct stni_sort_along_args args = make_args(call, whole, call->in[PART], call->in[INDICES]);
    return whole->spec->local_numel > 0 ? stn_op_launch(call, 0, whole->spec->layout.dtype, &args, sizeof args)
                                        : STN_OK;
}

static uint64_t place_saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1u << INDICES : 0;
}

static stn_status place_backward(stn_backward_call *call)
{
    stn_tensor *in[] = {call->grad_out[0], call->in[INDICES]};
    if (call->grad_out[0] && call->needs >> PART & 1)
        call->grad_in[PART] = stni_call(STNI_OP_order_take, 2, in, call->attrs);
    return stn_context_status(call->context);
}

static stn_status take_check(stn_op_call *call)
{
    const struct stni_layout *whole = &call->in_spec[WHOLE]->layout, *indices = &call->in_spec[TAKE_INDICES]->layout;
    STNI_TRY(check_shapes(call, whole, indices));
    take_meta(indices, whole->dtype, &call->out_meta[0]);
    return STN_OK;
}

static stn_status take_place(stn_op_call *call)
{
    struct stni_layout whole = call->in_spec[WHOLE]->layout, out = call->in_spec[TAKE_INDICES]->layout;
    uint32_t dims;
    int to[STN_MAX_NDIM];
    part_dims(call, &whole, &dims, to);
    for (int a = 0; whole.mesh && a < whole.mesh->ndim; a++) {
        stn_placement p = whole.placement[a], index = from_part(out.placement[a], dims, to, whole.ndim);
        if (p.kind == STN_PLACE_PARTIAL && p.op != STN_SUM)
            p = stn_replicate();
        whole.placement[a] = p.kind == STN_PLACE_REPLICATE ? index : p;
    }
    memset(whole.split, 0, sizeof whole.split);
    for (int d = 0; whole.mesh && d < whole.ndim; d++) {
        stni_splits_take(&whole, d, &call->in_spec[WHOLE]->layout, d, 1);
        if (!(dims >> d & 1))
            stni_splits_take(&whole, d, &out, to[d], 1);
    }
    STNI_TRY(stni_spec_intern(call->context, &whole, &call->want[WHOLE]));
    whole = call->want[WHOLE]->layout;
    STNI_TRY(want_part(call, TAKE_INDICES, &whole, dims, to));
    out = call->want[TAKE_INDICES]->layout;
    out.dtype = whole.dtype;
    for (int a = 0; out.mesh && a < out.mesh->ndim; a++) {
        stn_placement p = whole.placement[a];
        if (p.kind == STN_PLACE_PARTIAL || (cuts(p) && dims >> p.dim & 1))
            out.placement[a] = stn_partial(STN_SUM);
    }
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status take_run(stn_op_call *call)
{
    const stn_tensor *part = call->out[0];
    struct stni_sort_along_args args = make_args(call, call->in[WHOLE], part, call->in[TAKE_INDICES]);
    return part->spec->local_numel > 0 ? stn_op_launch(call, 0, part->spec->layout.dtype, &args, sizeof args) : STN_OK;
}

static uint64_t take_saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1u << TAKE_INDICES : 0;
}

static stn_status take_backward(stn_backward_call *call)
{
    const struct along_attrs *attrs = call->attrs;
    if (call->grad_out[0] && call->needs >> WHOLE & 1)
        call->grad_in[WHOLE] = stni_sort_place(call->grad_out[0], call->in[TAKE_INDICES], call->want[WHOLE],
                                               (int)attrs->dim, attrs->keepdim != 0);
    return stn_context_status(call->context);
}

static const stn_input_schema place_inputs[] = {
    [PART] = {.name = "grad"}, [INDICES] = {.name = "indices"}, [LIKE] = {.name = "like"}};
static const stn_input_schema take_inputs[] = {[WHOLE] = {.name = "input"}, [TAKE_INDICES] = {.name = "indices"}};
static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct along_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct along_attrs, keepdim), NULL},
};

static const stn_kernel_slot slots[] = {{"move", sizeof(struct stni_sort_along_args)}};
static const stn_kernel place_kernels[] = {
    STNI_CPU_ROW("move", STNI_SORT_ALL, struct stni_sort_along_args, stni_sort_place_cpu, NULL)};
static const stn_kernel take_kernels[] = {
    STNI_CPU_ROW("move", STNI_SORT_ALL, struct stni_sort_along_args, stni_sort_take_cpu, NULL)};
static const stn_op_impl place_impl = {
    .check = place_check, .place = place_place, .run = place_run, .saves = place_saves, .backward = place_backward,
    STN_SLOTS(slots), STN_KERNELS(place_kernels),
};
static const stn_op_impl take_impl = {
    .check = take_check, .place = take_place, .run = take_run, .saves = take_saves, .backward = take_backward,
    STN_SLOTS(slots), STN_KERNELS(take_kernels),
};

const stn_op_desc stni_op_order_place = {
    .size = sizeof(stn_op_desc), .name = "order_place", STN_INPUTS(place_inputs),
    STN_ATTRS(attrs_schema, struct along_attrs), .n_outputs = 1, .impl = &place_impl, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_order_take = {
    .size = sizeof(stn_op_desc), .name = "order_take", STN_INPUTS(take_inputs),
    STN_ATTRS(attrs_schema, struct along_attrs), .n_outputs = 1, .impl = &take_impl, .flags = STN_OP_INTERNAL,
};
