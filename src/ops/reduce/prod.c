/* prod over dims. The cotangent of an element is that of the result times the others: along each dim the product of
 * those before it and of those behind it, so that zeros are right, and no division is made. */
#include "ops/reduce/reduction.h"

#include "ops/scan/scan.h"
#include "ops/elementwise/pointwise.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

stn_tensor *stn_prod(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_prod, "prod", input, n_dims, dims, keepdim);
}

static stn_dtype result(stn_dtype in)
{
    return stn_dtype_is_differentiable(in) ? in : STN_DTYPE_I64;
}

static stn_tensor *others(stn_tensor *x, int dim)
{
    return stn_mul(stni_scan_call(STNI_OP_cumprod, x, dim, 0, STNI_SCAN_EXCLUSIVE),
                   stni_scan_call(STNI_OP_cumprod, x, dim, 1, STNI_SCAN_EXCLUSIVE));
}

/* Dim after dim: what is left of x after the first ones, and from the last one back the others of each; of 16-bit
 * floats in f32. */
static stn_tensor *derivative(const stn_backward_call *call, stn_tensor *grad, uint32_t reduced)
{
    const stn_spec *in = call->in_spec[0];
    const int64_t keepdim = ((const struct stni_reduction_attrs *)call->attrs)->keepdim;
    stn_tensor *left[STN_MAX_NDIM];
    int dims[STN_MAX_NDIM], n = 0;
    stn_tensor *x = stni_conjugate(stn_cast(call->in[0], stni_wide_dtype(in->layout.dtype))), *factor = NULL;
    for (int d = 0; d < in->layout.ndim; d++)
        if (reduced >> d & 1) {
            left[n] = x;
            dims[n++] = d;
            x = stn_prod(x, 1, &d, 1);
        }
    for (int k = n - 1; k >= 0; k--) {
        stn_tensor *part = others(left[k], dims[k]);
        factor = factor ? stn_mul(factor, part) : part;
    }
    grad = stni_reduction_expand(grad, in, reduced, keepdim);
    return factor ? stn_cast(stn_mul(grad, factor), in->layout.dtype) : grad;
}

static const struct stni_reduction_rule rule = {
    .op = STNI_REDUCTION_prod, .result = result, .pending = STN_PROD, .derivative = derivative, .reads = 1,
};

const stn_op_desc stni_op_prod = {
    .size = sizeof(stn_op_desc), .name = "prod", STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&rule),
};
