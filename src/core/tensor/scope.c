/* Scopes: who owns the handles that ops make.
 *
 * One stack of handles for all open scopes; a scope is where its part begins. */
#include "core/tensor/scope.h"

#include "core/base/cold.h"
#include "core/base/host_alloc.h"
#include "core/tensor/tensor.h"

#include <stdio.h>

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

const stn_spec *stni_scope_own_spec(stn_context *context, const stn_spec *spec)
{
    struct stni_scope_specs *specs = &context->scope_specs;
    if (context->scopes.depth == 0)
        return spec;
    if (specs->n == specs->cap) {
        const int64_t cap = specs->cap == 0 ? FIRST_CAP : 2 * specs->cap;
        const stn_spec **items = stni_realloc(specs->items, (size_t)cap * sizeof *items);
        if (items == NULL) {
            stn_spec_release(&spec);
            stni_fail_memory(context, "the list of a scope's specs", (size_t)cap * sizeof *items);
            return NULL;
        }
        specs->items = items;
        specs->cap = cap;
    }
    return specs->items[specs->n++] = spec;
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
    if (scopes->depth++ < STNI_SCOPE_MARKS) {
        scopes->marks[innermost(scopes)] = scopes->n;
        context->scope_specs.marks[innermost(scopes)] = context->scope_specs.n;
    }
}

void stn_scope_agree(stn_context *context)
{
    if (context != NULL && context->scopes.depth > context->scopes.floor)
        context->scopes.agree |= (uint64_t)1 << innermost(&context->scopes);
}

STNI_COLD int stni_scope_keeps(stn_tensor *tensor)
{
    if (tensor->scoped == 0)
        return 0;
    atomic_store_explicit(&tensor->refs, tensor->scoped, memory_order_relaxed);
    stni_fail(tensor->context, STN_ERR_STATE,
              "tensor_release: the tensor was its scope's alone, which releases it when it ends; what is to be "
              "released before "
              "is retained first");
    return 1;
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

static void release_specs_down_to(struct stni_scope_specs *specs, int64_t mark)
{
    while (specs->n > mark)
        stn_spec_release(&specs->items[--specs->n]);
}

/* Agrees where this was requested, and releases what the scope owns. A scope that is deeper than there are marks
 * leaves both to the last one that has a mark. What is called when lent memory goes back must not end it, too. */
static void close_innermost(stn_context *context)
{
    struct stni_scope_stack *scopes = &context->scopes;
    const int outer = stni_scope_fence(context);
    if (scopes->depth <= STNI_SCOPE_MARKS) {
        int at = innermost(scopes);
        uint64_t bit = (uint64_t)1 << at;
        if (scopes->agree & bit) {
            scopes->agree &= ~bit;
            stn_agree(context, STN_OK, NULL);
        }
        release_down_to(scopes, scopes->marks[at]);
        release_specs_down_to(&context->scope_specs, context->scope_specs.marks[at]);
    }
    stni_scope_unfence(context, outer, "scope_end", "a function that lent memory was given back to");
    scopes->depth--;
}

/* An agreement would wait for ranks that have ended their scopes. */
STNI_COLD stn_status stni_scope_close_left_open(stn_context *context, const char *op, const char *function)
{
    const int left = context->scopes.depth - context->scopes.floor;
    while (context->scopes.depth > context->scopes.floor) {
        if (context->scopes.depth <= STNI_SCOPE_MARKS)
            context->scopes.agree &= ~((uint64_t)1 << innermost(&context->scopes));
        close_innermost(context);
    }
    stni_fail(context, STN_ERR_STATE, "%s: %s left %d scope%s open, wanted an end of each that it began", op, function,
              left, left == 1 ? "" : "s");
    return context->error.status;
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
    release_specs_down_to(&context->scope_specs, 0);
    context->scopes.depth = 0;
    context->scopes.floor = 0;
    context->scopes.agree = 0;
}

STNI_COLD static stn_status refuse_end(stn_context *context)
{
    if (context->scopes.depth == 0)
        return stni_fail(context, STN_ERR_STATE, "scope_end: no scope is open");
    return stni_fail(context, STN_ERR_STATE,
                     "scope_end: the innermost scope was begun outside of the function that ends it: one that the "
                     "library calls (a hook, a handler, a function on chunks) ends the scopes that it began itself");
}

static stn_status scope_end(stn_context *context)
{
    stni_context_reap(context);
    if (context->scopes.depth == context->scopes.floor)
        return refuse_end(context);
    close_innermost(context);
    stni_lent_take_ended(context);
    if (context->scopes.depth == 0 && context->outermost_ended)
        context->outermost_ended(context);
    return context->scopes.depth == 0 ? stni_context_take_status(context) : context->error.status;
}

stn_status stn_scope_end(stn_context *context)
{
    return context == NULL ? STN_ERR_ARGUMENT : scope_end(context);
}

static stn_status check_keep(stn_context *context, const char *what, const stn_tensor *keep)
{
    if (keep == NULL || keep->context != context)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s got %s, wanted a tensor of this context", what,
                         keep == NULL ? "NULL" : "a tensor of another context");
    return stni_tensor_require(keep, what);
}

static void release_all(int n, stn_tensor *const *tensors)
{
    for (int i = 0; i < n; i++)
        stni_tensor_release_here(tensors[i]);
}

/* Ends the scope with one more reference to each; the scope around, or the caller, gets them. */
static stn_status end_and_keep(stn_context *context, int n, stn_tensor *const *keep, stn_tensor **out)
{
    for (int i = 0; i < n; i++)
        stn_tensor_retain(keep[i]);
    stn_status status = scope_end(context);
    if (status != STN_OK) {
        release_all(n, keep);
        return status;
    }
    for (int i = 0; i < n; i++)
        if (stni_is_error(stni_tensor_publish(keep[i]))) {
            release_all(n - i - 1, keep + i + 1);
            return context->error.status;
        }
    for (int i = 0; i < n; i++)
        out[i] = keep[i];
    return STN_OK;
}

stn_status stn_scope_end_keep(stn_context *context, stn_tensor *keep, stn_tensor **out)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    check_keep(context, "scope_end_keep: keep", keep);
    if (out == NULL)
        stni_fail(context, STN_ERR_ARGUMENT, "scope_end_keep: out got NULL, wanted where to put the handle");
    return context->error.status != STN_OK ? scope_end(context) : end_and_keep(context, 1, &keep, out);
}

stn_status stn_scope_end_keep_all(stn_context *context, int n, stn_tensor *const *keep, stn_tensor **out)
{
    char what[64];
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    if (n < 0 || (n > 0 && (keep == NULL || out == NULL)))
        stni_fail(context, STN_ERR_ARGUMENT, "scope_end_keep_all: got n %d, keep %s, out %s, wanted two lists", n,
                  keep == NULL ? "NULL" : "given", out == NULL ? "NULL" : "given");
    for (int i = 0; i < n && context->error.status == STN_OK; i++) {
        snprintf(what, sizeof what, "scope_end_keep_all: keep[%d]", i);
        check_keep(context, what, keep[i]);
    }
    return context->error.status != STN_OK ? scope_end(context) : end_and_keep(context, n, keep, out);
}
