/* Rows of a table that a mask names. Each rank finds those of its own rows, whose number is told to all; the result has
 * them in their order, those of one rank side by side on that rank: no element moves. */
#ifndef STNI_OPS_INDEX_NAMED_H
#define STNI_OPS_INDEX_NAMED_H

#include "core/tensor/tensor.h"

struct stni_named {
    stn_tensor *rows;    /* the table, whose dims that the mask has are one dim */
    stn_tensor *numbers; /* which of them are named, in order, i64: each rank has the numbers of its own rows */
    int outside;         /* 1: this rank is not of the table's mesh, so that it counts one row, which it has not */
};

/* The mask, a bool tensor, stands for the table's first dims. Rows stay where they are; where no axis cuts them they
 * are cut as the mask is, and pending reductions are done. Collective over the table's mesh where rows are cut: one
 * all-gather of a number from each rank. The host waits. What it makes belongs to the innermost scope. */
stn_status stni_named_find(stn_tensor *table, stn_tensor *mask, struct stni_named *out);

/* The named rows. */
stn_tensor *stni_named_read(const struct stni_named *named);

/* The rows, of which the named ones are replaced by `values`, or with `accumulate` get them added. `values` has as many
 * rows, in any layout. */
stn_tensor *stni_named_write(const struct stni_named *named, stn_tensor *values, int accumulate);

int64_t stni_named_count(const struct stni_named *named);

#endif
