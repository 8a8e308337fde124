/* Where a rank's field holds a place of the whole input. A part of pick_cpu.c. */
#ifndef STNI_OPS_POOL_PICK_FINDER_H
#define STNI_OPS_POOL_PICK_FINDER_H

#include "ops/pool/pick_kernel.h"

#include <string.h>

/* Offsets in the field of places in the whole input. */
struct finder {
    const struct stni_pick_args *a;
    int64_t apart; /* where the field holds the whole, and places lie evenly: elements from one to the next. Else 0 */
};

/* What stride a dim of size 1 has says nothing. A repeated field has strides of 0. */
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
    if (within == 1)
        apart = 1;
    return (struct finder){a, whole ? apart : 0};
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
    const int64_t at[] = {(int64_t)plane, (int64_t)(row - plane * (uint64_t)a->n_in[1]),
                          place - (int64_t)row * a->n_in[2]};
    int64_t offset = 0;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++) {
        if (at[d] < a->field_range[d].begin || at[d] >= a->field_range[d].end)
            return -1;
        offset += (at[d] - a->field_range[d].begin) * a->field_stride[d];
    }
    return offset;
}

#endif
