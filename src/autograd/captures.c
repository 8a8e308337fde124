/* What a stn_grad asks for, found by where an edge leads: there may be as many captures as there are nodes. */
#include "autograd/pass.h"

#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"

#include <stdlib.h>

static int order(uintptr_t a, uintptr_t b)
{
    return a < b ? -1 : a > b;
}

static int compare(const struct stni_edge *a, const struct stni_edge *b)
{
    const int by_node = order((uintptr_t)a->node, (uintptr_t)b->node);
    if (by_node != 0 || a->node)
        return by_node ? by_node : (a->output > b->output) - (a->output < b->output);
    return order((uintptr_t)a->leaf, (uintptr_t)b->leaf);
}

static int by_end(const void *a, const void *b)
{
    return compare(&(*(struct stni_capture *const *)a)->edge, &(*(struct stni_capture *const *)b)->edge);
}

stn_status stni_captures_sort(struct stni_pass *pass)
{
    const size_t n = (size_t)pass->n_captures;
    pass->sorted = stni_calloc(n + 1, sizeof *pass->sorted); /* NULL after the last one */
    if (!pass->sorted)
        return stni_fail_memory(pass->context, "captures", n * sizeof *pass->sorted);
    for (size_t c = 0; c < n; c++)
        pass->sorted[c] = &pass->captures[c];
    qsort(pass->sorted, n, sizeof *pass->sorted, by_end);
    return STN_OK;
}

/* The first one that does not come before `edge`. */
static struct stni_capture **from(const struct stni_pass *pass, const struct stni_edge *edge)
{
    int low = 0, high = pass->n_captures;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (compare(&pass->sorted[middle]->edge, edge) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return &pass->sorted[low];
}

struct stni_capture **stni_captures_of(const struct stni_pass *pass, struct stni_node *node)
{
    const struct stni_edge first = {.node = node};
    return from(pass, &first);
}

static int captured(const struct stni_pass *pass, const struct stni_edge *edge)
{
    const struct stni_capture *found = *from(pass, edge);
    return found && compare(&found->edge, edge) == 0;
}

/* A node leads to a capture if an input of it is one, or was made by a node that does; those were recorded before
 * it, so that they have been checked already when the list is walked from its end. Collectives always do: other
 * ranks count on them. */
static int leads_to_capture(const struct stni_pass *pass, const struct stni_node *node)
{
    if (node->desc->flags & STN_OP_PER_RANK)
        return 1;
    for (int i = 0; i < node->n_in; i++) {
        const struct stni_edge *edge = &node->edges[i];
        if (!(node->needs >> i & 1))
            continue;
        if (captured(pass, edge) || (edge->node && edge->node->mark == pass->mark + 1))
            return 1;
    }
    return 0;
}

static int is_captured_output(const struct stni_pass *pass, struct stni_node *node)
{
    const struct stni_capture *found = *stni_captures_of(pass, node);
    return found && found->edge.node == node;
}

void stni_pass_prune(struct stni_pass *pass)
{
    int kept = 0;
    for (int n = pass->n_nodes - 1; n >= 0; n--)
        if (leads_to_capture(pass, pass->nodes[n]))
            pass->nodes[n]->mark = pass->mark + 1;
    for (int n = 0; n < pass->n_nodes; n++) {
        struct stni_node *node = pass->nodes[n];
        if (node->mark == pass->mark + 1 || is_captured_output(pass, node)) {
            pass->nodes[kept++] = node;
        } else {
            node->mark = 0;
            stni_node_release(node);
        }
    }
    pass->n_nodes = kept;
    for (int c = 0; c < pass->n_captures; c++)
        if (pass->captures[c].edge.leaf)
            pass->captures[c].edge.leaf->mark = pass->mark + 1;
}

static stn_status complete(struct stni_capture *asked)
{
    const stn_spec *spec;
    stn_tensor *moved;
    STNI_TRY(stni_gradient_spec(asked->spec, &spec));
    STNI_TRY(stni_redistribute(asked->gradient, spec, &moved));
    stni_tensor_drop(&asked->gradient);
    asked->gradient = moved;
    return STN_OK;
}

/* Whether nobody else has the memory: it may be one element that is repeated, as in the gradient of a sum. */
static int is_only(const stn_tensor *t)
{
    return atomic_load(&t->refs) == 1 && !t->node && !t->leaf && atomic_load(&t->storage->refs) == 1 &&
           atomic_load(&stni_tensor_root(t)->refs) == 1;
}

/* A cotangent that the caller gave may have gone all the way, and one may be that of several. What is the only view of
 * memory that nobody else has is none. */
static stn_status own(struct stni_capture *asked)
{
    stn_tensor *gradient = asked->gradient;
    const int shares = (gradient->flags & STNI_TENSOR_SHARES) != 0;
    if (is_only(gradient) && (!shares || atomic_load(&stni_tensor_root(gradient)->views) == 1)) {
        if (shares)
            stni_tensor_show_nothing(gradient);
        return STN_OK;
    }
    asked->gradient = NULL;
    return stni_gradient_own(gradient, &asked->gradient);
}

stn_status stni_captures_finish(struct stni_pass *pass)
{
    for (int c = 0; c < pass->n_captures; c++) {
        const struct stni_leaf *leaf = pass->captures[c].edge.leaf;
        if (leaf && leaf->cotangent)
            pass->captures[c].gradient = stn_tensor_retain(leaf->cotangent);
    }
    for (int l = 0; l < pass->n_leaves; l++)
        stni_tensor_drop(&pass->leaves[l]->cotangent);
    for (int c = 0; c < pass->n_captures && !pass->alone; c++) {
        if (!pass->captures[c].gradient)
            continue;
        STNI_TRY(complete(&pass->captures[c]));
        if (!pass->create_graph)
            STNI_TRY(own(&pass->captures[c]));
    }
    return STN_OK;
}
