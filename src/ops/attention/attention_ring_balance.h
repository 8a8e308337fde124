/* Which rank of a ring works on which rows: pure. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_RING_BALANCE_H
#define STNI_OPS_ATTENTION_ATTENTION_RING_BALANCE_H

#include <stdint.h>

/* What a rank of the ring has: query rows and key rows, as numbers of the whole. */
struct stni_ring_piece {
    int64_t row, n_rows, key, n_keys;
};

struct stni_ring_rows {
    int size;
    const struct stni_ring_piece *piece; /* of each rank */
    int is_causal;                       /* a row sees the keys up to its own number */
};

/* A rank's part in step t, in which it meets the keys of the t-th rank before it, and its own keys meet the rows of the
 * t-th rank behind it, counted around. Rows that are lent are worked on by the owner of the keys: they are the first
 * ones. */
struct stni_ring_step {
    int64_t lent, borrowed;
    int reads, is_read; /* whether keys and values come to the rows that are not lent, and go to those not borrowed */
    int moves;          /* whether any rank of the ring lends rows */
};

/* The steps of one rank, 0 to size - 1. `lends`: work moves from ranks with much to ranks with less; else each rank
 * works on its own rows. `load`: room for a number of each rank. */
void stni_ring_balance(const struct stni_ring_rows *rows, int own, int lends, int64_t *load,
                       struct stni_ring_step *steps);

#endif
