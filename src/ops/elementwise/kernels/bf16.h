/* Rounding to bf16 in the blocks that read and write it themselves. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_BF16_H
#define STNI_OPS_ELEMENTWISE_KERNELS_BF16_H

#include "core/base/dtype.h"
#include "core/base/inline.h"

#include <stdint.h>
#include <string.h>

/* To nearest even. The lower half of a NaN that was bf16, or that arithmetic made of no NaN, is 0, so that it stays
 * one. */
STNI_INLINE uint16_t round_to_bf16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
