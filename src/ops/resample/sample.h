/* grid_sample and its backward: attributes, and how their tensors lie. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_H
#define STNI_OPS_RESAMPLE_SAMPLE_H

#include "ops/resample/sample_kernel.h"

struct stni_sample_attrs {
    int64_t mode, padding_mode, align_corners; /* stni_sample_mode, stni_sample_padding */
    int64_t wanted; /* of the backward: bit 0 the input's gradient, bit 1 the grid's */
};

extern const char *const stni_sample_modes[], *const stni_sample_paddings[];
extern const stn_attr_schema stni_sample_schema[3], stni_sample_backward_schema[4];

enum { STNI_SAMPLE_INPUT, STNI_SAMPLE_GRID, STNI_SAMPLE_GRAD, STNI_SAMPLE_OPERANDS };

/* Checks shapes, dtypes and attributes of both ops; writes the output's shape. */
stn_status stni_sample_check(const stn_op_call *call, uint32_t dtypes, int64_t *shape);

/* Dtype aside, the layouts in which a mesh works on a sampling. `output` is that of the cotangent too. */
struct stni_sample_layouts {
    struct stni_layout input, grid, output, grad_input, grad_grid;
};

/* From the operands as they are given; a cotangent may be absent. `shape` is the output's.
 *
 * Per mesh axis one thing is sharded, which is that of the larger of input and grid, else of the other, else of the
 * cotangent: the batch (of all tensors), the channels, the points, or the input's pixels. If channels or pixels are
 * sharded each rank needs the whole grid; if points are sharded, the whole input. Where pixels are sharded each rank
 * sums over its own, and the output is a pending sum; but where the input is no larger than the ranks' partial
 * outputs together, the axis cuts channels or batch instead, if there are enough of them. */
stn_status stni_sample_place(const stn_op_call *call, const int64_t *shape, struct stni_sample_layouts *out);

/* What kernels need but for the data of gradients. */
void stni_sample_fill(const stn_op_call *call, const stn_tensor *output, struct stni_sample_args *args);

/* Strides of a tensor whose channels, or coordinates, are dim `channel`. */
struct stni_sample_field stni_sample_field(const stn_tensor *tensor, int channel);

#endif
