/* logsumexp: a reduction made of others. */
#include "core/base/dtype.h"
#include "ops/reduce/reduction.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

stn_tensor *stn_logsumexp(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_logsumexp, "logsumexp", input, n_dims, dims, keepdim);
}

/* log sum exp(x - m) + m with the largest x, where that is finite, for m; of 16-bit floats in f32, which the wider m brings with it. */
static stn_status logsumexp(stn_op_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t shape[STN_MAX_NDIM];
    struct stni_dims_list r;
    uint32_t mask;
    int n = 0;
    STNI_TRY(stni_check_floating(call, 0));
    STNI_TRY(stni_dims_mask(call, "dim", &attrs->dim, in->ndim, &mask));
    STNI_TRY(stni_dims_list(call, "dim", &attrs->dim, in->ndim, &r));
    if (stni_reduction_count(call->in_spec[0], mask) == 0) {
        call->out[0] = stn_log(stn_sum(call->in[0], r.n, r.dims, (int)attrs->keepdim));
        return STN_OK;
    }
    stn_tensor *m = stn_cast(stn_amax(stn_detach(call->in[0]), r.n, r.dims, 1), stni_wide_dtype(in->dtype));
    m = stn_masked_fill(m, stn_logical_not(stn_isfinite(m)), 0);
    stn_tensor *y = stn_add(stn_log(stn_sum(stn_exp(stn_sub(call->in[0], m)), r.n, r.dims, 1)), m);
    y = stn_cast(y, in->dtype);
    for (int d = 0; d < in->ndim; d++)
        if (!(mask >> d & 1))
            shape[n++] = in->shape[d];
    call->out[0] = attrs->keepdim ? y : stn_view(y, n, shape);
    return STN_OK;
}

const stn_op_desc stni_op_logsumexp = {
    .size = sizeof(stn_op_desc), .name = "logsumexp", STN_INPUTS(stni_reduction_inputs),
    STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs), .attrs_init = &stni_reduction_defaults,
    .n_outputs = 1, .impl = &(const stn_op_impl){.compose = logsumexp},
    .signature = "input, dim, keepdim=",
};
