/* Lines of tensors, pieces of ranks, and what every op of the family checks. */
#include "ops/sort/sort_family.h"

#include "core/base/host_alloc.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/reduce/reduction.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/placement/unshard.h"

#include <shardtensor/ops.h>

#include <string.h>

static void add_dim(struct stni_sort_lines *lines, int d, const int *to, const stn_tensor *const *tensors)
{
    const int i = lines->ndim++;
    lines->shape[i] = tensors[ORDER_IN]->spec->local_shape[d];
    lines->strides[ORDER_IN][i] = tensors[ORDER_IN]->strides[d];
    for (int t = ORDER_VALUES; t < ORDER_TENSORS; t++)
        lines->strides[t][i] = tensors[t] ? tensors[t]->strides[to[d]] : 0;
}

static void add_along(struct stni_sort_lines *lines, int d, int64_t index_step, const stn_tensor *in)
{
    const int i = lines->n_along++;
    lines->along[i] = in->spec->local_shape[d];
    lines->along_in[i] = in->strides[d];
    lines->along_index[i] = index_step;
    lines->first += in->spec->local_offset[d] * index_step;
    lines->n *= lines->along[i];
}

void stni_sort_lines_make(struct stni_sort_lines *lines, uint32_t dims, int keepdim, const stn_tensor *in,
                          const stn_tensor *values, const stn_tensor *indices)
{
    const struct stni_layout *layout = &in->spec->layout;
    const stn_tensor *tensors[] = {in, values, indices};
    int to[STN_MAX_NDIM];
    memset(lines, 0, sizeof *lines);
    lines->n = 1;
    stni_reduction_dims(layout->ndim, dims, keepdim, to);
    for (int k = 0; k < layout->ndim; k++)
        if (!(dims >> layout->memory_order[k] & 1))
            add_dim(lines, layout->memory_order[k], to, tensors);
    for (int d = 0; d < layout->ndim; d++) {
        int64_t index_step = 1;
        for (int e = d + 1; e < layout->ndim; e++)
            index_step *= dims >> e & 1 ? layout->shape[e] : 1;
        if (!(dims >> d & 1))
            continue;
        add_along(lines, d, index_step, in);
        for (int t = ORDER_VALUES; t < ORDER_TENSORS; t++)
            lines->step[t] = tensors[t] && keepdim ? tensors[t]->strides[d] : 0;
    }
    if (lines->n_along == 0)
        lines->along[lines->n_along++] = 1;
}

stn_status stni_sort_check(const stn_op_call *call, const stn_ints *dim, int needs_elements, uint32_t *dims)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    char text[STNI_SHAPE_TEXT];
    if (!((unsigned)STNI_SORT_DTYPES >> in->dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a dtype with an order",
                           stn_dtype_name(in->dtype));
    if (dim->n > 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'dim' got %d dims, wanted one", (int)dim->n);
    STNI_TRY(stni_dims_mask(call, "dim", dim, in->ndim, dims));
    *dims &= (1u << in->ndim) - 1; /* dim 0 of a tensor without dims is none */
    if (needs_elements && stni_reduction_count(call->in_spec[0], *dims) == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape %s, wanted at least one element %s",
                           stni_shape_text(in->ndim, in->shape, text), dim->n > 0 ? "along 'dim'" : "in all");
    return STN_OK;
}

uint32_t stni_sort_dims(const stn_op_call *call, const stn_ints *dim)
{
    const int ndim = call->in_spec[0]->layout.ndim;
    return stni_dims_mask_of(dim, ndim) & ((1u << ndim) - 1);
}

void stni_sort_line_metas(stn_op_call *call, uint32_t dims, int keepdim, int64_t n)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *values = &call->out_meta[0];
    int to[STN_MAX_NDIM];
    values->dtype = in->dtype;
    values->ndim = stni_reduction_dims(in->ndim, dims, keepdim, to);
    for (int d = 0; d < in->ndim; d++)
        if (to[d] >= 0)
            values->shape[to[d]] = dims >> d & 1 ? n : in->shape[d];
    call->out_meta[1] = *values;
    call->out_meta[1].dtype = STN_DTYPE_I64;
}

stn_status stni_sort_line_specs(stn_op_call *call, struct stni_layout *in, uint32_t dims, int keepdim)
{
    struct stni_layout out;
    int to[STN_MAX_NDIM];
    stni_reduction_dims(in->ndim, dims, keepdim, to);
    stni_reduction_layout(in, dims, to, STN_SUM, 0, &call->out_meta[0], &out);
    call->note = stni_layout_reduce(&out, 0);
    STNI_TRY(stni_spec_intern(call->context, in, &call->want[0]));
    STNI_TRY(stni_spec_intern(call->context, &out, &call->out_spec[0]));
    out.dtype = STN_DTYPE_I64;
    return stni_spec_intern(call->context, &out, &call->out_spec[1]);
}

stn_ints stni_sort_dim(const int *dim)
{
    stn_ints ints = {.n = dim ? 1 : -1};
    ints.v[0] = dim ? *dim : 0;
    return ints;
}

stn_tensor *stni_sort_call(enum stni_op_index op, stn_tensor *input, const void *attrs, stn_tensor **indices)
{
    stn_tensor *out[2] = {NULL, NULL};
    if (input)
        stni_dispatch(input->context->registry->ops[op], 1, &input, attrs, indices ? 2 : 1, out);
    if (indices)
        *indices = out[1];
    return out[0];
}

int stni_sort_has_lines(const stn_spec *spec, int dim)
{
    if (spec->layout.mesh && !spec->layout.mesh->member)
        return 0;
    for (int d = 0; d < spec->layout.ndim; d++)
        if (d != dim && spec->local_shape[d] == 0)
            return 0;
    return spec->numel > 0;
}

int64_t stni_sort_lines_of(const struct stni_layout *layout, int dim)
{
    int64_t n = 1;
    for (int d = 0; d < layout->ndim; d++)
        n *= d == dim ? 1 : layout->shape[d];
    return n;
}

/* A dim is long enough where no rank comes to hold more than about twice its share. */
enum stni_sort_way stni_sort_way(const struct stni_layout *layout, int dim, int *other)
{
    int64_t length;
    uint32_t axes;
    const int ranks = layout->ndim > 0 ? stni_dim_ranks(layout, dim, &axes) : 1;
    *other = stni_longest_dim(layout, 1u << dim, &length);
    if (ranks == 1)
        return STNI_SORT_HERE;
    return *other >= 0 && length > 1 && 2 * length >= ranks ? STNI_SORT_RECUT : STNI_SORT_SHARED;
}

stn_status stni_sort_choose(struct stni_sort_choice *choice, struct stni_sort_target *targets)
{
    const stn_op_call *call = choice->call;
    struct stni_sort_count_args *count = &choice->count;
    const int64_t n_counts = count->n_targets * ORDER_DIGITS;
    void *counts;
    STNI_TRY(stn_op_scratch(call, (size_t)n_counts * sizeof(int64_t), &counts));
    count->targets = targets;
    count->counts = counts;
    count->digits = stni_sort_digits(count->order.dtype, choice->n);
    struct stni_sort_narrow_args narrow = {
        .digits = count->digits, .n_targets = count->n_targets, .counts = counts, .targets = targets};
    for (int round = 0; round < count->digits.of_key + count->digits.of_index; round++) {
        count->round = narrow.round = round;
        STNI_TRY(stn_op_launch(call, choice->count_slot, count->order.dtype, count, sizeof *count));
        STNI_TRY(
            stni_comm_all_reduce(choice->comm, call->context->queue, counts, counts, n_counts, STN_DTYPE_I64, STN_SUM));
        STNI_TRY(stn_op_launch(call, choice->narrow_slot, count->order.dtype, &narrow, sizeof narrow));
    }
    return STN_OK;
}

stn_status stni_sort_gather(const stn_op_call *call, stn_comm *comm, const void *own, void *all, int64_t count)
{
    const size_t bytes = (size_t)comm->size * sizeof(int64_t);
    int64_t *counts = stni_malloc(bytes);
    if (!counts)
        return stni_fail_memory(call->context, "counts of candidates", bytes);
    for (int r = 0; r < comm->size; r++)
        counts[r] = count;
    stn_status status = stni_comm_all_gather(comm, call->context->queue, own, all, counts, STN_DTYPE_I64);
    stni_free(counts);
    return status;
}

/* NaN equals NaN here. */
stn_tensor *stni_sort_share(stn_tensor *grad, stn_tensor *input, stn_tensor *value)
{
    const int ndim = stn_tensor_ndim(input);
    const int64_t *shape = stn_tensor_shape(input);
    value = stni_call_complete(value);
    stn_tensor *chosen = stn_logical_or(stn_eq(input, value), stn_logical_and(stn_isnan(input), stn_isnan(value)));
    return stn_mul(chosen, stn_expand(stn_div(grad, stn_sum(chosen, 0, NULL, 0)), ndim, shape));
}
