/* What the three convolution ops share. */
#ifndef STNI_OPS_CONV_CONV_H
#define STNI_OPS_CONV_CONV_H

#include "ops/conv/geometry.h"
#include "ops/util/call.h"

/* The ops called as each other's derivatives, with the geometry of `attrs` and sizes taken from tensors. */
stn_tensor *stni_conv2d_forward(stn_tensor *x, stn_tensor *weight, const struct stni_conv_attrs *attrs);
stn_tensor *stni_conv2d_grad_input(stn_tensor *grad, stn_tensor *weight, const int64_t *x_shape, int x_ndim,
                                   const struct stni_conv_attrs *attrs);
stn_tensor *stni_conv2d_grad_weight(stn_tensor *x, stn_tensor *grad, const int64_t *weight_shape,
                                    const struct stni_conv_attrs *attrs);

#endif
