/* Nodes: recording, saving, dying. */
#include "autograd/node.h"

#include "autograd/gather_again.h"
#include "autograd/leaf.h"
#include "autograd/recompute.h"
#include "autograd/tape.h"
#include "autograd/tensor_hooks.h"
#include "core/base/host_alloc.h"

#include <string.h>

static const uint64_t DIFFERENTIABLE = 1u << STN_DTYPE_F32 | 1u << STN_DTYPE_F64 | 1u << STN_DTYPE_BF16 |
                                       1u << STN_DTYPE_F16 | 1u << STN_DTYPE_C64 | 1u << STN_DTYPE_C128;

uint32_t stni_needs_grad(const stn_context *context, int n_in, stn_tensor *const *in)
{
    uint32_t needs = 0;
    if (context->no_grad)
        return 0;
    for (int i = 0; i < n_in; i++)
        if (in[i] && (in[i]->flags & STNI_TENSOR_REQUIRES_GRAD))
            needs |= 1u << i;
    return needs;
}

const stn_op *stn_grad_fn(const stn_tensor *tensor)
{
    return tensor && tensor->node ? tensor->node->op : NULL;
}

struct stni_edge stni_edge_of(const stn_tensor *tensor)
{
    return (struct stni_edge){tensor->node, tensor->leaf, tensor->output};
}

/* A node and the arrays behind it, in one block. */
static size_t node_bytes(size_t n, size_t m, size_t attrs_size)
{
    return sizeof(struct stni_node) + n * sizeof(struct stni_edge) + (n + m) * sizeof(struct stni_saved) +
           (2 * n + m) * sizeof(stn_spec *) + m * sizeof(stn_tensor *) + attrs_size;
}

static size_t slab_of(size_t bytes)
{
    return (bytes - 1) / STNI_NODE_STEP;
}

static void *block_alloc(struct stni_tape *tape, size_t bytes)
{
    size_t i = slab_of(bytes);
    if (i >= STNI_NODE_SLABS)
        return stni_malloc(bytes);
    if (!tape->slabs[i] && !(tape->slabs[i] = stni_slab_create((i + 1) * STNI_NODE_STEP)))
        return NULL;
    return stni_slab_take(tape->slabs[i]);
}

static void node_free(struct stni_node *node)
{
    size_t i = slab_of(node_bytes((size_t)node->n_in, (size_t)node->n_out, node->desc->attrs_size));
    if (i >= STNI_NODE_SLABS)
        stni_free(node);
    else
        stni_slab_put(node->context->tape->slabs[i], node);
}

static struct stni_node *node_allocate(struct stni_tape *tape, int n_in, int n_out, size_t attrs_size)
{
    size_t n = (size_t)n_in, m = (size_t)n_out, bytes = node_bytes(n, m, attrs_size);
    struct stni_node *node = block_alloc(tape, bytes);
    if (!node)
        return NULL;
    memset(node, 0, bytes - attrs_size); /* the attributes are copied */
    node->edges = (struct stni_edge *)(node + 1);
    node->saved_in = (struct stni_saved *)(node->edges + n);
    node->saved_out = node->saved_in + n;
    node->in_spec = (const stn_spec **)(node->saved_out + m);
    node->want = node->in_spec + n;
    node->out_spec = node->want + n;
    node->cotangents = (stn_tensor **)(node->out_spec + m);
    node->attrs = node->cotangents + m;
    return node;
}

static void copy_spec(const stn_spec **to, const stn_spec *from)
{
    *to = from ? stni_spec_retain(from) : NULL;
}

static void link_inputs(struct stni_node *node, const stn_op_call *call)
{
    for (int i = 0; i < call->n_in; i++) {
        copy_spec(&node->in_spec[i], call->in_spec[i]);
        copy_spec(&node->want[i], call->want[i]);
        if (!call->in[i] || !(node->needs >> i & 1))
            continue;
        node->edges[i] = stni_edge_of(call->in[i]);
        if (node->edges[i].node)
            stni_node_retain(node->edges[i].node);
        if (node->edges[i].leaf)
            stni_leaf_retain(node->edges[i].leaf);
    }
}

static void save_input(struct stni_node *node, const stn_op_call *call, int i)
{
    stn_tensor *source = stni_gathered_from(call, i), *kept = source ? source : call->in[i];
    node->again |= source && !(node->desc->flags & STNI_OP_MOVES) ? 1u << i : 0; /* whose backward reads no values */
    node->saved_in[i] = (struct stni_saved){stn_tensor_retain(kept), stni_tensor_root(kept)->version};
}

/* Outputs are kept as handles without history: a node that owned its own output would never die. */
stn_status stni_node_save(struct stni_node *node, const stn_op_call *call)
{
    const uint64_t saves = node->desc->impl->saves ? node->desc->impl->saves(call, node->needs) : 0;
    if (!saves)
        return STN_OK;
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] && (saves >> i & 1) && !node->saved_in[i].tensor)
            save_input(node, call, i);
    for (int k = 0; k < call->n_out; k++) {
        stn_tensor *t = call->out[k];
        if (!t || !(saves >> (32 + k) & 1) || node->saved_out[k].tensor)
            continue;
        STNI_TRY(
            stni_tensor_on(call->context, t->spec, t->storage, t->data, t->strides, 0, &node->saved_out[k].tensor));
        node->saved_out[k].version = t->storage->version;
    }
    return STN_OK;
}

static void set_history(stn_tensor *tensor, struct stni_node *node, int output)
{
    struct stni_node *before = tensor->node;
    if (before && before->hooks && node)
        stni_tensor_hooks_follow(&before->hooks, tensor->output, &node->hooks, output);
    tensor->node = node ? stni_node_retain(node) : NULL;
    tensor->output = output;
    tensor->flags |= STNI_TENSOR_REQUIRES_GRAD;
    if (before)
        stni_node_release(before);
}

void stni_node_link_outputs(struct stni_node *node, const stn_op_call *call)
{
    for (int k = 0; k < call->n_out; k++)
        if (call->out[k] && (DIFFERENTIABLE >> call->out_spec[k]->layout.dtype & 1))
            set_history(call->out[k], node, k);
}

/* The mesh that a collective or crossing concerns: its input's, or that of its attribute `mesh`, a number. */
static const stn_mesh *home_of(const stn_op_call *call, const stn_op_desc *desc)
{
    const stn_mesh *mesh = call->n_in > 0 && call->in_spec[0] ? call->in_spec[0]->layout.mesh : NULL;
    int64_t number;
    for (int i = 0; i < desc->n_attrs && !mesh; i++) {
        if (desc->attrs[i].type != STN_ATTR_INT || strcmp(desc->attrs[i].name, "mesh") != 0)
            continue;
        memcpy(&number, (const char *)call->attrs + desc->attrs[i].offset, sizeof number);
        if (number >= 0 && number < call->context->shard.n_meshes)
            mesh = call->context->shard.meshes[number];
    }
    return mesh;
}

stn_status stni_node_record(const stn_op_call *call, const stn_op_desc *desc, uint32_t needs)
{
    stn_context *context = call->context;
    if (context->tape->part && stni_recomputation_runs(context))
        return stni_recomputation_refill(call, desc, needs);
    struct stni_node *node = node_allocate(context->tape, call->n_in, call->n_out, desc->attrs_size);
    if (!node)
        return stni_fail_memory(context, "node", sizeof *node);
    node->refs = 1;
    node->context = context;
    node->op = call->op;
    node->desc = desc;
    node->needs = needs;
    node->n_in = call->n_in;
    node->n_out = call->n_out;
    node->sequence = ++context->tape->sequence;
    if (desc->attrs_size)
        memcpy(node->attrs, call->attrs, desc->attrs_size);
    link_inputs(node, call);
    for (int k = 0; k < call->n_out; k++)
        copy_spec(&node->out_spec[k], call->out_spec[k]);
    stn_status status = stni_node_save(node, call);
    if (status == STN_OK && context->tape->part)
        status = stni_recomputation_add(node);
    if (desc->flags & STN_OP_PER_RANK)
        node->home = home_of(call, desc);
    if (status == STN_OK && (desc->flags & STN_OP_PER_RANK))
        status = stni_tape_add_collective(context, node);
    if (status == STN_OK) {
        stni_node_link_outputs(node, call);
        context->stats.nodes++;
    }
    stni_node_release(node);
    return status;
}

struct stni_node *stni_node_retain(struct stni_node *node)
{
    node->refs++;
    return node;
}

void stni_node_drop_saved(struct stni_node *node)
{
    for (int i = 0; i < node->n_in + node->n_out; i++)
        stni_tensor_drop(&node->saved_in[i].tensor); /* saved_out follows saved_in */
    if (node->part)
        stni_recomputation_leave(node);
}

static void release_specs(struct stni_node *node)
{
    for (int i = 0; i < 2 * node->n_in + node->n_out; i++)
        if (node->in_spec[i])
            stni_spec_release(node->in_spec[i]); /* want and out_spec follow in_spec */
}

void stni_node_release(struct stni_node *node)
{
    if (!node || --node->refs > 0)
        return;
    struct stni_tape *tape = node->context->tape;
    node->next_dead = tape->dead;
    tape->dead = node;
    if (tape->freeing)
        return;
    tape->freeing = 1;
    while ((node = tape->dead)) {
        tape->dead = node->next_dead;
        stni_node_drop_saved(node);
        release_specs(node);
        for (int i = 0; i < node->n_in; i++) {
            if (node->edges[i].node)
                stni_node_release(node->edges[i].node);
            if (node->edges[i].leaf)
                stni_leaf_release(node->edges[i].leaf);
        }
        for (int k = 0; k < node->n_out; k++)
            stni_tensor_drop(&node->cotangents[k]);
        stni_tensor_hooks_destroy(&node->hooks);
        node_free(node);
    }
    tape->freeing = 0;
}

void stni_share_autograd(const stn_tensor *from, stn_tensor *to)
{
    to->node = from->node ? stni_node_retain(from->node) : NULL;
    to->leaf = from->leaf;
    to->output = from->output;
    if (to->leaf)
        stni_leaf_retain(to->leaf);
}

void stni_drop_autograd(stn_tensor *tensor)
{
    if (tensor->leaf && tensor->leaf->handle == tensor)
        tensor->leaf->handle = NULL;
    if (tensor->node)
        stni_node_release(tensor->node);
    if (tensor->leaf)
        stni_leaf_release(tensor->leaf);
    tensor->node = NULL;
    tensor->leaf = NULL;
}
