/* Places of values in a sorted sequence, on the CPU. */
#include "ops/sort/sort_line.h"

#include <shardtensor/dtype.h>

static uint64_t key_at(const struct stni_sort_search_args *a, const char *sequence, int64_t i)
{
    uint64_t key;
    if (a->work)
        return ((const uint64_t *)a->work)[i];
    stni_sort_keys(&a->order, sequence + i * a->step * (int64_t)stn_dtype_size(a->order.dtype), 1, 1, &key);
    return key;
}

static int64_t find(const struct stni_sort_search_args *a, const char *sequence, uint64_t key)
{
    int64_t low = 0, high = a->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        uint64_t own = key_at(a, sequence, middle);
        if (own < key || (own == key && a->right))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void store(const struct stni_sort_search_args *a, int64_t at, int64_t place)
{
    if (a->out_dtype == STN_DTYPE_I32)
        ((int32_t *)a->out)[at] = (int32_t)place;
    else
        ((int64_t *)a->out)[at] = place;
}

/* For many values the keys of the sequence are made once; a value is compared with about PROBES elements. */
size_t stni_sort_search_workspace(stn_queue *queue, const void *args)
{
    enum { PROBES = 16 };
    const struct stni_sort_search_args *a = args;
    (void)queue;
    return a->n > 0 && a->lines.n > a->n / PROBES ? (size_t)a->n * sizeof(uint64_t) : 0;
}

static void search_line(const struct stni_sort_search_args *a, int64_t line)
{
    const int64_t size = (int64_t)stn_dtype_size(a->order.dtype), out = order_line_at(&a->lines, ORDER_INDICES, line);
    const char *sequence = (const char *)a->sequence + order_line_at(&a->lines, ORDER_IN, line) * size;
    struct order_walk walk = {&a->lines, order_line_at(&a->lines, ORDER_VALUES, line), 0};
    struct order_block b;
    uint64_t keys[ORDER_BLOCK];
    if (a->work)
        stni_sort_keys(&a->order, sequence, a->step, a->n, a->work);
    while (order_walk_next(&walk, &b)) {
        const void *values = a->values ? (const char *)a->values + b.at * size : (const char *)&a->bits;
        stni_sort_keys(&a->order, values, b.step, b.n, keys);
        for (int64_t i = 0; i < b.n; i++)
            store(a, out + b.index + i * b.index_step, find(a, sequence, keys[i]));
    }
}

stn_status stni_sort_search_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_search_args *a = args;
    const int64_t count = order_line_count(&a->lines);
    (void)queue;
    for (int64_t l = 0; l < count; l++)
        search_line(a, l);
    return STN_OK;
}
