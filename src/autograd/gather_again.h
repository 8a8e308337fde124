/* Gathers that backward repeats (contract 35): a node keeps the sharded tensor in place of what was gathered of it. */
#ifndef STNI_AUTOGRAD_GATHER_AGAIN_H
#define STNI_AUTOGRAD_GATHER_AGAIN_H

#include "autograd/pass.h"

/* A descriptor whose calls give their input's value in another layout: such a node keeps its input where that can be
 * gathered again. */
enum { STNI_OP_MOVES = 1 << 30 };

/* Whether `to` is gathered of `from`, and the context wants it gathered again. The same on all ranks. */
int stni_gathers_again(const stn_context *context, const stn_spec *from, const stn_spec *to);

/* The tensor that input i of a call was gathered of, to be kept in its place; NULL: none, the input itself is kept. */
stn_tensor *stni_gathered_from(const stn_op_call *call, int i);

/* Before pass->nodes[at] runs: what it has to gather is there or under way, and beside a backward that overlaps so
 * is what the next such node on the same mesh has to. Collective over the mesh. */
stn_status stni_gather_again(struct stni_pass *pass, int at);

/* What the node runs with as its saved input i. */
stn_status stni_gathered_input(const struct stni_node *node, int i, stn_tensor **out);

/* The node has run, or will not. */
void stni_gathered_drop(struct stni_node *node);

/* The same of all nodes of a pass, after a failure too. */
void stni_gathered_drop_all(struct stni_pass *pass);

#endif
