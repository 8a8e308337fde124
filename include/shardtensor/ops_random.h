/* Operations that draw random numbers.
 *
 * Numbers are counter-based and belong to global elements: the same on any number of ranks, for any layout. Each call
 * that draws uses one stream of its mesh (stn_mesh_random_stream), on every rank of it alike, with or without grad
 * mode. */
#ifndef SHARDTENSOR_OPS_RANDOM_H
#define SHARDTENSOR_OPS_RANDOM_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Zeroes each element with probability `p`, and multiplies the others by 1 / (1 - p).
 *
 * Shapes:     (d0, …) -> same shape and dtype, a floating one.
 * Placement:  kept; Partial(sum) is kept, other pending reductions are done first.
 * Collective: over the mesh where a reduction is done.
 * Gradient:   yes, twice differentiable: the same elements of the cotangent. No mask is kept: the numbers are drawn
 *             again.
 * @param training  0: the result is `input`, and no numbers are drawn; so it is for p = 0.
 * @return new tensor, or one more handle on `input`; STN_ERR_ARGUMENT (p outside 0 … 1), STN_ERR_DTYPE, STN_ERR_MEMORY,
 * STN_ERR_COMM.
 * Source: Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov, JMLR 15, 2014. */
STN_API stn_tensor *stn_dropout(stn_tensor *input, double p, int training);

/** As stn_dropout, but whole channels are zeroed: one number for each element of the first two dims, (n, c).
 *  @return as stn_dropout; STN_ERR_SHAPE (fewer than two dims).
 *  Source: Tompson, Goroshin, Jain, LeCun and Bregler, CVPR 2015. */
STN_API stn_tensor *stn_dropout_channels(stn_tensor *input, double p, int training);

/** The stream that the next draw on a mesh takes. Every draw takes one: a factory's, a dropout's. A mesh of all ranks
 *  draws from the context's (stn_context_random_state), as local tensors do; one of some ranks has a count of its own,
 *  which the ranks outside need not follow, so that a program on it draws what one process would. Its first stream is
 *  0, or what stn_context_set_random_state set for all. Local. @return 0 for NULL. */
STN_API uint64_t stn_mesh_random_stream(const stn_mesh *mesh);

/** Sets it; every rank of the mesh sets the same. Groups that are to draw other numbers than their neighbours (dropout,
 *  on samples of their own) or stages of a pipeline begin far apart, as at group << 32; groups whose parameters are to
 *  begin alike draw these from the same streams. Local; NULL is ignored. */
STN_API void stn_mesh_set_random_stream(const stn_mesh *mesh, uint64_t stream);

STN_END_DECLS
#endif
