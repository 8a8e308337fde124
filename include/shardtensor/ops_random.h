/* Operations that draw random numbers.
 *
 * Numbers are counter-based and belong to global elements: the same on any number of ranks, for any layout. Each call that draws uses one
 * stream of the context (stn_context_random_state), on every rank alike, with or without grad mode. */
#ifndef SHARDTENSOR_OPS_RANDOM_H
#define SHARDTENSOR_OPS_RANDOM_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Zeroes each element with probability `p`, and multiplies the others by 1 / (1 - p).
 *
 * Shapes:     (d0, …) -> same shape and dtype, a floating one.
 * Placement:  kept; Partial(sum) is kept, other pending reductions are done first.
 * Collective: over the mesh where a reduction is done.
 * Gradient:   yes, twice differentiable: the same elements of the cotangent. No mask is kept: the numbers are drawn again.
 * @param training  0: the result is `input`, and no numbers are drawn; so it is for p = 0.
 * @return new tensor, or one more handle on `input`; STN_ERR_ARGUMENT (p outside 0 … 1), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov, JMLR 15, 2014. */
STN_API stn_tensor *stn_dropout(stn_tensor *input, double p, int training);

/** As stn_dropout, but whole channels are zeroed: one number for each element of the first two dims, (n, c).
 *  @return as stn_dropout; STN_ERR_SHAPE (fewer than two dims).
 *  Source: Tompson, Goroshin, Jain, LeCun and Bregler, CVPR 2015. */
STN_API stn_tensor *stn_dropout_channels(stn_tensor *input, double p, int training);

STN_END_DECLS
#endif
