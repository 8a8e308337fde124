/* Differentiable collectives under per-rank semantics: local tensors, one program per rank. docs/gradients.md tells them apart from
 * ops on sharded tensors. In grad mode every collective is recorded on every rank, and backward is then collective over the world. */
#ifndef SHARDTENSOR_DIST_H
#define SHARDTENSOR_DIST_H

#include <shardtensor/autograd.h>

STN_BEGIN_DECLS

/** y = op over the ranks of `mesh` of each rank's `input`, on every one of them.
 *
 * Shapes:     local (d0, …), the same on each rank -> the same.
 * Collective: over `mesh`; every rank of the world makes the call, those outside the mesh get their input back.
 * Gradient:   yes, by `convention`. SUM: PER_RANK the sum of the ranks' cotangents, REPLICATED the rank's own. AVG: that / n.
 *             PROD: g times the product of the OTHERS. MIN, MAX: g to the holder of the extreme, split evenly on ties.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_COMM.
 * Source: docs/gradients.md, cases C1 to C14. */
STN_API stn_tensor *stn_dist_all_reduce(stn_tensor *input, const stn_mesh *mesh, stn_reduce_op op,
                                        stn_grad_convention convention);

STN_END_DECLS
#endif
