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

struct stni_pass {
    stn_context *context;
    uint64_t mark;
    int retain_graph, create_graph;
    stn_status status; /* what this rank found wrong with its own graph; told to the others before anything is done */
    struct stni_node **nodes; /* reachable; in the order of running once sorted */
    int n_nodes, cap_nodes;
    struct stni_leaf **leaves; /* met, in the order of meeting; retained */
    int n_leaves, cap_leaves;
    int n_ready; /* of them, once sorted: those whose hooks have run, and whose reductions may have begun */
    struct stni_reducer reducer;
    const stn_mesh **meshes; /* of the outputs and nodes; once ranks have agreed, those that concern this rank come first */
    int n_meshes, cap_meshes, n_joined;
    int by_grid; /* slices of one grid along other axes: what other ranks have are other slices, and meshes are compared by grid and axes */
    stn_comm *comm; /* of the ranks that it concerns; NULL: this one alone */
    int looking;    /* only sees what is there: nodes that are gone are passed by */
    int capturing; /* stn_grad: gradients go to the captures, no leaf is touched */
    struct stni_capture *captures;
    int n_captures;
    int alone; /* a pullback's: begins at `roots`, agrees on nothing with other ranks, and leaves gradients in the layout that they have */
    const struct stni_root *roots;
    int n_roots;
};

/* Runs a backward that is alone, in the frame of every other: gradients are in its captures then. */
stn_status stni_pass_run(struct stni_pass *pass);

/* Adds what an edge leads to, and everything reachable from there. */
stn_status stni_pass_reach(struct stni_pass *pass, struct stni_edge edge);

/* The graph has something on this mesh (NULL: nothing to note). */
stn_status stni_pass_touch(struct stni_pass *pass, const stn_mesh *mesh);

/* Strict reverse order of recording. */
void stni_pass_sort(struct stni_pass *pass);

/* Capturing: keeps in the list only the nodes that lead to a capture (marked mark + 1) or are one, and the collectives. After sorting. */
void stni_pass_prune(struct stni_pass *pass);

/* Leaves in the order in which they are complete, which follows from the order of the nodes. Not for captures. */
stn_status stni_pass_sort_leaves(struct stni_pass *pass);

/* The first `node` + 1 nodes have run: leaves that no other leads to run their hooks, and where the reducer goes beside the backward they begin to
 * be reduced. */
stn_status stni_pass_leaves_ready(struct stni_pass *pass, int node);

void stni_pass_fini(struct stni_pass *pass);

/* The graph has something on every mesh that leads to a crossing, whether or not this rank's losses reach it. First of all: it uses up the mark. */
stn_status stni_pass_touch_crossings(struct stni_pass *pass);

/* Finds the ranks that the graph's meshes join with this one, puts those meshes first, and gives pass->comm. All ranks,
 * and all meshes, where the tape holds collectives. Collective over the ranks found at its first use. */
stn_status stni_pass_join(struct stni_pass *pass);

/* 1 if that joined the mesh. */
int stni_pass_has_joined(const struct stni_pass *pass, const stn_mesh *mesh);

/* 1 if the node is on one of those meshes: what lies wholly on others is their ranks' affair. */
int stni_pass_concerns(const struct stni_pass *pass, const struct stni_node *node);

/* Whether this rank takes part in what ranks exchange about collectives and crossings. */
int stni_pass_has_collectives(const struct stni_pass *pass);

/* Contract 12, per-rank semantics: adds the collectives and crossings that are reachable from any rank's loss. Where ranks have not called the same,
 * pass->status says so. Collective over the ranks that stni_pass_join found, if one of them has some. */
stn_status stni_pass_reach_collectives(struct stni_pass *pass);

/* Contracts 12 and 29: one hash of the nodes on meshes is compared by the ranks that stni_pass_join found, once they have reached the same
 * collectives. STN_ERR_MISMATCH on all of them if they differ, with the first difference; where one has a `status`, all return that, with
 * its text. Sorts the nodes. Collective over them. */
stn_status stni_pass_agree(struct stni_pass *pass);

/* Of a rank that has kept an error: tells the others, where the tape says that they wait. Returns the kept error. */
stn_status stni_pass_refuse(stn_context *context);

#endif
