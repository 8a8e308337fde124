/* Captured steps: a step of a training or a solver is called once, while what it does is recorded, and then repeated
 * without being called.
 *
 *     stn_capture_begin(context);
 *     stn_scope_begin(context);
 *     stn_tensor *loss = stn_mse_loss(stn_linear(input, weight, bias), target, NULL, STN_REDUCE_MEAN);
 *     stn_backward(loss);
 *     stn_optimizer_step(optimizer);
 *     stn_optimizer_zero_grad(optimizer);
 *     stn_scope_end_keep(context, loss, &loss);
 *     stn_capture_end(context, &step);             // one step has been made
 *     for (int i = 1; i < n; i++) {
 *         stn_copy_(input, next_input(i));          // the same tensors, filled anew
 *         stn_step_run(step);                       // one step more
 *         stn_item(loss, &value);
 *     }
 *
 * While a step is captured it is made, as it would be otherwise. Repeating it runs the same kernels and collectives in
 * the same order on the same memory: shapes, layouts, numbers that were passed to calls, and which leaves require grad,
 * stay what they were. Tensors that live when the capture begins are its inputs and what it changes in place; those
 * that live when it ends are its outputs, which every repetition writes anew. Tensors that it made and released on the
 * way keep their memory for the repetitions.
 *
 * Gradients are what they would be had the step been called: a repetition adds to those that leaves have then, and
 * leaves them its own. A step that was captured while a leaf had a gradient, and adds to it, may be repeated with one
 * and without; one that reads it first (an update, clipping, stn_grad_of) is refused without, and one that was captured
 * without, and does not begin by forgetting them, is refused where there is one. None may be pending across ranks
 * (stn_no_sync_begin) when it begins or ends. stn_grad_of tells the gradient of now: what it told before the capture is
 * another tensor.
 *
 * What changes with each step goes on in the repetitions: an optimizer counts its steps and uses its rates as they are
 * then, random numbers are drawn anew. What the host does between calls is not repeated: values that were read, hooks,
 * counters of the caller.
 *
 * Not in a captured step, and refused by name on all ranks alike: what reads values or waits (stn_item, stn_to_host,
 * stn_agree), files (io.h), what copies from the host's memory (stn_from_host), what depends on values for its sizes
 * (lines that ranks sort together, as of a tensor of one dim; a sharded index into a sharded dim, unless it is frozen
 * and keeps its routes: stn_tensor_keep_routes; what a mask names), what would go beside the caller or did so before
 * (collectives with a request, stn_dist_wait), gradients that results of before keep (stn_retain_grad), and
 * stn_average_swap. A redistribution that began before (stn_redistribute_begin) ends before the step that uses its
 * result. Memory that it wraps (stn_wrap) is read anew each time. */
#ifndef SHARDTENSOR_CAPTURE_H
#define SHARDTENSOR_CAPTURE_H

#include <shardtensor/context.h>

STN_BEGIN_DECLS

typedef struct stn_step stn_step;

/** Begins to capture a step: what is called until stn_capture_end is done and recorded. One step at a time.
 *
 * Memory of all tensors that live now stays reserved until the step is destroyed, also where they are released before:
 * release first what the step does not need. Collective: every rank of the world calls it at the same place; nothing is
 * sent.
 * @return STN_ERR_STATE (a step is being captured, or this is called inside an op), STN_ERR_UNSUPPORTED (the device
 *  cannot record), STN_ERR_MEMORY, or the kept error. A failure is kept, and stn_capture_end still has to be called:
 *  the other ranks meet there. */
STN_API stn_status stn_capture_begin(stn_context *context);

/** Ends the capture. A failure of one rank since it began is every rank's, and no rank gets a step. Waits for the
 * queue.
 *
 * Collective: over the world, one agreement (stn_agree).
 * @param out  the step, the caller's; written on success only.
 * @return STN_ERR_STATE (no step is being captured; an error was taken meanwhile), STN_ERR_ARGUMENT, or what failed
 * first. */
STN_API stn_status stn_capture_end(stn_context *context, stn_step **out);

/** Makes the step once more, behind what is on the queue. Tensors that it writes count as changed in place.
 *
 * Collective: as the captured step was. Every rank runs the same step at the same place.
 * @return STN_ERR_ARGUMENT (NULL), STN_ERR_STATE (its context, its optimizer or a communicator of the program's own was
 *  destroyed, a step is being captured, this is called inside an op, the seed of its random numbers was changed, memory
 *  that it writes was made immutable, a leaf has a gradient that would be lost or one that is pending, or lacks one
 *  that is read), STN_ERR_LAYOUT (a gradient has another layout than at the capture), what a kernel or collective
 *  returned, or the kept error. */
STN_API stn_status stn_step_run(stn_step *step);

/* What a repetition is made of. Graphs are put on the queue by one call each: kernels, and collectives of a
 * communicator that records them (stn_comm_ops.records: NCCL's on its devices). Between graphs the host makes calls,
 * each of which has a name: numbers of an optimizer, random streams, and collectives that cannot be recorded, which the
 * hosts meet for. On the CPU and for thread ranks these are all of them; over NCCL a barrier, and in checks mode each
 * of them. A step without calls is one graph. Local; 0 and NULL for NULL and for numbers that there are not. */
STN_API int stn_step_graphs(const stn_step *step);                   /**< How many graphs. */
STN_API int stn_step_calls(const stn_step *step);                    /**< How many calls of the host. */
STN_API const char *stn_step_call_name(const stn_step *step, int i); /**< The i-th of them, such as "all_reduce"; the step's. */

/** Gives up a step and the memory that only it needed; sets it to NULL. Accepts NULL. Waits for the queue, and so does
 *  later the release of an output that outlives it, whose memory goes back to the device then. On the context's thread,
 *  also once the context is destroyed. Local. */
STN_API void stn_step_destroy(stn_step **step);

STN_END_DECLS
#endif
