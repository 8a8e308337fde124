#include "ops/common/dims.h"

#include "core/base/status.h"

#include <inttypes.h>
#include <stdio.h>

stn_status stni_dim_wrap(const stn_op_call *call, const char *name, int64_t dim, int ndim, int *out)
{
    int n = ndim > 0 ? ndim : 1;
    if (dim < -n || dim >= n)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 ", wanted %d <= %s < %d", name, dim, -n, name,
                           n);
    *out = stni_dim_from_front(dim, ndim);
    return STN_OK;
}

stn_status stni_dims_mask(const stn_op_call *call, const char *name, const stn_ints *dims, int ndim, uint32_t *out)
{
    uint32_t mask = 0;
    for (int64_t i = 0; i < dims->n; i++) {
        int dim = 0;
        stn_status status = stni_dim_wrap(call, name, dims->v[i], ndim, &dim);
        if (status != STN_OK)
            return status;
        if (mask >> dim & 1)
            return stn_op_fail(call, STN_ERR_ARGUMENT,
                               "'%s' got %" PRId64 " for a dim that it names already, wanted distinct dims", name,
                               dims->v[i]);
        mask |= 1u << dim;
    }
    *out = dims->n > 0 ? mask : (1u << ndim) - 1;
    return STN_OK;
}

stn_status stni_dims_list(const stn_op_call *call, const char *name, const stn_ints *dims, int ndim,
                          struct stni_dims_list *out)
{
    uint32_t mask;
    STNI_TRY(stni_dims_mask(call, name, dims, ndim, &mask));
    out->n = 0;
    for (int d = 0; d < ndim; d++)
        if (mask >> d & 1)
            out->dims[out->n++] = d;
    return STN_OK;
}

uint32_t stni_dims_mask_of(const stn_ints *dims, int ndim)
{
    if (dims->n <= 0)
        return (1u << ndim) - 1;
    uint32_t mask = 0;
    for (int64_t i = 0; i < dims->n; i++)
        mask |= 1u << stni_dim_from_front(dims->v[i], ndim);
    return mask;
}

const char *stni_shape_text(int ndim, const int64_t *shape, char text[STNI_SHAPE_TEXT])
{
    int at = snprintf(text, STNI_SHAPE_TEXT, "(");
    for (int d = 0; d < ndim; d++)
        at += snprintf(text + at, (size_t)(STNI_SHAPE_TEXT - at), "%s%" PRId64, d ? ", " : "", shape[d]);
    snprintf(text + at, (size_t)(STNI_SHAPE_TEXT - at), ")");
    return text;
}
