/* One backward under way: which nodes it runs, in which order, and where gradients go. */
#ifndef STNI_AUTOGRAD_PASS_H
#define STNI_AUTOGRAD_PASS_H

#include "autograd/leaf.h"
#include "autograd/node.h"
#include "autograd/reducer.h"
#include "autograd/tape.h"

/* A tensor whose gradient stn_grad wants. */
struct stni_capture {
    struct stni_edge edge;
    const stn_spec *spec; /* forward */
    stn_tensor *gradient; /* one reference, NULL until something arrived */
};

/* Where a backward begins that has no tensors to begin at. */
struct stni_root {
    struct stni_edge edge;
    const stn_spec *spec; /* forward */
    stn_tensor *cotangent;
};

/* A mesh that the graph touches; NULL: the world, of collectives that name no mesh. */
struct stni_pass_mesh {
    const stn_mesh *mesh;
    int has_tensors; /* else collectives of per-rank semantics alone */
    int line;        /* among the pass's, STNI_NO_LINE where this rank is none of its ranks, or the only one */
};

enum { STNI_NO_LINE = -1 };

/* What the ranks of a line compare. The greatest over its ranks is taken, so that a word and its negative cancel
 * where all have the same. */
enum stni_line_word {
    STNI_LINE_HASH,
    STNI_LINE_MINUS_HASH,
    STNI_LINE_NODES,
    STNI_LINE_MINUS_NODES,
    STNI_LINE_FAILURE,
    STNI_LINE_COLLECTIVES,
    STNI_LINE_SEVERAL, /* a rank has other lines too */
    STNI_LINE_TENSOR_HOOKS, /* a rank has some */
    STNI_LINE_GRAD_HOOKS,
    STNI_LINE_SLICES,
    STNI_LINE_MINUS_SLICES,
    STNI_LINE_WORDS
};

/* Ranks that compare what they are about to do: those of a mesh, or of meshes that nodes are between. */
struct stni_line {
    int label;       /* of its meshes, while lines are drawn */
    int is_mine;     /* this rank is on it */
    int n_meshes, n_ranks;
    int ndim, first, last; /* the most axes of a mesh; ranks: lines are sorted by these */
    uint64_t identity;
    const stn_mesh *mesh; /* its only one; NULL: several, or the world */
    stn_comm *comm;       /* once it was opened */
    int64_t words[STNI_LINE_WORDS];
};

/* Of a node or a leaf: what a backward that is under way has left in it, while one that was called from there runs. */
struct stni_aside {
    struct stni_node *node; /* one of the two; the outer pass holds it */
    struct stni_leaf *leaf;
    uint64_t mark;
    int last;
    stn_tensor **gathered;
    stn_tensor *cotangents[STN_MAX_OUTPUTS]; /* of a leaf: one */
    struct stni_aside *next;
};

struct stni_pass {
    stn_context *context;
    const struct stni_pass *outer; /* that runs, and has called this one; NULL: none */
    struct stni_aside *asides;     /* of its nodes and leaves, until the end */
    uint64_t mark;
    int retain_graph, create_graph;
    stn_status status; /* what this rank found wrong with its own graph; told to the others before anything is done */
    struct stni_node **nodes; /* reachable; in the order of running once sorted */
    int n_nodes, cap_nodes;
    const struct stni_node *node; /* whose backward is called */
    struct stni_leaf **leaves; /* met, in the order of meeting; retained */
    int n_leaves, cap_leaves;
    int n_ready; /* of them, once sorted: those whose hooks have run, and whose reductions may have begun */
    struct stni_reducer reducer;
    struct stni_pass_mesh *meshes; /* of the outputs, nodes and collectives */
    int n_meshes, cap_meshes;
    struct stni_line *lines; /* in an order that is the same on all ranks */
    int n_lines;
    stn_comm *comm; /* of the ranks that it concerns, once they have found each other; NULL: this one alone */
    int has_tensor_hooks, has_grad_hooks; /* one of those ranks has: whether they failed is agreed on, when they ran */
    struct stni_error hook_failure;       /* of this rank, not agreed on yet */
    int syncing;    /* stn_grad_sync's: it has no graph, and serves to agree alone */
    int looking;    /* only sees what is there: nodes that are gone are passed by */
    int capturing; /* stn_grad: gradients go to the captures, no leaf is touched */
    struct stni_capture *captures;
    int n_captures;
    struct stni_capture **sorted; /* the captures by where they are; NULL after the last one */
    int alone; /* a pullback's: begins at `roots`, agrees on nothing with other ranks, and leaves gradients in the layout that they have */
    const struct stni_root *roots;
    int n_roots;
};

/* Runs a backward that is alone, in the frame of every other: gradients are in its captures then. */
stn_status stni_pass_run(struct stni_pass *pass);

/* Adds what an edge leads to, and everything reachable from there. */
stn_status stni_pass_reach(struct stni_pass *pass, struct stni_edge edge);

/* Where cotangents of what an edge leads to are added up; NULL: nobody wants them, as those of leaves that a stn_grad
 * does not ask for. `*forward`, the spec of what was used, becomes that of what was made. */
stn_tensor **stni_pass_slot(const struct stni_pass *pass, const struct stni_edge *edge, const stn_spec **forward);

/* STN_ERR_STATE if a backward without retain has run the node. */
stn_status stni_pass_check_graph(const struct stni_node *node);

/* The graph has a tensor on this mesh (NULL: nothing to note). */
stn_status stni_pass_touch(struct stni_pass *pass, const stn_mesh *mesh);

/* It has a collective over the ranks of this mesh (NULL: of the world). */
stn_status stni_pass_touch_collective(struct stni_pass *pass, const stn_mesh *mesh);

/* Strict reverse order of recording. */
void stni_pass_sort(struct stni_pass *pass);

/* Captures are found from then on: those of a node's outputs follow one another, from the one that this gives on. */
stn_status stni_captures_sort(struct stni_pass *pass);
struct stni_capture **stni_captures_of(const struct stni_pass *pass, struct stni_node *node);

/* Once all nodes have run: each gets its gradient, complete, and nobody else's unless it has a history. Those of a pass
 * that is alone are as they came. */
stn_status stni_captures_finish(struct stni_pass *pass);

/* Capturing: keeps in the list only the nodes that lead to a capture (marked mark + 1) or are one, and the
 * collectives. After sorting. */
void stni_pass_prune(struct stni_pass *pass);

/* Leaves in the order in which they are complete, which follows from the order of the nodes. Not for captures. */
stn_status stni_pass_sort_leaves(struct stni_pass *pass);

/* The first `node` + 1 nodes have run: leaves that no other leads to run their hooks, and where the reducer goes
 * beside the backward they begin to be reduced. */
stn_status stni_pass_leaves_ready(struct stni_pass *pass, int node);

void stni_pass_fini(struct stni_pass *pass);

/* Keeps an error where a caller's list of `n` entries is none; `name` is the function's and the list's. */
void stni_pass_check_list(stn_context *context, const char *name, int n, const void *list);

/* The graph touches the meshes of all collectives and crossings of the tape, and what leads to them, whether or not
 * this rank's losses reach it. First of all: it uses up the mark. */
stn_status stni_pass_touch_crossings(struct stni_pass *pass);

/* Draws the lines of this rank. Local. */
stn_status stni_pass_draw_lines(struct stni_pass *pass);

/* Gives a line its communicator. Collective over its ranks at the first use. */
stn_status stni_line_open(const struct stni_pass *pass, int line);

/* marks[r] = 1 for its ranks; `marks` has an entry for each rank of the world. */
void stni_line_mark(const struct stni_pass *pass, int line, uint8_t *marks);

/* The line of a node's meshes; STNI_NO_LINE: what it does is the affair of other ranks, or of none but this one. */
int stni_pass_line_of(const struct stni_pass *pass, const struct stni_node *node);

/* Gives pass->comm: the ranks that lines join with this one, of which each knows its own lines alone. Where no rank
 * of its only line has another, that line's. Collective over them. */
stn_status stni_pass_find_ranks(struct stni_pass *pass);

/* What slices of meshes this rank has tensors on, as a word of a line: the same where they lie along the same axes. */
int64_t stni_pass_slices(const struct stni_pass *pass);

/* The ranks of a line have tensors on slices along different axes: refuses them, with the axes. Collective over the
 * line. */
stn_status stni_pass_refuse_slices(const struct stni_pass *pass, int line);

/* The same where a rank of the line has failed before it came to slices that the others have: tells its failure. */
stn_status stni_pass_tell_beyond(const struct stni_pass *pass, int line);

/* How many collectives and crossings of the tape belong to the meshes of a line. */
int stni_pass_count_calls(const struct stni_pass *pass, int line);

/* Contract 12, per-rank semantics: adds the collectives and crossings that are reachable from any rank's loss. Where
 * the ranks of a mesh have not called the same, pass->status says so. Collective over the ranks of pass->comm, after
 * the lines have told which of them have some. */
stn_status stni_pass_reach_collectives(struct stni_pass *pass);

/* Contracts 12 and 29: the ranks of each line compare a hash of the nodes on its meshes, once they have reached the
 * same collectives. STN_ERR_MISMATCH on all ranks that lines join if one line differs, with the first difference;
 * where a rank has a `status`, all return that, with its text. Sorts the nodes. Collective over them. */
stn_status stni_pass_agree(struct stni_pass *pass);

/* The part of it that finds out whether a rank has a `status`. */
stn_status stni_pass_agree_on_status(struct stni_pass *pass);

/* Whether hooks of this rank may run in the pass, or wait behind it: of tensors; of leaves, also of those that only
 * earlier passes have reached. */
int stni_pass_has_tensor_hooks(const struct stni_pass *pass);
int stni_pass_has_grad_hooks(const struct stni_pass *pass);

/* All ranks keep the failure of a hook that one of them has met since the last time, each its own where all have the
 * same. Collective over the ranks of pass->comm if `asked`, which is the same on all of them. */
stn_status stni_pass_agree_on_hooks(struct stni_pass *pass, int asked);

/* Of a rank that has kept an error: tells the others, where the tape or the `n` outputs, which may be missing, say that
 * they wait. Returns the kept error. */
stn_status stni_pass_refuse(stn_context *context, int n, stn_tensor *const *outputs);

#endif
