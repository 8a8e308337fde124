/* sum over dims. */
#include "core/tensor.h"
#include "ops/reduce/reduce_kernel.h"
#include "ops/util/call.h"
#include "ops/util/dims.h"
#include "ops/util/strided.h"

#include <shardtensor/ops.h>

#include <stddef.h>

struct sum_attrs {
    stn_ints dim;
    int64_t keepdim;
};

static const struct sum_attrs defaults = {.dim = {.n = -1}};

stn_tensor *stn_sum(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    struct sum_attrs attrs = {.dim = {.n = n_dims > 0 ? n_dims : -1}, .keepdim = keepdim != 0};
    if (n_dims > STN_MAX_NDIM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "sum: 'n_dims' got %d, wanted at most %d", n_dims, STN_MAX_NDIM);
    for (int i = 0; i < n_dims; i++)
        attrs.dim.v[i] = dims[i];
    return stni_call(STNI_OP_sum, 1, &input, &attrs);
}

/* The output dim of each input dim, -1 where it is summed away; returns how many there are. */
static int map_dims(const struct sum_attrs *attrs, int ndim, uint32_t summed, int to[STN_MAX_NDIM])
{
    int n = 0;
    for (int d = 0; d < ndim; d++)
        to[d] = !(summed >> d & 1) || attrs->keepdim ? n++ : -1;
    return n;
}

static stn_status sum_check(stn_op_call *call)
{
    const struct sum_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *out = &call->out_meta[0];
    uint32_t summed;
    int to[STN_MAX_NDIM];
    STNI_TRY(stni_dims_mask(call, "dim", &attrs->dim, in->ndim, &summed));
    out->dtype = stn_dtype_is_differentiable(in->dtype) ? in->dtype : STN_DTYPE_I64;
    out->ndim = map_dims(attrs, in->ndim, summed, to);
    for (int d = 0; d < in->ndim; d++)
        if (to[d] >= 0)
            out->shape[to[d]] = summed >> d & 1 ? 1 : in->shape[d];
    return STN_OK;
}

/* What is pending stays so where the sum of sums is the sum: not for "or", nor where narrow integers would wrap later than they do. */
static int keeps_partial(const struct stni_layout *in, const stn_meta *out, int axis)
{
    return in->placement[axis].op == STN_SUM && in->dtype == out->dtype;
}

static stn_status sum_place(stn_op_call *call)
{
    const struct sum_attrs *attrs = call->attrs;
    const stn_meta *meta = &call->out_meta[0];
    struct stni_layout in = call->in_spec[0]->layout, out;
    uint32_t summed = stni_dims_mask_of(&attrs->dim, in.ndim);
    int to[STN_MAX_NDIM], axes = in.mesh ? in.mesh->ndim : 0, n = 0;
    map_dims(attrs, in.ndim, summed, to);
    stni_layout_init(&out, in.mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; a < axes; a++) {
        stn_placement p = in.placement[a];
        out.axis_order[a] = in.axis_order[a];
        if (p.kind == STN_PLACE_PARTIAL && !keeps_partial(&in, meta, a))
            in.placement[a] = p = stn_replicate();
        if (p.kind == STN_PLACE_SHARD)
            p = summed >> p.dim & 1 ? stn_partial(STN_SUM) : stn_shard(to[p.dim]);
        out.placement[a] = p;
    }
    for (int k = 0; k < in.ndim; k++) {
        int d = in.memory_order[k];
        if (to[d] < 0)
            continue;
        out.memory_order[n++] = (uint8_t)to[d];
        out.split[to[d]] = summed >> d & 1 ? NULL : in.split[d];
    }
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status sum_run(stn_op_call *call)
{
    const stn_tensor *in = call->in[0], *out = call->out[0];
    const int ndim = in->spec->layout.ndim;
    const uint32_t summed = stni_dims_mask_of(&((const struct sum_attrs *)call->attrs)->dim, ndim);
    struct stni_reduce_args args = {.op = STNI_REDUCTION_sum, .in_dtype = in->spec->layout.dtype, .in = in->data, .out = out->data,
                                    .out_dtype = out->spec->layout.dtype, .empty = in->spec->local_numel == 0};
    int to[STN_MAX_NDIM];
    if (out->spec->local_numel == 0)
        return STN_OK;
    map_dims(call->attrs, ndim, summed, to);
    for (int d = 0; d < ndim; d++) {
        if (summed >> d & 1) {
            args.reduced[args.n_reduced] = in->spec->local_shape[d];
            args.reduced_in[args.n_reduced++] = in->strides[d];
        } else {
            args.kept[args.n_kept] = in->spec->local_shape[d];
            args.kept_in[args.n_kept] = in->strides[d];
            args.kept_out[args.n_kept++] = out->strides[to[d]];
        }
    }
    args.n_kept = stni_merge_dims(args.n_kept, args.kept, 2, (int64_t *[]){args.kept_in, args.kept_out});
    args.n_reduced = args.empty ? 0 : stni_merge_dims(args.n_reduced, args.reduced, 1, (int64_t *[]){args.reduced_in});
    return stn_op_launch(call, 0, args.in_dtype, &args, sizeof args);
}

/* The cotangent, with the summed dims put back at size 1, repeated along them. */
static stn_status sum_backward(stn_backward_call *call)
{
    const struct sum_attrs *attrs = call->attrs;
    const int ndim = stn_spec_ndim(call->in_spec[0]);
    const int64_t *shape = stn_spec_shape(call->in_spec[0]);
    stn_tensor *grad = call->grad_out[0];
    if (!grad)
        return STN_OK;
    uint32_t summed = stni_dims_mask_of(&attrs->dim, ndim);
    int leading = (summed & (summed + 1)) == 0; /* expand puts these back itself */
    if (!attrs->keepdim && !leading) {
        int64_t with_ones[STN_MAX_NDIM];
        for (int d = 0; d < ndim; d++)
            with_ones[d] = summed >> d & 1 ? 1 : shape[d];
        grad = stn_view(grad, ndim, with_ones);
    }
    call->grad_in[0] = stn_expand(grad, ndim, shape);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{"input", 0, 0}};

static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct sum_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct sum_attrs, keepdim), NULL},
};

static const stn_kernel_slot slots[] = {{"sum.forward", sizeof(struct stni_reduce_args)}};

static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "sum.forward", "cpu", (1u << STN_DTYPE_COUNT) - 1, sizeof(struct stni_reduce_args), stni_reduce_cpu},
};

const stn_op_desc stni_op_sum = {
    .size = sizeof(stn_op_desc),
    .name = "sum",
    .inputs = inputs,
    .n_inputs = 1,
    .attrs = attrs_schema,
    .n_attrs = 2,
    .attrs_size = sizeof(struct sum_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .check = sum_check,
    .place = sum_place,
    .run = sum_run,
    .backward = sum_backward,
    .slots = slots,
    .n_slots = 1,
    .kernels = kernels,
    .n_kernels = 1,
};
