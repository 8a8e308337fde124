/* Lines in order, for entries of one size: KEY_T is the type of keys, PLACE_T that of places in the line. Included
 * with these and NAME(x). */
#ifndef NAME /* read alone */
#include "ops/sort/sort_line.h"
#define KEY_T uint32_t
#define PLACE_T uint32_t
#define NAME(x) x##_small
enum { SHORT_LINE = 24 };
#endif

struct NAME(entry) {
    KEY_T key;
    PLACE_T place;
};

static void NAME(collect)(const struct stni_sort_sort_args *a, int64_t base, struct NAME(entry) *out)
{
    const int64_t size = (int64_t)stn_dtype_size(a->order.dtype);
    struct order_walk walk = {&a->lines, base, 0};
    struct order_block b;
    uint64_t keys[ORDER_BLOCK];
    for (int64_t place = 0; order_walk_next(&walk, &b);) {
        stni_sort_keys(&a->order, (const char *)a->in + b.at * size, b.step, b.n, keys);
        for (int64_t i = 0; i < b.n; i++)
            *out++ = (struct NAME(entry)){(KEY_T)keys[i], (PLACE_T)place++};
    }
}

static void NAME(insert_all)(struct NAME(entry) *e, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        struct NAME(entry) held = e[i];
        int64_t j = i;
        for (; j > 0 && e[j - 1].key > held.key; j--)
            e[j] = e[j - 1];
        e[j] = held;
    }
}

/* One pass; 0 where all have the same digit, and nothing moves. */
static int NAME(pass)(const struct NAME(entry) *from, struct NAME(entry) *to, int64_t n, int shift)
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
static const struct NAME(entry) *NAME(sort)(struct NAME(entry) *work, int64_t n, int bits)
{
    struct NAME(entry) *from = work, *to = work + n;
    if (n <= SHORT_LINE) {
        NAME(insert_all)(work, n);
        return work;
    }
    for (int shift = 0; shift < bits; shift += 8)
        if (NAME(pass)(from, to, n, shift)) {
            struct NAME(entry) *held = from;
            from = to;
            to = held;
        }
    return from;
}

static void NAME(sort_lines)(const struct stni_sort_sort_args *a)
{
    const struct stni_sort_lines *lines = &a->lines;
    const size_t size = stn_dtype_size(a->order.dtype);
    const int64_t count = order_line_count(lines), step = lines->along_in[0];
    const int bits = stni_sort_key_bits(a->order.dtype);
    for (int64_t l = 0; l < count; l++) {
        int64_t in = order_line_at(lines, ORDER_IN, l), value = order_line_at(lines, ORDER_VALUES, l);
        int64_t index = order_line_at(lines, ORDER_INDICES, l);
        NAME(collect)(a, in, a->work);
        const struct NAME(entry) *e = NAME(sort)(a->work, lines->n, bits);
        for (int64_t i = 0; i < lines->n; i++) {
            const int64_t place = (int64_t)e[i].place;
            stni_sort_store(a->values, value + i * lines->step[ORDER_VALUES], size,
                            stni_sort_load(a->in, in + place * step, size));
            a->indices[index + i * lines->step[ORDER_INDICES]] = lines->first + place;
        }
    }
}

#undef KEY_T
#undef PLACE_T
#undef NAME
