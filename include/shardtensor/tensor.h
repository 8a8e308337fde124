/* Tensors: a local chunk and a spec.
 *
 * Handles are reference counted. Inside a scope (stn_scope_begin) the scope owns what is made; outside, the caller
 * does. An error tensor may be passed anywhere: the call does nothing and reports the kept error. */
#ifndef SHARDTENSOR_TENSOR_H
#define SHARDTENSOR_TENSOR_H

#include <shardtensor/spec.h>

#include <stdio.h>

STN_BEGIN_DECLS

/** Which function is differentiated where per-rank and global meaning meet (docs/gradients.md). */
typedef enum stn_grad_convention {
    STN_GRAD_PER_RANK,  /* B: the sum over ranks of each rank's own loss */
    STN_GRAD_REPLICATED /* A: one loss, of which every rank holds a replica */
} stn_grad_convention;

/* Handles */

STN_API stn_tensor *stn_tensor_retain(stn_tensor *tensor); /**< One more reference; returns `tensor`. Any thread. */
STN_API void stn_tensor_release(stn_tensor **tensor);      /**< One less, of the caller's own: a scope releases its own
                                                            *   (STN_ERR_STATE, kept by the next call, where it was the last).
                                                            *   Sets it to NULL. Accepts NULL. Any thread, also once the
                                                            *   context is destroyed. The last one's memory serves its
                                                            *   context's next op. */
STN_API int stn_tensor_is_error(const stn_tensor *tensor); /**< 1 for NULL and for an error tensor. */

STN_API stn_context *stn_tensor_context(const stn_tensor *tensor); /**< The one it was made in; it may be destroyed. */
STN_API const stn_spec *stn_tensor_spec(const stn_tensor *tensor); /**< Borrowed; NULL for an error tensor. */
STN_API stn_dtype stn_tensor_dtype(const stn_tensor *tensor);           /**< STN_DTYPE_F32 for an error tensor. */
STN_API int stn_tensor_ndim(const stn_tensor *tensor);                   /**< Dims. */
STN_API const int64_t *stn_tensor_shape(const stn_tensor *tensor);       /**< Global. */
STN_API const int64_t *stn_tensor_local_shape(const stn_tensor *tensor); /**< This rank's chunk. */
STN_API const int64_t *stn_tensor_strides(const stn_tensor *tensor);     /**< Of the chunk, in elements. */

/** The first element of this rank's chunk, in the device's memory; NULL if the chunk is empty. Unreduced where Partial.
 *  Work on the tensor may still be queued: stn_queue_sync(stn_context_queue(…)) before reading. What stn_redistribute
 *  or stn_gather_to gave without moving it lies with its source until one of them is changed by this library: until
 *  then both have one address, and afterwards it has another. */
STN_API void *stn_tensor_data(const stn_tensor *tensor);

/** How often the tensor's memory was changed in place: what backward compares with the number that it had when the
 *  tensor was kept. Local.
 *  @return 0 for NULL and an error tensor. */
STN_API uint64_t stn_tensor_version(const stn_tensor *tensor);

/** Says that the tensor's elements were changed through its memory (stn_tensor_data, DLPack, stn_wrap) and not by an
 *  op: a backward that has kept it is refused with STN_ERR_STATE, as after an op in place. What stn_redistribute gave
 *  of it without a move has changed with it. Local: each rank says it, where each has written. */
STN_API void stn_tensor_changed(stn_tensor *tensor);

/** 1 for a tensor that shows another one's elements, in its memory or apart from it: what transpose, view and slicing
 *  give. A change in place goes through to the other, or is refused. 0 for NULL and an error tensor. Local. */
STN_API int stn_tensor_is_view(const stn_tensor *tensor);

/** 1 where this handle alone has the memory of the tensor's chunk: no other one is left, no export by DLPack, and the
 *  chunk is no part of a larger one. Then who exports it may change it in place, and let the handle go. 0 for NULL, an
 *  error tensor, an empty chunk and memory of the caller's (stn_wrap). Local: ranks may differ. */
STN_API int stn_tensor_owns_memory(stn_tensor *tensor);

/** Until the matching end, what has views that need not share its memory is changed in place all the same: these show
 *  the elements from before, the new ones, or some of both. For a framework that knows which of its views live, and
 *  takes them again before they are read; a view that lives on one rank alone then hinders no change there. What is
 *  such a view itself stays refused. Nests. Local. */
STN_API void stn_allow_stale_views_begin(stn_context *context);

/** Ends what the last stn_allow_stale_views_begin began. Local. */
STN_API void stn_allow_stale_views_end(stn_context *context);

/** Until the matching end, tensors that are made lie in memory of the host that the device's kernels and collectives
 *  reach (of CUDA: page-locked): weights, state of optimizers, values kept for later, that the device has no room for.
 *  Ops take them as they take any tensor, and read them over the bus each time. Scratch of kernels is the device's, but
 *  not what an op called meanwhile makes on its way (an operand in another layout, cotangents): make here what is to
 *  stay, and run steps outside. Whenever it is made, a leaf's complete gradient lies where the leaf does. So do state
 *  and averages of a parameter that lies there; of one of the device they lie there if they are made meanwhile. Of
 *  fully sharded weights (stn_set_gather_again) a rank's chunk is read once for each gathering; where nothing is
 *  gathered, as on one rank, stn_clone brings them to the device. (Called meanwhile, it copies a tensor of the device
 *  to the host.)
 *
 *  On the CPU all memory is the host's, and nothing changes. Nests. Local; ranks may differ.
 *  @return STN_ERR_ARGUMENT for NULL, STN_ERR_UNSUPPORTED (the device gives no such memory), or the kept error. It has
 *  begun all the same, and is to be ended. */
STN_API stn_status stn_host_memory_begin(stn_context *context);

/** Ends what the last stn_host_memory_begin began. Local. */
STN_API void stn_host_memory_end(stn_context *context);

/** 1 if the tensor's elements lie in memory of the host: made so, or a tensor of the CPU. 0 for NULL and an error
 *  tensor, and for a caller's memory on another device. Local. */
STN_API int stn_tensor_is_in_host_memory(const stn_tensor *tensor);

/** Makes a tensor's memory immutable, for ever: tables and masks that every rank makes for itself and nobody sends
 *  again. Ops in place, optimizers, collectives in place and loading refuse to write to it (STN_ERR_STATE); handles
 *  that share the memory are as immutable. Local; every rank says it.
 *  @return STN_ERR_ARGUMENT for NULL, STN_ERR_STATE (a leaf that requires grad; an error tensor). */
STN_API stn_status stn_tensor_freeze(stn_tensor *tensor);

/** 1 if stn_tensor_freeze was called on the tensor's memory; 0 for NULL and an error tensor. Local. */
STN_API int stn_tensor_is_frozen(const stn_tensor *tensor);

/* Making tensors */

/** A tensor of the given spec, its elements not set. Local; every rank of the world calls it.
 *  @return new tensor; the error tensor with STN_ERR_MEMORY. */
STN_API stn_tensor *stn_empty(stn_context *context, const stn_spec *spec);

/** A tensor of the given spec whose chunk on each rank is copied from host memory: `data` holds local_numel elements,
 *  row-major. Local. @return new tensor; STN_ERR_ARGUMENT, STN_ERR_MEMORY. */
STN_API stn_tensor *stn_from_host(stn_context *context, const stn_spec *spec, const void *data);

/** The same from the whole tensor, which every rank passes, row-major: each copies its own part. `data` may be NULL on
 *  ranks without one. Under Partial the values are those of the reduced tensor. Local.
 *  @return new tensor; STN_ERR_ARGUMENT, STN_ERR_MEMORY. */
STN_API stn_tensor *stn_from_host_global(stn_context *context, const stn_spec *spec, const void *data);

/** A local tensor over the caller's device memory (on a GPU also memory of the host from cudaHostAlloc and its like),
 *  without a copy. `release(arg)` is called once the last use has ended; on a GPU by a later call (the end of a scope,
 *  stn_to_host, stn_context_stats, stn_context_trim) or the context's end. It may call CUDA, and be NULL. `strides` in
 *  elements, NULL: row-major. On a GPU `data` is a multiple of an element's size, on the CPU of 8 at most. Local.
 *  @return new tensor; STN_ERR_ARGUMENT, STN_ERR_MEMORY. */
STN_API stn_tensor *stn_wrap(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape,
                             const int64_t *strides, void *data, void (*release)(void *arg), void *arg);

/** Copies this rank's chunk to host memory, row-major. Waits for the queue. Local.
 *  @param size  bytes at `data`: local_numel elements. A Partial tensor gives this rank's addend.
 *  @return STN_ERR_ARGUMENT (size), or the kept error. */
STN_API stn_status stn_to_host(stn_tensor *tensor, void *data, size_t size);

/** Splits one rank's local tensor over a mesh.
 *
 * Shapes:     local (d0, …) on `root` -> the same global shape, spec `spec`. Elsewhere `local` is NULL.
 * Collective: over the world; only the chunks travel, nobody but the root holds the whole.
 * Gradient:   none: the result is a leaf that obeys `requires_grad`.
 * @return new tensor; STN_ERR_ARGUMENT, STN_ERR_SHAPE, STN_ERR_DTYPE (agreed: the root checks), STN_ERR_MEMORY,
 * STN_ERR_COMM. */
STN_API stn_tensor *stn_scatter(stn_context *context, stn_tensor *local, int root, const stn_spec *spec,
                                int requires_grad);

/** The whole tensor on each rank of the mesh, as a local tensor; a pending reduction is done. Collective over the mesh
 *  unless Replicate. Ranks outside the mesh get an empty tensor (a shape of zeros), or 0 where it has no dims.
 *  Gradient: as stn_to_local of the replicated tensor under STN_GRAD_REPLICATED: all ranks go on to one loss. Nothing
 *  can tell whether they do. Where each rank's loss is its own, redistribute to Replicate and take stn_to_local under
 *  STN_GRAD_PER_RANK, which adds up what the ranks give.
 *  @return new tensor, a view apart (ops_in_place.h). (PyTorch's users know it as full_tensor.) */
STN_API stn_tensor *stn_full_tensor(stn_tensor *tensor);

/** The whole tensor on one rank, as a local tensor; a pending reduction is done. The inverse of stn_scatter: nobody
 *  else ever holds the whole, the others get an empty local tensor, of shape zeros (of one dim where the tensor has
 *  none).
 *  Collective: every rank of the world calls it, with the same `root`, a world rank; only chunks travel. Gradient:
 *  none: the result is detached.
 *  @return new tensor, no view, as of stn_redistribute where the root has the whole already; STN_ERR_ARGUMENT (a local
 *  tensor; root), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_gather_to(stn_tensor *tensor, int root);

/** The same values in another layout: `spec` has the same shape and dtype; any mesh of the same world.
 *  Collective over the ranks of both meshes. One exchange; where a pending reduction ends replicated one all-reduce, or
 *  two exchanges where something else moves, too.
 *  Gradient: yes. @return new tensor, no view; where nothing has to move, as on a mesh of one rank, it has the same
 *  data until an op in place, an optimizer or a file changes one of them, and is copied before. (While a view of either
 *  lives that need not share its memory, ops_in_place.h, such a change is refused.) STN_ERR_SHAPE, STN_ERR_DTYPE. */
STN_API stn_tensor *stn_redistribute(stn_tensor *tensor, const stn_spec *spec);

/** As stn_redistribute, to balanced splits on the tensor's own mesh. `placements` has one entry per mesh axis.
 *  @return as stn_redistribute; STN_ERR_ARGUMENT (a local tensor; placements NULL), and as stn_spec_create. */
STN_API stn_tensor *stn_redistribute_to(stn_tensor *tensor, const stn_placement *placements);

/** As stn_redistribute, beside the caller: returns once the exchange has begun. The result is complete, and the queue
 *  or, on the CPU, the host has waited, after stn_redistribute_wait or at the first use by anything of this library,
 *  whichever comes first; its metadata may be read before. Several may be under way; ranks begin them in the same
 *  order.
 *
 *  `tensor` is held until then and must not be changed in place: that is found at the end, the result then refused with
 *  STN_ERR_STATE. So it is where the last handle on a result goes that nobody waited for or used: its memory is given
 *  back when the exchange has ended. Both on every rank alike. Pending reductions of several ops are done at once but
 *  for the last. Collective over the ranks of both meshes. Gradient: yes, as stn_redistribute's.
 *  @return new tensor, where nothing has to move a view apart (ops_in_place.h); else as stn_redistribute. Failures of
 *  the exchange come at the end. */
STN_API stn_tensor *stn_redistribute_begin(stn_tensor *tensor, const stn_spec *spec);

/** Waits for a result of stn_redistribute_begin, once, also where a use has waited before. Local.
 *  @return STN_ERR_STATE (no such result, waited for before, the input was changed meanwhile), STN_ERR_COMM,
 *  STN_ERR_PEER. */
STN_API stn_status stn_redistribute_wait(stn_tensor *result);

/** This rank's chunk as a local tensor that shares its memory. A Partial chunk is this rank's addend. A view apart
 *  (ops_in_place.h): ops in place refuse the result always, and `tensor` while the result lives.
 *  Gradient: yes, by `convention`: the cotangent of a Replicate chunk is Partial (PER_RANK) or Replicate (REPLICATED).
 *  Of a tensor that requires grad every rank of the mesh takes its chunk, and equally often, also where it has no use
 *  for it (STN_ERR_MISMATCH in backward).
 *  @return new tensor; STN_ERR_PARTIAL (a Partial tensor that requires grad). */
STN_API stn_tensor *stn_to_local(stn_tensor *tensor, stn_grad_convention convention);

/** A tensor of `spec` whose chunk is `local`, without a copy where its memory is dense. Local: `local` has exactly this
 *  rank's chunk shape. A view apart (ops_in_place.h), since other ranks may have had to copy: ops in place refuse the
 *  result always, and `local` while the result lives. Who has lent the memory (stn_wrap) may write to it between ops,
 *  where no rank has had to copy, and then calls stn_tensor_changed; for elements that ops change in place the caller
 *  makes a tensor of its own of `spec` and copies there (stn_copy_). Gradient: yes, by `convention`: of a Replicate
 *  result, the cotangent goes to axis rank 0 alone (PER_RANK) or to each rank (REPLICATED). @return new tensor;
 *  STN_ERR_SHAPE, STN_ERR_DTYPE. */
STN_API stn_tensor *stn_from_local(stn_tensor *local, const stn_spec *spec, stn_grad_convention convention);

/** As stn_from_local, for ranks that do not know each other's sizes: gathers the shapes first, so it is collective over
 *  the world (ranks outside the mesh pass NULL), and a disagreement in other dims is STN_ERR_SHAPE on all ranks. Where
 *  several axes shard a dim, the first of them is the major one. */
STN_API stn_tensor *stn_from_local_gather_shapes(stn_tensor *local, const stn_mesh *mesh,
                                                 const stn_placement *placements, stn_grad_convention convention);

/** The spec of a tensor of which each rank of a mesh knows its own chunk: gathers their shapes. Collective over the
 *  ranks of `mesh` alone; ranks outside are refused. Not within a captured step.
 *  @param placements   one per mesh axis, the same on all ranks; axes that shard one dim divide it in mesh order.
 *  @param dtype        the same on all ranks.
 *  @param local_shape  this rank's chunk: `ndim` sizes from 0 on.
 *  @return on all ranks of the mesh the same: STN_ERR_ARGUMENT (a rank's shape, a placement), STN_ERR_SHAPE (chunks
 *  that share a piece of a dim, or all of it, differ there; ndim differs), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM,
 *  STN_ERR_STATE (in a captured step). The caller owns one reference to `*out`. */
STN_API stn_status stn_spec_of_chunks(const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype, int ndim,
                                      const int64_t *local_shape, const stn_spec **out);

/** The value of a tensor of one element, real part, as a double. Collective over the mesh unless Replicate; host waits.
 *  `*value` is NaN where this fails, and on ranks outside the mesh, which no comparison but != holds for: write the
 *  conditions of loops so that they end then (`while (residual > limit)`), or call stn_mesh_contains_me. Nothing that
 *  members do on their mesh needs them, backwards included. @return STN_ERR_SHAPE (not one element), or the kept
 *  error. */
STN_API stn_status stn_item(stn_tensor *tensor, double *value);

/* Exchange with other libraries: DLPack 1.x, declared in dlpack form by any framework. */

struct DLManagedTensorVersioned;

/** This rank's chunk as a DLPack tensor, zero copy: the consumer calls its deleter, from any thread, at any time.
 *  A Partial chunk is this rank's addend. One of immutable memory (stn_tensor_freeze) is marked as read-only; one in
 *  memory of the host is called the CPU's. Waits for the queue. Local.
 *  @return STN_ERR_ARGUMENT, STN_ERR_MEMORY, STN_ERR_STATE (requires grad: detach first), STN_ERR_DEVICE (one that
 *  DLPack has no name for). */
STN_API stn_status stn_tensor_to_dlpack(stn_tensor *tensor, struct DLManagedTensorVersioned **out);

/** DLPack's numbers of streams. Any other but 0 is the address of a stream (a cudaStream_t). */
typedef enum stn_dlpack_stream {
    STN_DLPACK_NO_STREAM = -1, /* nothing waits: whoever reads has another way to know when */
    STN_DLPACK_LEGACY = 1,     /* CUDA's legacy default stream */
    STN_DLPACK_PER_THREAD = 2  /* the calling thread's default stream */
} stn_dlpack_stream;

/** As stn_tensor_to_dlpack, for a consumer that reads on a stream of its own: what is put on `stream` from now on waits
 *  for what this context has queued so far, by an event; the host waits for nothing. When the deleter is called, what
 *  the consumer has put on its stream must have ended, or come before what this context queues from then on: the memory
 *  goes to later work of its queue. Local. Of elements in memory of the host the CPU's readers have no stream: the host
 *  waits, as stn_tensor_to_dlpack does.
 *  @param stream  STN_DLPACK_NO_STREAM, _LEGACY, _PER_THREAD, or the address of a stream of the tensor's device.
 *  @return as stn_tensor_to_dlpack; STN_ERR_ARGUMENT (stream 0, which DLPack leaves open), STN_ERR_UNSUPPORTED (a
 *  stream on a device that has none, as the CPU), STN_ERR_STATE (the queue is recording). */
STN_API stn_status stn_tensor_to_dlpack_on(stn_tensor *tensor, int64_t stream, struct DLManagedTensorVersioned **out);

/** As stn_tensor_from_dlpack, of a producer that has written on a stream of its own: what this context queues from now
 *  on waits for what is on `stream` so far, by an event; the host waits for nothing. (A producer that was given this
 *  context's stream, stn_queue_native of its queue, has seen to that itself.) Local.
 *  @param stream  as of stn_tensor_to_dlpack_on. @return as stn_tensor_from_dlpack and, for `stream`,
 *                 stn_tensor_to_dlpack_on. */
STN_API stn_tensor *stn_tensor_from_dlpack_on(stn_context *context, struct DLManagedTensorVersioned *managed,
                                              int64_t stream);

/** What DLPack calls the context's device: its type (1: CPU, 2: CUDA) and index. Local.
 *  @return STN_ERR_ARGUMENT, STN_ERR_DEVICE (one that DLPack has no name for). */
STN_API stn_status stn_context_dlpack_device(stn_context *context, int32_t *type, int32_t *index);

/** The same of a tensor's memory: the CPU's where its elements lie in memory of the host. Local.
 *  @return STN_ERR_ARGUMENT for NULL, STN_ERR_STATE (an error tensor), STN_ERR_DEVICE, or the kept error. */
STN_API stn_status stn_tensor_dlpack_device(const stn_tensor *tensor, int32_t *type, int32_t *index);

/** A local tensor over a DLPack tensor, zero copy; takes it over on success and calls its deleter once, when the last
 *  use has ended. Local. @return new tensor; STN_ERR_VERSION, STN_ERR_DTYPE, STN_ERR_DEVICE, STN_ERR_UNSUPPORTED
 *  (read-only memory), STN_ERR_ARGUMENT (dims, negative strides, alignment), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_tensor_from_dlpack(stn_context *context, struct DLManagedTensorVersioned *managed);

/** Writes a description: dtype, shape, layout, flags. As stn_spec_describe. Local. */
STN_API int stn_tensor_describe(const stn_tensor *tensor, char *text, size_t size);

/** Prints the description and the elements, as NumPy does: of more than 1,000 the first and last three of each dim. The
 *  first rank of the mesh prints, of a local tensor this one; a pending reduction is done for it. Collective over the
 *  mesh; the host waits, so not within a captured step. No gradient.
 *  @param stream  that of the rank that prints counts; NULL: nothing is printed. Whether it took the text, ferror
 *  tells.
 *  @return STN_ERR_ARGUMENT (tensor NULL), STN_ERR_MEMORY, STN_ERR_COMM, STN_ERR_STATE. */
STN_API stn_status stn_tensor_print(stn_tensor *tensor, FILE *stream);

STN_END_DECLS
#endif
