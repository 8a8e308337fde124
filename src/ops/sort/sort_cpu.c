/* Lines in order, on the CPU: insertion for short ones, else by the digits of keys, the last one first, which keeps
 * the order of equals (Knuth, TAOCP 3, section 5.2.5). And runs in order, merged. */
#include "ops/sort/sort_line.h"

#include <shardtensor/dtype.h>

enum { SHORT_LINE = 24 };

#define KEY_T uint32_t
#define PLACE_T uint32_t
#define NAME(x) x##_small
#include "ops/sort/sort_tmpl.h"

#define KEY_T uint64_t
#define PLACE_T int64_t
#define NAME(x) x##_large
#include "ops/sort/sort_tmpl.h"

static int is_small(stn_dtype dtype, int64_t n)
{
    return stni_sort_key_bits(dtype) <= 32 && n <= UINT32_MAX;
}

size_t stni_sort_sort_workspace(stn_queue *queue, const void *args)
{
    const struct stni_sort_sort_args *a = args;
    const int64_t n = a->lines.n;
    (void)queue;
    return 2 * (size_t)n * (is_small(a->order.dtype, n) ? sizeof(struct entry_small) : sizeof(struct entry_large));
}

stn_status stni_sort_sort_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_sort_args *a = args;
    (void)queue;
    if (is_small(a->order.dtype, a->lines.n))
        sort_lines_small(a);
    else
        sort_lines_large(a);
    return STN_OK;
}

/* Runs with elements left, the one whose next comes first at the root. Of equals it is that of the lowest piece. */
static int comes_first(const struct stni_sort_run *a, const struct stni_sort_run *b)
{
    return a->key < b->key || (a->key == b->key && a->piece < b->piece);
}

static void sink(struct stni_sort_run *runs, int n, int i)
{
    for (int child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
        if (child + 1 < n && comes_first(&runs[child + 1], &runs[child]))
            child++;
        if (!comes_first(&runs[child], &runs[i]))
            return;
        struct stni_sort_run held = runs[i];
        runs[i] = runs[child];
        runs[child] = held;
    }
}

static uint64_t key_at(const struct stni_sort_runs_args *a, int64_t at)
{
    uint64_t key;
    stni_sort_keys(&a->order, (const char *)a->in + at * (int64_t)stn_dtype_size(a->order.dtype), 1, 1, &key);
    return key;
}

/* The runs lie in the order of their pieces. Returns how many have elements. */
static int begin_runs(const struct stni_sort_runs_args *a)
{
    int n = 0;
    int64_t at = 0;
    for (int piece = 0; piece < a->n_pieces; piece++)
        for (int r = 0; r < a->n_pieces; r++) {
            if (a->pieces[r] != piece || a->counts[r] == 0)
                continue;
            a->runs[n++] = (struct stni_sort_run){key_at(a, at), at, at + a->counts[r], piece};
            at += a->counts[r];
        }
    for (int i = n / 2 - 1; i >= 0; i--)
        sink(a->runs, n, i);
    return n;
}

stn_status stni_sort_runs_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_runs_args *a = args;
    const size_t size = stn_dtype_size(a->order.dtype);
    struct stni_sort_run *first = a->runs;
    int left = begin_runs(a);
    (void)queue;
    for (int64_t i = 0; left > 0; i++) {
        stni_sort_store(a->values, i, size, stni_sort_load(a->in, first->at, size));
        a->indices[i] = a->in_indices[first->at];
        if (++first->at == first->end)
            *first = a->runs[--left];
        else
            first->key = key_at(a, first->at);
        sink(a->runs, left, 0);
    }
    return STN_OK;
}
