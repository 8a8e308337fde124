/* Pullbacks: the gradients of one call, for an engine of gradients that is not this library's (a framework's, which
 * keeps its own graph).
 *
 * A call gives its outputs and a pullback, which keeps what its backward will read; applied to cotangents of the
 * outputs it gives those of the inputs. Nothing is recorded anywhere else, and whether inputs require grad is not
 * looked at. Where stn_grad agrees with the other ranks on what to do, and brings each gradient to the layout of what
 * it is of, this does neither: only the op's own collectives run, and a gradient comes in whatever layout it has, a
 * pending sum (Partial) included. Engines add such gradients up as they are, and bring the sum to stn_gradient_spec
 * once. */
#ifndef SHARDTENSOR_PULLBACK_H
#define SHARDTENSOR_PULLBACK_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

typedef struct stn_pullback stn_pullback;

/** As stn_op_invoke, and gives the call's pullback. Grad mode, and whether inputs require grad, change nothing; the
 * outputs have no history.
 *
 * An op in place changes inputs[0] and returns it, as ever: its owner sees to the history of what it was before.
 * @param needs     bit i: a gradient with respect to inputs[i] may be asked for. Inputs whose dtype has no gradients
 *                  count for nothing.
 * @param pullback  one reference, the caller's. It keeps tensors alive until it is released, at the latest until the
 *                  context is destroyed.
 * @return as stn_op_invoke; `*pullback` is written on success only. Collective as the op. */
STN_API stn_status stn_op_invoke_pullback(const stn_op *op, int n_inputs, stn_tensor *const *inputs, int n_attrs,
                                          const stn_attr *attrs, uint32_t needs, int n_outputs, stn_tensor **outputs,
                                          stn_pullback **pullback);

/** Gradients of the call with respect to its inputs. May be repeated. Every rank of the inputs' meshes calls it alike:
 * nothing checks that.
 *
 * Collective: as the op's backward, over the meshes of the call; often local.
 * @param cotangents  `n_outputs` of them, one for each output of the call that was asked for (fewer: the others count
 *  as NULL): of its shape, dtype and mesh, in any layout. NULL: zero.
 * @param needs  bit i: write grads[i]; of those that the call was made with.
 * @param grads  one entry for each input of the call, new tensors in any layout: the scope's, or the caller's outside
 *  of one. NULL stands for zero, and for what was not asked for.
 * @param again  NULL, or where to put the pullback of this very application, as of a function from the call's inputs,
 *  followed by the `n_outputs` cotangents, to `grads`: its gradients are second derivatives, and it may give a pullback
 *  again.
 * @return STN_ERR_ARGUMENT, STN_ERR_SHAPE (a cotangent is not of its output's shape, dtype or mesh), STN_ERR_STATE (a
 *  tensor that was kept has been changed in place since), STN_ERR_UNSUPPORTED (`again`: the op's backward cannot be
 *  differentiated, or more than 32 inputs and cotangents), or what the op's backward returned. Outputs are written on
 *  success only. */
STN_API stn_status stn_pullback_apply(stn_pullback *pullback, int n_outputs, stn_tensor *const *cotangents,
                                      uint32_t needs, stn_tensor **grads, stn_pullback **again);

/** The tensors that the pullback keeps, by index: for engines that count or watch them. Local.
 *  @param out  borrowed: retain it to keep it; its memory is that of an input or of an output where the op reads these,
 *              and must not be changed.
 *  @return 1; 0 past the end, and nothing is written. */
STN_API int stn_pullback_saved(const stn_pullback *pullback, int index, stn_tensor **out);

/** Memory that the caller lent (stn_wrap, DLPack), and where it is by now. */
typedef struct stn_moved_memory {
    const void *from;
    size_t bytes;
    void *to;
} stn_moved_memory;

/** What the pullback keeps of lent memory it reads from here on where that is by now. For a framework that frees what
 *  it lent and has the same elements again before the backward, as FSDP does with parameters. Other handles on the
 *  memory stay where they were. Local; ranks may differ.
 *  @param moved  `n` parts of memory that do not overlap, as they were before the call; where they are by now others of
 *                them may have been.
 *  @return STN_ERR_ARGUMENT (NULL, n below 0, or a pullback of a context that is gone), STN_ERR_MEMORY. */
STN_API stn_status stn_pullback_moved(stn_pullback *pullback, int n, const stn_moved_memory *moved);

/** Gives up a pullback and what it keeps; sets it to NULL. Accepts NULL. On the context's thread, also once the context
 *  is destroyed. */
STN_API void stn_pullback_release(stn_pullback **pullback);

/** The layout that a complete gradient of a tensor of spec `forward` has: as it is, but Replicate where `forward` is
 *  Partial. Local.
 *  @return STN_ERR_ARGUMENT, STN_ERR_MEMORY. The caller owns one reference to `*out`. */
STN_API stn_status stn_gradient_spec(const stn_spec *forward, const stn_spec **out);

STN_END_DECLS
#endif
