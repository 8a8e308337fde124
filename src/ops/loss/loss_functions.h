/* What the rows of losses are written in (loss_kernel.h), for C, C++ and CUDA compilers: functions of a type T, by
 * LOG, LOG1P, LOG1P_UNIT, EXP and SIGMOID, which whoever uses a row defines. */
#ifndef STNI_OPS_LOSS_LOSS_FUNCTIONS_H
#define STNI_OPS_LOSS_LOSS_FUNCTIONS_H

#include "ops/loss/loss_kernel.h"

/* Of x, y and z. */
#define STNI_LOSS_LOCALS                                                                    \
    const T d = x - y, a = d < 0 ? -d : d, one = (T)(d > 0) - (T)(d < 0);                   \
    (void)z, (void)a, (void)one

/* NaN stays. */
#define CLAMPED(v) ((v) < -100 ? -100 : (v))
#define VARIANCE(v) ((v) * (1 - (v)) < (T)1e-12 ? (T)1e-12 : (v) * (1 - (v)))
#define LEAST(v) ((v) < p ? p : (v))
#define SOFTPLUS(v) (((v) > 0 ? (v) : 0) + LOG1P_UNIT(EXP((v) > 80 ? -80 : (v) > 0 ? -(v) : (v))))

/* What counts where q is not 0 alone: it may be infinite. */
#define FULL(v) (q == 0 ? 0 : (v))

/* log y! by Stirling's formula, where y is more than 1. */
#define STIRLING(v) ((v) > 1 ? (v) * LOG(v) - (v) + LOG((T)6.283185307179586477 * (v)) / 2 : 0)
#define STIRLING_SLOPE(v) ((v) > 1 ? LOG(v) + 1 / (2 * (v)) : 0)
#define STIRLING_BEND(v) ((v) > 1 ? (1 - 1 / (2 * (v))) / (v) : 0)

#endif
