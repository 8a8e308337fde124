/* Reading of elements of one size, included once per size:
 *   T   a type of that size     GATHER   its vector loads (access_gather.h)     NAME(f)   f of this size */
#ifndef NAME /* read alone */
#include "ops/index/access_reader.h"
#define T uint32_t
#define GATHER stni_gather_4
#define NAME(f) f##_4
#endif

static void NAME(read_line)(void *arg, int64_t value, int64_t value_step, int64_t table, int64_t table_step, int64_t n)
{
    const struct reader *r = arg;
    T *out = (T *)r->values + value;
    if (table < 0) {
        for (int64_t i = 0; i < n && !r->keeps; i++)
            out[i * value_step] = 0;
        return;
    }
    const T *from = (const T *)r->table + table;
    if (value_step == 1 && table_step == 1) {
        memcpy(out, from, (size_t)n * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i * value_step] = from[i * table_step];
}

static void NAME(read_elements)(void *arg, int64_t value, int64_t value_step, const int64_t *table, int64_t n)
{
    const struct reader *r = arg;
    T *out = (T *)r->values + value;
    const T *from = r->table;
    for (int64_t i = 0; i < n; i++)
        if (table[i] >= 0 || !r->keeps)
            out[i * value_step] = table[i] < 0 ? 0 : from[table[i]];
}

/* Compiled for each dtype of the index and for dense lines. An index of another rank's part of the table reads 0. */
static inline __attribute__((always_inline)) int NAME(read_by)(const struct reader *r,
                                                               const struct stni_access_line *l, stn_dtype dtype,
                                                               int64_t index_step, int64_t value_step)
{
    const struct stni_access *a = l->access;
    const uint64_t all = (uint64_t)a->n, here = (uint64_t)a->key_shape[0];
    const int64_t first = a->first, stride = a->key_strides[0], step = l->table_step;
    const T *from = (const T *)r->table + l->table;
    T *out = (T *)r->values + l->value;
    int bad = 0;
    int64_t i = index_step == 1 && value_step == 1 ? GATHER(out, from, l, dtype, &bad) : 0;
    for (; i < l->n; i++) {
        const int64_t index = stni_access_index(a->index, dtype, l->index + i * index_step);
        bad |= (uint64_t)index >= all;
        out[i * value_step] = (uint64_t)index - (uint64_t)first < here ? from[(index - first) * stride + i * step] : 0;
    }
    return !bad;
}

/* A dense line whose indices are all here, of elements that lie `stride` apart. */
static inline __attribute__((always_inline)) void NAME(read_known)(const struct reader *r,
                                                                   const struct stni_access_line *l, stn_dtype dtype,
                                                                   int64_t stride, int64_t step)
{
    const T *from = (const T *)r->table + l->table - l->access->first * stride;
    T *out = (T *)r->values + l->value;
    for (int64_t i = 0; i < l->n; i++)
        out[i] = from[stni_access_index(l->access->index, dtype, l->index + i) * stride + i * step];
}

/* A dense line; compiled for each dtype of the index. */
static inline __attribute__((always_inline)) int NAME(read_dense)(const struct reader *r,
                                                                  const struct stni_access_line *l, stn_dtype dtype)
{
    const int64_t stride = l->access->key_strides[0], step = l->table_step;
    if ((STNI_GATHERS && (sizeof(T) == 4 || sizeof(T) == 8)) || !stni_access_all_here(l, dtype))
        return NAME(read_by)(r, l, dtype, 1, 1);
    if (stride == 1 && step == 0)
        NAME(read_known)(r, l, dtype, 1, 0);
    else
        NAME(read_known)(r, l, dtype, stride, step);
    return 1;
}

static int NAME(read_direct)(void *arg, const struct stni_access_line *l)
{
    const int dense = l->index_step == 1 && l->value_step == 1, is_i64 = l->access->index_dtype == STN_DTYPE_I64;
    if (dense && is_i64)
        return NAME(read_dense)(arg, l, STN_DTYPE_I64);
    if (dense)
        return NAME(read_dense)(arg, l, STN_DTYPE_I32);
    return NAME(read_by)(arg, l, l->access->index_dtype, l->index_step, l->value_step);
}

#undef T
#undef GATHER
#undef NAME
