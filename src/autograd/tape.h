/* The tape of a context: what autograd remembers besides the nodes that tensors own. */
#ifndef STNI_AUTOGRAD_TAPE_H
#define STNI_AUTOGRAD_TAPE_H

#include "autograd/leaf.h"
#include "autograd/node.h"
#include "core/base/slab.h"

/* Nodes come from slabs, one for each multiple of STNI_NODE_STEP bytes; larger ones, of ops with many inputs, from
 * the heap. */
enum { STNI_NODE_STEP = 64, STNI_NODE_SLABS = 16 };

struct stni_tape {
    struct stni_slab *slabs[STNI_NODE_SLABS]; /* of (i + 1) * STNI_NODE_STEP bytes; NULL before the first */
    uint64_t sequence; /* of the last node */
    uint64_t mark;     /* of the last traversal */
    uint64_t captures; /* of steps that met gradients */
    uint64_t before_capture; /* the sequence when the last capture began */
    /* Nodes whose last reference was dropped while another node was being freed: they are freed in a loop, without
     * recursion, so graphs of any length need no deep stack. */
    struct stni_node *dead;
    int freeing;
    /* Leaves that hold something pending, or whose hooks have not run since they got something, in the order in
     * which they got it, which is the same on every rank. */
    struct stni_leaf **open;
    int n_open, cap_open;
    int overlap; /* gradients are reduced while backward goes on */
    int gather_again; /* nodes keep the sharded tensor in place of what was gathered of it */
    /* Collectives of per-rank semantics and crossings (to_local: a rank's program goes on alone from there), each in
     * the order in which every rank of their mesh called them; owned until the outermost scope ends or, outside
     * scopes, until a backward has run. */
    struct stni_node **collectives;
    int n_collectives, cap_collectives;
    const stn_mesh *failed_mesh; /* of the first tensor on a mesh that a failed op, or a later one in its wake, was called with */
    uint64_t failure;            /* a hash of the error that was kept then */
    struct stn_pullback *pullbacks; /* all that live, of their owners */
    const struct stni_pass *running; /* the innermost backward; NULL: none */
    int has_grad_hooks; /* some rank of the backward that runs has hooks of leaves */
    struct stni_error *hook_failure; /* the first of the hooks of the pass that runs, which goes on; NULL: none runs */
    int *removed_hook; /* where the hook that runs says that it is to be removed; NULL: none runs */
    struct stni_recomputation *part; /* whose function is being called, the first time or again; NULL else */
};

stn_status stni_tape_create(stn_context *context);
void stni_tape_destroy(stn_context *context);

/* Remembers a leaf that got something. */
stn_status stni_tape_add_open(stn_context *context, struct stni_leaf *leaf);

/* A hook failed. Other ranks may be on their way to the next step of the same pass: it goes on, and its end tells
 * them. Outside of a pass the failure is kept at once. */
stn_status stni_tape_hook_failed(stn_context *context, const char *format, ...) STN_PRINTF(2, 3);

/* The same where a hook has left an error in the context, which is the pass's unless peers know of it already. Returns
 * what is still kept. */
stn_status stni_tape_hook_kept(stn_context *context);

/* Forgets the leaves that are open no more. */
void stni_tape_settle(stn_context *context);

/* Keeps the node of a collective or of a crossing. */
stn_status stni_tape_add_collective(stn_context *context, struct stni_node *node);

/* Forgets the crossings that nothing else refers to, whose chunks are gone: a loop that only looks at its tensors
 * does not grow. Before ranks compare what they have. */
void stni_tape_drop_unused(struct stni_tape *tape);

/* Collectives that a backward has consumed leave the list. */
void stni_tape_drop_consumed(struct stni_tape *tape);

/* The mesh that a node of that list leaves; NULL: it is a collective. */
static inline const stn_mesh *stni_crossing_mesh(const struct stni_node *node)
{
    return node->in_spec[0]->layout.mesh;
}

/* Whether the list has collectives. */
int stni_tape_has_collectives(const struct stni_tape *tape);
void stni_tape_clear_collectives(stn_context *context);

/* A caller's op on a mesh (NULL: none) has failed, or could not begin, for the error that is kept: ranks of the mesh
 * may wait for this one in a backward. The first mesh counts. */
void stni_tape_note_failure(stn_context *context, const stn_mesh *mesh);

/* The same of the meshes of a call's inputs. */
void stni_tape_note_call(stn_context *context, int n_in, stn_tensor *const *in);

/* That mesh, while the error is kept; NULL: none. */
const stn_mesh *stni_tape_failed_mesh(const stn_context *context);

#endif
