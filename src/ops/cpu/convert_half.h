/* Dense runs between f16 and f32 by the processor's own instructions, which compilers do not find in loops over single
 * elements. Both round alike, NaN included. A part of convert.c. */
#ifndef STNI_OPS_CPU_CONVERT_HALF_H
#define STNI_OPS_CPU_CONVERT_HALF_H

#include "core/box/box_half.h"

static inline void run_f16_to_f32(float *restrict to, const uint16_t *restrict from, int64_t n)
{
    int64_t k = 0;
    for (; k + WIDE <= n; k += WIDE)
        wide_put(to + k, load_f16(from + k));
    for (; k < n; k++)
        to[k] = stni_f16_to_f32(from[k]);
}

static inline void run_f32_to_f16(uint16_t *restrict to, const float *restrict from, int64_t n)
{
    int64_t k = 0;
    for (; k + WIDE <= n; k += WIDE)
        store_f16(to + k, wide_get(from + k));
    for (; k < n; k++)
        to[k] = stni_f32_to_f16(from[k]);
}

#endif
