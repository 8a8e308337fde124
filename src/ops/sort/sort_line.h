/* Walking along lines, for the CPU's kernels. */
#ifndef STNI_OPS_SORT_SORT_LINE_H
#define STNI_OPS_SORT_SORT_LINE_H

#include "ops/sort/sort_key.h"

enum { ORDER_BLOCK = 256 };

/* Up to ORDER_BLOCK neighbours of a line: element i lies at `at` + i `step` and has the number `index` + i
 * `index_step`. */
struct order_block {
    int64_t at, step, index, index_step, n;
};

/* Begins at the first element of a line that lies at `base`. */
struct order_walk {
    const struct stni_sort_lines *lines;
    int64_t base, done; /* elements walked over */
};

/* The next block; 0 at the end. */
static inline int order_walk_next(struct order_walk *w, struct order_block *block)
{
    const struct stni_sort_lines *lines = w->lines;
    const int last = lines->n_along - 1;
    if (w->done >= lines->n)
        return 0;
    int64_t rest = w->done, row = lines->along[last], i = rest % row;
    *block = (struct order_block){w->base + i * lines->along_in[last], lines->along_in[last],
                                  lines->first + i * lines->along_index[last], lines->along_index[last],
                                  row - i < ORDER_BLOCK ? row - i : ORDER_BLOCK};
    rest /= row;
    for (int d = last - 1; d >= 0; d--) {
        block->at += rest % lines->along[d] * lines->along_in[d];
        block->index += rest % lines->along[d] * lines->along_index[d];
        rest /= lines->along[d];
    }
    w->done += block->n;
    return 1;
}

/* All elements of a line that begins at `base`, in the order of their indices. */
void stni_sort_collect(const struct stni_order *order, const struct stni_sort_lines *lines, const void *in,
                       int64_t base, struct stni_sort_entry *out);

/* Elements as bits, whatever they stand for. */
uint64_t stni_sort_load(const void *data, int64_t at, size_t size);
void stni_sort_store(void *data, int64_t at, size_t size, uint64_t bits);

/* Whether a comes before b. */
static inline int order_before(const struct stni_sort_entry *a, const struct stni_sort_entry *b)
{
    return a->key < b->key || (a->key == b->key && a->index < b->index);
}

/* The first k of all that is put in, the last of them at the root. */
struct order_heap {
    struct stni_sort_entry *entries;
    int64_t n, k;
};

void stni_sort_heap_put(struct order_heap *heap, struct stni_sort_entry entry);

/* Sorts the entries; they are no heap afterwards. */
void stni_sort_heap_sort(struct order_heap *heap);

#endif
