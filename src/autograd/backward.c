/* Backward: cotangents through the nodes, in strict reverse order of recording. */
#include "autograd/accumulate.h"
#include "autograd/captured_gradients.h"
#include "autograd/gather_again.h"
#include "autograd/parts.h"
#include "autograd/pass.h"
#include "autograd/recompute.h"
#include "autograd/sync.h"
#include "autograd/tensor_hooks.h"
#include "core/base/thread_state.h"
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"
#include "core/redistribute/identity.h"
#include "core/redistribute/redistribute.h"
#include "core/device/trace.h"

#include <string.h>

/* A tensor of `spec` filled with `value` (0 or 1): for cotangents that the caller did not give. The pass's scope
 * owns it. */
static stn_status constant(stn_context *context, const stn_spec *spec, int value, stn_tensor **out)
{
    *out = stn_empty(context, spec);
    STNI_TRY(context->error.status);
    void *data = (*out)->data;
    const stn_dtype dtype = spec->layout.dtype;
    return stni_fail_queue(context, value ? stni_fill_identity(context->queue, data, spec->local_numel, dtype, STN_PROD)
                                          : stni_fill_zeros(context->queue, data, spec->local_numel, dtype));
}

/* Adds a cotangent where an edge leads. */
static stn_status deliver(const struct stni_pass *pass, const struct stni_edge *edge, const stn_spec *forward,
                          stn_tensor *cotangent)
{
    stn_tensor **slot = stni_pass_slot(pass, edge, &forward);
    return slot ? stni_cotangent_add(forward, slot, cotangent) : STN_OK;
}

static stn_status seed(struct stni_pass *pass, stn_tensor *output, stn_tensor *cotangent)
{
    stn_context *context = pass->context;
    const stn_spec *spec;
    struct stni_edge edge = stni_edge_of(output);
    if (!cotangent) {
        STNI_TRY(stni_gradient_spec(output->spec, &spec));
        STNI_TRY(constant(context, spec, 1, &cotangent));
    }
    return deliver(pass, &edge, output->spec, cotangent);
}

/* Checks a root, from what this rank alone knows; the agreement tells the others the result. */
static stn_status check_root(stn_context *context, int i, const stn_tensor *output, const stn_tensor *cotangent)
{
    if (!output || stni_is_error(output) || output->context != context)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_backward: output %d is missing or not of this context", i);
    if (!(output->flags & STNI_TENSOR_REQUIRES_GRAD))
        return stni_fail(context, STN_ERR_STATE,
                         "stn_backward: output %d does not depend on anything that requires grad", i);
    if (!cotangent)
        return output->spec->numel == 1
                   ? STN_OK
                   : stni_fail(context, STN_ERR_SHAPE,
                               "stn_backward: output %d has %lld elements, wanted 1 or a cotangent", i,
                               (long long)output->spec->numel);
    if (cotangent->context != context)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_backward: cotangent %d belongs to another context", i);
    const struct stni_layout *a = &output->spec->layout,
                             *b = stni_is_error(cotangent) ? NULL : &cotangent->spec->layout;
    if (!b || a->ndim != b->ndim || memcmp(a->shape, b->shape, sizeof a->shape) != 0 || a->dtype != b->dtype ||
        a->mesh != b->mesh)
        return stni_fail(context, STN_ERR_SHAPE,
                         "stn_backward: cotangent %d differs from its output in shape, dtype or mesh", i);
    return STN_OK;
}

/* Running one node */

static stn_status check_versions(const struct stni_node *node)
{
    for (int i = 0; i < node->n_in + node->n_out; i++) { /* saved_out follows saved_in */
        const struct stni_saved *s = &node->saved_in[i];
        if (!s->tensor || stni_tensor_root(s->tensor)->version == s->version)
            continue;
        const char *name = i >= node->n_in            ? "its output"
                           : i < node->desc->n_inputs ? node->desc->inputs[i].name
                                                      : "an input";
        return stni_fail(node->context, STN_ERR_STATE,
                         "stn_backward: '%s' of %s was changed in place after it was saved (version %u, now %u)", name,
                         node->desc->name, s->version, stni_tensor_root(s->tensor)->version);
    }
    return STN_OK;
}

static stn_status zero_missing(struct stni_node *node)
{
    for (int k = 0; k < node->n_out; k++) {
        if (node->cotangents[k] || !node->out_spec[k])
            continue;
        STNI_TRY(constant(node->context, node->out_spec[k], 0, &node->cotangents[k]));
        stn_tensor_retain(node->cotangents[k]);
    }
    return STN_OK;
}

/* A saved output gets its history back while a graph of the backward is being made; indices have none. */
static stn_status unpack_outputs(const struct stni_pass *pass, struct stni_node *node, stn_tensor **out)
{
    for (int k = 0; k < node->n_out; k++) {
        stn_tensor *t = out[k] = node->saved_out[k].tensor;
        if (!t || !pass->create_graph || !stn_dtype_is_differentiable(t->spec->layout.dtype))
            continue;
        STNI_TRY(stni_tensor_on(node->context, t->spec, t->storage, t->data, t->strides, STNI_TENSOR_REQUIRES_GRAD,
                                &out[k]));
        out[k]->node = stni_node_retain(node);
        out[k]->output = k;
        stni_tensor_publish(out[k]);
    }
    return STN_OK;
}

static stn_status check_fits(const struct stni_node *node, int i, const stn_tensor *grad)
{
    const struct stni_layout *in = &node->in_spec[i]->layout, *given = &grad->spec->layout;
    if (given == in || (given->mesh == in->mesh && given->ndim == in->ndim &&
                        memcmp(given->shape, in->shape, (size_t)in->ndim * sizeof *in->shape) == 0))
        return STN_OK;
    return stni_fail(node->context, STN_ERR_INTERNAL,
                     "stn_backward: the backward of %s gave input %d a gradient of another shape or mesh",
                     node->desc->name, i);
}

static stn_status deliver_all(struct stni_pass *pass, struct stni_node *node, stn_tensor *const *grad_in)
{
    for (int i = 0; i < node->n_in; i++) {
        if (!(node->needs >> i & 1) || !grad_in[i])
            continue;
        if (stni_is_error(grad_in[i]))
            return pass->context->error.status;
        STNI_TRY(check_fits(node, i, grad_in[i]));
        STNI_TRY(deliver(pass, &node->edges[i], node->in_spec[i], grad_in[i]));
    }
    return STN_OK;
}

/* No memory, a device or what is queued on it failed on this rank alone: its peers may wait already, and are told why.
 * Anything else all ranks find alike. */
static stn_status backward_failed(const struct stni_node *node, stn_status status)
{
    static const char format[] = "stn_backward: the backward of %s returned \"%s\"";
    stn_context *context = node->context;
    const char *text = stni_context_failure_text(context, status);
    if (context->error.status != STN_OK)
        return context->error.status;
    if (status == STN_ERR_MEMORY || status == STN_ERR_DEVICE || stn_queue_error_text(context->queue)[0] != '\0')
        return stni_fail_rank(context, status, format, node->desc->name, text);
    return stni_fail(context, status, format, node->desc->name, text);
}

static stn_status call_backward(struct stni_pass *pass, struct stni_node *node)
{
    stn_tensor *in[STN_MAX_INPUTS], *out[STN_MAX_OUTPUTS], *grad_in[STN_MAX_INPUTS] = {0};
    for (int i = 0; i < node->n_in; i++)
        STNI_TRY(stni_gathered_input(node, i, &in[i]));
    STNI_TRY(unpack_outputs(pass, node, out));
    stn_backward_call call = {.size = sizeof call,
                              .context = node->context,
                              .op = node->op,
                              .attrs = node->attrs,
                              .n_in = node->n_in,
                              .n_out = node->n_out,
                              .needs = node->needs,
                              .in = in,
                              .out = out,
                              .in_spec = node->in_spec,
                              .want = node->want,
                              .out_spec = node->out_spec,
                              .grad_out = node->cotangents,
                              .grad_in = grad_in,
                              .arg = node->desc->arg};
    const int outer = stni_scope_fence(node->context);
    pass->node = node;
    stn_status status = node->desc->impl->backward(&call);
    stni_scope_unfence(node->context, outer, node->desc->name, "its backward");
    if (status == STN_OK)
        status = node->context->error.status;
    if (status != STN_OK)
        return backward_failed(node, status);
    return deliver_all(pass, node, grad_in);
}

static stn_status close_cotangents(const struct stni_node *node)
{
    for (int k = 0; k < node->n_out; k++)
        STNI_TRY(stni_cotangent_close(node->cotangents[k]));
    return STN_OK;
}

static int has_cotangent(const struct stni_node *node)
{
    for (int k = 0; k < node->n_out; k++)
        if (node->cotangents[k])
            return 1;
    return 0;
}

/* The gradients of a node's outputs are whole when its turn has come. */
static stn_status run_hooks(const struct stni_pass *pass, struct stni_node *node)
{
    for (int k = 0; node->hooks && k < node->n_out; k++) {
        if (!node->cotangents[k])
            continue;
        if (!pass->capturing && stni_tensor_hooks_keeper(node->hooks, k))
            STNI_TRY(stni_kept_gradient_used(node));
        STNI_TRY(stni_tensor_hooks_run(node->hooks, k, node->out_spec[k], !pass->capturing, &node->cotangents[k]));
    }
    return STN_OK;
}

static void capture(struct stni_pass *pass, struct stni_node *node)
{
    if (!pass->capturing)
        return;
    for (struct stni_capture **asked = stni_captures_of(pass, node); *asked && (*asked)->edge.node == node; asked++)
        if (node->cotangents[(*asked)->edge.output])
            (*asked)->gradient = stn_tensor_retain(node->cotangents[(*asked)->edge.output]);
}

static void drop_cotangents(struct stni_node *node)
{
    for (int k = 0; k < node->n_out; k++)
        stni_tensor_drop(&node->cotangents[k]);
}

static stn_status run_node(struct stni_pass *pass, int at)
{
    struct stni_node *node = pass->nodes[at];
    int coll = (node->desc->flags & STN_OP_PER_RANK) != 0;
    if (!has_cotangent(node) && !coll)
        return STN_OK;
    if (pass->create_graph && (node->desc->flags & STN_OP_FIRST_ORDER))
        return stni_fail(node->context, STN_ERR_UNSUPPORTED,
                         "stn_grad: the backward of %s cannot be differentiated again", node->desc->name);
    STNI_TRY(close_cotangents(node));
    STNI_TRY(run_hooks(pass, node));
    capture(pass, node);
    if (pass->capturing && node->mark != pass->mark + 1 && !coll) {
        drop_cotangents(node);
        return STN_OK; /* captured itself, leads nowhere further */
    }
    if (coll)
        STNI_TRY(zero_missing(node));
    STNI_TRY(stni_pass_check_graph(node)); /* a hook may have run it meanwhile */
    STNI_TRY(stni_recomputation_prepare(node));
    STNI_TRY(check_versions(node));
    STNI_TRY(stni_gather_again(pass, at));
    stni_scope_enter(node->context);
    stn_status status = call_backward(pass, node);
    stni_scope_leave(node->context);
    drop_cotangents(node);
    stni_gathered_drop(node);
    if (!pass->retain_graph) {
        stni_node_drop_saved(node);
        node->consumed = 1;
    }
    return status;
}

/* Where gradients end */

/* Closes what leaves have got, and runs their hooks, which those of a pullback have not. */
static stn_status close_leaves(const struct stni_pass *pass)
{
    for (int l = 0; l < pass->n_leaves; l++) {
        struct stni_leaf *leaf = pass->leaves[l];
        STNI_TRY(stni_cotangent_close(leaf->cotangent));
        if (leaf->cotangent && leaf->tensor_hooks)
            STNI_TRY(stni_tensor_hooks_run(leaf->tensor_hooks, 0, leaf->spec, 0, &leaf->cotangent));
    }
    return STN_OK;
}

static stn_status finish_leaves(struct stni_pass *pass)
{
    stn_context *context = pass->context;
    for (int l = 0; l < pass->n_leaves; l++) {
        struct stni_leaf *leaf = pass->leaves[l];
        if (leaf->cotangent)
            STNI_TRY(stni_leaf_take(leaf, &leaf->cotangent));
        stni_tensor_drop(&leaf->cotangent); /* a hook may run a backward that comes here, too */
    }
    return context->no_sync ? stni_reducer_end(&pass->reducer, STN_OK) : stni_tape_sync(&pass->reducer);
}

static stn_status reach_roots(struct stni_pass *pass, int n, stn_tensor *const *outputs, stn_tensor *const *cotangents)
{
    for (int i = 0; i < n; i++) {
        if (outputs[i] && outputs[i]->context == pass->context && !stni_is_error(outputs[i]))
            STNI_TRY(stni_pass_touch(pass, outputs[i]->spec->layout.mesh));
        STNI_TRY(check_root(pass->context, i, outputs[i], cotangents ? cotangents[i] : NULL));
        STNI_TRY(stni_pass_reach(pass, stni_edge_of(outputs[i])));
    }
    return STN_OK;
}

/* Losses that are local, or none at all: those of a per-rank program, whose peers may have others. */
static int goes_on_alone(int n, stn_tensor *const *outputs)
{
    for (int i = 0; i < n; i++)
        if (!outputs[i] || stni_is_error(outputs[i]) || !outputs[i]->spec->layout.mesh)
            return 1;
    return n == 0;
}

static stn_status run_to_captures(struct stni_pass *pass)
{
    for (int i = 0; i < pass->n_nodes; i++)
        STNI_TRY(run_node(pass, i));
    STNI_TRY(close_leaves(pass));
    STNI_TRY(stni_pass_agree_on_hooks(pass, pass->has_tensor_hooks));
    return stni_captures_finish(pass);
}

/* While recorded work is to be repeated, nothing goes beside it. */
static int goes_beside(const stn_context *context)
{
    return context->tape->overlap && context->size > 1 && !context->queue->capture;
}

/* Gradients end in leaves. */
static stn_status run_to_leaves(struct stni_pass *pass)
{
    pass->reducer = (struct stni_reducer){.context = pass->context, .beside = goes_beside(pass->context)};
    STNI_TRY(stni_pass_sort_leaves(pass));
    for (int i = 0; i < pass->n_nodes; i++) {
        STNI_TRY(run_node(pass, i));
        if (pass->reducer.beside)
            STNI_TRY(stni_pass_leaves_ready(pass, i));
    }
    STNI_TRY(stni_pass_leaves_ready(pass, pass->n_nodes));
    STNI_TRY(stni_pass_agree_on_hooks(pass, pass->has_tensor_hooks));
    STNI_TRY(finish_leaves(pass));
    return stni_pass_agree_on_hooks(pass, pass->has_grad_hooks && !pass->context->no_sync);
}

static stn_status run_pass(struct stni_pass *pass, int n, stn_tensor *const *outputs, stn_tensor *const *cotangents)
{
    stni_tape_drop_unused(pass->context->tape);
    if (pass->context->size > 1 && (goes_on_alone(n, outputs) || stni_tape_has_collectives(pass->context->tape)))
        STNI_TRY(stni_pass_touch_crossings(pass));
    pass->mark = pass->context->tape->mark += 2; /* the odd mark after it means "leads to a capture" */
    pass->status = reach_roots(pass, n, outputs, cotangents);
    STNI_TRY(stni_pass_draw_lines(pass));
    STNI_TRY(stni_pass_agree(pass));
    pass->context->tape->has_grad_hooks = pass->has_grad_hooks;
    if (pass->capturing)
        stni_pass_prune(pass);
    for (int i = 0; i < n; i++)
        STNI_TRY(seed(pass, outputs[i], cotangents ? cotangents[i] : NULL));
    return pass->capturing ? run_to_captures(pass) : run_to_leaves(pass);
}

static stn_status run_alone(struct stni_pass *pass)
{
    for (int r = 0; r < pass->n_roots; r++)
        STNI_TRY(stni_pass_reach(pass, pass->roots[r].edge));
    stni_pass_sort(pass);
    STNI_TRY(stni_captures_sort(pass));
    stni_pass_prune(pass);
    for (int r = 0; r < pass->n_roots; r++)
        STNI_TRY(deliver(pass, &pass->roots[r].edge, pass->roots[r].spec, pass->roots[r].cotangent));
    for (int i = 0; i < pass->n_nodes; i++)
        STNI_TRY(run_node(pass, i));
    STNI_TRY(close_leaves(pass));
    STNI_TRY(stni_pass_agree_on_hooks(pass, 0));
    return stni_captures_finish(pass);
}

/* The frame of every backward: its own scope, grad mode as requested, specs kept, both thread-local words zero. */
static stn_status run_framed(struct stni_pass *pass, int n, stn_tensor *const *outputs, stn_tensor *const *cotangents)
{
    stn_context *context = pass->context;
    struct stni_recomputation *part = context->tape->part;
    int no_grad = context->no_grad, outer_hooks = context->tape->has_grad_hooks;
    if (part && !pass->alone)
        return stni_fail(context, STN_ERR_STATE,
                         "stn_backward: called inside of a function of stn_recompute, whose graph is not whole");
    struct stni_error *outer_failure = context->tape->hook_failure;
    pass->outer = context->tape->running;
    context->tape->running = pass;
    context->tape->part = NULL;
    context->tape->hook_failure = &pass->hook_failure;
    context->tape->has_grad_hooks = 0;
    if (context->trace)
        stni_trace_range_begin(context->trace, "backward");
    struct stni_thread_state guard = stni_thread_state_clear();
    context->no_grad = pass->create_graph ? 0 : no_grad + 1;
    context->busy++;
    pass->mark = context->tape->mark += 2;
    stni_scope_enter(context);
    stn_status status = pass->alone ? run_alone(pass) : run_pass(pass, n, outputs, cotangents);
    if (status != STN_OK && context->error.status == STN_OK)
        status = stni_fail_queue(context, status); /* before what is under way ends for the same reason */
    stni_gathered_drop_all(pass);
    if (status != STN_OK) {
        stni_reducer_end(&pass->reducer, status);
        stni_tape_settle(context);
    }
    if (context->error.status == STN_OK)
        status = stni_fail_queue(context, status); /* what a collective between the nodes returned */
    stni_scope_leave(context);
    stni_tape_drop_consumed(context->tape);
    context->busy--;
    context->no_grad = no_grad;
    context->tape->part = part;
    context->tape->hook_failure = outer_failure;
    context->tape->running = pass->outer;
    context->tape->has_grad_hooks = outer_hooks;
    stni_thread_state_restore(guard);
    if (context->trace)
        stni_trace_range_end(context->trace);
    return status;
}

stn_status stni_pass_run(struct stni_pass *pass)
{
    return run_framed(pass, 0, NULL, NULL);
}

stn_status stn_backward_many(stn_context *context, int n, stn_tensor *const *losses, stn_tensor *const *cotangents,
                             int retain_graph)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    stni_context_reap(context);
    stni_pass_check_list(context, "stn_backward_many: losses", n, losses);
    if (context->error.status != STN_OK)
        return stni_pass_refuse(context, n, losses);
    struct stni_pass pass = {.context = context, .retain_graph = retain_graph};
    stn_status status = run_framed(&pass, n, losses, cotangents);
    stni_pass_fini(&pass);
    return status;
}

stn_status stn_backward(stn_tensor *loss)
{
    return loss ? stn_backward_many(loss->context, 1, &loss, NULL, 0) : STN_ERR_ARGUMENT;
}

static stn_status make_captures(struct stni_pass *pass, int n, stn_tensor *const *inputs)
{
    stn_context *context = pass->context;
    pass->captures = stni_calloc((size_t)n + 1, sizeof *pass->captures);
    if (!pass->captures)
        return stni_fail_memory(context, "captures", (size_t)n * sizeof *pass->captures);
    for (int i = 0; i < n; i++) {
        if (!inputs[i] || stni_is_error(inputs[i]) || !(inputs[i]->flags & STNI_TENSOR_REQUIRES_GRAD))
            return stni_fail(context, STN_ERR_STATE, "stn_grad: input %d does not require grad", i);
        if (inputs[i]->context != context)
            return stni_fail(context, STN_ERR_ARGUMENT, "stn_grad: input %d belongs to another context", i);
        pass->captures[i] = (struct stni_capture){stni_edge_of(inputs[i]), inputs[i]->spec, NULL};
        pass->n_captures = i + 1;
    }
    return stni_captures_sort(pass);
}

static void hand_out(struct stni_pass *pass, stn_tensor **grads)
{
    for (int c = 0; c < pass->n_captures; c++) {
        stn_tensor *g = pass->captures[c].gradient;
        grads[c] = g ? stni_tensor_publish(g) : NULL;
        pass->captures[c].gradient = NULL;
    }
}

stn_status stn_grad(stn_context *context, int n_outputs, stn_tensor *const *outputs, stn_tensor *const *cotangents,
                    int n_inputs, stn_tensor *const *inputs, int retain_graph, int create_graph, stn_tensor **grads)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    stni_context_reap(context);
    stni_pass_check_list(context, "stn_grad: outputs", n_outputs, outputs);
    stni_pass_check_list(context, "stn_grad: inputs", n_inputs, inputs);
    stni_pass_check_list(context, "stn_grad: grads", n_inputs, grads);
    if (context->error.status != STN_OK)
        return stni_pass_refuse(context, n_outputs, outputs);
    struct stni_pass pass = {
        .context = context, .retain_graph = retain_graph || create_graph, .create_graph = create_graph, .capturing = 1};
    stn_status status = make_captures(&pass, n_inputs, inputs);
    if (status == STN_OK)
        status = run_framed(&pass, n_outputs, outputs, cotangents);
    if (status == STN_OK)
        hand_out(&pass, grads);
    stni_pass_fini(&pass);
    stni_free(pass.captures);
    return status;
}
