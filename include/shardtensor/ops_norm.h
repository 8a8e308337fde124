/* Normalisations: softmax and its kin. */
#ifndef SHARDTENSOR_OPS_NORM_H
#define SHARDTENSOR_OPS_NORM_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Softmax along `dim`: y[i] = exp(x[i] - m) / sum_j exp(x[j] - m), m = max_j x[j].
 *
 * Shapes:     (d0, …, dn-1) -> same shape and dtype.
 * Placement:  keeps x's. Sharded along `dim`: two all-reduces of numel / shape[dim] elements. Partial is reduced first.
 * Collective: over x's mesh where sharded along `dim` or Partial.
 * Gradient:   yes, twice differentiable.
 * @param dim  -ndim <= dim < ndim.
 * @return new tensor; STN_ERR_ARGUMENT (dim), STN_ERR_DTYPE (not floating), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: shifted softmax, Goodfellow, Bengio and Courville 2016, section 4.1. */
STN_API stn_tensor *stn_softmax(stn_tensor *input, int dim);

STN_END_DECLS
#endif
