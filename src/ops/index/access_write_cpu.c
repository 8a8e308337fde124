/* Writing by index on the CPU. */
#include "core/base/isa.h"
#include "ops/cpu/widen.h"
#include "ops/index/access_functions.h"

#include <math.h>
#include <stdalign.h>

static const float least_f32 = -INFINITY, most_f32 = INFINITY, least_bf16 = -INFINITY, most_bf16 = INFINITY;
static const float least_f16 = -INFINITY, most_f16 = INFINITY;
static const double least_f64 = -INFINITY, most_f64 = INFINITY;
static const int64_t least_i64 = INT64_MIN, most_i64 = INT64_MAX;
static const int32_t least_i32 = INT32_MIN, most_i32 = INT32_MAX;
static const uint8_t least_u8 = 0, most_u8 = UINT8_MAX;

#define TEMPLATE "ops/index/access_order_tmpl.h"
#include "core/box/each_float.h"
#include "core/box/each_integer.h"
#undef TEMPLATE
#define TEMPLATE "ops/index/access_complex_tmpl.h"
#include "core/box/each_complex.h"
#undef TEMPLATE
#define TEMPLATE "ops/index/access_join_tmpl.h"
#include "core/box/each_complex.h"
#include "core/box/each_float.h"
#include "core/box/each_integer.h"
#undef TEMPLATE
#define TEMPLATE "ops/index/access_write_tmpl.h"
#include "core/box/each_complex.h"
#include "core/box/each_float.h"
#include "core/box/each_integer.h"
#undef TEMPLATE

static const struct stni_access_functions functions_of[STN_DTYPE_COUNT] = {
    [STN_DTYPE_F32] = {constant_f32, spread_f32, write_f32, write_each_f32, write_direct_f32, 4, 4},
    [STN_DTYPE_F64] = {constant_f64, spread_f64, write_f64, write_each_f64, write_direct_f64, 8, 8},
    [STN_DTYPE_BF16] = {constant_bf16, spread_bf16, write_bf16, write_each_bf16, write_direct_bf16, 4, 2},
    [STN_DTYPE_F16] = {constant_f16, spread_f16, write_f16, write_each_f16, write_direct_f16, 4, 2},
    [STN_DTYPE_I64] = {constant_i64, spread_i64, write_i64, write_each_i64, write_direct_i64, 8, 8},
    [STN_DTYPE_I32] = {constant_i32, spread_i32, write_i32, write_each_i32, write_direct_i32, 4, 4},
    [STN_DTYPE_U8] = {constant_u8, spread_u8, write_u8, write_each_u8, write_direct_u8, 1, 1},
    [STN_DTYPE_BOOL] = {constant_u8, spread_u8, write_u8, write_each_u8, write_direct_u8, 1, 1},
    [STN_DTYPE_C64] = {constant_c64, spread_c64, write_c64, write_each_c64, write_direct_c64, 8, 8},
    [STN_DTYPE_C128] = {constant_c128, spread_c128, write_c128, write_each_c128, write_direct_c128, 16, 16},
};

struct writer {
    const struct stni_access_write_args *args;
    const struct stni_access_functions *f;
    char *table;
    const char *values;              /* NULL: `constant` */
    alignas(16) char constant[16];
};

static void write_line(void *arg, int64_t value, int64_t value_step, int64_t table, int64_t table_step, int64_t n)
{
    const struct writer *w = arg;
    if (table < 0)
        return;
    if (w->values)
        w->f->write(w->args, w->table + table * w->f->table_size, table_step, w->values + value * w->f->value_size,
                    value_step, n);
    else
        w->f->spread(w->table + table * w->f->table_size, table_step, n, w->constant);
}

static void write_elements(void *arg, int64_t value, int64_t value_step, const int64_t *table, int64_t n)
{
    const struct writer *w = arg;
    if (w->values)
        w->f->write_each(w->args, w->table, table, w->values + value * w->f->value_size, value_step, n);
    else
        for (int64_t i = 0; i < n; i++)
            write_line(arg, 0, 0, table[i], 0, 1);
}

/* Before anything is written, since `elements` would write it again. */
static int all_in_bounds(const struct stni_access_line *l)
{
    const struct stni_access *a = l->access;
    const uint64_t all = (uint64_t)a->n;
    int bad = 0;
    if (a->index_dtype == STN_DTYPE_I64 && l->index_step == 1)
        for (int64_t i = 0; i < l->n; i++)
            bad |= (uint64_t)((const int64_t *)a->index)[l->index + i] >= all;
    else
        for (int64_t i = 0; i < l->n; i++)
            bad |= (uint64_t)stni_access_index(a->index, a->index_dtype, l->index + i * l->index_step) >= all;
    return !bad;
}

static int write_direct(void *arg, const struct stni_access_line *line)
{
    const struct writer *w = arg;
    if (!w->values || !w->f->write_direct || !all_in_bounds(line))
        return 0;
    w->f->write_direct(w->args, w->table + line->table * w->f->table_size, w->values + line->value * w->f->value_size,
                       line);
    return 1;
}

stn_status STNI_ISA_NAME(stni_access_write)(stn_queue *queue, const void *args)
{
    struct stni_access_write_args a = *(const struct stni_access_write_args *)args;
    if (a.dtype == STN_DTYPE_BOOL)
        stni_access_for_bool(&a);
    const int narrow = a.dtype == STN_DTYPE_I8 || a.dtype == STN_DTYPE_I16;
    struct writer w = {.args = &a,
                       .f = narrow ? &stni_access_narrow_functions[a.dtype] : &functions_of[a.dtype],
                       .table = a.at.table,
                       .values = a.at.values};
    if (!w.values)
        w.f->constant(&a, w.constant);
    const struct stni_access_visitor visitor = {
        .queue = queue, .table = w.table, .size = (size_t)w.f->table_size, .arg = &w, .leaves_missing = 1,
        .direct = write_direct, .line = write_line, .elements = write_elements};
    STNI_ISA_NAME(stni_access_walk)(&a.at, &visitor);
    return STN_OK;
}
