/* The kernel of routed rows (row_router.h tells what for), for the slots of the ops that use them. */
#ifndef STNI_OPS_EXCHANGE_ROW_ROUTER_KERNEL_H
#define STNI_OPS_EXCHANGE_ROW_ROUTER_KERNEL_H

#include "core/base/isa.h"

#include <shardtensor/op.h>

/* Which distinct rows are requested, and of which rank. A row outside 0 … n_rows - 1, one that no rank of the list has,
 * or one that is left out, gets slot -1; every other row gets its place in `unique`. */
struct stni_rows_plan_args {
    const int64_t *rows; /* n of them */
    int64_t n, n_rows;
    int64_t own_begin, own_end; /* of rows that are left out; on the CPU only, elsewhere both are 0 */
    int n_ranks;
    const int64_t *ranges; /* rank r has rows ranges[r] to ranges[n_ranks + r] - 1 */
    int64_t *work;   /* 4 n */
    int64_t *unique; /* n: rows, rank by rank, ascending within a rank's part */
    int64_t *slot;   /* n */
    int64_t *counts; /* n_ranks + 1: rows requested of each rank, then of all */
};

STNI_ISA_KERNEL(stni_rows_plan);

#endif
