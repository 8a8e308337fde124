/* Leaves that are complete while a backward still runs: which, from the graph alone, so that every rank of a mesh
 * has its leaves in one order. */
#include "autograd/parts.h"
#include "autograd/pass.h"
#include "autograd/tensor_hooks.h"
#include "core/base/host_alloc.h"

#include <string.h>

enum { NO_NODE = -1, FEW = 32 };

/* Fills `order` from its end: the leaves of the last node that leads to some come last. */
static void sort_into(const struct stni_pass *pass, struct stni_leaf **order)
{
    int at = pass->n_leaves;
    for (int l = 0; l < pass->n_leaves; l++)
        pass->leaves[l]->last = NO_NODE;
    for (int i = pass->n_nodes - 1; i >= 0; i--) {
        const struct stni_node *node = pass->nodes[i];
        for (int e = node->n_in - 1; e >= 0; e--) {
            struct stni_leaf *leaf = node->edges[e].leaf;
            if (!(node->needs >> e & 1) || !leaf || leaf->mark != pass->mark || leaf->last != NO_NODE)
                continue;
            leaf->last = i;
            order[--at] = leaf;
        }
    }
    for (int l = pass->n_leaves - 1; l >= 0; l--) /* losses that are leaves */
        if (pass->leaves[l]->last == NO_NODE)
            order[--at] = pass->leaves[l];
}

stn_status stni_pass_sort_leaves(struct stni_pass *pass)
{
    struct stni_leaf *few[FEW], **order = few;
    const size_t bytes = (size_t)pass->n_leaves * sizeof *order;
    if (pass->n_leaves > FEW && !(order = stni_malloc(bytes)))
        return stni_fail_memory(pass->context, "list of leaves", bytes);
    sort_into(pass, order);
    if (bytes > 0)
        memcpy(pass->leaves, order, bytes);
    if (order != few)
        stni_free(order);
    return STN_OK;
}

/* What has to be reduced goes to its bucket; what has to move begins to. The rest is no communication, and waits for
 * the end. */
static stn_status begin(struct stni_pass *pass, struct stni_leaf *leaf, int *begun)
{
    const struct stni_leaf_before before = {leaf->pending, leaf->due};
    const stn_spec *whole;
    uint32_t axes;
    *begun = 1;
    STNI_TRY(stni_leaf_pending_axes(leaf, leaf->cotangent, &whole, &axes));
    if (axes == 0 && whole->layout.mesh && !stni_spec_same_chunks(leaf->cotangent->spec, whole))
        return stni_reducer_move(&pass->reducer, leaf, leaf->cotangent, whole);
    *begun = axes != 0 && !pass->context->no_sync;
    if (!*begun)
        return STN_OK;
    stn_tensor_retain(before.pending);
    stn_status status = stni_leaf_take(leaf, &leaf->cotangent);
    if (status == STN_OK)
        status = stni_reducer_add(&pass->reducer, leaf, &before);
    else
        stni_leaf_give_back(leaf, &before);
    if (before.pending)
        stni_tensor_release_here(before.pending);
    return status;
}

static stn_status leaf_ready(struct stni_pass *pass, struct stni_leaf *leaf)
{
    int begun = 0;
    if (!leaf->cotangent)
        return STN_OK;
    STNI_TRY(stni_cotangent_close(leaf->cotangent));
    if (leaf->tensor_hooks)
        STNI_TRY(stni_tensor_hooks_run(leaf->tensor_hooks, 0, leaf->spec, 0, &leaf->cotangent));
    if (pass->reducer.beside)
        STNI_TRY(begin(pass, leaf, &begun));
    if (begun)
        stni_tensor_drop(&leaf->cotangent);
    return STN_OK;
}

stn_status stni_pass_leaves_ready(struct stni_pass *pass, int node)
{
    while (pass->n_ready < pass->n_leaves && pass->leaves[pass->n_ready]->last <= node)
        STNI_TRY(leaf_ready(pass, pass->leaves[pass->n_ready++]));
    return STN_OK;
}
