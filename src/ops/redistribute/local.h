/* Crossing between tensors on a mesh and local ones.
 *
 *     take   a chunk as a local tensor      give   a local tensor as a chunk
 *
 * What a gradient does follows from which function is meant, axis by axis. take along a Replicate axis:
 *     sum     each rank's copy counts: the adjoint adds them                       (to_local, PER_RANK)
 *     mean    each copy counts a part: the adjoint averages them                   (to_local_with, Partial(avg))
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

/* Masks of mesh axes; sum_axes and mean_axes are take's only. */
struct stni_local_axes {
    int64_t sum_axes, root_axes, mean_axes;
};

stn_status stni_take(stn_tensor *tensor, const struct stni_local_axes *axes, stn_tensor **out);
stn_status stni_give(stn_tensor *local, const stn_spec *spec, const struct stni_local_axes *axes, stn_tensor **out);

/* Parts of their adjoints, for other ways to cross over: mesh axes of more than one rank along which `spec` is of a
 * kind; whether this rank is axis rank 0 along all of `axes`; the layout of the cotangent of what a take took from
 * `spec`; of a mean over ranks the part that each one's tensor counts. */
uint32_t stni_axes_of_kind(const stn_spec *spec, stn_placement_kind kind);
int stni_is_axes_root(const stn_mesh *mesh, int64_t axes);
stn_status stni_taken_spec(const stn_spec *spec, const struct stni_local_axes *axes, const stn_spec **out);
double stni_mean_factor(const stn_spec *spec);

stn_status stni_check_convention(stn_context *context, stn_grad_convention convention, const char *what);

/* Of pending reductions, the adjoint of a give knows sums and means. */
stn_status stni_check_pending(const stn_tensor *local, const stn_spec *spec, const char *what);

/* What placements of gradients say of a take from `spec`, of a give to it; NULL is refused. */
stn_status stni_take_axes(const stn_spec *spec, const stn_placement *grads, const char *what,
                          struct stni_local_axes *out);
stn_status stni_give_axes(const stn_spec *spec, const stn_placement *grads, const char *what,
                          struct stni_local_axes *out);

/* Whether `spec` is there, of this context, and on a mesh. */
stn_status stni_check_mesh_spec(stn_context *context, const stn_spec *spec, const char *what);

/* Whether `local` is a local tensor that fits this rank's chunk of `spec`, which is on a mesh. */
stn_status stni_check_chunk(const stn_tensor *local, const stn_spec *spec, const char *what);

/* Checks that `local` fits this rank's chunk of `spec`, and gives it: with the axes, or under a convention. `what`
 * begins messages. A local tensor that requires grad and is a factor of a pending product, or a candidate for a pending
 * extreme, goes by stni_give_reduced. */
stn_status stni_from_local_by(stn_tensor *local, const stn_spec *spec, const struct stni_local_axes *axes,
                              const char *what, stn_tensor **out);
stn_status stni_from_local(stn_tensor *local, const stn_spec *spec, stn_grad_convention convention, const char *what,
                           stn_tensor **out);

/* Whether `spec` has a pending reduction whose adjoint reads the operands: another one than a sum or a mean. */
int stni_reads_operands(const stn_spec *spec);

/* Gives the ranks' tensors as operands of such reductions, by ops that have their gradients. */
stn_status stni_give_reduced(stn_tensor *local, const stn_spec *spec, const struct stni_local_axes *axes,
                             const char *what, stn_tensor **out);

/* The whole tensor, replicated and taken with the axes. */
stn_status stni_take_whole(stn_tensor *tensor, const struct stni_local_axes *axes, stn_tensor **out);

#endif
