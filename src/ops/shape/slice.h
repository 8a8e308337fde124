/* What slice and its adjoint share, and what is made of them. */
#ifndef STNI_OPS_SHAPE_SLICE_H
#define STNI_OPS_SHAPE_SLICE_H

#include "core/shard/spec.h"
#include "ops/exchange/remap.h"

/* start, start + step, …, as far as they are below end. */
struct stni_slice_attrs {
    int64_t dim, start, end, step;
    int64_t size; /* of the adjoint: elements of the whole dim */
};

/* A slice with its numbers resolved. */
struct stni_slice {
    int dim;
    int64_t start, step, length; /* of the part */
    int64_t size;                /* of the whole */
};

/* Reads attributes against a tensor's shape, as Python does: negative numbers count from the end, what is outside is
 * cut off. */
stn_status stni_slice_read(const stn_op_call *call, const struct stni_slice_attrs *attrs, int ndim,
                           const int64_t *shape, struct stni_slice *out);

/* The layout of a slice of a tensor: each rank keeps what it has. */
stn_status stni_slice_layout(stn_context *context, const struct stni_layout *in, const struct stni_slice *slice,
                             struct stni_layout *out);

/* The first element of this rank's part, which is not empty, in elements of a chunk of `spec` with these strides;
 * `part` is the part's spec. */
int64_t stni_slice_first(const stn_spec *spec, const stn_spec *part, const struct stni_slice *slice,
                         const int64_t *strides);

/* The adjoint: `grad`, whose dim `dim` has the slice's length, in a tensor of zeros whose dim has `size`. */
stn_tensor *stni_slice_backward(stn_tensor *grad, int64_t dim, int64_t start, int64_t step, int64_t size);

#endif
