/* Planning of routed rows on the CPU. */
#include "ops/exchange/row_router_kernel.h"

#include <string.h>

/* A list of rows with the indices' positions that name them. */
struct asked {
    int64_t *row, *place;
};

enum { BLOCK = 256 };

/* Whether a row is to be routed: one that could be, and is not left out. */
static inline int is_routed(const struct stni_rows_plan_args *a, int64_t row)
{
    return (row >= 0) & (row < a->n_rows) & ((row < a->own_begin) | (row >= a->own_end));
}

/* A block whose rows are all left out, as nearly all are of a mesh whose cells have close neighbours, is passed over:
 * vectors tell. */
static int64_t collect(const struct stni_rows_plan_args *a, struct asked out)
{
    int64_t m = 0;
    for (int64_t first = 0; first < a->n; first += BLOCK) {
        const int64_t end = first + BLOCK < a->n ? first + BLOCK : a->n;
        int any = 0;
        for (int64_t i = first; i < end; i++) {
            any |= is_routed(a, a->rows[i]);
            a->slot[i] = -1;
        }
        for (int64_t i = first; i < end && any; i++) {
            out.row[m] = a->rows[i];
            out.place[m] = i;
            m += is_routed(a, a->rows[i]);
        }
    }
    return m;
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static void sort_digit(int64_t m, struct asked from, struct asked to, int shift)
{
    int64_t start[DIGITS] = {0}, sum = 0;
    for (int64_t k = 0; k < m; k++)
        start[from.row[k] >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        int64_t n = start[d];
        start[d] = sum;
        sum += n;
    }
    for (int64_t k = 0; k < m; k++) {
        int64_t to_k = start[from.row[k] >> shift & (DIGITS - 1)]++;
        to.row[to_k] = from.row[k];
        to.place[to_k] = from.place[k];
    }
}

/* Stable radix sort by row; `a` holds the result, `b` is scratch space. */
static void sort_asked(int64_t m, int64_t n_rows, struct asked *a, struct asked *b)
{
    for (int shift = 0; shift < 63 && (n_rows - 1) >> shift > 0; shift += DIGIT_BITS) {
        struct asked swap = *a;
        sort_digit(m, *a, *b, shift);
        *a = *b;
        *b = swap;
    }
}

/* First position of a row that is not below `row`. */
static int64_t lower_bound(int64_t n, const int64_t *rows, int64_t row)
{
    int64_t low = 0;
    while (n > 0) {
        int64_t half = n / 2;
        if (rows[low + half] < row) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

/* Lists the distinct rows rank by rank; sent[u] becomes the place of distinct row u in that list, -1 where no rank
 * has the row. */
static void list_by_rank(const struct stni_rows_plan_args *a, int64_t n_distinct, const int64_t *distinct,
                         int64_t *sent)
{
    int64_t total = 0;
    for (int64_t u = 0; u < n_distinct; u++)
        sent[u] = -1;
    for (int r = 0; r < a->n_ranks; r++) {
        int64_t begin = a->ranges[r], end = a->ranges[a->n_ranks + r];
        int64_t low = lower_bound(n_distinct, distinct, begin), high = lower_bound(n_distinct, distinct, end);
        a->counts[r] = high > low ? high - low : 0;
        for (int64_t u = low; u < high; u++) {
            a->unique[total] = distinct[u];
            sent[u] = total++;
        }
    }
    a->counts[a->n_ranks] = total;
}

/* Lists distinct rows in order, and replaces each row that was asked for by its number among them. */
static int64_t number_by_sort(const struct stni_rows_plan_args *a, int64_t m, struct asked *asked, struct asked *space)
{
    int64_t n_distinct = 0;
    sort_asked(m, a->n_rows, asked, space);
    for (int64_t k = 0, last = -1; k < m; k++) {
        const int64_t row = asked->row[k];
        if (row != last)
            space->row[n_distinct++] = row;
        asked->row[k] = n_distinct - 1;
        last = row;
    }
    return n_distinct;
}

/* 64 rows: which of them are asked for, and how many are of the words before. */
struct marks {
    uint64_t rows;
    int64_t before;
};

/* The same with a bit per row, where these are few beside what was asked for: nothing is moved. */
static int64_t number_by_marks(int64_t m, const struct asked *asked, struct marks *marks, int64_t n_words,
                               int64_t *distinct)
{
    int64_t n_distinct = 0;
    memset(marks, 0, (size_t)n_words * sizeof *marks);
    for (int64_t k = 0; k < m; k++)
        marks[asked->row[k] >> 6].rows |= UINT64_C(1) << (asked->row[k] & 63);
    for (int64_t w = 0; w < n_words; w++) {
        marks[w].before = n_distinct;
        for (uint64_t rest = marks[w].rows; rest != 0; rest &= rest - 1)
            distinct[n_distinct++] = w * 64 + __builtin_ctzll(rest);
    }
    for (int64_t k = 0; k < m; k++) {
        const struct marks at = marks[asked->row[k] >> 6];
        const uint64_t below = (UINT64_C(1) << (asked->row[k] & 63)) - 1;
        asked->row[k] = at.before + __builtin_popcountll(at.rows & below);
    }
    return n_distinct;
}

stn_status STNI_ISA_NAME(stni_rows_plan)(stn_queue *queue, const void *args)
{
    const struct stni_rows_plan_args *a = args;
    const int64_t n = a->n, n_words = a->n_rows / 64 + 1;
    struct asked asked = {a->work, a->work + n}, space = {a->work + 2 * n, a->work + 3 * n};
    int64_t n_distinct;
    (void)queue;
    const int64_t m = collect(a, asked);
    if (2 * n_words <= m)
        n_distinct = number_by_marks(m, &asked, (struct marks *)space.place, n_words, space.row);
    else
        n_distinct = number_by_sort(a, m, &asked, &space);
    list_by_rank(a, n_distinct, space.row, space.place);
    for (int64_t k = 0; k < m; k++)
        a->slot[asked.place[k]] = space.place[asked.row[k]];
    return STN_OK;
}
