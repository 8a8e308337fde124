/* Pullbacks: backward from the outputs of one call to its inputs, without other ranks. */
#include "autograd/pullback.h"

#include "autograd/pass.h"
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"

#include <string.h>

stn_status stni_pullback_create(stn_context *context, stn_pullback **out)
{
    stn_pullback *pullback = stni_calloc(1, sizeof *pullback);
    if (!pullback)
        return stni_fail_memory(context, "pullback", sizeof *pullback);
    struct stni_tape *tape = context->tape;
    pullback->context = context;
    pullback->next = tape->pullbacks;
    pullback->at = &tape->pullbacks;
    if (pullback->next)
        pullback->next->at = &pullback->next;
    tape->pullbacks = pullback;
    *out = pullback;
    return STN_OK;
}

stn_status stni_pullback_detach(stn_tensor *tensor, stn_tensor **out)
{
    STNI_TRY(stni_tensor_arrive(tensor));
    STNI_TRY(stni_tensor_on(tensor->context, tensor->spec, tensor->storage, tensor->data, tensor->strides, 0, out));
    stni_tensor_show_as(*out, tensor);
    return STN_OK;
}

static stn_status make_leaf(stn_pullback *pullback, int i, stn_tensor *tensor)
{
    struct stni_leaf *leaf = stni_leaf_create(tensor);
    if (!leaf)
        return stni_fail_memory(pullback->context, "leaf", sizeof *leaf);
    tensor->leaf = leaf;
    tensor->flags |= STNI_TENSOR_REQUIRES_GRAD;
    stni_leaf_retain(leaf);
    pullback->leaf[i] = leaf;
    return STN_OK;
}

stn_status stni_pullback_add_input(stn_pullback *pullback, stn_tensor *tensor, int needs, stn_tensor **out)
{
    const int i = pullback->n_in++;
    *out = tensor;
    if (!tensor || stni_is_error(tensor) || tensor->context != pullback->context)
        return STN_OK; /* dispatch says what is wrong with it */
    STNI_TRY(stni_pullback_detach(tensor, out));
    if (!needs || !stn_dtype_is_differentiable(tensor->spec->layout.dtype))
        return STN_OK;
    stn_status status = make_leaf(pullback, i, *out);
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

static stn_status pass_on(stn_backward_call *call)
{
    call->grad_in[0] = call->grad_out[0];
    return STN_OK;
}

static const stn_input_schema same_inputs[] = {{.name = "tensor"}};
static const stn_op_desc same_desc = {
    .size = sizeof(stn_op_desc),
    .name = "pullback_input",
    STN_INPUTS(same_inputs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.backward = pass_on},
};

stn_status stni_pullback_add_changed(stn_pullback *pullback, stn_tensor *tensor, int needs, stn_tensor **out)
{
    stn_tensor *leaf;
    STNI_TRY(stni_pullback_add_input(pullback, tensor, needs, &leaf));
    *out = leaf;
    if (!pullback->leaf[pullback->n_in - 1])
        return STN_OK;
    stn_status status = stni_pullback_detach(leaf, out);
    if (status == STN_OK) {
        const stn_op_call call = {.size = sizeof call,
                                  .context = tensor->context,
                                  .n_in = 1,
                                  .n_out = 1,
                                  .in = &leaf,
                                  .out = out,
                                  .in_spec = &tensor->spec,
                                  .want = &(const stn_spec *){tensor->spec},
                                  .out_spec = &(const stn_spec *){tensor->spec}};
        status = stni_node_record(&call, &same_desc, 1);
        if (status != STN_OK)
            stni_tensor_drop(out);
    }
    stni_tensor_drop(&leaf);
    return status;
}

void stni_pullback_add_output(stn_pullback *pullback, const stn_tensor *tensor)
{
    const int k = pullback->n_out++;
    if (!tensor)
        return;
    pullback->out_spec[k] = stni_spec_retain(tensor->spec);
    pullback->out[k] = stni_edge_of(tensor);
    if (tensor->node)
        stni_node_retain(tensor->node);
    if (tensor->leaf)
        stni_leaf_retain(tensor->leaf);
}

/* Gives up what it keeps, and leaves the tape's list. */
static void clear(stn_pullback *pullback)
{
    *pullback->at = pullback->next;
    if (pullback->next)
        pullback->next->at = pullback->at;
    for (int k = 0; k < pullback->n_out; k++) {
        stni_node_release(pullback->out[k].node);
        stni_leaf_release(pullback->out[k].leaf);
        if (pullback->out_spec[k])
            stni_spec_release(pullback->out_spec[k]);
    }
    for (int i = 0; i < pullback->n_in; i++)
        stni_leaf_release(pullback->leaf[i]);
    pullback->n_in = pullback->n_out = 0;
    pullback->context = NULL;
}

void stni_pullback_clear_all(stn_context *context)
{
    while (context->tape->pullbacks)
        clear(context->tape->pullbacks);
}

void stn_pullback_release(stn_pullback **handle)
{
    if (!handle || !*handle)
        return;
    if ((*handle)->context)
        clear(*handle);
    stni_free(*handle);
    *handle = NULL;
}

/* The nodes of a pullback; stni_pass_fini ends it, whatever this returns. */
static stn_status reach_nodes(const stn_pullback *pullback, struct stni_pass *pass)
{
    *pass = (struct stni_pass){.context = pullback->context, .mark = pullback->context->tape->mark += 2};
    for (int k = 0; k < pullback->n_out; k++)
        STNI_TRY(stni_pass_reach(pass, pullback->out[k]));
    stni_pass_sort(pass);
    return STN_OK;
}

/* The tensor of an index among those that nodes keep; NULL past the end. */
static stn_tensor *saved_at(const struct stni_pass *pass, int index)
{
    for (int n = pass->n_nodes - 1; n >= 0; n--)
        for (int s = 0; s < pass->nodes[n]->n_in + pass->nodes[n]->n_out; s++) { /* saved_out follows saved_in */
            stn_tensor *tensor = pass->nodes[n]->saved_in[s].tensor;
            if (tensor && index-- == 0)
                return tensor;
        }
    return NULL;
}

int stn_pullback_saved(const stn_pullback *pullback, int index, stn_tensor **out)
{
    struct stni_pass pass;
    if (!pullback || !pullback->context || !out || index < 0)
        return 0;
    stn_tensor *found = reach_nodes(pullback, &pass) == STN_OK ? saved_at(&pass, index) : NULL;
    stni_pass_fini(&pass);
    if (found)
        *out = found;
    return found != NULL;
}

/* Nodes may keep one handle several times. */
static int is_repeated(const struct stni_pass *pass, int index)
{
    for (int i = 0; i < index; i++)
        if (saved_at(pass, i) == saved_at(pass, index))
            return 1;
    return 0;
}

static void move(stn_tensor *tensor, int n, const stn_moved_memory *moved)
{
    for (int i = 0; i < n; i++) {
        const size_t at = (uintptr_t)tensor->data - (uintptr_t)moved[i].from; /* large for what lies before */
        if (at < moved[i].bytes) {
            tensor->data = (char *)moved[i].to + at;
            return;
        }
    }
}

stn_status stn_pullback_moved(stn_pullback *pullback, int n, const stn_moved_memory *moved)
{
    struct stni_pass pass;
    stn_tensor *kept;
    if (!pullback || !pullback->context || n < 0 || (n > 0 && !moved))
        return STN_ERR_ARGUMENT;
    const stn_status status = reach_nodes(pullback, &pass);
    for (int i = 0; status == STN_OK && (kept = saved_at(&pass, i)); i++)
        if (stni_storage_is_lent(kept->storage) && !is_repeated(&pass, i))
            move(kept, n, moved);
    stni_pass_fini(&pass);
    return status;
}

stn_status stn_gradient_spec(const stn_spec *forward, const stn_spec **out)
{
    const stn_spec *spec;
    if (!forward)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_check_out(forward->context, "gradient_spec", out));
    STNI_TRY(forward->context->error.status);
    STNI_TRY(stni_gradient_spec(forward, &spec));
    *out = stn_spec_retain(spec);
    return STN_OK;
}

/* Applying */

static stn_status refuse_cotangent(const stn_pullback *pullback, int k, const stn_tensor *cotangent)
{
    char got[160], wanted[160];
    stn_spec_describe(cotangent->spec, got, sizeof got);
    stn_spec_describe(pullback->out_spec[k], wanted, sizeof wanted);
    return stni_fail(pullback->context, STN_ERR_SHAPE,
                     "stn_pullback_apply: cotangent %d got %s, wanted shape, dtype and mesh of its output, %s", k, got,
                     wanted);
}

static stn_status check_cotangent(const stn_pullback *pullback, int k, const stn_tensor *cotangent)
{
    stn_context *context = pullback->context;
    if (stni_is_error(cotangent) || cotangent->context != context)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "stn_pullback_apply: cotangent %d is of another context, or what a failure returned", k);
    if (k >= pullback->n_out || !pullback->out_spec[k])
        return stni_fail(
            context, STN_ERR_ARGUMENT,
            "stn_pullback_apply: cotangent %d has no output, which the call was not asked for or did not give", k);
    const struct stni_layout *a = &pullback->out_spec[k]->layout, *b = &cotangent->spec->layout;
    if (a->ndim != b->ndim || memcmp(a->shape, b->shape, sizeof a->shape) != 0 || a->dtype != b->dtype ||
        a->mesh != b->mesh)
        return refuse_cotangent(pullback, k, cotangent);
    return STN_OK;
}

/* What an application works with; every array lives on its stack. */
struct application {
    stn_pullback *pullback, *again; /* again NULL: none is wanted */
    uint32_t needs;
    int n_roots;
    struct stni_root root[STN_MAX_OUTPUTS];
    struct stni_capture capture[STN_MAX_INPUTS];
    stn_tensor *owned[STN_MAX_OUTPUTS]; /* cotangents that are leaves of `again` */
};

static stn_status add_roots(struct application *a, int n, stn_tensor *const *cotangents)
{
    for (int k = 0; k < n; k++) {
        stn_tensor *cotangent = cotangents[k];
        if (cotangent)
            STNI_TRY(check_cotangent(a->pullback, k, cotangent));
        if (a->again) {
            STNI_TRY(stni_pullback_add_input(a->again, cotangent, 1, &a->owned[k]));
            cotangent = a->owned[k];
        }
        if (cotangent)
            a->root[a->n_roots++] = (struct stni_root){a->pullback->out[k], a->pullback->out_spec[k], cotangent};
    }
    return STN_OK;
}

static int add_captures(struct application *a)
{
    int n = 0;
    for (int i = 0; i < a->pullback->n_in; i++)
        if ((a->needs >> i & 1) && a->pullback->leaf[i])
            a->capture[n++] = (struct stni_capture){{NULL, a->pullback->leaf[i], 0}, a->pullback->leaf[i]->spec, NULL};
    return n;
}

/* The inputs of the call stand first among those of the new pullback. */
static stn_status begin_again(struct application *a, int n_cotangents)
{
    stn_pullback *from = a->pullback;
    if (from->n_in + n_cotangents > STN_MAX_INPUTS)
        return stni_fail(from->context, STN_ERR_UNSUPPORTED,
                         "stn_pullback_apply: again: got %d inputs and %d cotangents, wanted at most %d together",
                         from->n_in, n_cotangents, STN_MAX_INPUTS);
    STNI_TRY(stni_pullback_create(from->context, &a->again));
    a->again->n_in = from->n_in;
    for (int i = 0; i < from->n_in; i++)
        if ((a->again->leaf[i] = from->leaf[i]))
            stni_leaf_retain(from->leaf[i]);
    return STN_OK;
}

/* New handles for the caller, without history. */
static stn_status take_gradients(struct application *a, stn_tensor **given)
{
    int c = 0;
    for (int i = 0; i < a->pullback->n_in; i++) {
        const int asked = (a->needs >> i & 1) && a->pullback->leaf[i];
        stn_tensor *gradient = asked ? a->capture[c++].gradient : NULL;
        if (gradient)
            STNI_TRY(stni_pullback_detach(gradient, &given[i]));
        if (a->again)
            stni_pullback_add_output(a->again, gradient);
    }
    return STN_OK;
}

static stn_status run(struct application *a, int n, stn_tensor *const *cotangents, stn_tensor **given)
{
    struct stni_pass pass = {.context = a->pullback->context,
                             .retain_graph = 1,
                             .create_graph = a->again != NULL,
                             .capturing = 1,
                             .alone = 1,
                             .captures = a->capture,
                             .roots = a->root};
    stn_status status = add_roots(a, n, cotangents);
    pass.n_roots = a->n_roots;
    pass.n_captures = add_captures(a);
    if (status == STN_OK)
        status = stni_pass_run(&pass);
    if (status == STN_OK)
        status = take_gradients(a, given);
    stni_pass_fini(&pass);
    for (int k = 0; k < n; k++)
        stni_tensor_drop(&a->owned[k]);
    return status;
}

static stn_status check_call(const stn_pullback *pullback, int n, stn_tensor *const *cotangents,
                             stn_tensor *const *grads)
{
    if (!pullback || !pullback->context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(pullback->context->error.status);
    if (n < 0 || n > STN_MAX_OUTPUTS || (n > 0 && !cotangents) || !grads)
        return stni_fail(pullback->context, STN_ERR_ARGUMENT,
                         "stn_pullback_apply: n_outputs got %d, wanted 0 to %d with an array of them, and grads", n,
                         STN_MAX_OUTPUTS);
    return STN_OK;
}

stn_status stn_pullback_apply(stn_pullback *pullback, int n_outputs, stn_tensor *const *cotangents, uint32_t needs,
                              stn_tensor **grads, stn_pullback **again)
{
    STNI_TRY(check_call(pullback, n_outputs, cotangents, grads));
    struct application a = {.pullback = pullback, .needs = needs};
    stn_tensor *given[STN_MAX_INPUTS] = {0};
    stn_status status = again ? begin_again(&a, n_outputs) : STN_OK;
    if (status == STN_OK)
        status = run(&a, n_outputs, cotangents, given);
    for (int i = 0; i < pullback->n_in; i++) {
        if (status == STN_OK)
            grads[i] = given[i] ? stni_tensor_publish(given[i]) : NULL;
        else
            stni_tensor_drop(&given[i]);
    }
    if (status == STN_OK && again)
        *again = a.again;
    else
        stn_pullback_release(&a.again);
    return status;
}
