/* Scopes: who owns the handles that ops make.
 *
 * One stack of handles for all open scopes; a scope is where its part begins. */
#include "core/scope.h"

#include "core/cold.h"
#include "core/host_alloc.h"
#include "core/tensor.h"

enum { FIRST_CAP = 64 };

STNI_COLD static int grow(struct stni_scope_stack *scopes)
{
    int64_t cap = scopes->cap == 0 ? FIRST_CAP : 2 * scopes->cap;
    stn_tensor **items = stni_realloc(scopes->items, (size_t)cap * sizeof *items);
    if (items == NULL)
        return 0;
    scopes->items = items;
    scopes->cap = cap;
    return 1;
}

static inline int push(struct stni_scope_stack *scopes, stn_tensor *tensor)
{
    if (scopes->n == scopes->cap && !grow(scopes))
        return 0;
    scopes->items[scopes->n++] = tensor;
    tensor->scoped++;
    return 1;
}

STNI_COLD static stn_tensor *refuse(stn_context *context, stn_tensor *tensor)
{
    stni_tensor_release_here(tensor);
    stni_fail_memory(context, "the list of a scope's tensors", (size_t)context->scopes.cap * 2 * sizeof tensor);
    return context->error_tensor;
}

stn_tensor *stni_tensor_publish(stn_tensor *tensor)
{
    stn_context *context = tensor->context;
    if (context->scopes.depth == 0 || stni_is_error(tensor) || push(&context->scopes, tensor))
        return tensor;
    return refuse(context, tensor);
}

/* Position of the innermost scope's mark and flag. */
static int innermost(const struct stni_scope_stack *scopes)
{
    return scopes->depth < STNI_SCOPE_MARKS ? scopes->depth - 1 : STNI_SCOPE_MARKS - 1;
}

void stn_scope_begin(stn_context *context)
{
    if (context == NULL)
        return;
    stni_context_reap(context);
    struct stni_scope_stack *scopes = &context->scopes;
    if (scopes->depth++ < STNI_SCOPE_MARKS)
        scopes->marks[innermost(scopes)] = scopes->n;
}

void stn_scope_agree(stn_context *context)
{
    if (context != NULL && context->scopes.depth > 0)
        context->scopes.agree |= (uint64_t)1 << innermost(&context->scopes);
}

/* Releasing may run callbacks, which may open scopes of their own: so one handle at a time. */
static void release_down_to(struct stni_scope_stack *scopes, int64_t mark)
{
    while (scopes->n > mark) {
        stn_tensor *tensor = scopes->items[--scopes->n];
        tensor->scoped--;
        stni_tensor_release_here(tensor);
    }
}

/* Agrees where asked to and releases what the scope owns. A scope that is deeper than there are marks leaves both to the last
 * one that has a mark. */
static void close_innermost(stn_context *context)
{
    struct stni_scope_stack *scopes = &context->scopes;
    if (scopes->depth <= STNI_SCOPE_MARKS) {
        int at = innermost(scopes);
        uint64_t bit = (uint64_t)1 << at;
        if (scopes->agree & bit) {
            scopes->agree &= ~bit;
            stn_agree(context, STN_OK, NULL);
        }
        release_down_to(scopes, scopes->marks[at]);
    }
    scopes->depth--;
}

void stni_scope_enter(stn_context *context)
{
    stn_scope_begin(context);
}

void stni_scope_leave(stn_context *context)
{
    close_innermost(context);
}

void stni_scope_end_all(stn_context *context)
{
    release_down_to(&context->scopes, 0);
    context->scopes.depth = 0;
    context->scopes.agree = 0;
}

static stn_status scope_end(stn_context *context)
{
    stni_context_reap(context);
    if (context->scopes.depth == 0)
        return stni_fail(context, STN_ERR_STATE, "scope_end: no scope is open");
    close_innermost(context);
    if (context->scopes.depth == 0 && context->outermost_ended)
        context->outermost_ended(context);
    return context->scopes.depth == 0 ? stni_context_take_status(context) : context->error.status;
}

stn_status stn_scope_end(stn_context *context)
{
    return context == NULL ? STN_ERR_ARGUMENT : scope_end(context);
}

static void check_keep(stn_context *context, const stn_tensor *keep)
{
    if (keep == NULL || keep->context != context)
        stni_fail(context, STN_ERR_ARGUMENT, "scope_end_keep: keep got %s, wanted a tensor of this context",
                  keep == NULL ? "NULL" : "a tensor of another context");
    else
        stni_tensor_require(keep, "scope_end_keep: keep");
}

stn_status stn_scope_end_keep(stn_context *context, stn_tensor *keep, stn_tensor **out)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    check_keep(context, keep);
    if (context->error.status != STN_OK)
        return scope_end(context);
    stn_tensor_retain(keep);
    stn_status status = scope_end(context);
    if (status != STN_OK) {
        stni_tensor_release_here(keep);
        return status;
    }
    keep = stni_tensor_publish(keep);
    if (stni_is_error(keep))
        return context->error.status;
    *out = keep;
    return STN_OK;
}
