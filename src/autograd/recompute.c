/* Recomputation, also called checkpointing of activations.
 *
 * The part's calls are recorded as any others, so that backward, its order and what ranks agree on do not know of
 * it. But of the tensors that nodes keep, those with a history in the part are given up. Before the first of the
 * nodes runs backward the function is called again with the same inputs and random numbers: it makes the same calls,
 * and each, instead of being recorded, gives its tensors to the node that it once was. */
#include "autograd/recompute.h"

#include "autograd/tape.h"
#include "core/base/host_alloc.h"
#include "core/context/random_mark.h"
#include "core/tensor/scope.h"

#include <shardtensor/autograd.h>

struct stni_recomputation {
    int refs; /* one of each node that has not left, one of the call that records or runs it */
    stn_context *context;
    stn_recomputed_function function;
    void (*release)(void *user);
    void *user;
    int n_inputs, n_outputs;
    struct stni_saved *inputs;
    struct stni_random_mark *random; /* where the function began to draw */
    struct stni_node **nodes; /* in the order of recording; NULL once they left */
    int n_nodes, cap_nodes;
    int runs_again, next; /* the node of the next call */
    int is_filled;
};

static void release(struct stni_recomputation *part)
{
    if (--part->refs > 0)
        return;
    for (int i = 0; i < part->n_inputs; i++)
        stni_tensor_drop(&part->inputs[i].tensor);
    if (part->release)
        part->release(part->user);
    stni_random_mark_release(part->random);
    stni_free(part->nodes);
    stni_free(part->inputs);
    stni_free(part);
}

/* Recording */

static stn_status append(struct stni_recomputation *part, struct stni_node *node)
{
    if (part->n_nodes == part->cap_nodes) {
        const int cap = part->cap_nodes ? 2 * part->cap_nodes : 32;
        struct stni_node **grown = stni_realloc(part->nodes, (size_t)cap * sizeof(struct stni_node *));
        if (!grown)
            return stni_fail_memory(part->context, "nodes of a recomputation",
                                    (size_t)cap * sizeof(struct stni_node *));
        part->nodes = grown;
        part->cap_nodes = cap;
    }
    node->place = part->n_nodes;
    part->nodes[part->n_nodes++] = node;
    return STN_OK;
}

/* What came from outside is kept: it lives anyway, and its version tells when it was changed. What an op has moved
 * for itself is made inside. */
static int is_made_inside(const struct stni_recomputation *part, const struct stni_node *node, int slot)
{
    const stn_tensor *tensor = node->saved_in[slot].tensor; /* saved_out follows saved_in */
    if (!tensor || slot >= node->n_in)
        return tensor != NULL;
    return tensor->spec != node->in_spec[slot] || (tensor->node && tensor->node->part == part);
}

stn_status stni_recomputation_add(struct stni_node *node)
{
    struct stni_recomputation *part = node->context->tape->part;
    if (!part)
        return STN_OK;
    STNI_TRY(append(part, node));
    for (int slot = 0; slot < node->n_in + node->n_out; slot++)
        if (is_made_inside(part, node, slot))
            stni_tensor_drop(&node->saved_in[slot].tensor);
    node->part = part;
    part->refs++;
    return STN_OK;
}

void stni_recomputation_leave(struct stni_node *node)
{
    struct stni_recomputation *part = node->part;
    if (!part)
        return;
    node->part = NULL;
    part->nodes[node->place] = NULL;
    release(part);
}

/* Running again */

int stni_recomputation_runs(const stn_context *context)
{
    return context->tape->part && context->tape->part->runs_again;
}

static stn_status differs(const struct stni_recomputation *part, const char *now)
{
    const struct stni_node *was = part->next < part->n_nodes ? part->nodes[part->next] : NULL;
    return stni_fail_rank(part->context, STN_ERR_STATE,
                          "stn_recompute: called again the function did something else: call %d of %d was %s, now %s",
                          part->next, part->n_nodes,
                          was                          ? was->desc->name
                          : part->next < part->n_nodes ? "another"
                                                       : "not there",
                          now);
}

static int is_same_call(const struct stni_node *node, const stn_op_call *call, uint32_t needs)
{
    if (node->op != call->op || node->needs != needs || node->n_in != call->n_in || node->n_out != call->n_out)
        return 0;
    for (int k = 0; k < node->n_out; k++)
        if (node->out_spec[k] != call->out_spec[k])
            return 0;
    return 1;
}

stn_status stni_recomputation_refill(const stn_op_call *call, const stn_op_desc *desc, uint32_t needs)
{
    struct stni_recomputation *part = call->context->tape->part;
    struct stni_node *node = part->next < part->n_nodes ? part->nodes[part->next] : NULL;
    if (part->next >= part->n_nodes || (node && !is_same_call(node, call, needs)))
        return differs(part, desc->name);
    part->next++;
    if (node)
        STNI_TRY(stni_node_save(node, call));
    stni_node_link_outputs(node, call);
    return STN_OK;
}

static stn_status check_inputs(const struct stni_recomputation *part)
{
    for (int i = 0; i < part->n_inputs; i++) {
        const struct stni_saved *input = &part->inputs[i];
        if (input->tensor && stni_tensor_root(input->tensor)->version != input->version)
            return stni_fail(part->context, STN_ERR_STATE,
                             "stn_recompute: input %d was changed in place since (version %u, now %u)", i,
                             input->version, stni_tensor_root(input->tensor)->version);
    }
    return STN_OK;
}

static stn_status call_function(struct stni_recomputation *part, stn_tensor **outputs)
{
    stn_tensor *inputs[STN_MAX_INPUTS];
    for (int i = 0; i < part->n_inputs; i++)
        inputs[i] = part->inputs[i].tensor;
    const int outer = stni_scope_fence(part->context);
    stn_status status = part->function(part->context, part->user, part->n_inputs, inputs, part->n_outputs, outputs);
    stni_scope_unfence(part->context, outer, "stn_recompute", "the function");
    if (part->context->error.status != STN_OK)
        return part->context->error.status;
    if (status != STN_OK)
        return stni_fail_rank(part->context, status, "stn_recompute: the function returned \"%s\"",
                              stn_status_text(status));
    return STN_OK;
}

/* Recorded it was with grad mode on, and with other streams. */
static stn_status call_as_before(struct stni_recomputation *part)
{
    stn_context *context = part->context;
    const int no_grad = context->no_grad;
    stn_tensor *outputs[STN_MAX_OUTPUTS] = {0};
    struct stni_random_mark *now = NULL;
    STNI_TRY(stni_random_mark_set(context, &now));
    stn_status status = stni_random_mark_return(part->random);
    context->no_grad = 0;
    stni_scope_enter(context);
    if (status == STN_OK)
        status = call_function(part, outputs);
    stni_scope_leave(context);
    context->no_grad = no_grad;
    const stn_status returned = stni_random_mark_return(now);
    stni_random_mark_release(now);
    return status == STN_OK ? returned : status;
}

static stn_status run_again(struct stni_recomputation *part)
{
    stn_context *context = part->context;
    STNI_TRY(check_inputs(part));
    context->tape->part = part;
    part->runs_again = 1;
    part->next = 0;
    stn_status status = call_as_before(part);
    part->runs_again = 0;
    context->tape->part = NULL;
    if (status == STN_OK && part->next < part->n_nodes)
        status = differs(part, "not there");
    return status;
}

stn_status stni_recomputation_prepare(struct stni_node *node)
{
    struct stni_recomputation *part = node->part;
    if (!part || part->is_filled)
        return STN_OK;
    part->refs++;
    stn_status status = run_again(part);
    part->is_filled = status == STN_OK;
    release(part);
    return status;
}

/* The call */

static stn_status create(stn_context *context, stn_recomputed_function function, void *user,
                         void (*release_user)(void *user), int n_inputs, stn_tensor *const *inputs, int n_outputs,
                         struct stni_recomputation **out)
{
    struct stni_recomputation *part = stni_calloc(1, sizeof *part);
    struct stni_saved *kept = stni_calloc((size_t)n_inputs + 1, sizeof *kept);
    if (!part || !kept) {
        stni_free(part);
        stni_free(kept);
        return stni_fail_memory(context, "a recomputation", sizeof *part);
    }
    *part = (struct stni_recomputation){.refs = 1, .context = context, .function = function, .release = release_user, .user = user,
                                        .n_inputs = n_inputs, .n_outputs = n_outputs, .inputs = kept};
    for (int i = 0; i < n_inputs; i++)
        if (inputs[i])
            kept[i] = (struct stni_saved){stn_tensor_retain(inputs[i]), stni_tensor_root(inputs[i])->version};
    *out = part;
    return stni_random_mark_set(context, &part->random);
}

/* The outputs outlive the part's scope; whose they are then is whose those of an op would be. */
static stn_status record(struct stni_recomputation *part, stn_tensor **outputs)
{
    stn_context *context = part->context;
    struct stni_recomputation *outer = context->tape->part;
    stn_tensor *made[STN_MAX_OUTPUTS] = {0};
    context->tape->part = outer ? outer : part; /* a part of a part is run again with it */
    stni_scope_enter(context);
    stn_status status = call_function(part, made);
    for (int k = 0; status == STN_OK && k < part->n_outputs; k++)
        if (made[k])
            stn_tensor_retain(made[k]);
    stni_scope_leave(context);
    context->tape->part = outer;
    for (int k = 0; k < part->n_outputs; k++)
        outputs[k] = status != STN_OK ? context->error_tensor : made[k] ? stni_tensor_publish(made[k]) : NULL;
    return status;
}

static stn_status check(stn_context *context, stn_recomputed_function function, int n_inputs, stn_tensor *const *inputs,
                        int n_outputs, stn_tensor *const *outputs)
{
    if (!function || n_inputs < 0 || n_inputs > STN_MAX_INPUTS || (n_inputs > 0 && !inputs))
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_recompute: %s, wanted a function and at most %d inputs",
                         function ? "inputs are missing or too many" : "function is NULL", STN_MAX_INPUTS);
    if (n_outputs < 0 || n_outputs > STN_MAX_OUTPUTS || (n_outputs > 0 && !outputs))
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "stn_recompute: n_outputs is %d, wanted 0 to %d and a place for them", n_outputs,
                         STN_MAX_OUTPUTS);
    for (int i = 0; i < n_inputs; i++)
        if (inputs[i] && (stni_is_error(inputs[i]) || inputs[i]->context != context))
            return stni_fail(context, STN_ERR_ARGUMENT,
                             "stn_recompute: input %d is an error tensor or of another context", i);
    return STN_OK;
}

stn_status stn_recompute(stn_context *context, stn_recomputed_function function, void *user,
                         void (*release_user)(void *user), int n_inputs, stn_tensor *const *inputs, int n_outputs,
                         stn_tensor **outputs)
{
    struct stni_recomputation *part = NULL;
    if (!context)
        return STN_ERR_ARGUMENT;
    stn_status status = context->error.status;
    if (status == STN_OK)
        status = check(context, function, n_inputs, inputs, n_outputs, outputs);
    if (status == STN_OK)
        status = create(context, function, user, release_user, n_inputs, inputs, n_outputs, &part);
    if (status == STN_OK)
        status = record(part, outputs);
    else
        for (int k = 0; outputs && k < n_outputs && k < STN_MAX_OUTPUTS; k++)
            outputs[k] = context->error_tensor;
    if (part)
        release(part);
    else if (release_user)
        release_user(user);
    return status;
}
