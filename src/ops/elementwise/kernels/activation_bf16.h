/* Activations of bf16 in one pass of the CPU: elements are widened, worked on and rounded in registers. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_ACTIVATION_BF16_H
#define STNI_OPS_ELEMENTWISE_KERNELS_ACTIVATION_BF16_H

#include "ops/elementwise/kernels/activation_bf16_functions.h"
#include "ops/elementwise/kernels/bf16.h"
#include "ops/elementwise/kernels/each_block.h"

#define T uint16_t
#define R float
#define BLOCK block_bf16
#define NUMBER(n) ((R)(n).f)

ROW_FUNCTION(gelu, v, in0, round_to_bf16(gelu_for_bf16(stni_bf16_to_f32(x))))

/* Those of stni_pointwise_is_narrow. */
static void BLOCK(const struct stni_pointwise_block *block)
{
    switch ((int)block->op) {
        ROW_CASE(gelu)
    }
}

#undef T
#undef R
#undef BLOCK
#undef NUMBER

#endif
