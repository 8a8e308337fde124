/* What functions.h is written in: the language's own complex numbers, constants, and products that keep their
 * rounding. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_FUNCTION_WORDS_H
#define STNI_OPS_ELEMENTWISE_KERNELS_FUNCTION_WORDS_H

#include "ops/cpu/math.h"
#include "ops/cpu/power.h"
#include "ops/cpu/power_f64.h"

#ifdef __cplusplus
#include "ops/elementwise/kernels/functions_cxx.h"
#else
#include "ops/elementwise/kernels/functions_c.h"
#endif

#include <stdint.h>

#define STNI_PI 3.14159265358979323846
#define STNI_LN2 0.69314718055994530942
#define STNI_RLN2 1.44269504088896340736    /* 1 / ln 2 */
#define STNI_RLN10 0.43429448190325182765   /* 1 / ln 10 */

/* Products keep their own rounding: gcc 12 makes fused multiply-adds of the pairs of a complex product even where
 * contraction is off, and then the bits would depend on the instruction set. */
#if defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_assoc_barrier)
#define ROUNDED(product) __builtin_assoc_barrier(product)
#endif
#endif
#ifndef ROUNDED
#define ROUNDED(product) (product)
#endif

#endif
