/* Which nodes a backward runs. */
#include "autograd/pass.h"

#include "core/base/host_alloc.h"

#include <stdlib.h>

static stn_status grow(stn_context *context, void **list, int n, int *cap)
{
    if (n < *cap)
        return STN_OK;
    int more = *cap ? 2 * *cap : 64;
    void *grown = stni_realloc(*list, (size_t)more * sizeof(void *));
    if (!grown)
        return stni_fail_memory(context, "list of nodes or leaves", (size_t)more * sizeof(void *));
    *list = grown;
    *cap = more;
    return STN_OK;
}

static stn_status grow_meshes(struct stni_pass *pass)
{
    const int more = pass->cap_meshes ? 2 * pass->cap_meshes : 8;
    if (pass->n_meshes < pass->cap_meshes)
        return STN_OK;
    struct stni_pass_mesh *grown = stni_realloc(pass->meshes, (size_t)more * sizeof *grown);
    if (!grown)
        return stni_fail_memory(pass->context, "list of meshes", (size_t)more * sizeof *grown);
    pass->meshes = grown;
    pass->cap_meshes = more;
    return STN_OK;
}

static stn_status touch(struct stni_pass *pass, const stn_mesh *mesh, int has_tensors)
{
    for (int m = 0; m < pass->n_meshes; m++)
        if (pass->meshes[m].mesh == mesh) {
            pass->meshes[m].has_tensors |= has_tensors;
            return STN_OK;
        }
    STNI_TRY(grow_meshes(pass));
    pass->meshes[pass->n_meshes++] = (struct stni_pass_mesh){mesh, has_tensors, STNI_NO_LINE};
    return STN_OK;
}

stn_status stni_pass_touch(struct stni_pass *pass, const stn_mesh *mesh)
{
    return mesh ? touch(pass, mesh, 1) : STN_OK;
}

stn_status stni_pass_touch_collective(struct stni_pass *pass, const stn_mesh *mesh)
{
    return touch(pass, mesh, 0);
}

/* Whether a backward that has called this one, by a hook or by the backward of an op, has given that mark. */
static int is_outer(const struct stni_pass *pass, uint64_t mark)
{
    const struct stni_pass *outer = pass->context->tape->running;
    while (outer && outer->mark != mark && outer->mark + 1 != mark)
        outer = outer->outer;
    return outer != NULL;
}

/* What it has left in a node or a leaf waits until this one is over. */
static stn_status set_aside(struct stni_pass *pass, struct stni_node *node, struct stni_leaf *leaf)
{
    struct stni_aside *aside = stni_calloc(1, sizeof *aside);
    if (!aside)
        return stni_fail_memory(pass->context, "what a backward has left", sizeof *aside);
    *aside = (struct stni_aside){.node = node, .leaf = leaf, .next = pass->asides};
    pass->asides = aside;
    if (leaf) {
        aside->mark = leaf->mark;
        aside->last = leaf->last;
        aside->cotangents[0] = leaf->cotangent;
        leaf->cotangent = NULL;
        return STN_OK;
    }
    aside->mark = node->mark;
    aside->gathered = node->gathered;
    node->gathered = NULL;
    for (int k = 0; k < node->n_out; k++) {
        aside->cotangents[k] = node->cotangents[k];
        node->cotangents[k] = NULL;
    }
    return STN_OK;
}

static void give_back(const struct stni_aside *aside)
{
    struct stni_node *node = aside->node;
    if (aside->leaf) {
        aside->leaf->mark = aside->mark;
        aside->leaf->last = aside->last;
        aside->leaf->cotangent = aside->cotangents[0];
        return;
    }
    node->mark = aside->mark;
    node->gathered = aside->gathered;
    for (int k = 0; k < node->n_out; k++)
        node->cotangents[k] = aside->cotangents[k];
}

static stn_status meet_leaf(struct stni_pass *pass, struct stni_leaf *leaf)
{
    void *list = pass->leaves;
    if (leaf->mark == pass->mark)
        return STN_OK;
    if (is_outer(pass, leaf->mark))
        STNI_TRY(set_aside(pass, NULL, leaf));
    STNI_TRY(grow(pass->context, &list, pass->n_leaves, &pass->cap_leaves));
    pass->leaves = list;
    leaf->mark = pass->mark;
    stni_leaf_retain(leaf);
    pass->leaves[pass->n_leaves++] = leaf;
    return STN_OK;
}

stn_status stni_pass_check_graph(const struct stni_node *node)
{
    return node->consumed
               ? stni_fail(node->context, STN_ERR_STATE,
                           "stn_backward: '%s' was run backward before and its graph is gone; retain_graph keeps it",
                           node->desc->name)
               : STN_OK;
}

static stn_status meet_node(struct stni_pass *pass, struct stni_node *node)
{
    void *list = pass->nodes;
    if (node->mark == pass->mark)
        return STN_OK;
    if (node->consumed && pass->looking)
        return STN_OK;
    STNI_TRY(stni_pass_check_graph(node));
    if (is_outer(pass, node->mark))
        STNI_TRY(set_aside(pass, node, NULL));
    STNI_TRY(grow(pass->context, &list, pass->n_nodes, &pass->cap_nodes));
    pass->nodes = list;
    node->mark = pass->mark;
    pass->nodes[pass->n_nodes++] = stni_node_retain(node);
    return STN_OK;
}

static stn_status meet(struct stni_pass *pass, struct stni_edge edge)
{
    if (edge.node)
        return meet_node(pass, edge.node);
    return edge.leaf ? meet_leaf(pass, edge.leaf) : STN_OK;
}

/* The list of nodes is its own queue: breadth first, no recursion. */
stn_status stni_pass_reach(struct stni_pass *pass, struct stni_edge edge)
{
    int next = pass->n_nodes;
    STNI_TRY(meet(pass, edge));
    for (; next < pass->n_nodes; next++) {
        const struct stni_node *node = pass->nodes[next];
        for (int i = 0; i < node->n_in; i++)
            if (node->needs >> i & 1)
                STNI_TRY(meet(pass, node->edges[i]));
    }
    return STN_OK;
}

stn_tensor **stni_pass_slot(const struct stni_pass *pass, const struct stni_edge *edge, const stn_spec **forward)
{
    if (edge->node && edge->node->mark >= pass->mark) {
        *forward = edge->node->out_spec[edge->output];
        return &edge->node->cotangents[edge->output];
    }
    return edge->leaf && (!pass->capturing || edge->leaf->mark == pass->mark + 1) ? &edge->leaf->cotangent : NULL;
}

static int later_first(const void *a, const void *b)
{
    uint64_t x = (*(struct stni_node *const *)a)->sequence, y = (*(struct stni_node *const *)b)->sequence;
    return x < y ? 1 : x > y ? -1 : 0;
}

void stni_pass_sort(struct stni_pass *pass)
{
    if (pass->n_nodes > 1)
        qsort(pass->nodes, (size_t)pass->n_nodes, sizeof(struct stni_node *), later_first);
}

void stni_pass_fini(struct stni_pass *pass)
{
    for (int n = 0; n < pass->n_nodes; n++)
        for (int k = 0; k < pass->nodes[n]->n_out; k++)
            stni_tensor_drop(&pass->nodes[n]->cotangents[k]);
    for (int l = 0; l < pass->n_leaves; l++)
        stni_tensor_drop(&pass->leaves[l]->cotangent);
    while (pass->asides) {
        struct stni_aside *aside = pass->asides;
        pass->asides = aside->next;
        give_back(aside);
        stni_free(aside);
    }
    for (int n = 0; n < pass->n_nodes; n++)
        stni_node_release(pass->nodes[n]);
    for (int l = 0; l < pass->n_leaves; l++)
        stni_leaf_release(pass->leaves[l]);
    for (int c = 0; c < pass->n_captures; c++)
        stni_tensor_drop(&pass->captures[c].gradient);
    stni_free(pass->sorted);
    stni_free(pass->nodes);
    stni_free(pass->leaves);
    stni_free(pass->meshes);
    stni_free(pass->lines);
}

void stni_pass_check_list(stn_context *context, const char *name, int n, const void *list)
{
    if (context->error.status == STN_OK && (n < 0 || (n > 0 && !list)))
        stni_fail(context, STN_ERR_ARGUMENT, "%s got %d at %p, wanted a list", name, n, list);
}
