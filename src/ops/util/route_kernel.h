/* Kernels of routed rows (route.h tells what for), shared by every device and by the ops that list them in their slots. */
#ifndef STNI_OPS_UTIL_ROUTE_KERNEL_H
#define STNI_OPS_UTIL_ROUTE_KERNEL_H

#include <shardtensor/op.h>

/* n rows of `width` elements, in row-major order of the dims that count them. Strides and step in elements. */
struct stni_rows {
    void *data;
    int64_t n, width, step;
    int ndim;
    int64_t shape[STN_MAX_NDIM], strides[STN_MAX_NDIM];
};

/* Steps through rows in order: where a row begins, in elements. */
struct stni_rows_cursor {
    int64_t at, index[STN_MAX_NDIM];
};

static inline void stni_rows_advance(struct stni_rows_cursor *c, const struct stni_rows *rows)
{
    for (int d = rows->ndim - 1; d >= 0; d--) {
        c->at += rows->strides[d];
        if (++c->index[d] < rows->shape[d])
            return;
        c->at -= rows->shape[d] * rows->strides[d];
        c->index[d] = 0;
    }
}

/* Where a bad index is reported: stni_value_error "what: index I at (…) is outside 0 … n - 1". context NULL: nowhere. */
struct stni_rows_report {
    stn_context *context;
    const char *what;
    int64_t offset[STN_MAX_NDIM]; /* of the chunk of indices in the whole */
};

/* Which distinct rows are asked for, from whom. An index outside 0 … n_rows - 1, the one to `skip`, and those of rows that no rank of the
 * list has get slot -1; every other one the place of its row in `unique`. */
struct stni_rows_plan_args {
    struct stni_rows index; /* width 1 */
    stn_dtype index_dtype;  /* I64 or I32 */
    int64_t n_rows, skip;   /* skip -1: none */
    int n_ranks;
    const int64_t *ranges; /* rank r has rows ranges[r] to ranges[n_ranks + r] - 1; NULL: `range`, of one rank */
    int64_t range[2];
    int64_t *work;   /* 4 n */
    int64_t *unique; /* n: rows, rank by rank, ascending within a rank's part of its range */
    int64_t *slot;   /* n */
    int64_t *counts; /* n_ranks + 1: rows asked of each rank, then all of them */
    struct stni_rows_report report;
};

stn_status stni_rows_plan_cpu(stn_queue *queue, const void *args);

#endif
