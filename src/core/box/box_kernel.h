/* Copying and combining memory, once per instruction set (isa.h). Strides are in bytes. */
#ifndef STNI_CORE_BOX_BOX_KERNEL_H
#define STNI_CORE_BOX_BOX_KERNEL_H

#include "core/base/isa.h"

#include <shardtensor/comm.h>

#include <stddef.h>

/* Sizes of elements: 1 << log2 bytes. */
enum { STNI_BOX_SIZES = 5 };

/* Rows that begin at multiples of STNI_CACHE_WAY bytes share their places in the first cache, and more of them than
 * STNI_CACHE_WAYS drive each other out: where they are written bit by bit, no more are at once. */
enum { STNI_CACHE_WAY = 4096, STNI_CACHE_WAYS = 8 };

/* `n` single elements. */
typedef void (*stni_elements_fn)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n);

/* dst[j, i] = src[i, j] for i < n, j < m: i is dense in dst, j in src; `streamed`: by non-temporal stores where
 * lines are aligned; else `ahead`: how far ahead src is prefetched, bytes; 0: not at all. */
typedef void (*stni_transpose_fn)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n,
                                  int64_t m, int streamed, int64_t ahead);

struct stni_copy_kernels {
    /* One piece by non-temporal stores. Any alignment. */
    void (*stream)(char *dst, const char *src, int64_t bytes);
    /* `n` runs of `bytes` each. */
    void (*runs)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, int64_t bytes);
    void (*runs_streamed)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, int64_t bytes);
    stni_elements_fn elements[STNI_BOX_SIZES];
    stni_transpose_fn transpose[STNI_BOX_SIZES];
    void (*fence)(void); /* after non-temporal stores, before anyone reads */
};

extern const struct stni_copy_kernels stni_copy_kernels_base, stni_copy_kernels_avx2, stni_copy_kernels_avx512;

/* SUM serves AVG too: `finish` divides. */
enum stni_combine { STNI_COMBINE_SUM, STNI_COMBINE_PROD, STNI_COMBINE_MIN, STNI_COMBINE_MAX, STNI_COMBINE_COUNT };

/* Combining dense pieces of one dtype in its accumulators: f32 for 16-bit floats, in an order of their own and with
 * space for a multiple of 16; else the dtype itself. */
struct stni_box_reduce_kernels {
    int64_t accumulator_size; /* bytes */
    void (*first[STNI_COMBINE_COUNT])(void *acc, const void *a, const void *b, int64_t n); /* acc = a op b */
    void (*next[STNI_COMBINE_COUNT])(void *acc, const void *b, int64_t n);             /* acc = acc op b */
    /* out = acc / divisor. NULL for 16-bit floats. `out` may be `acc`. */
    void (*finish)(void *out, const void *acc, int64_t n, int64_t divisor);
    /* 16-bit floats, else NULL: out = (a op b) / divisor, and out = (acc op b) / divisor. */
    void (*pair[STNI_COMBINE_COUNT])(void *out, const void *a, const void *b, int64_t n, int64_t divisor);
    void (*last[STNI_COMBINE_COUNT])(void *out, const void *acc, const void *b, int64_t n, int64_t divisor);
    /* out = a + b by non-temporal stores. NULL but for f32 and f64. */
    void (*sum_streamed)(void *out, const void *a, const void *b, int64_t n);
};

/* Entry per dtype; functions that a dtype lacks are NULL. */
struct stni_reduce_table {
    struct stni_box_reduce_kernels dtype[STN_DTYPE_COUNT];
};

extern const struct stni_reduce_table stni_reduce_table_base, stni_reduce_table_avx2, stni_reduce_table_avx512;

#endif
