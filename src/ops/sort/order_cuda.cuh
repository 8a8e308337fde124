/* Keys and lines on a CUDA device. Kernels are not compiled for each dtype: that of an element is a branch which all
 * threads take alike. */
#ifndef STNI_OPS_SORT_ORDER_CUDA_CUH
#define STNI_OPS_SORT_ORDER_CUDA_CUH

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/sort/sort_key.h"

namespace {

constexpr uint32_t ORDERED_DTYPES = FLOATING_DTYPES | INTEGER_DTYPES | dtype_bit(STN_DTYPE_BOOL);

STNI_DEVICE uint64_t key_at(const stni_order &order, const void *data, int64_t at)
{
    const stni_sort_key_rule rule = stni_sort_rule_of(&order);
    uint64_t key = 0;
    switch (order.dtype) {
    case STN_DTYPE_F32: key = stni_sort_key_f32(static_cast<const float *>(data)[at], rule.nan); break;
    case STN_DTYPE_F64: key = stni_sort_key_f64(static_cast<const double *>(data)[at], rule.nan); break;
    case STN_DTYPE_BF16: key = stni_sort_key_f32(load(static_cast<const bf16 *>(data)[at]), rule.nan); break;
    case STN_DTYPE_F16: key = stni_sort_key_f32(load(static_cast<const f16 *>(data)[at]), rule.nan); break;
    case STN_DTYPE_I64: key = stni_sort_key_i64(static_cast<const int64_t *>(data)[at], rule.nan); break;
    case STN_DTYPE_I32: key = stni_sort_key_i32(static_cast<const int32_t *>(data)[at], rule.nan); break;
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL: key = stni_sort_key_u8(static_cast<const uint8_t *>(data)[at], rule.nan); break;
    case STN_DTYPE_I8: key = stni_sort_key_i8(static_cast<const int8_t *>(data)[at], rule.nan); break;
    case STN_DTYPE_I16: key = stni_sort_key_i32(static_cast<const int16_t *>(data)[at], rule.nan); break;
    case STN_DTYPE_C64:
    case STN_DTYPE_C128:
    case STN_DTYPE_COUNT: break;
    }
    return key ^ rule.flip;
}

/* Bytes of an element of an ordered dtype. */
STNI_HOST_DEVICE int size_of(stn_dtype dtype)
{
    if (dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16 || dtype == STN_DTYPE_I16)
        return 2;
    return stni_sort_key_bits(dtype) / 8;
}

/* An element of `size` bytes as bits, zeros above them. */
STNI_DEVICE uint64_t bits_at(const void *data, int64_t at, int size)
{
    switch (size) {
    case 1: return static_cast<const uint8_t *>(data)[at];
    case 2: return static_cast<const uint16_t *>(data)[at];
    case 4: return static_cast<const uint32_t *>(data)[at];
    default: return static_cast<const uint64_t *>(data)[at];
    }
}

STNI_DEVICE void put_bits(void *data, int64_t at, int size, uint64_t bits)
{
    switch (size) {
    case 1: static_cast<uint8_t *>(data)[at] = (uint8_t)bits; break;
    case 2: static_cast<uint16_t *>(data)[at] = (uint16_t)bits; break;
    case 4: static_cast<uint32_t *>(data)[at] = (uint32_t)bits; break;
    default: static_cast<uint64_t *>(data)[at] = bits; break;
    }
}

/* Where element i of a line lies from its beginning, and its index. */
struct line_element {
    int64_t at, index;
};

STNI_DEVICE line_element element_of(const stni_sort_lines &lines, int64_t i)
{
    line_element e = {0, lines.first};
    for (int d = lines.n_along - 1; d >= 0; d--) {
        const int64_t rest = d > 0 ? i / lines.along[d] : 0, here = i - rest * lines.along[d];
        e.at += here * lines.along_in[d];
        e.index += here * lines.along_index[d];
        i = rest;
    }
    return e;
}

/* Whole numbers, so that it does not matter in which order threads add to them. */
STNI_DEVICE void count_more(int64_t *count, int64_t n)
{
    atomicAdd(reinterpret_cast<unsigned long long *>(count), (unsigned long long)n);
}

/* How many of n elements come before one: those for which `is_before(i)` holds, which are the first ones. */
template <class F> STNI_DEVICE int64_t count_first(int64_t n, F is_before)
{
    int64_t low = 0;
    while (n > 0) {
        const int64_t half = n / 2;
        const bool before = is_before(low + half);
        low += before ? half + 1 : 0;
        n = before ? n - half - 1 : half;
    }
    return low;
}

}

#endif
