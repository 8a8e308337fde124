/* Elements at their indices' places along a dim, and back, on the CPU. */
#include "ops/sort/sort_line.h"

#include <string.h>

typedef void (*move_fn)(const struct stni_sort_along_args *args, int64_t whole, int64_t part);

static void put(const struct stni_sort_along_args *a, int64_t whole, int64_t part)
{
    memcpy((char *)a->whole + whole * (int64_t)a->size, (const char *)a->part + part * (int64_t)a->size, a->size);
}

static void get(const struct stni_sort_along_args *a, int64_t whole, int64_t part)
{
    char *to = (char *)a->part + part * (int64_t)a->size;
    if (whole < 0)
        memset(to, 0, a->size);
    else
        memcpy(to, (const char *)a->whole + whole * (int64_t)a->size, a->size);
}

/* Calls `move` for each index; `absent` too where its element is on another rank, with -1 for its place. */
static void each(const struct stni_sort_along_args *a, move_fn move, int absent)
{
    const struct stni_sort_lines *lines = &a->lines;
    const int64_t count = order_line_count(lines);
    for (int64_t l = 0; l < count; l++) {
        int64_t whole = order_line_at(lines, ORDER_IN, l), part = order_line_at(lines, ORDER_VALUES, l);
        int64_t index = order_line_at(lines, ORDER_INDICES, l);
        for (int64_t i = 0; i < a->k; i++) {
            int64_t at = a->indices[index + i * lines->step[ORDER_INDICES]] - lines->first;
            int here = at >= 0 && at < lines->n;
            if (here || absent)
                move(a, here ? whole + at * lines->along_in[0] : -1, part + i * lines->step[ORDER_VALUES]);
        }
    }
}

stn_status stni_sort_place_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_along_args *a = args;
    (void)queue;
    memset(a->whole, 0, a->whole_bytes);
    each(a, put, 0);
    return STN_OK;
}

stn_status stni_sort_take_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    each(args, get, 1);
    return STN_OK;
}

/* The piece in which an index lies: the last one that begins at or before it. */
static int64_t piece_of(const struct stni_sort_pack_args *a, int64_t index)
{
    int64_t low = 0, high = a->n_pieces;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (a->begins[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

size_t stni_sort_pack_workspace(stn_queue *queue, const void *args)
{
    const struct stni_sort_pack_args *a = args;
    (void)queue;
    return (size_t)a->n_pieces * sizeof *a->work;
}

stn_status stni_sort_pack_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_pack_args *a = args;
    int64_t before = 0;
    (void)queue;
    memset(a->work, 0, (size_t)a->n_pieces * sizeof *a->work);
    for (int64_t i = 0; i < a->n; i++)
        a->work[piece_of(a, a->indices[i * a->indices_step])]++;
    for (int r = 0; r < a->n_pieces; r++)
        a->counts[r] = a->work[a->pieces[r]];
    for (int q = 0; q < a->n_pieces; q++) {
        int64_t count = a->work[q];
        a->work[q] = before;
        before += count;
    }
    for (int64_t i = 0; i < a->n; i++) {
        int64_t index = a->indices[i * a->indices_step], at = a->work[piece_of(a, index)]++;
        if (a->packed)
            memcpy((char *)a->packed + at * (int64_t)a->size,
                   (const char *)a->grad + i * a->grad_step * (int64_t)a->size, a->size);
        if (a->packed_indices)
            a->packed_indices[at] = index;
    }
    return STN_OK;
}
