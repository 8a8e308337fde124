#include "ops/common/sum_to.h"

#include "core/base/dtype.h"

/* Sums over the first dims until as many are left as `like` has. */
static stn_tensor *sum_leading(stn_tensor *grad, int n)
{
    int dims[STN_MAX_NDIM];
    for (int d = 0; d < n; d++)
        dims[d] = d;
    return n > 0 ? stn_sum(grad, n, dims, 0) : grad;
}

static stn_tensor *sum_broadcast(stn_tensor *grad, const stn_spec *like)
{
    const int64_t *from = stn_tensor_shape(grad), *to = stn_spec_shape(like);
    int dims[STN_MAX_NDIM], n = 0;
    for (int d = 0; d < stn_spec_ndim(like); d++)
        if (to[d] == 1 && from[d] != 1)
            dims[n++] = d;
    return n > 0 ? stn_sum(grad, n, dims, 1) : grad;
}

stn_tensor *stni_sum_to(stn_tensor *grad, const stn_spec *like)
{
    stn_dtype dtype = stn_spec_dtype(like);
    if (stn_tensor_is_error(grad))
        return grad;
    /* The imaginary part is dropped before the sum, a wider dtype is narrowed after it. */
    if (stni_dtype_is_complex(stn_tensor_dtype(grad)) && !stni_dtype_is_complex(dtype))
        grad = stn_cast(grad, stn_tensor_dtype(grad) == STN_DTYPE_C128 ? STN_DTYPE_F64 : STN_DTYPE_F32);
    if (stn_tensor_is_error(grad))
        return grad;
    grad = sum_leading(grad, stn_tensor_ndim(grad) - stn_spec_ndim(like));
    if (stn_tensor_is_error(grad))
        return grad;
    grad = sum_broadcast(grad, like);
    if (stn_tensor_is_error(grad) || stn_tensor_dtype(grad) == dtype)
        return grad;
    return stn_cast(grad, dtype);
}
