/* The element of a given place in each line, on the CPU: by the digits of keys, the first one first. The remaining
 * candidates of a short line are kept in a buffer; a long line is read again for each digit, so that it needs no
 * buffer. */
#include "ops/sort/sort_line.h"

#include <shardtensor/dtype.h>

/* Keeps, in their order, those whose digit is that of the element `*place`, which becomes its place among them.
 * Returns how many are left. */
static int64_t keep_digit(struct stni_sort_entry *e, int64_t n, int shift, int64_t *place)
{
    int64_t counts[ORDER_DIGITS] = {0}, kept = 0;
    for (int64_t i = 0; i < n; i++)
        counts[e[i].key >> shift & 255]++;
    uint64_t digit = 0;
    for (; *place >= counts[digit]; digit++)
        *place -= counts[digit];
    if (counts[digit] == n)
        return n;
    for (int64_t i = 0; i < n; i++)
        if ((e[i].key >> shift & 255) == digit)
            e[kept++] = e[i];
    return kept;
}

enum { SHORT_LINE = 2048 };

/* The candidates of a short line. */
size_t stni_sort_select_workspace(stn_queue *queue, const void *args)
{
    const int64_t n = ((const struct stni_sort_select_args *)args)->lines.n;
    (void)queue;
    return n <= SHORT_LINE ? (size_t)n * sizeof(struct stni_sort_entry) : 0;
}

static struct stni_sort_entry select_short(const struct stni_sort_select_args *a, int64_t base)
{
    int64_t n = a->lines.n, place = a->place;
    const uint64_t nan = stni_sort_nan(&a->order);
    struct stni_sort_entry *entries = a->work;
    stni_sort_collect(&a->order, &a->lines, a->in, base, entries);
    for (int64_t i = 0; a->nans && i < n; i++)
        if (entries[i].key == nan)
            return entries[i];
    for (int shift = stni_sort_key_bits(a->order.dtype) - 8; shift >= 0 && n > 1; shift -= 8)
        n = keep_digit(entries, n, shift, &place);
    return entries[place];
}

/* Reads a line, block by block with its keys. */
struct reader {
    const struct stni_sort_select_args *args;
    struct order_walk walk;
    struct order_block block;
    uint64_t keys[ORDER_BLOCK];
};

static int read_next(struct reader *r)
{
    const struct stni_sort_select_args *a = r->args;
    if (!order_walk_next(&r->walk, &r->block))
        return 0;
    stni_sort_keys(&a->order, (const char *)a->in + r->block.at * (int64_t)stn_dtype_size(a->order.dtype),
                   r->block.step, r->block.n, r->keys);
    return 1;
}

/* The element of this key with `place` of the same before it; index -1: there is none. */
static struct stni_sort_entry occurrence(const struct stni_sort_select_args *a, int64_t base, uint64_t key,
                                         int64_t place)
{
    struct reader r = {.args = a, .walk = {&a->lines, base, 0}};
    while (read_next(&r))
        for (int64_t i = 0; i < r.block.n; i++)
            if (r.keys[i] == key && place-- == 0)
                return (struct stni_sort_entry){key, r.block.index + i * r.block.index_step,
                                                r.block.at + i * r.block.step};
    return (struct stni_sort_entry){0, -1, 0};
}

/* The next digit of the key that begins with `key`; *place becomes the place among those that begin so. */
static uint64_t next_digit(const struct stni_sort_select_args *a, int64_t base, uint64_t key, int shift, int64_t *place)
{
    struct reader r = {.args = a, .walk = {&a->lines, base, 0}};
    int64_t counts[ORDER_DIGITS] = {0};
    uint64_t digit = 0;
    while (read_next(&r))
        for (int64_t i = 0; i < r.block.n; i++)
            counts[r.keys[i] >> shift & 255] += r.keys[i] >> shift >> 8 == key;
    for (; *place >= counts[digit]; digit++)
        *place -= counts[digit];
    return digit;
}

static struct stni_sort_entry select_long(const struct stni_sort_select_args *a, int64_t base)
{
    uint64_t key = 0;
    int64_t place = a->place;
    if (a->nans) {
        struct stni_sort_entry nan = occurrence(a, base, stni_sort_nan(&a->order), 0);
        if (nan.index >= 0)
            return nan;
    }
    for (int shift = stni_sort_key_bits(a->order.dtype) - 8; shift >= 0; shift -= 8)
        key = key << 8 | next_digit(a, base, key, shift, &place);
    return occurrence(a, base, key, place);
}

stn_status stni_sort_select_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_select_args *a = args;
    const struct stni_sort_lines *lines = &a->lines;
    const size_t size = stn_dtype_size(a->order.dtype);
    const int64_t count = order_line_count(lines);
    (void)queue;
    for (int64_t l = 0; l < count; l++) {
        int64_t base = order_line_at(lines, ORDER_IN, l);
        struct stni_sort_entry e = lines->n <= SHORT_LINE ? select_short(a, base) : select_long(a, base);
        stni_sort_store(a->values, order_line_at(lines, ORDER_VALUES, l), size, stni_sort_load(a->in, e.at, size));
        a->indices[order_line_at(lines, ORDER_INDICES, l)] = e.index;
    }
    return STN_OK;
}
