/* Sums, products and quotients of bf16 in one pass of the CPU: elements are widened, worked on and rounded in
 * registers, with the bits that converting them to f32 first gives. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_ARITHMETIC_BF16_H
#define STNI_OPS_ELEMENTWISE_KERNELS_ARITHMETIC_BF16_H

#include "ops/elementwise/kernels/bf16.h"
#include "ops/elementwise/kernels/each_block.h"

#define T uint16_t
#define R float
#define BLOCK block_bf16
#define NUMBER(n) ((R)(n).f)
#define WIDE(x) stni_bf16_to_f32(x)

ROW_FUNCTION(add, v, in0, round_to_bf16(WIDE(x) + a * WIDE(y)))
ROW_FUNCTION(sub, v, in0, round_to_bf16(WIDE(x) - a * WIDE(y)))
ROW_FUNCTION(mul, v, in0, round_to_bf16(WIDE(x) * WIDE(y)))
ROW_FUNCTION(div, v, in0, round_to_bf16(WIDE(x) / WIDE(y)))

static void BLOCK(const struct stni_pointwise_block *block)
{
    switch ((int)block->op) { /* those of stni_pointwise_has_bf16_block */
        ROW_CASE(add)
        ROW_CASE(sub)
        ROW_CASE(mul)
        ROW_CASE(div)
    }
}

#undef T
#undef R
#undef BLOCK
#undef NUMBER
#undef WIDE

#endif
