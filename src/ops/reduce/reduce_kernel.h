/* The kernel of reductions that combine elements one by one: any set of dims of a strided input of any dtype. */
#ifndef STNI_OPS_REDUCE_REDUCE_KERNEL_H
#define STNI_OPS_REDUCE_REDUCE_KERNEL_H

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

#include "core/base/isa.h"

#include <math.h>

/* Reductions, one row each: the accumulator's type, what nothing gives, as a floating number and as an integer, what
 * of a real element v joins, and how that joins what was accumulated in p, of real and of complex numbers; what was
 * accumulated of two parts is joined alike. WIDE is f64, i64 or c128, so that a long sum of f32 is as exact as its
 * result can be; OWN, of what is one of the elements or a truth, is the type in which the elements compute. NaN
 * wins. Rows that need an order are never used with dtypes that have none, nor rows of squares with complex numbers.
 * Elements that are not 0 are counted before they join. */
/*    name     accumulator floating   integer    element  real                     complex */
#define STNI_REDUCTION_LIST(X)                                                                        \
    X(sum,     WIDE,       0,         0,         v,       p + v,                   p + v)             \
    X(prod,    WIDE,       1,         1,         v,       p * v,                   p * v)             \
    X(squares, WIDE,       0,         0,         v * v,   p + v,                   p)                 \
    X(nonzero, WIDE,       0,         0,         v,       p + v,                   p + v)             \
    X(amax,    OWN,        -INFINITY, LOWEST,    v,       v > p || v != v ? v : p, p)                 \
    X(amin,    OWN,        INFINITY,  HIGHEST,   v,       v < p || v != v ? v : p, p)                 \
    X(any,     OWN,        0,         0,         v,       v != 0 ? 1 : p,          v != 0 ? 1 : p)    \
    X(all,     OWN,        1,         1,         v,       v == 0 ? 0 : p,          v == 0 ? 0 : p)

#define STNI_REDUCTION_INDEX(name, accumulator, floating, integer, element, real, complex) STNI_REDUCTION_##name,
enum stni_reduction { STNI_REDUCTION_LIST(STNI_REDUCTION_INDEX) STNI_REDUCTION_COUNT };
#undef STNI_REDUCTION_INDEX

enum {
    STNI_REDUCE_LANES = 4096, /* accumulators at once, at most */
    STNI_REDUCE_RUN = 128     /* bytes of those that stay in registers */
};

/* Strides in elements; dims sorted by the input's, largest first, and merged where they are one. No kept dim has
 * size 0. */
struct stni_reduce_args {
    enum stni_reduction op;
    stn_dtype in_dtype, out_dtype;
    const void *in;
    void *out;
    int n_kept, n_reduced;
    int64_t kept[STN_MAX_NDIM], kept_in[STN_MAX_NDIM], kept_out[STN_MAX_NDIM];
    int64_t reduced[STN_MAX_NDIM], reduced_in[STN_MAX_NDIM];
    int empty; /* nothing is reduced: the result is the identity */
    int divides; /* floating and complex: results are divided by */
    int64_t divisor;
    int roots; /* floating: square roots of results are taken */
    void *workspace; /* as many bytes as the kernel asks for */
};

stn_status stni_reduce_cpu(stn_queue *queue, const void *args);

/* For the CPU's kernel, compiled once per instruction set. */
struct stni_reduction_kernels {
    /* Row after row: acc[i] = combined(acc[i], x[r * row_stride + i * stride]), 0 <= i < n. */
    void (*accumulate[STN_DTYPE_COUNT])(enum stni_reduction op, void *acc, const void *x, int64_t rows,
                                        int64_t row_stride, int64_t n, int64_t stride);
    /* Four streams of n elements each, `apart` elements from each other, join STNI_REDUCE_RUN bytes of accumulators.
     * These divide n, which is 2^20 at most; a stream's runs of as many elements are `step` elements from one to the
     * next. NULL: there is no such kernel. */
    void (*along[STN_DTYPE_COUNT])(enum stni_reduction op, void *acc, const void *x, int64_t apart, int64_t step,
                                   int64_t n);
    /* By the accumulator's dtype: n identities; and `groups` groups of `width` accumulators combined into the first,
     * in halves. */
    void (*clear[STN_DTYPE_COUNT])(enum stni_reduction op, void *acc, int64_t n);
    void (*fold[STN_DTYPE_COUNT])(enum stni_reduction op, void *acc, int64_t groups, int64_t width);
};

extern const struct stni_reduction_kernels stni_reduction_kernels_base, stni_reduction_kernels_avx2,
    stni_reduction_kernels_avx512;

#endif
