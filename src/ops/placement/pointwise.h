/* What is the same for every pointwise op, whatever it computes: broadcasting, and the placement rule of contracts 2
 * and 4. */
#ifndef STNI_OPS_PLACEMENT_POINTWISE_H
#define STNI_OPS_PLACEMENT_POINTWISE_H

#include <shardtensor/op.h>

/* Broadcasts `n` specs (absent ones count for nothing) into `meta`'s shape. Returns the first that does not fit
 * those before it, whose common shape is in `meta` then; -1 where all do. */
int stni_pointwise_misfit(int n, const stn_spec *const *in, stn_meta *meta);

/* Broadcasts the first `n` inputs (absent ones count for nothing) into `meta`'s shape; its dtype is the caller's.
 * @return STN_ERR_SHAPE. */
stn_status stni_pointwise_broadcast(const stn_op_call *call, int n, stn_meta *meta);

/* In which of its operands an op is linear: each mask is a set of operands (bit i: operand i) that it is linear in when
 * they are taken together and the others are held; a zero ends the list.
 *     add {3}    mul {1, 2}    div {1}    where(condition, a, b) {6}    neg {1}    tanh {0} */
enum { STNI_POINTWISE_MASKS = 4 };

/* Fills want[0 … n-1] and out_spec[0] for an op whose output 0 has the shape and dtype of out_meta[0], which the first
 * `n` inputs broadcast to.
 *
 * Per mesh axis: where exactly the operands of one of the masks are Partial(sum), none of them is cast with rounding,
 * and the others are Replicate, nothing is redistributed and the result is Partial(sum). Else Shard beats Replicate,
 * among Shards the largest operand's, the first among equals; a Shard of a broadcast dim counts as Replicate. All
 * operands go to the result's placement, so Partial beside Replicate is reduced by one all-reduce, beside a Shard by
 * one reduce-scatter: it could also stay pending, the others becoming Partial for nothing, but then every reader of the
 * result would have to reduce it, and each reduction costs as much. The cut of an output dim is that of the largest
 * operand which has the dim in full and sharded by the same axes, else balanced in mesh order. Memory order is that of
 * the first full-size operand.
 *
 * In place (STN_OP_IN_PLACE) input 0 and the result keep input 0's spec, and the others are redistributed to match:
 * beside a Partial(sum) input those of the same mask become Partial(sum), which moves no data. STN_ERR_PARTIAL where
 * the op is not linear in its Partial input. */
stn_status stni_pointwise_place(stn_op_call *call, int n, const uint8_t linear[STNI_POINTWISE_MASKS]);

#endif
