/* Crossing between tensors on a mesh and local ones.
 *
 *     take   a chunk as a local tensor      give   a local tensor as a chunk
 *
 * What a gradient does follows from which function is meant, axis by axis. take along a Replicate axis:
 *     sum     each rank's copy counts: the adjoint adds them                       (to_local, PER_RANK)
 *     root    axis rank 0 takes the value, the others zeros                        (adjoint of a root's give)
 *     else    the copies are one value, and so are their cotangents                (to_local, REPLICATED)
 * give along an axis:
 *     Partial, not root    the sum of the ranks' tensors; the adjoint is a summing take
 *     Partial, root        axis rank 0's alone, the others count as zeros; the adjoint is a root's take
 *     Replicate, root      axis rank 0's, which the others are promised to equal  (from_local, PER_RANK); likewise
 *     Replicate            one value; the adjoint gives it to each                (from_local, REPLICATED) */
#ifndef STNI_OPS_REDISTRIBUTE_LOCAL_H
#define STNI_OPS_REDISTRIBUTE_LOCAL_H

#include "core/tensor/tensor.h"

/* Masks of mesh axes; sum_axes is take's only. */
struct stni_local_axes {
    int64_t sum_axes, root_axes;
};

stn_status stni_take(stn_tensor *tensor, const struct stni_local_axes *axes, stn_tensor **out);
stn_status stni_give(stn_tensor *local, const stn_spec *spec, const struct stni_local_axes *axes, stn_tensor **out);

/* Checks that `local` fits this rank's chunk of `spec`, and gives it under a convention. `what` begins messages. */
stn_status stni_from_local(stn_tensor *local, const stn_spec *spec, stn_grad_convention convention, const char *what, stn_tensor **out);

#endif
