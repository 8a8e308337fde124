/* Elements of any dtype as complex doubles, and random numbers, for tests that compare with a plain loop. */
#ifndef SHARDTENSOR_TESTS_OPS_ELEMENTS_H
#define SHARDTENSOR_TESTS_OPS_ELEMENTS_H

#include "core/base/dtype.h"

#include <complex.h>
#include <stdint.h>

static inline double _Complex element_get(stn_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case STN_DTYPE_F32: return ((const float *)data)[i];
    case STN_DTYPE_F64: return ((const double *)data)[i];
    case STN_DTYPE_BF16: return stni_bf16_to_f32(((const uint16_t *)data)[i]);
    case STN_DTYPE_F16: return stni_f16_to_f32(((const uint16_t *)data)[i]);
    case STN_DTYPE_I64: return (double)((const int64_t *)data)[i];
    case STN_DTYPE_I32: return ((const int32_t *)data)[i];
    case STN_DTYPE_U8: return ((const uint8_t *)data)[i];
    case STN_DTYPE_BOOL: return ((const uint8_t *)data)[i];
    case STN_DTYPE_C64: return ((const float _Complex *)data)[i];
    case STN_DTYPE_C128: return ((const double _Complex *)data)[i];
    case STN_DTYPE_I8: return ((const int8_t *)data)[i];
    case STN_DTYPE_I16: return ((const int16_t *)data)[i];
    case STN_DTYPE_COUNT: break;
    }
    return 0;
}

static inline void element_set(stn_dtype dtype, void *data, int64_t i, double _Complex value)
{
    double re = creal(value);
    switch (dtype) {
    case STN_DTYPE_F32: ((float *)data)[i] = (float)re; break;
    case STN_DTYPE_F64: ((double *)data)[i] = re; break;
    case STN_DTYPE_BF16: ((uint16_t *)data)[i] = stni_f32_to_bf16((float)re); break;
    case STN_DTYPE_F16: ((uint16_t *)data)[i] = stni_f32_to_f16((float)re); break;
    case STN_DTYPE_I64: ((int64_t *)data)[i] = (int64_t)re; break;
    case STN_DTYPE_I32: ((int32_t *)data)[i] = (int32_t)re; break;
    case STN_DTYPE_U8: ((uint8_t *)data)[i] = (uint8_t)(int64_t)re; break;
    case STN_DTYPE_BOOL: ((uint8_t *)data)[i] = value != 0; break;
    case STN_DTYPE_C64: ((float _Complex *)data)[i] = (float _Complex)value; break;
    case STN_DTYPE_C128: ((double _Complex *)data)[i] = value; break;
    case STN_DTYPE_I8: ((int8_t *)data)[i] = (int8_t)(int64_t)re; break;
    case STN_DTYPE_I16: ((int16_t *)data)[i] = (int16_t)(int64_t)re; break;
    case STN_DTYPE_COUNT: break;
    }
}

/* A generator in the caller's hands. */
static inline uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dull >> 11;
}

/* 0 <= result < n */
static inline int64_t draw_below(uint64_t *state, int64_t n)
{
    return (int64_t)(draw(state) % (uint64_t)n);
}

/* A small whole number that the dtype holds, with an imaginary part where it has one: sums and products of a few are
 * exact everywhere. */
static inline double _Complex element_draw(stn_dtype dtype, uint64_t *state)
{
    double re = (double)draw_below(state, 9), im = (double)(draw_below(state, 9) - 4);
    if (dtype == STN_DTYPE_BOOL)
        return draw_below(state, 2) ? 1 : 0;
    if (dtype == STN_DTYPE_U8)
        return re;
    return stni_dtype_is_complex(dtype) ? re - 4 + im * I : re - 4;
}

#endif
