/* Gradients, under global semantics: those of ONE logical loss on logical tensors, whatever their layouts.
 *
 * Ops record nodes while grad mode is on and an input requires grad. A leaf has `grad`, complete, and `pending`, which
 * is still to be reduced over ranks. See docs/gradients.md for the collectives of dist.h, whose programs are per
 * rank. */
#ifndef SHARDTENSOR_AUTOGRAD_H
#define SHARDTENSOR_AUTOGRAD_H

#include <shardtensor/tensor.h>

STN_BEGIN_DECLS

/** Makes a leaf require gradients, or not. Local. @return STN_ERR_STATE (not a leaf), STN_ERR_DTYPE (no gradients
 *  exist). */
STN_API stn_status stn_set_requires_grad(stn_tensor *tensor, int requires_grad);

STN_API int stn_requires_grad(const stn_tensor *tensor); /**< 1 if a leaf that requires it, or the result of a node. */
STN_API int stn_is_leaf(const stn_tensor *tensor);       /**< 1 unless the result of a node. */

/** The complete gradient of a leaf: `*out` borrowed until it is forgotten, or replaced by a backward or by what scales
 *  gradients (stn_clip_grad_norm, stn_grad_unscale); NULL if there is none yet. It has the leaf's spec where that is
 *  Shard or Replicate; that of a Partial leaf is Replicate. Local. @return STN_ERR_PARTIAL while something is pending,
 *  STN_ERR_STATE, STN_ERR_ARGUMENT (either is NULL). */
STN_API stn_status stn_grad_of(stn_tensor *tensor, stn_tensor **out);

/** Forgets `grad` and `pending` of a leaf, and what a result keeps (stn_retain_grad). Local.
 *  @return STN_ERR_ARGUMENT (NULL), STN_ERR_STATE (the result of an op that keeps none), or the kept error. */
STN_API stn_status stn_zero_grad(stn_tensor *tensor);

/** The same values without history; the spec is kept, memory is shared. Local. @return new tensor. */
STN_API stn_tensor *stn_detach(stn_tensor *tensor);

/** Gradients of a loss (one element) into the leaves that require them; adds to what is there. The graph is consumed.
 *  Collective over the ranks that the graph's meshes join (meshes that share a rank, or that an op of the graph is
 *  between), whose graphs must communicate the same, checked first, mesh by mesh; collectives of dist.h in the scope
 *  join the ranks of their meshes, too. Groups that nothing joins may differ in everything; ranks outside the meshes
 *  may call it or not. Of an error that a rank has kept it tells those who wait for it.
 *  @return STN_ERR_SHAPE (not one element), STN_ERR_STATE (no graph; or a saved tensor was changed in place since),
 *  STN_ERR_MISMATCH (ranks would communicate differently: nothing was done), or what a backward function returned. */
STN_API stn_status stn_backward(stn_tensor *loss);

/** The general form, for n >= 0 losses and their cotangents (NULL, or an entry NULL: ones, for a loss of one element).
 *  With collectives of dist.h in the scope, n may be 0 on ranks that have no loss. `retain_graph`: it may go backward
 *  again.
 *  @return as stn_backward; STN_ERR_ARGUMENT (n, a list or a loss that is NULL, a tensor of another context),
 *  STN_ERR_SHAPE (a cotangent differs from its loss in shape, dtype or mesh). */
STN_API stn_status stn_backward_many(stn_context *context, int n, stn_tensor *const *losses,
                                     stn_tensor *const *cotangents, int retain_graph);

/** Gradients of `outputs` with respect to `inputs`, touching no leaf. `create_graph`: the result can be differentiated
 *  again. `grads[i]` becomes NULL where outputs do not depend on inputs[i]. Collective as stn_backward.
 *  @return as stn_backward; `grads` written on success only. Handles belong to the scope, or the caller outside one.
 *  Without `create_graph` their memory is their own, whatever cotangents went through. */
STN_API stn_status stn_grad(stn_context *context, int n_outputs, stn_tensor *const *outputs,
                            stn_tensor *const *cotangents, int n_inputs, stn_tensor *const *inputs, int retain_graph,
                            int create_graph, stn_tensor **grads);

/** A part of a program, as stn_recompute calls it: makes `outputs` from `inputs` and from what `user` points to.
 *  @return what went wrong; the kept error of the context counts by itself. */
typedef stn_status (*stn_recomputed_function)(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs,
                                              int n_outputs, stn_tensor **outputs);

/** Calls `function`, and keeps nothing of what it makes but the outputs: backward calls it again for the tensors that
 *  it needs (checkpointing of activations: memory for time). Gradients are those of a plain call, to the bit, of leaves
 *  that the function finds elsewhere too, and may be differentiated again.
 *
 * The function must do the same each time, and write to nothing but what it makes: it gets the same inputs and random
 * numbers. It may call stn_recompute itself: that part is run again with this one. Tensor hooks that it sets are those
 * of its first call. Where
 *  grad mode is off it is called once, as any function.
 *
 * Collective: as the function; backward of its nodes too, over the meshes of the function's ops.
 * @param user     alive until `release` has been called with it (NULL: nobody is told): when the graph of the part is
 *                 gone, or this call failed.
 * @param inputs   n_inputs of them, at most STN_MAX_INPUTS; entries may be NULL. They must not be changed in place
 *                 before backward.
 * @param outputs  n_outputs of them, at most STN_MAX_OUTPUTS, owned as an op's: those of a failed call are the error
 *                 tensor.
 * @return STN_ERR_ARGUMENT, what the function returned, STN_ERR_MEMORY. Backward adds STN_ERR_STATE: an input was
 *  changed in place, or the function did something else when it was called again (which ops, in which layouts, is
 *  compared). A backward inside of the function is STN_ERR_STATE, too.
 *  Source: Chen et al. 2016; Griewank and Walther 2000. */
STN_API stn_status stn_recompute(stn_context *context, stn_recomputed_function function, void *user,
                                 void (*release)(void *user), int n_inputs, stn_tensor *const *inputs, int n_outputs,
                                 stn_tensor **outputs);

/** Turns grad mode of this context off: nothing is recorded until the matching end. Nests. Local. */
STN_API void stn_no_grad_begin(stn_context *context);

/** Ends what the last stn_no_grad_begin began. Local. */
STN_API void stn_no_grad_end(stn_context *context);

/** 1 while grad mode is on, which it is at first. Local. */
STN_API int stn_grad_enabled(const stn_context *context);

/** While inside, backward leaves replicas' gradients pending: they are reduced once, later. Where the leaf is sharded
 *  (Shard), its gradient is brought to its chunks in every backward, and pending are only the axes along which it is
 *  Replicate. Hooks wait, too. Nests. Local. */
STN_API void stn_no_sync_begin(stn_context *context);

/** Ends what the last stn_no_sync_begin began. What is pending is reduced by the next backward outside, or by
 *  stn_grad_sync. Local. */
STN_API void stn_no_sync_end(stn_context *context);

/** With 1, gradients are reduced while the backward goes on: a bucket begins when all of its leaves have their
 *  gradient, or the exchange that brings one to a sharded leaf's chunks, on the communicators' side queues; the
 *  backward waits for them at its end. Which, and in which order, follows from the graph, which ranks compare before,
 *  so that all begin the same.
 *
 *  Gradients, messages and bytes are those without. Tensor hooks of leaves run earlier, other hooks when all is
 *  complete, as ever; a leaf that is being reduced refuses stn_grad_of (STN_ERR_PARTIAL); after a failure leaves have
 *  what they had. Worth it where a message takes long beside the arithmetic behind it, on MPI and devices: ranks that
 *  are threads move data with the cores that compute. Set alike on all ranks of a mesh. Off at first. NULL is ignored.
 *  Local.
 *  Source: Li et al., PyTorch Distributed, VLDB 2020. */
STN_API void stn_set_grad_overlap(stn_context *context, int on);

/** With 1, what is gathered of a sharded tensor is not kept for backward, but gathered again there (fully sharded
 *  training; ZeRO's third stage): ops that run from now on keep the tensor in its chunks in place of a leaf that they
 *  gather themselves, or of what stn_redistribute or stn_redistribute_begin gathered of any tensor. So a model's whole
 *  weights are in memory one layer at a time, for one gather more of each in backward. With stn_set_grad_overlap it is
 *  begun while the layer behind it runs backward.
 *
 *  Gradients are the same to the bit. The sharded tensor must not be changed in place before backward, which is found
 *  (STN_ERR_STATE). A result of stn_redistribute lives as long as its scope, which may be one of its layer. Inside of
 *  stn_recompute the function gathers again anyway. Set alike on all ranks of a mesh, which compare it
 *  (STN_ERR_MISMATCH). Off at first. NULL is ignored. Local.
 *  Source: Rajbhandari et al., ZeRO, SC 2020; Zhao et al., PyTorch FSDP, VLDB 2023. */
STN_API void stn_set_gather_again(stn_context *context, int on);

/** Reduces what is pending of the given leaves into `grad`, in buckets, and runs their hooks. Collective over their
 *  meshes. A hook that fails on one rank alone is an error of all ranks that these join: where the last backward of a
 *  leaf, inside no-sync, has found hooks on any rank, they agree once hooks have run; elsewhere nothing more is sent.
 *  @return STN_ERR_ARGUMENT (n, a list that is NULL, another context's leaf), STN_ERR_STATE (no leaf that requires
 *  grad), STN_ERR_CALLBACK or what a hook's op returned, STN_ERR_MEMORY, STN_ERR_COMM, or the kept error. */
STN_API stn_status stn_grad_sync(stn_context *context, int n, stn_tensor *const *leaves);

/** Called each time a leaf's gradient has become complete: at the end of a backward outside no-sync, also for leaves
 *  that only earlier backwards reached, in stn_grad_sync, or in stn_grad_all_reduce, behind what it joins; once for all
 *  that was added meanwhile. May call ops; a failure is an error of the caller. */
typedef stn_status (*stn_grad_hook)(stn_tensor *leaf, void *arg);

/** Adds a hook to a leaf. `destroy(arg)` is called when the leaf dies; may be NULL. Local. @return STN_ERR_STATE,
 *  STN_ERR_MEMORY. */
STN_API stn_status stn_add_grad_hook(stn_tensor *leaf, stn_grad_hook hook, void *arg, void (*destroy)(void *arg));

/** Called in each backward that reaches a tensor, once all of its gradient has arrived and before it goes on from
 *  there: `gradient` is borrowed, of the tensor's global shape, in any layout, a pending sum (Partial) included, since
 *  ops act on its value. It is immutable meanwhile, as others may have its memory. `*instead` NULL leaves it; a tensor
 *  of the same shape, dtype and mesh goes on in its place. May call ops; where these communicate, every rank of the
 *  mesh has the hook. May run a backward of its own, also to tensors that this one has still to come to, whose graph it
 *  retains then. A failure is an error of the caller. */
typedef stn_status (*stn_tensor_hook)(stn_tensor *gradient, stn_tensor **instead, void *arg);

/** Adds a hook to a tensor that requires grad, the result of an op or a leaf: hooks run in the order in which they were
 *  added, before those of stn_add_grad_hook and before the gradient is kept or handed out; one that a hook of that
 *  tensor adds runs from the next backward on. `destroy(arg)`, which may be NULL, is called when the tensor's history
 *  dies. Local. (PyTorch: register_hook.)
 *  @return STN_ERR_STATE (it does not require grad), STN_ERR_ARGUMENT (no hook), STN_ERR_MEMORY. */
STN_API stn_status stn_add_tensor_hook(stn_tensor *tensor, stn_tensor_hook hook, void *arg, void (*destroy)(void *arg));

/** Within a hook, of either kind: it is not called any more. Its `destroy(arg)` is called when the next hook is added
 *  to that tensor outside of any, or with the others. Who takes hooks back from outside has them look at a word of
 *  theirs, and do this the next time that they are called. Local. (PyTorch: the handle's remove.)
 *  @return STN_ERR_ARGUMENT (NULL), STN_ERR_STATE (no hook runs), or the kept error. */
STN_API stn_status stn_remove_hook(stn_context *context);

/** Lets the result of an op keep its gradient, as a leaf does: stn_grad_of gives it once a stn_backward has reached the
 *  tensor, complete, as hooks left it; further ones add to it, stn_zero_grad forgets it. It goes on where the tensor
 *  is changed in place, with the gradient of what it is then; hooks stay with what it was. Completing it is collective
 *  over its mesh, so that every rank of that says it, or none. Nothing happens to a leaf. Local.
 *  @return STN_ERR_STATE (it does not require grad), STN_ERR_MEMORY. */
STN_API stn_status stn_retain_grad(stn_tensor *tensor);

STN_END_DECLS
#endif
