/* cummax, cummin: the extreme of the elements up to each, and where it is. NaN wins, among equals the last. */
#include "ops/scan/scan.h"

#include "dispatch/dispatch.h"
#include "dispatch/registry.h"

#include <shardtensor/ops.h>

static stn_tensor *call_extreme(enum stni_op_index op, stn_tensor *input, int dim, stn_tensor **indices)
{
    struct stni_scan_attrs attrs = {.dim = dim};
    stn_tensor *out[2] = {NULL, NULL};
    if (input)
        stni_dispatch(input->context->registry->ops[op], 1, &input, &attrs, 2, out);
    if (indices)
        *indices = out[1];
    return out[0];
}

stn_tensor *stn_cummax(stn_tensor *input, int dim, stn_tensor **indices)
{
    return call_extreme(STNI_OP_cummax, input, dim, indices);
}

stn_tensor *stn_cummin(stn_tensor *input, int dim, stn_tensor **indices)
{
    return call_extreme(STNI_OP_cummin, input, dim, indices);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? UINT64_C(1) << 33 : 0;
}

/* An element that is the extreme is so for itself and those behind it up to the next such: its cotangent is their sum,
 * collected from behind with factors of 1 inside a run and 0 where the next begins. */
static stn_status backward(stn_backward_call *call)
{
    const int64_t dim = ((const struct stni_scan_attrs *)call->attrs)->dim;
    stn_tensor *g = call->grad_out[0], *indices = call->out[1];
    if (!g)
        return STN_OK;
    stn_tensor *begins = stn_ne(indices, stni_scan_neighbour(indices, dim, -1, -1));
    stn_tensor *goes_on = stn_cast(stn_logical_not(begins), stn_spec_dtype(call->in_spec[0]));
    call->grad_in[0] = stn_mul(stni_affine_scan(goes_on, g, dim, 1, STNI_SCAN_LAGGED), begins);
    return stn_context_status(call->context);
}

enum { ORDERED = (1 << STN_DTYPE_COUNT) - 1 - STNI_SCAN_COMPLEX };

static const stn_op_impl impl = {
    .check = stni_scan_check, .place = stni_scan_place, .run = stni_scan_run, .saves = saves, .backward = backward,
    STN_SLOTS(stni_scan_slots), STN_KERNELS(stni_scan_kernels),
};

const stn_op_desc stni_op_cummax = {
    .size = sizeof(stn_op_desc),
    .name = "cummax",
    STN_INPUTS(stni_scan_inputs),
    STN_ATTRS(stni_scan_attrs_schema, struct stni_scan_attrs),
    .attrs_init = &stni_scan_defaults,
    .n_outputs = 2,
    .impl = &impl,
    .arg = (void *)&(
        const struct stni_scan_rule){.op = STNI_SCAN_MAX, .dtypes = ORDERED, .wanted = "a dtype with an order"},
    .signature = "input, dim",
};

const stn_op_desc stni_op_cummin = {
    .size = sizeof(stn_op_desc),
    .name = "cummin",
    STN_INPUTS(stni_scan_inputs),
    STN_ATTRS(stni_scan_attrs_schema, struct stni_scan_attrs),
    .attrs_init = &stni_scan_defaults,
    .n_outputs = 2,
    .impl = &impl,
    .arg = (void *)&(
        const struct stni_scan_rule){.op = STNI_SCAN_MIN, .dtypes = ORDERED, .wanted = "a dtype with an order"},
    .signature = "input, dim",
};
