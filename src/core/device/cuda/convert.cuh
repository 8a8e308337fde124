/* Elements of any dtype as values of a compute type, and back, with the rules of ops/cpu/convert.h: from complex to
 * real the real part is taken; a floating value outside i64 gives the smallest i64; to bool x != 0; i64 to a narrower
 * integer keeps the low bits.
 *
 * A compute type is float, double, int64_t, truth or stni_complex of float or double. */
#ifndef STNI_CORE_DEVICE_CUDA_CONVERT_CUH
#define STNI_CORE_DEVICE_CUDA_CONVERT_CUH

#include "core/base/dtype.h"
#include "core/device/cuda/complex.cuh"
#include "core/device/cuda/elements.cuh"

namespace {

STNI_HOST_DEVICE int64_t whole_of(double value)
{
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

template <class T, class S> STNI_HOST_DEVICE T converted(S value)
{
    if constexpr (is_same<T, truth>)
        return value != 0;
    else if constexpr (is_complex<T> && is_complex<S>)
        return T((part_of<T>)value.re, (part_of<T>)value.im);
    else if constexpr (is_complex<T>)
        return T((part_of<T>)value);
    else if constexpr (is_complex<S>)
        return converted<T>(value.re);
    else if constexpr (is_same<T, int64_t> && is_floating<S>)
        return whole_of(value);
    else
        return (T)value;
}

/* Element `at` of `data`, whose elements are of `dtype`. */
template <class T> STNI_HOST_DEVICE T read_element(const void *data, stn_dtype dtype, int64_t at)
{
    switch (dtype) {
    case STN_DTYPE_F32: return converted<T>(static_cast<const float *>(data)[at]);
    case STN_DTYPE_F64: return converted<T>(static_cast<const double *>(data)[at]);
    case STN_DTYPE_BF16: return converted<T>(load(static_cast<const bf16 *>(data)[at]));
    case STN_DTYPE_F16: return converted<T>(load(static_cast<const f16 *>(data)[at]));
    case STN_DTYPE_I64: return converted<T>(static_cast<const int64_t *>(data)[at]);
    case STN_DTYPE_I32: return converted<T>((int64_t) static_cast<const int32_t *>(data)[at]);
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL: return converted<T>((int64_t) static_cast<const uint8_t *>(data)[at]);
    case STN_DTYPE_C64: return converted<T>(static_cast<const stni_complex<float> *>(data)[at]);
    case STN_DTYPE_C128: return converted<T>(static_cast<const stni_complex<double> *>(data)[at]);
    case STN_DTYPE_I8: return converted<T>((int64_t) static_cast<const int8_t *>(data)[at]);
    case STN_DTYPE_I16: return converted<T>((int64_t) static_cast<const int16_t *>(data)[at]);
    case STN_DTYPE_COUNT: break;
    }
    return T();
}

template <class T> STNI_HOST_DEVICE void write_element(void *data, stn_dtype dtype, int64_t at, T value)
{
    switch (dtype) {
    case STN_DTYPE_F32: static_cast<float *>(data)[at] = converted<float>(value); break;
    case STN_DTYPE_F64: static_cast<double *>(data)[at] = converted<double>(value); break;
    case STN_DTYPE_BF16: store(static_cast<bf16 *>(data)[at], converted<float>(value)); break;
    case STN_DTYPE_F16: store(static_cast<f16 *>(data)[at], converted<float>(value)); break;
    case STN_DTYPE_I64: static_cast<int64_t *>(data)[at] = converted<int64_t>(value); break;
    case STN_DTYPE_I32: static_cast<int32_t *>(data)[at] = (int32_t)converted<int64_t>(value); break;
    case STN_DTYPE_U8: static_cast<uint8_t *>(data)[at] = (uint8_t)converted<int64_t>(value); break;
    case STN_DTYPE_BOOL: static_cast<uint8_t *>(data)[at] = converted<truth>(value); break;
    case STN_DTYPE_C64: static_cast<stni_complex<float> *>(data)[at] = converted<stni_complex<float>>(value); break;
    case STN_DTYPE_C128: static_cast<stni_complex<double> *>(data)[at] = converted<stni_complex<double>>(value); break;
    case STN_DTYPE_I8: static_cast<int8_t *>(data)[at] = (int8_t)converted<int64_t>(value); break;
    case STN_DTYPE_I16: static_cast<int16_t *>(data)[at] = (int16_t)converted<int64_t>(value); break;
    case STN_DTYPE_COUNT: break;
    }
}

}

#endif
