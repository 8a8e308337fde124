/* The kernels of logsumexp: one pass over the input, which keeps of each result the largest element so far and the
 * sum of exp(x - largest). Two such pairs are joined as two elements are, so that lanes, blocks and ranks may share
 * a result. */
#ifndef STNI_OPS_REDUCE_LOGSUMEXP_KERNEL_H
#define STNI_OPS_REDUCE_LOGSUMEXP_KERNEL_H

#include "core/base/inline.h"
#include "core/base/isa.h"
#include "ops/reduce/reduce_kernel.h"

/* forward: out = max + log sum, of elements that all are here.
 * parts:   largest = max, sum = the sum, of this rank's elements; -infinity and 0 where it has none.
 * scale:   sum becomes what it is about `max`, the largest of all ranks.
 * finish:  out = max + log sum.
 * `of`: input, result (dense, f64 for f64 and else f32) and the dims of both; its op counts for nothing. */
struct stni_logsumexp_args {
    struct stni_reduce_args of;
    int64_t count; /* results */
    double *largest, *max, *sum; /* one number per result, as these lie */
};

/* A sum about one largest element as that about another, for C, C++ and CUDA compilers. */
STNI_INLINE double stni_logsumexp_about(double sum, double own, double largest)
{
    return own == largest ? sum : sum * exp(own - largest);
}

stn_status stni_logsumexp_cpu(stn_queue *queue, const void *args);
stn_status stni_logsumexp_parts_cpu(stn_queue *queue, const void *args);
stn_status stni_logsumexp_scale_cpu(stn_queue *queue, const void *args);
stn_status stni_logsumexp_finish_cpu(stn_queue *queue, const void *args);

/* For the CPU's kernels, compiled once per instruction set: of dense elements of f32 or f64, which `max` has too. */
struct stni_logsumexp_rows {
    void (*clear)(void *max, double *sum, int64_t n);
    /* n elements join one pair. */
    void (*along)(const void *x, int64_t n, void *max, double *sum);
    /* Rows of n elements, `stride` elements from each other, join n pairs, at most STNI_LOGSUMEXP_LANES. */
    void (*across)(const void *x, int64_t rows, int64_t stride, int64_t n, void *max, double *sum);
    /* max + log sum, of the type of max; and both in f64. Those of a result are `step` apart from the next one's. */
    void (*finish)(void *out, int64_t step, const void *max, const double *sum, int64_t n);
    void (*keep)(double *largest, double *sums, int64_t step, const void *max, const double *sum, int64_t n);
};
struct stni_logsumexp_kernels {
    struct stni_logsumexp_rows f32, f64;
};
extern const struct stni_logsumexp_kernels stni_logsumexp_kernels_base, stni_logsumexp_kernels_avx2,
    stni_logsumexp_kernels_avx512;

enum { STNI_LOGSUMEXP_LANES = 256 };

#endif
