/* Every pointwise op that a kernel knows: the lists of arithmetic by theme, and their rows as one enum. */
#ifndef STNI_OPS_ELEMENTWISE_POINTWISE_OP_H
#define STNI_OPS_ELEMENTWISE_POINTWISE_OP_H

#include "ops/elementwise/kernels/activation.h"
#include "ops/elementwise/kernels/arithmetic.h"
#include "ops/elementwise/kernels/comparison.h"
#include "ops/elementwise/kernels/exponential.h"
#include "ops/elementwise/kernels/trigonometry.h"

#define STNI_POINTWISE_ROW(op, ...) STNI_POINTWISE_##op,
#define STNI_POINTWISE_UNARY(op, ...) STNI_POINTWISE_##op, STNI_POINTWISE_##op##_backward, STNI_POINTWISE_##op##_double_backward,
enum stni_pointwise_op {
    STNI_ARITHMETIC_LIST(STNI_POINTWISE_ROW)
    STNI_COMPARISON_LIST(STNI_POINTWISE_ROW)
    STNI_EXPONENTIAL_LIST(STNI_POINTWISE_UNARY)
    STNI_TRIGONOMETRY_LIST(STNI_POINTWISE_UNARY)
    STNI_ACTIVATION_LIST(STNI_POINTWISE_UNARY)
    STNI_POINTWISE_COUNT
};
#undef STNI_POINTWISE_ROW
#undef STNI_POINTWISE_UNARY

#endif
