#include "autograd/tensor_hooks.h"

#include "autograd/accumulate.h"
#include "autograd/leaf.h"
#include "autograd/node.h"
#include "autograd/recompute.h"
#include "autograd/tape.h"
#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"
#include "core/tensor/scope.h"

#include <string.h>

/* Running */

static int is_like(const stn_tensor *a, const stn_tensor *b)
{
    if (stni_is_error(a) || a->context != b->context)
        return 0;
    const struct stni_layout *x = &a->spec->layout, *y = &b->spec->layout;
    return x->mesh == y->mesh && x->dtype == y->dtype && x->ndim == y->ndim &&
           memcmp(x->shape, y->shape, sizeof x->shape) == 0;
}

/* Others may have the memory: another result whose cotangent it is, the caller who gave it. */
static stn_status call(struct stni_tensor_hooks *entry, stn_tensor *gradient, stn_tensor **instead)
{
    struct stni_storage *root = stni_tensor_root(gradient);
    const uint32_t frozen = root->frozen;
    root->frozen = 1;
    int *outer = stni_hook_runs(gradient->context, &entry->removed);
    const stn_status status = entry->hook(gradient, instead, entry->arg);
    stni_hook_runs(gradient->context, outer);
    root->frozen = frozen;
    return status;
}

static stn_status run_one(struct stni_tensor_hooks *entry, stn_tensor **gradient)
{
    stn_context *context = (*gradient)->context;
    stn_tensor *instead = NULL;
    const int outer = stni_scope_fence(context);
    stn_status status = call(entry, *gradient, &instead);
    stni_scope_unfence(context, outer, "stn_add_tensor_hook", "a tensor hook");
    if (context->error.status != STN_OK)
        return stni_tape_hook_kept(context);
    if (status != STN_OK)
        return stni_tape_hook_failed(context, "a tensor hook returned \"%s\"", stn_status_text(status));
    if (!instead || instead == *gradient)
        return STN_OK;
    if (!is_like(instead, *gradient))
        return stni_tape_hook_failed(
            context, "a tensor hook gave a gradient of another shape, dtype or mesh, wanted one like the tensor's");
    stn_tensor_retain(instead);
    stni_tensor_drop(gradient);
    *gradient = instead;
    return STN_OK;
}

static stn_status keep(struct stni_tensor_hooks *entry, const stn_spec *forward, stn_tensor *gradient)
{
    const stn_spec *whole;
    stn_tensor *complete;
    STNI_TRY(stni_gradient_spec(forward, &whole));
    STNI_TRY(stni_redistribute(gradient, whole, &complete));
    if (!entry->grad)
        return stni_gradient_own(complete, &entry->grad);
    stn_status status = stni_cotangent_add(whole, &entry->grad, complete);
    stni_tensor_drop(&complete);
    return status;
}

static stn_status run_all(struct stni_tensor_hooks *hooks, int output, const stn_spec *forward, int keeps,
                          stn_tensor **gradient)
{
    const struct stni_tensor_hooks *last = hooks; /* what hooks add behind it is for later backwards */
    while (last && last->next)
        last = last->next;
    for (struct stni_tensor_hooks *e = hooks; e; e = e == last ? NULL : e->next)
        if (e->hook && !e->removed && e->output == output)
            STNI_TRY(run_one(e, gradient));
    struct stni_tensor_hooks *keeper = keeps ? stni_tensor_hooks_keeper(hooks, output) : NULL;
    return keeper ? keep(keeper, forward, *gradient) : STN_OK;
}

/* What hooks make on the way is released; what they give is retained by then. */
stn_status stni_tensor_hooks_run(struct stni_tensor_hooks *hooks, int output, const stn_spec *forward, int keeps,
                                 stn_tensor **gradient)
{
    stn_context *context = (*gradient)->context;
    stni_scope_enter(context);
    stn_status status = run_all(hooks, output, forward, keeps, gradient);
    stni_scope_leave(context);
    return status;
}

struct stni_tensor_hooks *stni_tensor_hooks_keeper(struct stni_tensor_hooks *hooks, int output)
{
    while (hooks && (hooks->hook || hooks->output != output))
        hooks = hooks->next;
    return hooks;
}

void stni_tensor_hooks_follow(struct stni_tensor_hooks **from, int output, struct stni_tensor_hooks **to, int at)
{
    struct stni_tensor_hooks *keeper = stni_tensor_hooks_keeper(*from, output);
    if (!keeper)
        return;
    while (*from != keeper)
        from = &(*from)->next;
    *from = keeper->next;
    keeper->output = at;
    keeper->next = *to;
    *to = keeper;
}

static void destroy_first(struct stni_tensor_hooks **hooks)
{
    struct stni_tensor_hooks *entry = *hooks;
    *hooks = entry->next;
    stni_tensor_drop(&entry->grad);
    if (entry->destroy)
        entry->destroy(entry->arg);
    stni_free(entry);
}

void stni_tensor_hooks_destroy(struct stni_tensor_hooks **hooks)
{
    while (*hooks)
        destroy_first(hooks);
}

int *stni_hook_runs(stn_context *context, int *removed)
{
    int *outer = context->tape->removed_hook;
    context->tape->removed_hook = removed;
    return outer;
}

/* Where no hook of the list runs. */
static void sweep(struct stni_tensor_hooks **hooks)
{
    while (*hooks) {
        if ((*hooks)->removed)
            destroy_first(hooks);
        else
            hooks = &(*hooks)->next;
    }
}

/* The public side */

static stn_status check(stn_tensor *tensor, const char *function)
{
    if (!tensor)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_tensor_require(tensor, function));
    if (!(tensor->flags & STNI_TENSOR_REQUIRES_GRAD))
        return stni_fail(tensor->context, STN_ERR_STATE, "%s does not require grad", function);
    return STN_OK;
}

/* A part that is run again has its hooks from the first time. */
static stn_status add(stn_tensor *tensor, const struct stni_tensor_hooks *entry)
{
    if (stni_recomputation_runs(tensor->context)) {
        if (entry->destroy)
            entry->destroy(entry->arg);
        return STN_OK;
    }
    struct stni_tensor_hooks **last = tensor->node ? &tensor->node->hooks : &tensor->leaf->tensor_hooks;
    if (!tensor->context->tape->removed_hook)
        sweep(last);
    struct stni_tensor_hooks *copy = stni_malloc(sizeof *copy);
    if (!copy)
        return stni_fail_memory(tensor->context, "hook", sizeof *copy);
    *copy = *entry;
    copy->output = tensor->node ? tensor->output : 0;
    while (*last)
        last = &(*last)->next;
    *last = copy;
    return STN_OK;
}

stn_status stn_add_tensor_hook(stn_tensor *tensor, stn_tensor_hook hook, void *arg, void (*destroy)(void *arg))
{
    STNI_TRY(check(tensor, "stn_add_tensor_hook: tensor"));
    if (!hook)
        return stni_fail(tensor->context, STN_ERR_ARGUMENT, "stn_add_tensor_hook: hook got NULL");
    return add(tensor, &(struct stni_tensor_hooks){.hook = hook, .arg = arg, .destroy = destroy});
}

stn_status stn_remove_hook(stn_context *context)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stn_context_status(context));
    if (!context->tape->removed_hook)
        return stni_fail(context, STN_ERR_STATE, "stn_remove_hook: no hook runs, wanted a call from within one");
    *context->tape->removed_hook = 1;
    return STN_OK;
}

stn_status stn_retain_grad(stn_tensor *tensor)
{
    STNI_TRY(check(tensor, "stn_retain_grad: tensor"));
    if (!tensor->node || stni_tensor_hooks_keeper(tensor->node->hooks, tensor->output))
        return STN_OK;
    return add(tensor, &(struct stni_tensor_hooks){0});
}
