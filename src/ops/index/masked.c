/* masked_select, masked_scatter and nonzero: what a mask names, in row-major order. */
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/index/named.h"
#include "ops/placement/pointwise.h"

#include <shardtensor/ops.h>

#include <inttypes.h>

enum { INPUT, MASK, SOURCE };

stn_tensor *stn_masked_select(stn_tensor *input, stn_tensor *mask)
{
    return stni_call(STNI_OP_masked_select, 2, (stn_tensor *[]){input, mask}, NULL);
}

stn_tensor *stn_masked_scatter(stn_tensor *input, stn_tensor *mask, stn_tensor *source)
{
    return stni_call(STNI_OP_masked_scatter, 3, (stn_tensor *[]){input, mask, source}, NULL);
}

stn_tensor *stn_nonzero(stn_tensor *input)
{
    return stni_call(STNI_OP_nonzero, 1, &input, NULL);
}

/* Elements that the mask names, both repeated to one shape, and in one dim. */
static stn_status find_elements(const stn_op_call *call, stn_meta *common, struct stni_named *named)
{
    const stn_dtype mask = call->in_spec[MASK]->layout.dtype;
    if (mask != STN_DTYPE_BOOL)
        return stn_op_fail(call, STN_ERR_DTYPE, "'mask' got %s, wanted bool", stn_dtype_name(mask));
    STNI_TRY(stni_pointwise_broadcast(call, 2, common));
    stn_tensor *input = stn_expand(call->in[INPUT], common->ndim, common->shape),
               *where = stn_expand(call->in[MASK], common->ndim, common->shape);
    STNI_TRY(stn_context_status(call->context));
    return stni_named_find(input, where, named);
}

static stn_status masked_select(stn_op_call *call)
{
    struct stni_named named;
    stn_meta common;
    STNI_TRY(find_elements(call, &common, &named));
    call->out[0] = stni_named_read(&named);
    return STN_OK;
}

static stn_status check_source(const stn_op_call *call, int64_t wanted)
{
    const stn_spec *source = call->in_spec[SOURCE];
    if (source->layout.dtype != call->in_spec[INPUT]->layout.dtype)
        return stn_op_fail(call, STN_ERR_DTYPE, "'source' got %s, wanted the dtype of 'input', %s",
                           stn_dtype_name(source->layout.dtype), stn_dtype_name(call->in_spec[INPUT]->layout.dtype));
    if (source->numel < wanted)
        return stn_op_fail(call, STN_ERR_VALUE,
                           "'source' got %" PRId64 " elements, wanted the %" PRId64 " that 'mask' names, or more",
                           source->numel, wanted);
    return STN_OK;
}

static stn_status masked_scatter(stn_op_call *call)
{
    struct stni_named named;
    stn_meta common;
    STNI_TRY(check_source(call, 0));
    STNI_TRY(find_elements(call, &common, &named));
    const int64_t n = stni_named_count(&named);
    if (named.outside) { /* nobody here knows whether the source has too few */
        call->out[0] = stn_view(named.rows, common.ndim, common.shape);
        return STN_OK;
    }
    STNI_TRY(check_source(call, n));
    stn_tensor *source = stn_narrow(stn_flatten(call->in[SOURCE], 0, -1), 0, 0, n);
    call->out[0] = stn_view(stni_named_write(&named, source, 0), common.ndim, common.shape);
    return STN_OK;
}

/* Coordinates of elements by their numbers: one column for each dim. */
static stn_tensor *coordinates(stn_tensor *numbers, int ndim, const int64_t *shape)
{
    stn_tensor *column[STN_MAX_NDIM];
    int64_t stride = 1;
    for (int d = ndim; d-- > 0;) {
        column[d] = stride > 1 ? stn_floor_divide_number(numbers, (double)stride) : numbers;
        if (d > 0 && shape[d] > 0)
            column[d] = stn_remainder_number(column[d], (double)shape[d]);
        stride *= shape[d];
    }
    return ndim > 0 ? stn_stack(ndim, column, 1) : stn_narrow(stn_unsqueeze(numbers, 1), 1, 0, 0);
}

static stn_status nonzero(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[INPUT]->layout;
    stn_tensor *mask = in->dtype == STN_DTYPE_BOOL ? call->in[INPUT] : stn_ne_number(call->in[INPUT], 0);
    struct stni_named named;
    STNI_TRY(stn_context_status(call->context));
    STNI_TRY(stni_named_find(mask, mask, &named));
    call->out[0] = coordinates(named.numbers, in->ndim, in->shape);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "mask"}, {.name = "source"}};

const stn_op_desc stni_op_masked_select = {
    .size = sizeof(stn_op_desc), .name = "masked_select", .inputs = inputs, .n_inputs = 2, .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = masked_select},
};

const stn_op_desc stni_op_masked_scatter = {
    .size = sizeof(stn_op_desc), .name = "masked_scatter", .inputs = inputs, .n_inputs = 3, .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = masked_scatter},
};

const stn_op_desc stni_op_nonzero = {
    .size = sizeof(stn_op_desc), .name = "nonzero", .inputs = inputs, .n_inputs = 1, .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = nonzero},
};
