/* Choosing by counting, on the CPU. */
#include "ops/sort/sort_line.h"

#include <shardtensor/dtype.h>

#include <string.h>

struct stni_sort_digits stni_sort_digits(stn_dtype dtype, int64_t n)
{
    struct stni_sort_digits digits = {stni_sort_key_bits(dtype) / 8, 0};
    for (int64_t left = n - 1; left > 0; left >>= 8)
        digits.of_index++;
    return digits;
}

static void count_line(const struct stni_sort_count_args *a, int64_t base, const struct stni_sort_target *target,
                       int64_t *counts)
{
    const int64_t size = (int64_t)stn_dtype_size(a->order.dtype);
    struct order_walk walk = {&a->lines, base, 0};
    struct order_block b;
    uint64_t keys[ORDER_BLOCK];
    while (order_walk_next(&walk, &b)) {
        stni_sort_keys(&a->order, (const char *)a->in + b.at * size, b.step, b.n, keys);
        for (int64_t i = 0; i < b.n; i++) {
            int digit = stni_sort_digit_of(&a->digits, a->round, target, keys[i], b.index + i * b.index_step);
            if (digit >= 0)
                counts[digit]++;
        }
    }
}

/* A dense line in order. */
struct sorted {
    const struct stni_order *order;
    const void *values;
    const int64_t *indices;
    int64_t n;
};

/* How many come before all whose leading digits are `key`, or whose key it is and the leading digits of the index
 * `index`. */
static int64_t count_before(const struct sorted *s, uint64_t key, int key_shift, uint64_t index, int index_shift)
{
    const int64_t size = (int64_t)stn_dtype_size(s->order->dtype);
    int64_t low = 0, high = s->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        uint64_t own;
        stni_sort_keys(s->order, (const char *)s->values + middle * size, 1, 1, &own);
        own >>= key_shift;
        if (own < key || (own == key && (uint64_t)s->indices[middle] >> index_shift < index))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void count_sorted(const struct stni_sort_count_args *a, const struct stni_sort_target *t, int64_t *counts)
{
    const struct sorted line = {&a->order, a->in, a->sorted_indices, a->lines.n};
    const int shift = stni_sort_digit_shift(&a->digits, a->round), of_index = a->round >= a->digits.of_key;
    int64_t before = 0;
    for (uint64_t d = 0; d <= ORDER_DIGITS; d++) {
        uint64_t next = (of_index ? t->index : t->key) * ORDER_DIGITS + d;
        int64_t at = d > 0 && next == 0 ? line.n /* one past the last key */
                     : of_index         ? count_before(&line, t->key, 0, next, shift)
                                        : count_before(&line, next, shift, 0, 0);
        if (d > 0)
            counts[d - 1] = at - before;
        before = at;
    }
}

stn_status stni_sort_count_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_count_args *a = args;
    (void)queue;
    memset(a->counts, 0, (size_t)a->n_targets * ORDER_DIGITS * sizeof *a->counts);
    for (int64_t t = 0; t < a->n_targets; t++)
        if (a->sorted_indices)
            count_sorted(a, &a->targets[t], a->counts + t * ORDER_DIGITS);
        else
            count_line(a, order_line_at(&a->lines, ORDER_IN, t), &a->targets[t], a->counts + t * ORDER_DIGITS);
    return STN_OK;
}

stn_status stni_sort_narrow_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_narrow_args *a = args;
    (void)queue;
    for (int64_t i = 0; i < a->n_targets; i++) {
        struct stni_sort_target *t = &a->targets[i];
        const int64_t *counts = a->counts + i * ORDER_DIGITS;
        if (a->round < 0) {
            *t = (struct stni_sort_target){0, 0, a->nans && a->nans[i] > 0 ? 0 : a->place};
            continue;
        }
        stni_sort_digit_take(&a->digits, a->round, counts, t);
    }
    return STN_OK;
}

stn_status stni_sort_nans_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_nans_args *a = args;
    const int64_t size = (int64_t)stn_dtype_size(a->order.dtype), count = order_line_count(&a->lines);
    const uint64_t nan = stni_sort_nan(&a->order);
    uint64_t keys[ORDER_BLOCK];
    struct order_block b;
    (void)queue;
    for (int64_t l = 0; l < count; l++) {
        struct order_walk walk = {&a->lines, order_line_at(&a->lines, ORDER_IN, l), 0};
        a->nans[l] = 0;
        while (order_walk_next(&walk, &b)) {
            stni_sort_keys(&a->order, (const char *)a->in + b.at * size, b.step, b.n, keys);
            for (int64_t i = 0; i < b.n; i++)
                a->nans[l] += keys[i] == nan;
        }
    }
    return STN_OK;
}

stn_status stni_sort_find_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_find_args *a = args;
    const size_t size = stn_dtype_size(a->order.dtype);
    const int64_t count = order_line_count(&a->lines);
    struct order_block b;
    (void)queue;
    for (int64_t l = 0; l < count; l++) {
        struct order_walk walk = {&a->lines, order_line_at(&a->lines, ORDER_IN, l), 0};
        a->bits[l] = 0;
        while (order_walk_next(&walk, &b)) {
            int64_t i = ((int64_t)a->targets[l].index - b.index) / (b.index_step > 0 ? b.index_step : 1);
            if (i >= 0 && i < b.n && b.index + i * b.index_step == (int64_t)a->targets[l].index)
                a->bits[l] = stni_sort_load(a->in, b.at + i * b.step, size);
        }
    }
    return STN_OK;
}

stn_status stni_sort_store_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_find_args *a = args;
    const size_t size = stn_dtype_size(a->order.dtype);
    const int64_t count = order_line_count(&a->lines);
    (void)queue;
    for (int64_t l = 0; l < count; l++) {
        stni_sort_store(a->values, order_line_at(&a->lines, ORDER_VALUES, l), size, a->bits[l]);
        a->indices[order_line_at(&a->lines, ORDER_INDICES, l)] = (int64_t)a->targets[l].index;
    }
    return STN_OK;
}

/* Where piece `piece` begins among the elements of this rank. */
static int64_t begin_of(const struct stni_sort_deal_args *a, int64_t piece)
{
    const struct sorted line = {&a->order, a->values, a->indices, a->n};
    if (piece == 0)
        return 0;
    if (piece == a->n_pieces || a->begins[piece] == a->n_all)
        return a->n;
    const struct stni_sort_target *t = &a->targets[piece - 1];
    return count_before(&line, t->key, 0, t->index, 0);
}

stn_status stni_sort_deal_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_deal_args *a = args;
    (void)queue;
    for (int r = 0; r < a->n_pieces; r++)
        a->counts[r] = begin_of(a, a->pieces[r] + 1) - begin_of(a, a->pieces[r]);
    return STN_OK;
}
