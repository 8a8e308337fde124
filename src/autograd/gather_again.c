/* Gathers that backward repeats.
 *
 * On each communicator all ranks begin the same in one order: a node begins its own gathers and those of the next
 * node of its mesh that has some, and the nodes of a mesh, and what they keep, are what its ranks have compared.
 * Nodes of other meshes may lie between, and are others on other ranks. */
#include "autograd/gather_again.h"

#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"

/* Gathered: sharded along fewer axes, and nothing else has changed that would take a reduction. */
int stni_gathers_again(const stn_context *context, const stn_spec *from, const stn_spec *to)
{
    return context->tape->gather_again && from->layout.mesh && from->layout.mesh == to->layout.mesh &&
           !from->partial_axes && !to->partial_axes && from->shard_axes != to->shard_axes &&
           (to->shard_axes & ~from->shard_axes) == 0;
}

/* An input that was in the layout that the op wants came of a redistribution, if it was gathered; else the walk has
 * gathered a leaf's tensor. */
static const struct stni_saved *find_source(const stn_op_call *call, int i, struct stni_saved *of_leaf)
{
    const stn_tensor *t = call->in[i];
    if (t->spec == call->in_spec[i])
        return t->node && (t->node->desc->flags & STNI_OP_MOVES) ? &t->node->saved_in[0] : NULL;
    stn_tensor *leaf = t->leaf ? t->leaf->handle : NULL;
    if (!leaf || leaf->spec != call->in_spec[i])
        return NULL;
    *of_leaf = (struct stni_saved){leaf, stni_tensor_root(leaf)->version};
    return of_leaf;
}

/* Inside of a part that is recomputed everything is made again with it. A source that was changed since would give
 * other values. */
stn_tensor *stni_gathered_from(const stn_op_call *call, int i)
{
    struct stni_saved of_leaf;
    const struct stni_saved *source;
    if (!call->context->tape->gather_again || call->context->tape->part)
        return NULL;
    source = find_source(call, i, &of_leaf);
    if (!source || !source->tensor || stni_tensor_root(source->tensor)->version != source->version)
        return NULL;
    return stni_gathers_again(call->context, source->tensor->spec, call->in[i]->spec) ? source->tensor : NULL;
}

/* What an input before `i` has of the same chunks. NULL: none has it. */
static stn_tensor *begun_before(const struct stni_node *node, int i)
{
    for (int j = 0; j < i; j++)
        if (node->gathered[j] && node->saved_in[j].tensor == node->saved_in[i].tensor && node->want[j] == node->want[i])
            return node->gathered[j];
    return NULL;
}

static stn_status begin_input(struct stni_node *node, int i, int beside)
{
    stn_tensor *from = node->saved_in[i].tensor, *before = begun_before(node, i);
    if (before) {
        node->gathered[i] = stn_tensor_retain(before);
        return STN_OK;
    }
    return beside ? stni_redistribute_begin(from, node->want[i], &node->gathered[i])
                  : stni_redistribute(from, node->want[i], &node->gathered[i]);
}

/* What was changed since is told when the node's turn has come. */
static int is_unchanged(const struct stni_saved *saved)
{
    return stni_tensor_root(saved->tensor)->version == saved->version;
}

static stn_status begin(struct stni_node *node, int beside)
{
    const size_t bytes = (size_t)node->n_in * sizeof(stn_tensor *);
    if (node->gathered)
        return STN_OK;
    node->gathered = stni_calloc(1, bytes);
    if (!node->gathered)
        return stni_fail_memory(node->context, "list of tensors that are gathered again", bytes);
    for (int i = 0; i < node->n_in; i++)
        if ((node->again >> i & 1) && is_unchanged(&node->saved_in[i]))
            STNI_TRY(begin_input(node, i, beside));
    return STN_OK;
}

/* Of the first of its inputs that are gathered again; NULL: none is. */
static const stn_mesh *mesh_of(const struct stni_node *node)
{
    for (int i = 0; node->again >> i; i++)
        if (node->again >> i & 1)
            return node->want[i]->layout.mesh;
    return NULL;
}

stn_status stni_gather_again(struct stni_pass *pass, int at)
{
    const stn_mesh *mesh = mesh_of(pass->nodes[at]);
    const int beside = pass->reducer.beside;
    if (!mesh)
        return STN_OK;
    STNI_TRY(begin(pass->nodes[at], beside));
    for (int next = at + 1; beside && next < pass->n_nodes; next++)
        if (mesh_of(pass->nodes[next]) == mesh)
            return begin(pass->nodes[next], 1);
    return STN_OK;
}

stn_status stni_gathered_input(const struct stni_node *node, int i, stn_tensor **out)
{
    *out = node->saved_in[i].tensor;
    if (!(node->again >> i & 1))
        return STN_OK;
    *out = node->gathered[i];
    return stni_tensor_arrive(*out);
}

void stni_gathered_drop(struct stni_node *node)
{
    for (int i = 0; node->gathered && i < node->n_in; i++) {
        if (node->gathered[i])
            stni_tensor_arrive(node->gathered[i]); /* what nobody used has to end, too */
        stni_tensor_drop(&node->gathered[i]);
    }
    stni_free(node->gathered);
    node->gathered = NULL;
}

void stni_gathered_drop_all(struct stni_pass *pass)
{
    for (int n = 0; n < pass->n_nodes; n++)
        if (pass->nodes[n]->gathered)
            stni_gathered_drop(pass->nodes[n]);
}

void stn_set_gather_again(stn_context *context, int on)
{
    if (context && context->tape)
        context->tape->gather_again = on != 0;
}
