/* Recomputation: a part of the forward program whose nodes keep nothing that the part makes, and run it again when
 * backward asks for it. */
#ifndef STNI_AUTOGRAD_RECOMPUTE_H
#define STNI_AUTOGRAD_RECOMPUTE_H

#include "autograd/node.h"

/* A node that has been recorded takes its place in the part that is being recorded, if one is, and gives up what
 * running it again will give. */
stn_status stni_recomputation_add(struct stni_node *node);

/* A part is being run again: the call is not recorded, but gives its node, which is the next one, what that is to
 * keep. */
int stni_recomputation_runs(const stn_context *context);
stn_status stni_recomputation_refill(const stn_op_call *call, const stn_op_desc *desc, uint32_t needs);

/* Before the node runs backward: it has what it keeps. Collective where the part is. */
stn_status stni_recomputation_prepare(struct stni_node *node);

/* The node will not be asked again. */
void stni_recomputation_leave(struct stni_node *node);

#endif
