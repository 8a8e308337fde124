/* Planning of routed rows on the CPU. */
#include "ops/exchange/row_router_kernel.h"

/* A list of rows with the indices' positions that name them. */
struct asked {
    int64_t *row, *place;
};

static int64_t collect(const struct stni_rows_plan_args *a, struct asked out)
{
    int64_t m = 0;
    for (int64_t i = 0; i < a->n; i++) {
        int64_t row = a->rows[i];
        a->slot[i] = -1;
        if (row < 0 || row >= a->n_rows)
            continue;
        out.row[m] = row;
        out.place[m++] = i;
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
static void list_by_rank(const struct stni_rows_plan_args *a, int64_t n_distinct, const int64_t *distinct, int64_t *sent)
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

stn_status stni_rows_plan_cpu(stn_queue *queue, const void *args)
{
    const struct stni_rows_plan_args *a = args;
    int64_t n = a->n, n_distinct = 0;
    struct asked asked = {a->work, a->work + n}, space = {a->work + 2 * n, a->work + 3 * n};
    (void)queue;
    int64_t m = collect(a, asked);
    sort_asked(m, a->n_rows, &asked, &space);
    for (int64_t k = 0; k < m; k++)
        if (k == 0 || asked.row[k] != asked.row[k - 1])
            space.row[n_distinct++] = asked.row[k];
    list_by_rank(a, n_distinct, space.row, space.place);
    for (int64_t k = 0, u = -1; k < m; k++) {
        u += k == 0 || asked.row[k] != asked.row[k - 1];
        a->slot[asked.place[k]] = space.place[u];
    }
    return STN_OK;
}
