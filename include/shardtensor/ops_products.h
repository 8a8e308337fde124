/* Matrix products and convolutions. */
#ifndef SHARDTENSOR_OPS_PRODUCTS_H
#define SHARDTENSOR_OPS_PRODUCTS_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Matrix product, batched and broadcast as PyTorch's matmul: vectors are rows on the left, columns on the right.
 *
 * Shapes:     (…, m, k) x (…, k, n) -> (…, m, n). Dtypes are equal, floating or complex or integer.
 * Placement:  per axis: a batch dim, m or n sharded stays sharded; k sharded on both gives Partial(sum); Partial(sum) of one with
 *             the other Replicate is kept; what fits none of these is redistributed, the smaller operand first.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_matmul(stn_tensor *input, stn_tensor *other);

/** input weight^T + bias, row by row.
 *
 * Shapes:     input (…, in), weight (out, in), bias (out) or NULL -> (…, out). Dtypes are equal, as of stn_matmul.
 * Placement:  per axis: a leading dim of input, or out in weight, sharded stays sharded; in sharded in both gives Partial(sum); Partial(sum)
 *             as in matmul. The bias goes to where the result is: beside Partial(sum) it becomes so, which moves nothing.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_linear(stn_tensor *input, stn_tensor *weight, stn_tensor *bias);

typedef enum stn_padding_mode {
    STN_PADDING_ZEROS,
    STN_PADDING_REFLECT,
    STN_PADDING_REPLICATE,
    STN_PADDING_CIRCULAR
} stn_padding_mode;

/** All zero but `size`: stride 1, no padding, dilation 1, one group, zeros. */
typedef struct stn_conv2d_attrs {
    size_t size;         /* sizeof(stn_conv2d_attrs) */
    int64_t stride[2];   /* 0: 1 */
    int64_t padding[2];  /* rows above and below, columns left and right */
    int64_t dilation[2]; /* 0: 1 */
    int64_t groups;      /* 0: 1 */
    int same;            /* 1: as much padding as keeps the size; stride must be 1, `padding` is not read */
    stn_padding_mode mode[2]; /* per dim: latitudes may replicate while longitudes wrap */
} stn_conv2d_attrs;

/** 2-d convolution (cross-correlation).
 *
 * Shapes:     input (n, c, h, w) or (c, h, w), weight (o, c / groups, kh, kw), bias (o) or NULL
 *             -> (n, o, h', w'), h' = floor((h + 2 p - d (kh - 1) - 1) / s) + 1. Dtypes are equal.
 * Placement:  n, h and w stay sharded, with rows and columns of neighbours' chunks fetched as halos, of any width, over any cut;
 *             o sharded in weight (and bias) stays sharded; c sharded in both gives Partial(sum); Partial(sum) as in matmul.
 *             The cut of h', w': balanced from balanced, else offset' = ceil(offset h' / h). Memory order: channels last.
 * Collective: over the mesh where halos or inputs have to move.
 * Gradient:   yes, twice differentiable.
 * @param attrs  NULL: defaults.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (attrs), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_conv2d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias, const stn_conv2d_attrs *attrs);

STN_END_DECLS
#endif
