/* What the public functions of this family share: their frame, and nodes recorded by hand. */
#ifndef STNI_OPS_REDISTRIBUTE_ACTION_H
#define STNI_OPS_REDISTRIBUTE_ACTION_H

#include "core/tensor/tensor.h"

#include <shardtensor/op.h>

/* Begins an action on a context: the kept error, or STN_OK and the matching end has to follow. Specs that it makes
 * stay meanwhile. */
stn_status stni_action_begin(stn_context *context);

/* The same on a tensor that `what` names, as in "item: tensor". */
stn_status stni_action_begin_on(const stn_tensor *tensor, const char *what);

/* Ends it; a failure that nobody has kept is that of the queue. Returns the kept status. */
stn_status stni_action_end(stn_context *context, stn_status status);

/* The same where the action gives a tensor, not yet in a scope: what the public function returns. */
stn_tensor *stni_action_give(stn_context *context, stn_status status, stn_tensor *out);

/* Another handle on the memory of `base`, without history. */
stn_status stni_alias(stn_tensor *base, const stn_spec *spec, stn_tensor **out);

/* A tensor of zeros. */
stn_status stni_zeros(stn_context *context, const stn_spec *spec, stn_tensor **out);

/* Records out = f(in) where `in` requires grad; desc gives name and backward. */
stn_status stni_record_unary(const stn_op_desc *desc, const void *attrs, stn_tensor *in, stn_tensor *out);

/* `tensor` in the layout `spec`, as a value of its own with its place in the graph. */
stn_status stni_move(stn_tensor *tensor, const stn_spec *spec, stn_tensor **out);

#endif
