/* The functions of a descriptor that every reduction shares. */
#include "ops/reduce/reduction.h"

#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"
#include "ops/cpu/strided.h"
#include "ops/reduce/exact_sum.h"

#include <shardtensor/ops.h>


const stn_input_schema stni_reduction_inputs[1] = {{"input", 0, 0}};

const stn_attr_schema stni_reduction_attrs_schema[2] = {
    {"dim", STN_ATTR_INTS, offsetof(struct stni_reduction_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct stni_reduction_attrs, keepdim), NULL},
};

const struct stni_reduction_attrs stni_reduction_defaults = {.dim = {.n = -1}};

static const struct stni_reduction_rule *rule_of(const void *arg)
{
    return arg;
}

stn_tensor *stni_reduction_call(enum stni_op_index op, const char *name, stn_tensor *input, int n_dims, const int *dims,
                                int keepdim)
{
    struct stni_reduction_attrs attrs = {.keepdim = keepdim != 0};
    if (!stni_list_read_dims_or_all(input, &(struct stni_list){name, "n_dims", "dims", 0}, n_dims, dims,
                                    &attrs.dim))
        return stni_call_error(input);
    return stni_call(op, 1, &input, &attrs);
}

int stni_reduction_dims(int ndim, uint32_t reduced, int64_t keepdim, int to[STN_MAX_NDIM])
{
    int n = 0;
    for (int d = 0; d < ndim; d++)
        to[d] = !(reduced >> d & 1) || keepdim ? n++ : -1;
    return n;
}

int64_t stni_reduction_count(const stn_spec *input, uint32_t reduced)
{
    int64_t n = 1;
    for (int d = 0; d < input->layout.ndim; d++)
        if (reduced >> d & 1)
            n *= input->layout.shape[d];
    return n;
}

stn_status stni_reduction_check(stn_op_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *out = &call->out_meta[0];
    uint32_t reduced;
    int to[STN_MAX_NDIM];
    const struct stni_reduction_rule *rule = call->arg;
    char text[STNI_SHAPE_TEXT];
    if (rule->dtypes && !(rule->dtypes >> in->dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted %s", stn_dtype_name(in->dtype), rule->wanted);
    STNI_TRY(stni_dims_mask(call, "dim", &attrs->dim, in->ndim, &reduced));
    if (rule->needs_elements && stni_reduction_count(call->in_spec[0], reduced) == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape %s, wanted at least one element to reduce",
                           stni_shape_text(in->ndim, in->shape, text));
    out->dtype = rule->result ? rule->result(in->dtype) : in->dtype;
    out->ndim = stni_reduction_dims(in->ndim, reduced, attrs->keepdim, to);
    for (int d = 0; d < in->ndim; d++)
        if (to[d] >= 0)
            out->shape[to[d]] = reduced >> d & 1 ? 1 : in->shape[d];
    return STN_OK;
}

void stni_reduction_layout(struct stni_layout *in, uint32_t reduced, const int to[STN_MAX_NDIM], stn_reduce_op pending,
                           uint32_t kept, const stn_meta *meta, struct stni_layout *out)
{
    int axes = in->mesh ? in->mesh->ndim : 0, n = 0;
    stni_layout_init(out, in->mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; a < axes; a++) {
        stn_placement p = in->placement[a];
        out->axis_order[a] = in->axis_order[a];
        if (p.kind == STN_PLACE_PARTIAL && !(kept >> a & 1))
            in->placement[a] = p = stn_replicate();
        if (p.kind == STN_PLACE_SHARD)
            p = reduced >> p.dim & 1 ? stn_partial(pending) : stn_shard(to[p.dim]);
        out->placement[a] = p;
    }
    for (int k = 0; k < in->ndim; k++) {
        int d = in->memory_order[k];
        if (to[d] < 0)
            continue;
        out->memory_order[n++] = (uint8_t)to[d];
        out->split[to[d]] = reduced >> d & 1 ? NULL : in->split[d];
    }
}

/* What is pending stays so where it is of the same kind: a sum of sums is the sum. Not where dtypes differ: for
 * "or", or where narrow integers would wrap later than they do. */
static uint32_t kept_axes(const struct stni_layout *in, const stn_meta *out, const struct stni_reduction_rule *rule)
{
    uint32_t axes = 0;
    for (int a = 0; in->mesh && a < in->mesh->ndim; a++)
        if (in->placement[a].op == rule->pending && in->dtype == out->dtype && !rule->counts)
            axes |= 1u << a;
    return axes;
}

/* Sums that may not show who added what: of numbers that addition rounds. */
static int is_exact(const stn_op_call *call)
{
    const struct stni_reduction_rule *rule = call->arg;
    return call->context->reproducible_sums && rule->op == STNI_REDUCTION_sum &&
           stn_dtype_is_differentiable(call->in_spec[0]->layout.dtype);
}

static stn_status place(stn_op_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const struct stni_reduction_rule *rule = call->arg;
    if (is_exact(call))
        return stni_reduction_place_joined(call);
    const stn_meta *meta = &call->out_meta[0];
    struct stni_layout in = call->in_spec[0]->layout, out;
    uint32_t reduced = stni_dims_mask_of(&attrs->dim, in.ndim);
    int to[STN_MAX_NDIM];
    stni_reduction_dims(in.ndim, reduced, attrs->keepdim, to);
    stni_reduction_layout(&in, reduced, to, rule->pending, kept_axes(&in, meta, rule), meta, &out);
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

void stni_reduction_args_make(const stn_op_call *call, const struct stni_reduction_attrs *attrs, enum stni_reduction op,
                              struct stni_reduce_args *args)
{
    const stn_tensor *in = call->in[0], *out = call->out[0];
    const int ndim = in->spec->layout.ndim;
    const uint32_t reduced = stni_dims_mask_of(&attrs->dim, ndim);
    int to[STN_MAX_NDIM];
    *args = (struct stni_reduce_args){.op = op, .in_dtype = in->spec->layout.dtype, .in = in->data, .out = out->data,
                                      .out_dtype = out->spec->layout.dtype, .empty = in->spec->local_numel == 0};
    stni_reduction_dims(ndim, reduced, attrs->keepdim, to);
    for (int d = 0; d < ndim; d++) {
        if (reduced >> d & 1) {
            args->reduced[args->n_reduced] = in->spec->local_shape[d];
            args->reduced_in[args->n_reduced++] = in->strides[d];
        } else {
            args->kept[args->n_kept] = in->spec->local_shape[d];
            args->kept_in[args->n_kept] = in->strides[d];
            args->kept_out[args->n_kept++] = out->strides[to[d]];
        }
    }
    args->n_kept = stni_merge_dims(args->n_kept, args->kept, 2, (int64_t *[]){args->kept_in, args->kept_out});
    args->n_reduced =
        args->empty ? 0 : stni_merge_dims(args->n_reduced, args->reduced, 1, (int64_t *[]){args->reduced_in});
}

stn_status stni_reduction_place_joined(stn_op_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    struct stni_layout in = call->in_spec[0]->layout, out;
    const uint32_t reduced = stni_dims_mask_of(&attrs->dim, in.ndim);
    int to[STN_MAX_NDIM];
    stni_reduction_dims(in.ndim, reduced, attrs->keepdim, to);
    stni_reduction_layout(&in, reduced, to, STN_SUM, 0, &call->out_meta[0], &out);
    call->note = stni_layout_reduce(&out, 0);
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

stn_status stni_reduction_launch(const stn_op_call *call, int slot, struct stni_reduce_args *args)
{
    const size_t bytes = stn_op_workspace(call, slot, args->in_dtype, args);
    if (bytes > 0)
        STNI_TRY(stn_op_scratch(call, bytes, &args->workspace));
    return stn_op_launch(call, slot, args->in_dtype, args, sizeof *args);
}

static stn_status run(stn_op_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const struct stni_reduction_rule *rule = call->arg;
    struct stni_reduce_args args;
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    stni_reduction_args_make(call, attrs, rule->op, &args);
    args.divides = rule->divides;
    args.divisor =
        stni_reduction_count(call->in[0]->spec, stni_dims_mask_of(&attrs->dim, call->in[0]->spec->layout.ndim));
    return is_exact(call) ? stni_exact_sum_reduce(call, &args) : stni_reduction_launch(call, 0, &args);
}

stn_tensor *stni_reduction_expand(stn_tensor *result, const stn_spec *input, uint32_t reduced, int64_t keepdim)
{
    const int ndim = stn_spec_ndim(input);
    const int64_t *shape = stn_spec_shape(input);
    if (!keepdim && stn_tensor_ndim(result) != ndim) {
        int64_t with_ones[STN_MAX_NDIM];
        for (int d = 0; d < ndim; d++)
            with_ones[d] = reduced >> d & 1 ? 1 : shape[d];
        result = stn_view(result, ndim, with_ones);
    }
    return stni_expand_as(result, input);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    return needs ? rule_of(call->arg)->reads : 0;
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const struct stni_reduction_rule *rule = call->arg;
    if (call->grad_out[0] && rule->derivative)
        call->grad_in[0] =
            rule->derivative(call, call->grad_out[0], stni_dims_mask_of(&attrs->dim, call->in_spec[0]->layout.ndim));
    return stn_context_status(call->context);
}

static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_reduce_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", (1u << STN_DTYPE_COUNT) - 1, struct stni_reduce_args, stni_reduce_cpu, NULL)};

const stn_op_impl stni_reduction_impl = {
    .check = stni_reduction_check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};
