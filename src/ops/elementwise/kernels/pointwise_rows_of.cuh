/* The rows of pointwise_rows.cuh for operands that lie in memory as elements of a dtype. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_ROWS_OF_CUH
#define STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_ROWS_OF_CUH

#include "core/device/cuda/elements.cuh"
#include "ops/elementwise/kernels/activation_bf16_functions.h"
#include "ops/elementwise/kernels/pointwise_rows.cuh"

namespace {

/* Where operands and result are elements of S: of bf16 the rows that are narrow have their own formulas. */
template <int OP, class S, class T> STNI_KERNEL_INLINE T row_value_in(const row_operands<T> &in)
{
    if constexpr (is_same<S, bf16> && OP == STNI_POINTWISE_gelu)
        return gelu_for_bf16(in.x);
    else
        return row_value<OP, T>(in);
}

}

#endif
