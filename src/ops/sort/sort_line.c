/* Elements as bits, and a heap of those that come first. */
#include "ops/sort/sort_line.h"

#include <shardtensor/dtype.h>

#include <string.h>

uint64_t stni_sort_load(const void *data, int64_t at, size_t size)
{
    const char *from = (const char *)data + at * (int64_t)size;
    uint64_t bits = 0;
    uint32_t word;
    uint16_t half;
    if (size == 8) {
        memcpy(&bits, from, sizeof bits);
    } else if (size == 4) {
        memcpy(&word, from, sizeof word);
        bits = word;
    } else if (size == 2) {
        memcpy(&half, from, sizeof half);
        bits = half;
    } else {
        bits = *(const unsigned char *)from;
    }
    return bits;
}

void stni_sort_store(void *data, int64_t at, size_t size, uint64_t bits)
{
    char *to = (char *)data + at * (int64_t)size;
    const uint32_t word = (uint32_t)bits;
    const uint16_t half = (uint16_t)bits;
    if (size == 8)
        memcpy(to, &bits, sizeof bits);
    else if (size == 4)
        memcpy(to, &word, sizeof word);
    else if (size == 2)
        memcpy(to, &half, sizeof half);
    else
        *(unsigned char *)to = (unsigned char)bits;
}

void stni_sort_collect(const struct stni_order *order, const struct stni_sort_lines *lines, const void *in,
                       int64_t base, struct stni_sort_entry *out)
{
    const int64_t size = (int64_t)stn_dtype_size(order->dtype);
    struct order_walk walk = {lines, base, 0};
    struct order_block b;
    uint64_t keys[ORDER_BLOCK];
    while (order_walk_next(&walk, &b)) {
        stni_sort_keys(order, (const char *)in + b.at * size, b.step, b.n, keys);
        for (int64_t i = 0; i < b.n; i++)
            *out++ = (struct stni_sort_entry){keys[i], b.index + i * b.index_step, b.at + i * b.step};
    }
}

static void swap(struct stni_sort_entry *a, struct stni_sort_entry *b)
{
    struct stni_sort_entry held = *a;
    *a = *b;
    *b = held;
}

/* Entry i goes down to where none below comes after it. */
static void sink(struct stni_sort_entry *e, int64_t n, int64_t i)
{
    for (int64_t child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
        if (child + 1 < n && order_before(&e[child], &e[child + 1]))
            child++;
        if (!order_before(&e[i], &e[child]))
            return;
        swap(&e[i], &e[child]);
    }
}

void stni_sort_heap_put(struct order_heap *heap, struct stni_sort_entry entry)
{
    struct stni_sort_entry *e = heap->entries;
    if (heap->n == heap->k) {
        if (!order_before(&entry, &e[0]))
            return;
        e[0] = entry;
        sink(e, heap->n, 0);
        return;
    }
    int64_t i = heap->n++;
    e[i] = entry;
    for (; i > 0 && order_before(&e[(i - 1) / 2], &e[i]); i = (i - 1) / 2)
        swap(&e[(i - 1) / 2], &e[i]);
}

void stni_sort_heap_sort(struct order_heap *heap)
{
    for (int64_t n = heap->n - 1; n > 0; n--) {
        swap(&heap->entries[0], &heap->entries[n]);
        sink(heap->entries, n, 0);
    }
}
