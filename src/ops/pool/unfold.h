/* unfold and its adjoint: windows of one dim, as a dim of their own and one of their elements. */
#ifndef STNI_OPS_POOL_UNFOLD_H
#define STNI_OPS_POOL_UNFOLD_H

#include "ops/exchange/window.h"

#include <shardtensor/op.h>

struct stni_unfold_attrs {
    int64_t dimension, size, step;
    int64_t dilation;   /* between the elements of a window; the public op's is 1 */
    int64_t input_size; /* of the adjoint: of the dim that was unfolded */
};

/* A call with its numbers resolved. */
struct stni_unfold {
    int dim;
    int64_t n_in, n_windows, size, step, dilation;
};

/* Against the dim's size. Fails through the call. */
stn_status stni_unfold_read(const stn_op_call *call, int ndim, int64_t n_in, struct stni_unfold *out);

/* Checks of `dimension`; the dim of a tensor without any is 0. */
stn_status stni_unfold_dim(const stn_op_call *call, int ndim, int *dim);

/* Elements from the first to the last that windows read. */
struct stni_range stni_unfold_reads(const struct stni_unfold *unfold, struct stni_range windows);

/* Windows, of those that there are, between whose first and last element one of the elements lies. */
struct stni_range stni_unfold_readers(const struct stni_unfold *unfold, struct stni_range elements);

stn_tensor *stni_unfold(stn_tensor *input, const struct stni_unfold_attrs *attrs);
stn_tensor *stni_unfold_backward(stn_tensor *grad, const struct stni_unfold_attrs *attrs);

extern const struct stni_unfold_attrs stni_unfold_init;

extern const stn_attr_schema stni_unfold_adjoint_schema[5];

/* The adjoint's kernel: each element of a box is the sum of its places in windows. Dims that are not unfolded are
 * `lanes`, those next to each other in the result, and up to six more. Strides in elements. */
enum { STNI_UNFOLD_OUTER = 6 };

struct stni_unfold_args {
    stn_dtype dtype;
    struct stni_unfold unfold;
    struct stni_range target, windows; /* boxes along the dim: of elements, of windows */
    int64_t first_tap, n_taps;         /* which elements of its windows this rank has */
    int64_t to_stride, window_stride, tap_stride;
    int n_outer;
    int64_t outer[STNI_UNFOLD_OUTER], to_outer[STNI_UNFOLD_OUTER], from_outer[STNI_UNFOLD_OUTER];
    int64_t lanes, to_lane, from_lane;
    const void *from;
    void *to;
};

stn_status stni_unfold_backward_cpu(stn_queue *queue, const void *args);

#endif
