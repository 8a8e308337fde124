/* Exact sums over dims: arguments of the kernels that add up and that round, for C, C++ and CUDA compilers. */
#ifndef STNI_OPS_REDUCE_EXACT_SUM_KERNEL_H
#define STNI_OPS_REDUCE_EXACT_SUM_KERNEL_H

#include "core/box/exact.h"
#include "ops/reduce/reduce_kernel.h"

/* Sums are numbered as results lie in memory, which is dense: sum i is the stni_exact_words at sums + i *
 * stni_exact_words. What only the CPU's kernels know serves reproducible_sums, which other devices refuse. */
struct stni_exact_sum_args {
    struct stni_reduce_args of;
    stn_dtype dtype; /* whose numbers the sums hold: the input's, f64 for squares */
    int64_t *sums;
    int64_t count; /* of results */
    int squares;   /* CPU: squares are added, each rounded to f64 */
    int goes_on;   /* CPU: to what the sums hold already */
    int64_t step;  /* CPU: elements from one result to the next */
    /* of.divides, of.divisor and of.roots, CPU: what becomes of the rounded sum. */
};

stn_status stni_exact_sum_add_cpu(stn_queue *queue, const void *args);
stn_status stni_exact_sum_round_cpu(stn_queue *queue, const void *args);

#endif
