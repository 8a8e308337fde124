/* What the attributes of interpolate and of its adjoint mean. */
#ifndef STNI_OPS_RESAMPLE_RESAMPLE_GEOMETRY_H
#define STNI_OPS_RESAMPLE_RESAMPLE_GEOMETRY_H

#include "ops/resample/resample_kernel.h"

struct stni_interpolate_attrs {
    stn_ints size;          /* of the result; absent: by the factors */
    stn_floats scale_factor;
    int64_t mode;           /* which of stni_interpolate_modes */
    int64_t align_corners;  /* -1: not said */
    int64_t recompute_scale_factor, antialias;
    stn_ints input_size;    /* of the adjoint */
};

extern const struct stni_interpolate_attrs stni_interpolate_init;
extern const char *const stni_interpolate_modes[];

/* Schema of both; the last row is the adjoint's alone. */
extern const stn_attr_schema stni_interpolate_schema[6], stni_interpolate_backward_schema[7];

/* The dims that are resampled: the tensors' dims first, first + 1, …; the one before is the channels, one more at
 * most the batch. */
struct stni_resample {
    int dims, first;
    struct stni_resample_dim dim[STNI_RESAMPLE_DIMS];
};

/* From the input of the op, or of its adjoint. Fails through the call. */
stn_status stni_resample_read(const stn_op_call *call, int transposed, struct stni_resample *out);

#endif
