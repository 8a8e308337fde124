/* Included once per dtype by pick_cpu.c. */
#ifndef NAME /* read alone */
#include "ops/pool/pick_finder.h"
#include "core/box/as_f32.h"
#endif

static void NAME(clear)(const struct stni_pick_args *a, T *field)
{
    const int64_t nz = stni_range_length(a->field_range[0]), ny = stni_range_length(a->field_range[1]);
    const int64_t nx = stni_range_length(a->field_range[2]), width = a->n_outer[2], step = a->field_stride[2];
    for (int64_t z = 0; z < nz; z++)
        for (int64_t y = 0; y < ny; y++) {
            T *row = field + z * a->field_stride[0] + y * a->field_stride[1];
            if (step == width)
                memset(row, 0, (size_t)(nx * width) * sizeof *row);
            else
                for (int64_t x = 0; x < nx; x++)
                    memset(row + x * step, 0, (size_t)width * sizeof *row);
        }
}

static void NAME(add)(const struct finder *f, T *field, const T *values, const int64_t *index)
{
    const struct stni_pick_args *a = f->a;
    for (int64_t x = 0; x < a->n_values[2]; x++)
        for (int64_t v = 0; v < a->n_outer[2]; v++) {
            int64_t at = find(f, index[x * a->index_stride[2] + v]);
            if (at >= 0)
                field[at + v] = STORE(LOAD(field[at + v]) + LOAD(values[x * a->value_stride[2] + v]));
        }
}

static void NAME(pick)(const struct finder *f, const T *field, T *values, const int64_t *index)
{
    const struct stni_pick_args *a = f->a;
    for (int64_t x = 0; x < a->n_values[2]; x++)
        for (int64_t v = 0; v < a->n_outer[2]; v++) {
            int64_t at = find(f, index[x * a->index_stride[2] + v]);
            values[x * a->value_stride[2] + v] = at >= 0 ? field[at + v] : 0;
        }
}

/* One image, or one channel of one. */
static void NAME(image)(const struct finder *f, int64_t field_at, int64_t values_at, int64_t index_at)
{
    const struct stni_pick_args *a = f->a;
    T *field = (T *)a->field + field_at;
    if (a->adds)
        NAME(clear)(a, field);
    for (int64_t z = 0; z < a->n_values[0]; z++)
        for (int64_t y = 0; y < a->n_values[1]; y++) {
            T *values = (T *)a->values + values_at + z * a->value_stride[0] + y * a->value_stride[1];
            const int64_t *index = a->index + index_at + z * a->index_stride[0] + y * a->index_stride[1];
            if (a->adds)
                NAME(add)(f, field, values, index);
            else
                NAME(pick)(f, field, values, index);
        }
}
