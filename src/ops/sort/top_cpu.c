/* The first k of each line, and of candidates from several ranks, on the CPU. */
#include "core/device/device.h"
#include "ops/sort/sort_least.h"
#include "ops/sort/sort_line.h"

#include <shardtensor/dtype.h>

/* Most blocks of a long line hold nothing that comes before the kept elements, which the smallest key of a block
 * tells. Elements are visited in the order of their indices, so that among equal ones those that are kept already
 * stay. */
static void collect(const struct stni_sort_top_args *a, stni_sort_least_fn *least, int64_t base,
                    struct order_heap *heap)
{
    struct order_walk walk = {&a->lines, base, 0};
    struct order_block b;
    uint64_t keys[ORDER_BLOCK];
    const size_t size = stn_dtype_size(a->order.dtype);
    while (order_walk_next(&walk, &b)) {
        const char *x = (const char *)a->in + b.at * (int64_t)size;
        if (heap->n == heap->k && least(&a->order, x, b.step, b.n) >= heap->entries[0].key)
            continue;
        stni_sort_keys(&a->order, x, b.step, b.n, keys);
        for (int64_t i = 0; i < b.n; i++)
            if (heap->n < heap->k || keys[i] < heap->entries[0].key)
                stni_sort_heap_put(heap,
                                   (struct stni_sort_entry){keys[i], b.index + i * b.index_step, b.at + i * b.step});
    }
}

/* The very first one: the smallest key of each block tells the block in which it lies, and that one alone is
 * searched. */
static void collect_first(const struct stni_sort_top_args *a, stni_sort_least_fn *least, int64_t base,
                          struct order_heap *heap)
{
    const int64_t size = (int64_t)stn_dtype_size(a->order.dtype);
    struct order_walk walk = {&a->lines, base, 0};
    struct order_block b, found = {.n = 0};
    uint64_t keys[ORDER_BLOCK], first = UINT64_MAX;
    while (order_walk_next(&walk, &b)) {
        const uint64_t key = least(&a->order, (const char *)a->in + b.at * size, b.step, b.n);
        if (key < first || found.n == 0)
            first = key, found = b;
    }
    if (found.n == 0)
        return;
    int64_t i = 0;
    for (stni_sort_keys(&a->order, (const char *)a->in + found.at * size, found.step, found.n, keys); keys[i] != first;)
        i++;
    const struct stni_sort_entry entry = {first, found.index + i * found.index_step, found.at + i * found.step};
    stni_sort_heap_put(heap, entry);
}

static void write_pairs(const struct stni_sort_top_args *a, const struct order_heap *heap, struct stni_sort_pair *out)
{
    const size_t size = stn_dtype_size(a->order.dtype);
    for (int64_t i = 0; i < a->k; i++) {
        const struct stni_sort_entry *e = &heap->entries[i];
        out[i] = i < heap->n ? (struct stni_sort_pair){stni_sort_load(a->in, e->at, size), e->index}
                             : (struct stni_sort_pair){0, -1};
    }
}

size_t stni_sort_top_workspace(stn_queue *queue, const void *args)
{
    (void)queue;
    return (size_t)((const struct stni_sort_top_args *)args)->k * sizeof(struct stni_sort_entry);
}

stn_status stni_sort_top_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_top_args *a = args;
    const struct stni_sort_lines *lines = &a->lines;
    const size_t size = stn_dtype_size(a->order.dtype);
    stni_sort_least_fn *const least = STNI_ISA_PICK(stni_sort_least, queue->isa);
    for (int64_t i = 0; i < a->n_lines; i++) {
        const int64_t l = a->first_line + i;
        struct order_heap heap = {a->work, 0, a->k};
        (a->k == 1 ? collect_first : collect)(a, least, order_line_at(lines, ORDER_IN, l), &heap);
        stni_sort_heap_sort(&heap);
        if (a->pairs) {
            write_pairs(a, &heap, a->pairs + i * a->k);
            continue;
        }
        int64_t value = order_line_at(lines, ORDER_VALUES, l), index = order_line_at(lines, ORDER_INDICES, l);
        for (int64_t j = 0; j < heap.n; j++) {
            stni_sort_store(a->values, value + j * lines->step[ORDER_VALUES], size,
                            stni_sort_load(a->in, heap.entries[j].at, size));
            a->indices[index + j * lines->step[ORDER_INDICES]] = heap.entries[j].index;
        }
    }
    return STN_OK;
}

/* The candidates of a line, by its number among these; `at` becomes a pair's number. */
static void collect_pairs(const struct stni_sort_merge_args *a, int64_t line, struct order_heap *heap)
{
    const size_t size = stn_dtype_size(a->order.dtype);
    for (int part = 0; part < a->n_parts; part++)
        for (int64_t i = 0; i < a->k; i++) {
            int64_t at = (part * a->n_lines + line) * a->k + i;
            uint64_t element, key;
            if (a->pairs[at].index < 0)
                break;
            stni_sort_store(&element, 0, size, a->pairs[at].bits);
            stni_sort_keys(&a->order, &element, 1, 1, &key);
            stni_sort_heap_put(heap, (struct stni_sort_entry){key, a->pairs[at].index, at});
        }
}

size_t stni_sort_merge_workspace(stn_queue *queue, const void *args)
{
    (void)queue;
    return (size_t)((const struct stni_sort_merge_args *)args)->k_out * sizeof(struct stni_sort_entry);
}

stn_status stni_sort_merge_cpu(stn_queue *queue, const void *args)
{
    const struct stni_sort_merge_args *a = args;
    const struct stni_sort_lines *lines = &a->lines;
    const size_t size = stn_dtype_size(a->order.dtype);
    (void)queue;
    for (int64_t i = 0; i < a->n_lines; i++) {
        const int64_t l = a->first_line + i;
        struct order_heap heap = {a->work, 0, a->k_out};
        int64_t value = order_line_at(lines, ORDER_VALUES, l), index = order_line_at(lines, ORDER_INDICES, l);
        collect_pairs(a, i, &heap);
        stni_sort_heap_sort(&heap);
        for (int64_t j = 0; j < heap.n; j++) {
            stni_sort_store(a->values, value + j * lines->step[ORDER_VALUES], size, a->pairs[heap.entries[j].at].bits);
            a->indices[index + j * lines->step[ORDER_INDICES]] = heap.entries[j].index;
        }
    }
    return STN_OK;
}
