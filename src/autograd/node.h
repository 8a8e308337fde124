/* Nodes: what happened, kept for backward. A node belongs to the tensors and nodes that point to it; it points to its
 * inputs.
 *
 * Everything here is used by the context's thread only. */
#ifndef STNI_AUTOGRAD_NODE_H
#define STNI_AUTOGRAD_NODE_H

#include <shardtensor/op.h>

#include "core/tensor/tensor.h"

/* Where a logical value came from: output `output` of `node`, or a leaf, or (both NULL) nothing that requires grad. */
struct stni_edge {
    struct stni_node *node;
    struct stni_leaf *leaf;
    int output;
};

/* A tensor kept for backward, with the version of what it has or shows when it was kept. */
struct stni_saved {
    stn_tensor *tensor;
    uint32_t version;
};

struct stni_tensor_hooks;

struct stni_node {
    int refs;
    stn_context *context;
    const stn_op *op;
    const stn_op_desc *desc;
    uint64_t sequence; /* order of recording */
    uint32_t needs;    /* bit i: input i needs a cotangent; decided when the op ran */
    uint32_t again;    /* bit i: saved_in[i] is what input i was gathered of, to want[i] */
    int n_in, n_out;
    int consumed;      /* a backward without retain has run it */
    const stn_mesh *home; /* whose ranks a collective or crossing concerns; NULL: no such node, or a collective of the world */
    int64_t crossing;  /* its number among the crossings of its mesh */
    uint64_t mark;     /* the last traversal that saw it */
    struct stni_node *next_dead; /* on the tape's list of nodes to free */
    struct stni_recomputation *part; /* that is run again to give what the node saves; NULL for most */
    int place;                       /* in it */
    struct stni_edge *edges;        /* n_in */
    struct stni_saved *saved_in;    /* n_in */
    struct stni_saved *saved_out;   /* n_out; handles without history, so that no node owns itself */
    const stn_spec **in_spec, **want; /* n_in; retained */
    const stn_spec **out_spec;        /* n_out; retained */
    stn_tensor **cotangents;          /* n_out; while a backward runs */
    void *attrs;
    struct stni_tensor_hooks *hooks; /* of its outputs; NULL: none */
    stn_tensor **gathered; /* n_in, while a backward runs: what was gathered again, or is under way; NULL: nothing */
};

/* Records `call` as a node: the edges of its inputs, what the op's `saves` names, the specs. Sets the outputs' node.
 * Returns STN_ERR_MEMORY without having changed anything. */
stn_status stni_node_record(const stn_op_call *call, const stn_op_desc *desc, uint32_t needs);

/* Keeps what the op's `saves` names and the node has not got: when it is recorded, and when its part is recomputed. */
stn_status stni_node_save(struct stni_node *node, const stn_op_call *call);

/* The outputs are the node's results from now on; those of one that is gone (NULL) only say that they require grad. */
void stni_node_link_outputs(struct stni_node *node, const stn_op_call *call);

struct stni_node *stni_node_retain(struct stni_node *node);
void stni_node_release(struct stni_node *node); /* frees chains of any length without recursion */
void stni_node_drop_saved(struct stni_node *node); /* for good */

struct stni_edge stni_edge_of(const stn_tensor *tensor);

/* Which of `in` need a cotangent now: bit i. 0 while grad mode is off. */
uint32_t stni_needs_grad(const stn_context *context, int n_in, stn_tensor *const *in);

/* context->share_autograd. */
void stni_share_autograd(const stn_tensor *from, stn_tensor *to);

/* context->drop_autograd. */
void stni_drop_autograd(stn_tensor *tensor);

#endif
