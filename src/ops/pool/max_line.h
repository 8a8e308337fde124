/* Lines of maxima of any type that elements are compared in. A part of max_cpu.c. */
#ifndef STNI_OPS_POOL_MAX_LINE_H
#define STNI_OPS_POOL_MAX_LINE_H

#include "core/base/isa.h"
#include "ops/cpu/nontemporal_blocks.h"
#include "ops/pool/max_kernel.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

/* Targets whose columns are compared at a time; elements that loops without a remainder take at once. */
enum { BLOCK = 256, LANES = STNI_MAX_LANES };

INLINE int nan_f32(float x) { return x != x; }
INLINE int nan_f64(double x) { return x != x; }
INLINE int nan_never(int64_t x) { return (void)x, 0; }
#define IS_NAN(x) _Generic((x), float: nan_f32, double: nan_f64, default: nan_never)(x)
#define LEAST(x) _Generic((x), float: -INFINITY, double: -INFINITY, int64_t: INT64_MIN, int32_t: INT32_MIN, uint8_t: 0)

/* Maxima so far, elementwise, and in which row each was met; NULL: not wanted. Of parted lines `best` has the even
 * columns, `odd` the others; else that is NULL. */
struct line {
    void *best, *odd;
    int32_t *row;
};

#endif
