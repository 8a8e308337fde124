/* item: a single element as a number. */
#include "core/base/dtype.h"
#include "core/redistribute/redistribute.h"
#include "ops/redistribute/action.h"

#include <math.h>
#include <stdint.h>

static double real_part(stn_dtype dtype, const void *data)
{
    switch (dtype) {
    case STN_DTYPE_F32:
    case STN_DTYPE_C64:
        return (double)*(const float *)data;
    case STN_DTYPE_F64:
    case STN_DTYPE_C128:
        return *(const double *)data;
    case STN_DTYPE_BF16:
        return (double)stni_bf16_to_f32(*(const uint16_t *)data);
    case STN_DTYPE_F16:
        return (double)stni_f16_to_f32(*(const uint16_t *)data);
    case STN_DTYPE_I64:
        return (double)*(const int64_t *)data;
    case STN_DTYPE_I32:
        return (double)*(const int32_t *)data;
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL:
        return (double)*(const uint8_t *)data;
    case STN_DTYPE_I8:
        return (double)*(const int8_t *)data;
    case STN_DTYPE_I16:
        return (double)*(const int16_t *)data;
    case STN_DTYPE_COUNT:
        break;
    }
    return NAN;
}

static stn_status replicated_spec(const stn_spec *spec, const stn_spec **out)
{
    struct stni_layout layout = spec->layout;
    for (int a = 0; layout.mesh && a < layout.mesh->ndim; a++)
        layout.placement[a] = stn_replicate();
    return stni_spec_intern(spec->context, &layout, out);
}

static stn_status item(stn_tensor *tensor, double *value)
{
    const stn_spec *spec = tensor->spec;
    stn_tensor *whole;
    _Alignas(16) unsigned char bytes[16];
    if (spec->numel != 1)
        return stni_fail(tensor->context, STN_ERR_SHAPE, "item: tensor has %lld elements, wanted 1",
                         (long long)spec->numel);
    STNI_TRY(replicated_spec(spec, &spec));
    STNI_TRY(stni_redistribute(tensor, spec, &whole));
    double got = NAN; /* where nothing of the tensor is */
    stn_status status = STN_OK;
    if (spec->local_numel == 1)
        status = stn_to_host(whole, bytes, stn_dtype_size(spec->layout.dtype));
    if (status == STN_OK && spec->local_numel == 1)
        got = real_part(spec->layout.dtype, bytes);
    stni_tensor_drop(&whole);
    if (status == STN_OK)
        *value = got;
    return status;
}

stn_status stn_item(stn_tensor *tensor, double *value)
{
    if (value)
        *value = NAN;
    STNI_TRY(stni_action_begin_on(tensor, "item: tensor"));
    stn_context *context = tensor->context;
    return stni_action_end(context,
                           value ? item(tensor, value) : stni_fail(context, STN_ERR_ARGUMENT, "item: value got NULL"));
}
