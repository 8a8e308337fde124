/* Lines in order, on the CPU: insertion for short ones, else by the digits of keys, the last one first, which keeps the order of equals (Knuth,
 * TAOCP 3, section 5.2.5). */
#include "ops/order/order_line.h"

#include <shardtensor/dtype.h>

#include <string.h>

enum { SHORT_LINE = 24 };

static void insert_all(struct stni_order_entry *e, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        struct stni_order_entry held = e[i];
        int64_t j = i;
        for (; j > 0 && e[j - 1].key > held.key; j--)
            e[j] = e[j - 1];
        e[j] = held;
    }
}

/* One pass; 0 where all have the same digit, and nothing moves. */
static int pass(const struct stni_order_entry *from, struct stni_order_entry *to, int64_t n, int shift)
{
    int64_t begin[ORDER_DIGITS] = {0}, before = 0;
    for (int64_t i = 0; i < n; i++)
        begin[from[i].key >> shift & 255]++;
    if (begin[from[0].key >> shift & 255] == n)
        return 0;
    for (int d = 0; d < ORDER_DIGITS; d++) {
        int64_t count = begin[d];
        begin[d] = before;
        before += count;
    }
    for (int64_t i = 0; i < n; i++)
        to[begin[from[i].key >> shift & 255]++] = from[i];
    return 1;
}

/* Returns the half of `work` in which they are in order: they begin in the first. */
static const struct stni_order_entry *sort(struct stni_order_entry *work, int64_t n, int bits)
{
    struct stni_order_entry *from = work, *to = work + n;
    if (n <= SHORT_LINE) {
        insert_all(work, n);
        return work;
    }
    for (int shift = 0; shift < bits; shift += 8)
        if (pass(from, to, n, shift)) {
            struct stni_order_entry *held = from;
            from = to;
            to = held;
        }
    return from;
}

stn_status stni_order_sort_cpu(stn_queue *queue, const void *args)
{
    const struct stni_order_sort_args *a = args;
    const struct stni_order_lines *lines = &a->lines;
    const size_t size = stn_dtype_size(a->order.dtype);
    const int64_t count = order_line_count(lines);
    const int bits = stni_order_key_bits(a->order.dtype);
    (void)queue;
    for (int64_t l = 0; l < count; l++) {
        int64_t value = order_line_at(lines, ORDER_VALUES, l), index = order_line_at(lines, ORDER_INDICES, l);
        stni_order_collect(&a->order, lines, a->in, order_line_at(lines, ORDER_IN, l), a->work);
        const struct stni_order_entry *e = sort(a->work, lines->n, bits);
        for (int64_t i = 0; i < lines->n; i++) {
            stni_order_store(a->values, value + i * lines->step[ORDER_VALUES], size, stni_order_load(a->in, e[i].at, size));
            a->indices[index + i * lines->step[ORDER_INDICES]] = a->in_indices ? a->in_indices[e[i].at] : e[i].index;
        }
    }
    return STN_OK;
}
