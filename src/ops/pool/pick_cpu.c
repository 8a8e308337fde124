#include "ops/pool/pick_kernel.h"

#include <string.h>

/* Offsets in the field of places in the whole input. */
struct finder {
    const struct stni_pick_args *a;
    int64_t apart; /* where the field holds the whole, and places lie evenly: elements from one to the next. Else 0 */
};

/* What stride a dim of size 1 has says nothing. */
static struct finder finder_of(const struct stni_pick_args *a)
{
    int64_t apart = 0, within = 1;
    int whole = 1;
    for (int d = STNI_RESAMPLE_DIMS - 1; d >= 0; d--) {
        whole = whole && stni_range_length(a->field_range[d]) == a->n_in[d];
        if (a->n_in[d] == 1)
            continue;
        if (apart == 0)
            apart = a->field_stride[d];
        whole = whole && a->field_stride[d] == apart * within;
        within *= a->n_in[d];
    }
    return (struct finder){a, !whole ? 0 : apart > 0 ? apart : 1};
}

/* -1: not in the field. */
static inline int64_t find(const struct finder *f, int64_t place)
{
    const struct stni_pick_args *a = f->a;
    if (place < 0)
        return -1;
    if (f->apart > 0)
        return place * f->apart;
    uint64_t row = (uint64_t)place / (uint64_t)a->n_in[2], plane = row / (uint64_t)a->n_in[1];
    const int64_t at[] = {(int64_t)plane, (int64_t)(row - plane * (uint64_t)a->n_in[1]), place - (int64_t)row * a->n_in[2]};
    int64_t offset = 0;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++) {
        if (at[d] < a->field_range[d].begin || at[d] >= a->field_range[d].end)
            return -1;
        offset += (at[d] - a->field_range[d].begin) * a->field_stride[d];
    }
    return offset;
}

#define TEMPLATE "ops/pool/pick_rows_tmpl.h"
#include "core/box/each_float.h"

stn_status stni_pick_cpu(stn_queue *queue, const void *args)
{
    static void (*const images[])(const struct finder *, int64_t, int64_t, int64_t) = {image_f32, image_f64, image_bf16, image_f16};
    const struct stni_pick_args *a = args;
    const struct finder f = finder_of(a);
    (void)queue;
    for (int64_t i = 0; i < a->n_outer[0]; i++)
        for (int64_t j = 0; j < a->n_outer[1]; j++)
            images[a->dtype](&f, i * a->outer_field[0] + j * a->outer_field[1], i * a->outer_value[0] + j * a->outer_value[1],
                             i * a->outer_index[0] + j * a->outer_index[1]);
    return STN_OK;
}
