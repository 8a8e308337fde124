/* The element of a given place in each line, on the CPU: by the digits of keys, the first one first, of those that are left. */
#include "ops/order/order_line.h"

#include <shardtensor/dtype.h>

/* Keeps, in their order, those whose digit is that of the element `*place`, which becomes its place among them. Returns how many are left. */
static int64_t keep_digit(struct stni_order_entry *e, int64_t n, int shift, int64_t *place)
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

static int64_t first_nan(const struct stni_order_select_args *a)
{
    const uint64_t nan = stni_order_nan(&a->order);
    for (int64_t i = 0; i < a->lines.n; i++)
        if (a->work[i].key == nan)
            return i;
    return -1;
}

static struct stni_order_entry select_entry(const struct stni_order_select_args *a)
{
    int64_t n = a->lines.n, place = a->place, nan = a->nans ? first_nan(a) : -1;
    if (nan >= 0)
        return a->work[nan];
    for (int shift = stni_order_key_bits(a->order.dtype) - 8; shift >= 0 && n > 1; shift -= 8)
        n = keep_digit(a->work, n, shift, &place);
    return a->work[place];
}

stn_status stni_order_select_cpu(stn_queue *queue, const void *args)
{
    const struct stni_order_select_args *a = args;
    const struct stni_order_lines *lines = &a->lines;
    const size_t size = stn_dtype_size(a->order.dtype);
    const int64_t count = order_line_count(lines);
    (void)queue;
    for (int64_t l = 0; l < count; l++) {
        stni_order_collect(&a->order, lines, a->in, order_line_at(lines, ORDER_IN, l), a->work);
        struct stni_order_entry e = select_entry(a);
        stni_order_store(a->values, order_line_at(lines, ORDER_VALUES, l), size, stni_order_load(a->in, e.at, size));
        a->indices[order_line_at(lines, ORDER_INDICES, l)] = e.index;
    }
    return STN_OK;
}
