/* Numbers within bounds. */
#ifndef STNI_CORE_BASE_CLAMP_H
#define STNI_CORE_BASE_CLAMP_H

#include "core/base/inline.h"

#include <stdint.h>

/* The number nearest to x of low … high. */
STNI_INLINE int64_t stni_clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x < high ? x : high;
}

#endif
