/* Reducing what is pending, and telling hooks of it. */
#include "autograd/sync.h"

#include "autograd/pass.h"
#include "autograd/tape.h"
#include "core/base/thread_state.h"
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"

/* What pends of one leaf. */
static stn_status add_pending(struct stni_reducer *reducer, struct stni_leaf *leaf)
{
    const struct stni_leaf_before before = {leaf->pending, leaf->due};
    return stni_reducer_add(reducer, leaf, &before);
}

/* Which leaves only wait for their hooks is this rank's own affair. */
static stn_status add_all(struct stni_reducer *reducer, int n, struct stni_leaf *const *leaves)
{
    const uint64_t mark = reducer->context->tape->mark += 2;
    for (int i = 0; i < n; i++) {
        if (leaves[i]->pending && leaves[i]->named != mark)
            STNI_TRY(add_pending(reducer, leaves[i]));
        leaves[i]->named = mark; /* a caller may name one twice */
    }
    return STN_OK;
}

stn_status stni_leaves_sync(struct stni_reducer *reducer, int n, struct stni_leaf *const *leaves)
{
    return stni_reducer_end(reducer, add_all(reducer, n, leaves));
}

/* A hook may shorten the list: by a backward of its own, which runs the other hooks, or by forgetting its gradient.
 * Then what has not been told stands elsewhere; those that were are due no more. */
static stn_status tell_open_leaves(stn_context *context)
{
    const struct stni_tape *tape = context->tape;
    for (int l = 0; l < tape->n_open; l++) {
        struct stni_leaf *leaf = tape->open[l];
        stni_leaf_retain(leaf);
        stn_status status = stni_leaf_tell(leaf);
        if (l >= tape->n_open || tape->open[l] != leaf)
            l = -1;
        stni_leaf_release(leaf);
        STNI_TRY(status);
    }
    return STN_OK;
}

stn_status stni_tape_sync(struct stni_reducer *reducer)
{
    stn_context *context = reducer->context;
    stn_status status = stni_leaves_sync(reducer, context->tape->n_open, context->tape->open);
    if (status == STN_OK)
        status = tell_open_leaves(context);
    stni_tape_settle(context);
    return status;
}

static stn_status leaf_of(stn_context *context, stn_tensor *tensor, int i, struct stni_leaf **out)
{
    *out = tensor ? tensor->leaf : NULL;
    if (!*out)
        return stni_fail(context, STN_ERR_STATE, "stn_grad_sync: leaves[%d] is no leaf that requires grad", i);
    return tensor->context == context
               ? STN_OK
               : stni_fail(context, STN_ERR_ARGUMENT, "stn_grad_sync: leaves[%d] belongs to another context", i);
}

static stn_status complete(stn_context *context, int n, struct stni_leaf *const *leaves)
{
    struct stni_reducer reducer = {.context = context};
    return stni_leaves_sync(&reducer, n, leaves);
}

/* Goes on behind a hook that fails, whose failure is kept at the end. */
static stn_status tell(stn_context *context, int n, struct stni_leaf *const *leaves)
{
    const struct stni_error *failure = context->tape->hook_failure;
    for (int i = 0; i < n; i++)
        STNI_TRY(stni_leaf_tell(leaves[i]));
    return failure->status == STN_OK ? STN_OK : stni_fail(context, failure->status, "%s", failure->text);
}

/* The ranks of the meshes of leaves whose hooks have waited, whether or not this rank has any. */
static stn_status find_ranks(struct stni_pass *pass, int n, struct stni_leaf *const *leaves)
{
    for (int i = 0; i < n; i++)
        if (leaves[i]->hooks_wait)
            STNI_TRY(stni_pass_touch(pass, leaves[i]->spec->layout.mesh));
    return stni_pass_draw_lines(pass);
}

/* A hook may fail on one rank alone. Where none has waited on any rank nothing is sent. */
static stn_status agree_on_hooks(stn_context *context, int n, struct stni_leaf *const *leaves, stn_status status)
{
    struct stni_pass pass = {.context = context, .status = status, .syncing = 1};
    status = find_ranks(&pass, n, leaves);
    if (status == STN_OK)
        status = stni_pass_agree_on_status(&pass);
    stni_pass_fini(&pass);
    for (int i = 0; i < n; i++)
        leaves[i]->hooks_wait = 0;
    return status;
}

static stn_status complete_and_tell(stn_context *context, int n, struct stni_leaf *const *leaves)
{
    STNI_TRY(complete(context, n, leaves));
    return agree_on_hooks(context, n, leaves, tell(context, n, leaves));
}

typedef stn_status action(stn_context *context, int n, struct stni_leaf *const *leaves);

/* The frame is that of a backward: hooks run in it. */
static stn_status run_framed(stn_context *context, action *run, int n, struct stni_leaf *const *leaves)
{
    struct stni_thread_state guard = stni_thread_state_clear();
    struct stni_error failure = {.status = STN_OK}, *outer = context->tape->hook_failure;
    context->tape->hook_failure = &failure;
    context->no_grad++;
    context->busy++;
    stni_scope_enter(context);
    stn_status status = run(context, n, leaves);
    context->tape->hook_failure = outer;
    if (context->error.status == STN_OK)
        status = stni_fail_queue(context, status);
    stni_tape_settle(context);
    stni_scope_leave(context);
    context->busy--;
    context->no_grad--;
    stni_thread_state_restore(guard);
    return status;
}

static stn_status run_on(stn_context *context, action *run, int n, stn_tensor *const *leaves)
{
    stni_context_reap(context);
    if (context->error.status != STN_OK)
        return context->error.status;
    struct stni_leaf **list = stni_malloc((size_t)(n + 1) * sizeof *list);
    if (!list)
        return stni_fail_memory(context, "list of leaves", (size_t)n * sizeof *list);
    stn_status status = STN_OK;
    for (int i = 0; i < n && status == STN_OK; i++)
        status = leaf_of(context, leaves[i], i, &list[i]);
    if (status == STN_OK)
        status = run_framed(context, run, n, list);
    stni_free(list);
    return status;
}

stn_status stni_grad_complete(stn_context *context, int n, stn_tensor *const *leaves)
{
    return run_on(context, complete, n, leaves);
}

stn_status stni_grad_tell(stn_context *context, int n, stn_tensor *const *leaves)
{
    return run_on(context, tell, n, leaves);
}

stn_status stn_grad_sync(stn_context *context, int n, stn_tensor *const *leaves)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    stni_pass_check_list(context, "stn_grad_sync: leaves", n, leaves);
    return run_on(context, complete_and_tell, n, leaves);
}
