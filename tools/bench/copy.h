/* The fastest plain copies and sums of rows that this program knows: what a redistribution is measured against. */
#ifndef BENCH_COPY_H
#define BENCH_COPY_H

#include <stddef.h>
#include <stdint.h>

/** Rows of floats: row i begins at i * stride. */
struct rows {
    float *to;
    const float *from, *plus; /* plus NULL: a copy; else the sum of both */
    int64_t n, length;        /* rows; floats of each */
    int64_t to_stride, from_stride;
};

typedef void (*rows_fn)(const struct rows *rows);

/** Ways to do it, NULL at the end: ordinary stores, and where the processor has them non-temporal ones. */
const rows_fn *rows_ways(void);
int rows_n_ways(void);

#endif
