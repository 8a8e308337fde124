/* The kernels that go by a max pool's indices: adding what belongs to maxima up at their places, and picking what
 * stands there. */
#ifndef STNI_OPS_POOL_PICK_KERNEL_H
#define STNI_OPS_POOL_PICK_KERNEL_H

#include "ops/resample/resample_kernel.h"

/* `field` is a box of the pooled input's shape, `index` and `values` are boxes of the output's. Indices are places
 * in the whole input, -1: none; those outside of the field's ranges are passed over. Strides in elements; dims that
 * are not pooled stand first, with one element. */
struct stni_pick_args {
    stn_dtype dtype;
    int adds; /* field = sums of the values of each place; else values = elements of the field */
    int64_t n_in[STNI_RESAMPLE_DIMS], n_values[STNI_RESAMPLE_DIMS];
    struct stni_range field_range[STNI_RESAMPLE_DIMS];
    int64_t field_stride[STNI_RESAMPLE_DIMS], value_stride[STNI_RESAMPLE_DIMS], index_stride[STNI_RESAMPLE_DIMS];
    int64_t n_outer[STNI_RESAMPLE_OUTER + 1]; /* batch, channels; and channels that are neighbours in all three, which come innermost */
    int64_t outer_field[STNI_RESAMPLE_OUTER], outer_value[STNI_RESAMPLE_OUTER], outer_index[STNI_RESAMPLE_OUTER];
    void *field, *values;
    const int64_t *index;
};

stn_status stni_pick_cpu(stn_queue *queue, const void *args);

#endif
