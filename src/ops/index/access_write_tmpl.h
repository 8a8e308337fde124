/* Writing of one element type, included once per type (core/box/each_float.h).
 *   T   the values     ACC   the table     LOAD   from one to the other     NAME(f)   f of this type */
#ifndef NAME /* read alone */
#include "ops/index/access_join_tmpl.h"
#endif

#include "ops/index/access_constant_tmpl.h"

/* A line of the table; compiled for each mode, and for steps of 1. */
static inline void NAME(write_steps)(enum stni_access_mode mode, ACC scale, ACC *t, int64_t step, const T *v,
                                     int64_t value_step, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        t[i * step] = NAME(joined)(mode, t[i * step], LOAD(v[i * value_step]), scale);
}

static void NAME(write)(const struct stni_access_write_args *a, void *table, int64_t step, const void *values,
                        int64_t value_step, int64_t n)
{
    const ACC scale = NAME(scale)(&a->scale);
    const int dense = step == 1 && value_step == 1;
    if (a->mode == STNI_ACCESS_ADD && dense)
        NAME(write_steps)(STNI_ACCESS_ADD, scale, table, 1, values, 1, n);
    else if (a->mode == STNI_ACCESS_SET && dense)
        NAME(write_steps)(STNI_ACCESS_SET, scale, table, 1, values, 1, n);
    else
        NAME(write_steps)(a->mode, scale, table, step, values, value_step, n);
}

/* Single elements; an offset of -1 is none. */
static void NAME(write_each)(const struct stni_access_write_args *a, void *table, const int64_t *offset,
                             const void *values, int64_t value_step, int64_t n)
{
    const ACC scale = NAME(scale)(&a->scale);
    const enum stni_access_mode mode = a->mode;
    const T *v = values;
    ACC *t = table;
    if (mode == STNI_ACCESS_ADD) {
        for (int64_t i = 0; i < n; i++)
            if (offset[i] >= 0)
                t[offset[i]] = NAME(joined)(STNI_ACCESS_ADD, t[offset[i]], LOAD(v[i * value_step]), scale);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (offset[i] >= 0)
            t[offset[i]] = NAME(joined)(mode, t[offset[i]], LOAD(v[i * value_step]), scale);
}

/* A line whose indices are all within bounds; those of another rank's part of the table are left out. Compiled for
 * each mode that has many uses, and for dense lines of 64-bit indices. */
static inline __attribute__((always_inline)) void NAME(write_by)(enum stni_access_mode mode, ACC scale, ACC *t,
                                                                 const T *v, const struct stni_access_line *l,
                                                                 stn_dtype dtype, int64_t index_step,
                                                                 int64_t value_step)
{
    const struct stni_access *a = l->access;
    const uint64_t here = (uint64_t)a->key_shape[0];
    const int64_t first = a->first, stride = a->key_strides[0], step = l->table_step;
    for (int64_t i = 0; i < l->n; i++) {
        const int64_t key = stni_access_index(a->index, dtype, l->index + i * index_step) - first;
        if ((uint64_t)key < here) {
            ACC *at = t + key * stride + i * step;
            *at = NAME(joined)(mode, *at, LOAD(v[i * value_step]), scale);
        }
    }
}

static void NAME(write_direct)(const struct stni_access_write_args *args, void *table, const void *values,
                               const struct stni_access_line *l)
{
    const ACC scale = NAME(scale)(&args->scale);
    const stn_dtype dtype = l->access->index_dtype;
    const int dense = dtype == STN_DTYPE_I64 && l->index_step == 1 && l->value_step == 1;
    if (args->mode == STNI_ACCESS_ADD && dense)
        NAME(write_by)(STNI_ACCESS_ADD, scale, table, values, l, STN_DTYPE_I64, 1, 1);
    else if (args->mode == STNI_ACCESS_SET && dense)
        NAME(write_by)(STNI_ACCESS_SET, scale, table, values, l, STN_DTYPE_I64, 1, 1);
    else
        NAME(write_by)(args->mode, scale, table, values, l, dtype, l->index_step, l->value_step);
}
