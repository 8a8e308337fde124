/* max_pool_keep, the derivative of global_max_pool and its own: of a field the elements that stand at their window's
 * place, and 0 elsewhere. A rank needs no other's elements. */
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/placement/pointwise.h"
#include "ops/pool/max.h"
#include "ops/pool/pick_kernel.h"

#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

enum { FIELD, PLACES };

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *field = &call->in_spec[FIELD]->layout;
    STNI_TRY(stni_check_floating(call, FIELD));
    STNI_TRY(stni_check_dtype(call, PLACES, STN_DTYPE_I64, NULL));
    STNI_TRY(stni_check_shape(call, PLACES, field->ndim, field->shape, "the field's"));
    call->out_meta[0] = (stn_meta){.dtype = field->dtype, .ndim = field->ndim};
    memcpy(call->out_meta[0].shape, field->shape, sizeof field->shape);
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    static const uint8_t linear[STNI_POINTWISE_MASKS] = {1u << FIELD};
    return stni_pointwise_place(call, 2, linear);
}

/* Of each image the element at its place: `values` has one of each. */
static struct stni_pick_args describe(const stn_op_call *call, const stn_tensor *field, void *values)
{
    const struct stni_max_keep_attrs *attrs = call->attrs;
    const stn_tensor *places = call->in[PLACES];
    const stn_spec *spec = field->spec;
    const int first = spec->layout.ndim - (int)attrs->dims, c = first - 1;
    struct stni_pick_args a = {
        .dtype = spec->layout.dtype, .field = field->data, .values = values, .index = places->data};
    for (int p = 0, d = first + (int)attrs->dims - STNI_RESAMPLE_DIMS; p < STNI_RESAMPLE_DIMS; p++, d++) {
        const int64_t begin = d < first ? 0 : spec->local_offset[d], n = d < first ? 1 : spec->local_shape[d];
        a.n_in[p] = d < first ? 1 : spec->layout.shape[d];
        a.n_values[p] = 1;
        a.field_range[p] = stni_range_of(begin, begin + n);
        a.field_stride[p] = d < first ? 0 : field->strides[d];
    }
    a.n_outer[0] = c > 0 ? spec->local_shape[0] : 1;
    a.n_outer[1] = a.outer_value[0] = spec->local_shape[c];
    a.n_outer[2] = a.outer_value[1] = 1;
    a.outer_field[0] = field->strides[0], a.outer_field[1] = field->strides[c];
    a.outer_index[0] = places->strides[0], a.outer_index[1] = places->strides[c];
    return a;
}

/* What stands at the places here is picked, and put into a field of zeros. */
static stn_status run(stn_op_call *call)
{
    const stn_spec *spec = call->out[0]->spec;
    void *values;
    if (spec->local_numel == 0)
        return STN_OK;
    struct stni_pick_args pick = describe(call, call->in[FIELD], NULL), add = describe(call, call->out[0], NULL);
    const size_t bytes = (size_t)(pick.n_outer[0] * pick.n_outer[1]) * stn_dtype_size(pick.dtype);
    STNI_TRY(stn_op_scratch(call, bytes, &values));
    pick.values = add.values = values;
    add.adds = 1;
    STNI_TRY(stn_op_launch(call, 0, pick.dtype, &pick, sizeof pick));
    return stn_op_launch(call, 0, add.dtype, &add, sizeof add);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs & 1u << FIELD ? 1u << PLACES : 0;
}

static stn_status backward(stn_backward_call *call)
{
    stn_tensor *in[] = {call->grad_out[0], call->in[PLACES]};
    if (call->needs & 1u << FIELD)
        call->grad_in[FIELD] = stni_call(STNI_OP_max_pool_keep, 2, in, call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "field"}, {.name = "places"}};
static const stn_attr_schema schema[] = {{"dims", STN_ATTR_INT, offsetof(struct stni_max_keep_attrs, dims), NULL}};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_pick_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", STNI_RESAMPLE_DTYPES, struct stni_pick_args, stni_pick_cpu, NULL)};
static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_max_pool_keep = {
    .size = sizeof(stn_op_desc), .name = "max_pool_keep", STN_INPUTS(inputs),
    STN_ATTRS(schema, struct stni_max_keep_attrs), .n_outputs = 1, .impl = &impl, .flags = STN_OP_INTERNAL,
};
