/* Per-rank programs on chunks: where tensors on a mesh and local tensors meet. stn_to_local and stn_from_local of
 * tensor.h cross over under one convention; here it is chosen for each axis, and chunks have margins that the
 * neighbours fill.
 *
 * Every rank of the mesh makes these calls. One outside makes them where it wants the tensor, of which it has nothing,
 * and where a call is collective over the world; else nobody waits for it. */
#ifndef SHARDTENSOR_LOCAL_H
#define SHARDTENSOR_LOCAL_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/* Crossing over, with a placement of the gradient for each axis. Where these say what a convention would, the result is
 * that of stn_to_local and stn_from_local. */

/** As stn_to_local; `grad_placements` tell what the cotangents of the ranks' local tensors are, one entry per mesh
 * axis:
 *
 *     the tensor is   they may be
 *     Shard(d)        Shard(d)
 *     Replicate       Replicate     one value, which every rank holds (STN_GRAD_REPLICATED)
 *                     Partial(sum)  each rank's own part: they are added (STN_GRAD_PER_RANK)
 *                     Partial(avg)  likewise, and averaged: of ranks whose losses are means of their own batches
 *     Partial(sum)    Replicate     the caller reduces the addends, and promises that all ranks get one value
 *
 * Shapes:     a tensor on a mesh -> this rank's chunk, sharing its memory.
 * Collective: no; its backward may leave a sum pending.
 * Gradient:   as above, as often differentiable as wanted.
 * @return new tensor; STN_ERR_ARGUMENT (grad_placements: NULL, or another placement than these; entries of axes of one
 *  rank are not looked at). (DTensor: to_local(grad_placements=…).) */
STN_API stn_tensor *stn_to_local_with(stn_tensor *tensor, const stn_placement *grad_placements);

/** As stn_from_local; `grad_placements` tell how the cotangent of the result is laid before each rank takes its own:
 *
 *     spec has      it may be
 *     Shard(d)      Shard(d)
 *     Replicate     Replicate     every rank gets the whole (STN_GRAD_REPLICATED)
 *                   Partial(sum)  axis rank 0 gets it, the others zeros (STN_GRAD_PER_RANK)
 *     Partial(op)   Replicate     what the reduction makes of it: the whole for sum, a part for avg, for prod times the
 *                                 other ranks' operands, for min and max that of the holder, ties in equal parts
 *
 * Shapes:     this rank's chunk of `spec` -> a tensor of `spec`, sharing its memory where that is dense.
 * Collective: no; with a gradient of Partial(prod, min, max) its backward is, over that axis.
 * Gradient:   as above.
 * @return new tensor; as stn_from_local; STN_ERR_ARGUMENT (grad_placements: NULL, or another placement than these),
 *  STN_ERR_UNSUPPORTED (local requires grad: different kinds of reductions beside a product or extreme; more than
 *  STN_MAX_NDIM dims with one for each such axis). */
STN_API stn_tensor *stn_from_local_with(stn_tensor *local, const stn_spec *spec, const stn_placement *grad_placements);

/** As stn_full_tensor; `grad_placements` tell what the cotangents of the ranks' wholes are along each mesh axis, as
 * those of a Replicate tensor in stn_to_local_with: Replicate where all ranks go on to one loss, as stn_full_tensor has
 * it, Partial(sum) where each rank's loss is its own.
 *
 * Shapes:     a tensor on a mesh -> the whole, local, on every rank of it.
 * Collective: over the mesh unless Replicate.
 * Gradient:   as above.
 * @return new tensor; STN_ERR_ARGUMENT (grad_placements), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_full_tensor_with(stn_tensor *tensor, const stn_placement *grad_placements);

/* Chunks with margins */

/** This rank's chunk with margins, as a local tensor: what padding the whole and slicing this rank's part with its
 * widths would give, in one exchange of the margins alone. Margins come from wherever they lie: neighbours, ranks
 * several hops away where chunks are narrower than a margin, corners, the other end, beyond a pole. (stn_pad and
 * stn_pad_sphere pad the whole, whose cuts they move.)
 *
 * Shapes:     (d0, …) on a mesh, or local -> local: below[d] + local_shape[d] + above[d] along each dim, dense and
 *             row-major. A dim of which this rank has nothing stays 0, without margins.
 * Placement:  any Shards, even or not; a pending reduction is done first.
 * Collective: over the ranks that share the dims with a width, one exchange.
 * Gradient:   yes, by `convention` along Replicate axes, as stn_to_local: cotangents of margins go back to where the
 *             elements came from, and are added (stn_halo_unpad_add). As often differentiable as wanted.
 * @param halo  widths, modes and poles, the same on every rank.
 * @return new tensor; STN_ERR_ARGUMENT (halo: size, a negative width, an unknown mode, more than STN_MAX_HALO_NDIM dims
 *  with a width, poles; convention), STN_ERR_SHAPE (halo: REFLECT with a width of the dim's size or more, more rows
 *  beyond a pole than there are, no elements to go on with), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: examples/local_stencil.c. */
STN_API stn_tensor *stn_halo_pad(stn_tensor *tensor, const stn_halo *halo, stn_grad_convention convention);

/** The adjoint of stn_halo_pad: a tensor of `spec` whose elements are the sums of all places at which they stand in the
 * ranks' local tensors, margins included (PyTorch Geometric's users know it as halo scatter-add; for ghost rows
 * of particles and finite elements). This rank's own come first, then the others' in a fixed order, so that two runs
 * give the same bits.
 *
 * Shapes:     local, as stn_halo_pad gives it for `spec` and `halo` -> spec's.
 * Placement:  `spec`, on a mesh. Along Partial axes of it the ranks' tensors are addends.
 * Collective: over the ranks that share the dims with a width, one exchange.
 * Gradient:   yes, by `convention` along Replicate axes, as stn_from_local: stn_halo_pad of the cotangent. Of Partial
 *             axes for sums and averages.
 * @return new tensor; as stn_halo_pad; STN_ERR_SHAPE and STN_ERR_DTYPE (local is not what stn_halo_pad gives on this
 *  rank), STN_ERR_UNSUPPORTED (local requires grad, and spec has another pending reduction).
 * Source: examples/local_stencil.c. */
STN_API stn_tensor *stn_halo_unpad_add(stn_tensor *local, const stn_spec *spec, const stn_halo *halo,
                                       stn_grad_convention convention);

/* Functions of one's own on chunks */

/** What a function of stn_local_map sees on one rank. It may use ops on the local tensors, or their memory (once the
 *  queue has been waited for: stn_queue_sync, which is free on the CPU's immediate queue). Any strides. */
typedef struct stn_local_call {
    size_t size;
    stn_context *context;
    const stn_mesh *mesh;  /* of the map: stn_mesh_axes_comm gives communicators of its axes */
    int n_in, n_out;
    stn_tensor *const *in; /* this rank's chunks in the declared layouts; NULL where the caller gave none */
    stn_tensor **out;      /* to fill with local tensors, each as the function got it from an op or made it */
    void *arg;
} stn_local_call;

/** The same for its backward. */
typedef struct stn_local_backward_call {
    size_t size;
    stn_context *context;
    const stn_mesh *mesh;
    int n_in, n_out;
    uint32_t needs;              /* bit i: in[i] needs a gradient */
    stn_tensor *const *in, *const *out; /* as the function got and gave them */
    stn_tensor *const *grad_out; /* cotangents of the outputs, zeros where none arrived; NULL of dtypes without gradients. Not
                                    to be written to */
    stn_tensor **grad_in;        /* to fill where needed: local, of the shape and dtype of in[i]. NULL stands for zero */
    void *arg;
} stn_local_backward_call;

/** A function on chunks, and what it takes and gives. The same on every rank, but for `arg`. */
typedef struct stn_local_map_options {
    size_t size;          /* sizeof(stn_local_map_options) */
    const stn_mesh *mesh; /* where inputs are brought and outputs lie; NULL: the mesh of the first input that is on one */
    /** Called once on every rank of the mesh, also where its chunks are empty, in a scope of its own. */
    stn_status (*function)(stn_local_call *call);
    /** NULL: the ops that the function calls on its inputs are differentiated. */
    stn_status (*backward)(stn_local_backward_call *call);
    int backward_of_ops; /* 1: backward is made of ops, so that it can be differentiated again; else that is refused */
    void *arg;
    void (*destroy)(void *arg); /* called once when the map, failed or not, and all that it recorded need arg no more, as the
                                   `release` of stn_wrap; may be NULL */
    /** in_placements[i]: one per axis, to which input i is redistributed; a dim keeps its cuts where it stays sharded
     *  (stn_spec_like). NULL, or an entry NULL: as it comes. Entries of local inputs are NULL: these are handed on as
     *  they are, and may not require grad. */
    const stn_placement *const *in_placements;
    /** in_halos[i]: the margins with which the function gets its chunk of input i, as by stn_halo_pad; its backward
     *  gives gradients of chunk and margins, which are brought home and added. NULL, or an entry NULL: none. */
    const stn_halo *const *in_halos;
    int no_redistribution; /* 1: an input in other placements than declared is refused */
    /** out_specs[k]: the layout of output k, whose chunk on each rank the function gives. Or, where that is NULL,
     *  out_placements[k]: the ranks' sizes are gathered once (as by stn_from_local_gather_shapes, over the world). */
    const stn_spec *const *out_specs;
    const stn_placement *const *out_placements;
    /** What gradients are along axes of Replicate. PER_RANK: the cotangent of an output goes to axis rank 0, the others
     *  get zeros, and the gradients of an input are added up over the axis: right for every function whose Replicate
     *  outputs are one value. REPLICATED: each rank gets the whole, and its gradients are the whole: without the sum,
     *  for a function that computes them so. in_grad_placements[i] and out_grad_placements[k], where given, say it axis
     *  by axis, as stn_to_local_with and stn_from_local_with take them. */
    stn_grad_convention convention;
    const stn_placement *const *in_grad_placements;
    const stn_placement *const *out_grad_placements;
} stn_local_map_options;

/** Runs a C function on the chunks of tensors, and makes tensors of what it gives.
 *
 * Shapes:     out[k] has out_specs[k], or the shape that the ranks' outputs make up.
 * Placement:  inputs as declared; a pending reduction only of inputs that do not require grad.
 * Collective: over the mesh, over the world where sizes are gathered; ranks outside run no function. The ranks agree,
 *             host to host, before inputs move, where any does, when the function has returned, and in backward: what
 *             one of them passes wrong or meets, an earlier failure too, all return with its text and rank, and the
 *             mesh stays usable. A function that communicates (by stn_mesh_axes_comm on the context's queue, or by
 *             dist.h over the mesh or slices of it) fails on every rank or before its first collective, else its peers
 *             wait for the deadline.
 * Gradient:   by `backward`, else through the ops of the function. An input that requires grad, and no output that
 *             depends on it by ops, is refused: a caller who wants none detaches it, or works without grad mode.
 *             `backward` runs on every rank of the mesh, keeps all inputs and outputs of the function alive, and is
 *             called without grad mode unless it is to be differentiated.
 * @param in   n_in inputs, NULL where absent; at most STN_MAX_INPUTS - 1.
 * @param out  n_out entries, at most STN_MAX_OUTPUTS: new tensors, views as stn_from_local's; the error tensor on
 * failure.
 * @return the context's status: STN_ERR_ARGUMENT (options; a local input that requires grad, or that has placements),
 *  STN_ERR_LAYOUT (no_redistribution), STN_ERR_PARTIAL, STN_ERR_SHAPE, STN_ERR_DTYPE (an output does not fit its spec),
 *  STN_ERR_UNSUPPORTED (nothing to differentiate), STN_ERR_MISMATCH (ranks' outputs differ in what they depend on), or
 *  what the function returned.
 * Source: examples/local_stencil.c. */
STN_API stn_status stn_local_map(const stn_local_map_options *map, int n_in, stn_tensor *const *in, int n_out,
                                 stn_tensor **out);

STN_END_DECLS
#endif
