/* Rows are lent step by step, from the largest distance to the smallest: of two ranks that meet, the one with more work
 * lends rows until both have the same, or all of them. Of causal attention on equal chunks, where rank r of p would
 * work on r + 1/2 of p chunks, each then works on p / 2. Source: Li et al. 2023, "DISTFLASHATTN", who lend whole
 * chunks. */
#include "ops/attention/attention_ring_balance.h"

/* Differences below this part of the mean are left. */
enum { FINE = 8 };

/* How many of some keys the first rows of a rank see, added up over these rows. Below 2^63 for two thousand million
 * rows and as many keys. */
static int64_t pairs(const struct stni_ring_rows *rows, int reader, int64_t key, int64_t n_keys, int64_t n_rows)
{
    if (!rows->is_causal)
        return n_rows * n_keys;
    /* Row i sees before + i + 1 keys, but none and all of them at its limits. */
    const int64_t before = rows->piece[reader].row - key, none = before < 0 ? -before : 0, all = n_keys - 1 - before;
    const int64_t from = none < n_rows ? none : n_rows, to = all < from ? from : all < n_rows ? all : n_rows;
    return (to - from) * (2 * before + from + to + 1) / 2 + (n_rows - to) * n_keys;
}

/* The same of the keys of a rank. */
static int64_t pairs_with(const struct stni_ring_rows *rows, int reader, int owner, int64_t n_rows)
{
    return pairs(rows, reader, rows->piece[owner].key, rows->piece[owner].n_keys, n_rows);
}

/* Whether a row of one rank sees a key of another. */
static int sees(const struct stni_ring_rows *rows, int reader, int owner)
{
    return pairs_with(rows, reader, owner, rows->piece[reader].n_rows) > 0;
}

/* The fewest first rows that see so many keys. */
static int64_t rows_of(const struct stni_ring_rows *rows, int reader, int owner, int64_t wanted)
{
    int64_t few = 0, enough = rows->piece[reader].n_rows;
    while (few < enough) {
        const int64_t middle = few + (enough - few) / 2;
        if (pairs_with(rows, reader, owner, middle) < wanted)
            few = middle + 1;
        else
            enough = middle;
    }
    return enough;
}

/* Every rank's rows meet all keys; gives the sum. */
static int64_t count_all(const struct stni_ring_rows *rows, int64_t *load)
{
    const struct stni_ring_piece *last = &rows->piece[rows->size - 1];
    int64_t sum = 0;
    for (int r = 0; r < rows->size; r++) {
        load[r] = pairs(rows, r, 0, last->key + last->n_keys, rows->piece[r].n_rows);
        sum += load[r];
    }
    return sum;
}

/* Rows that one rank lends another; their work is the other's from now on. */
static int64_t lend(const struct stni_ring_rows *rows, int reader, int owner, int64_t fine, int64_t *load)
{
    const int64_t more = load[reader] - load[owner], n_rows = rows->piece[reader].n_rows;
    if (more <= fine)
        return 0;
    const int64_t all = pairs_with(rows, reader, owner, n_rows), wanted = more / 2 < all ? more / 2 : all;
    if (wanted == 0)
        return 0;
    const int64_t lent = wanted == all ? n_rows : rows_of(rows, reader, owner, wanted);
    const int64_t moved = pairs_with(rows, reader, owner, lent);
    load[reader] -= moved;
    load[owner] += moved;
    return lent;
}

static void set_step(const struct stni_ring_rows *rows, int own, int t, struct stni_ring_step *step)
{
    const int size = rows->size, owner = (own + size - t) % size, reader = (own + t) % size;
    step->reads = step->lent < rows->piece[own].n_rows && sees(rows, own, owner);
    step->is_read = step->borrowed < rows->piece[reader].n_rows && sees(rows, reader, own);
}

void stni_ring_balance(const struct stni_ring_rows *rows, int own, int lends, int64_t *load,
                       struct stni_ring_step *steps)
{
    const int size = rows->size;
    const int64_t fine = lends ? count_all(rows, load) / size / FINE : 0;
    for (int t = size - 1; t >= 0; t--) {
        steps[t] = (struct stni_ring_step){0};
        for (int reader = 0; reader < size && lends && t > 0; reader++) {
            const int owner = (reader + size - t) % size;
            const int64_t lent = lend(rows, reader, owner, fine, load);
            steps[t].lent = reader == own ? lent : steps[t].lent;
            steps[t].borrowed = owner == own ? lent : steps[t].borrowed;
            steps[t].moves |= lent > 0;
        }
        set_step(rows, own, t, &steps[t]);
    }
}
