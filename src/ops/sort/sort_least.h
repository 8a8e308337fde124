/* The smallest key of n elements, x[0], x[stride], …, without writing keys down: whether a block of a line holds
 * anything that comes before what was found already. n > 0. */
#ifndef STNI_OPS_SORT_SORT_LEAST_H
#define STNI_OPS_SORT_SORT_LEAST_H

#include "ops/sort/sort_kernel.h"

typedef uint64_t stni_sort_least_fn(const struct stni_order *order, const void *x, int64_t stride, int64_t n);

stni_sort_least_fn stni_sort_least_base, stni_sort_least_avx2, stni_sort_least_avx512;

#endif
