/* Reducing what is pending: small gradients together in one buffer, so that many parameters cost few messages. */
#include "autograd/sync.h"

#include "autograd/accumulate.h"
#include "autograd/bucket.h"
#include "autograd/tape.h"
#include "core/base/thread_state.h"
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"
#include "core/redistribute/redistribute.h"

static stn_status whole_of(const stn_spec *pending, const stn_spec **out)
{
    struct stni_layout layout = pending->layout;
    for (int a = 0; a < layout.mesh->ndim; a++)
        if (pending->partial_axes >> a & 1)
            layout.placement[a] = stn_replicate();
    return stni_spec_intern(pending->context, &layout, out);
}

static stn_status add_to_grad(struct stni_leaf *leaf, stn_tensor *reduced)
{
    stni_tensor_drop(&leaf->pending);
    leaf->counted_elsewhere = 0;
    return stni_cotangent_add(reduced->spec, &leaf->grad, reduced);
}

/* One gradient on its own: redistribution knows the better ways for a large one. */
static stn_status sync_alone(struct stni_leaf *leaf)
{
    const stn_spec *whole;
    stn_tensor *reduced;
    STNI_TRY(whole_of(leaf->pending->spec, &whole));
    STNI_TRY(stni_redistribute(leaf->pending, whole, &reduced));
    stn_status status = add_to_grad(leaf, reduced);
    stni_tensor_drop(&reduced);
    return status;
}

static stn_status sync_bucket(stn_context *context, int n, struct stni_leaf *const *leaves,
                              struct stni_bucket_item *items)
{
    const stn_spec *spec = items[0].in->spec;
    stn_comm *comm;
    for (int i = 0; i < n; i++)
        STNI_TRY(whole_of(items[i].in->spec, &items[i].spec));
    STNI_TRY(stni_mesh_comm(spec->layout.mesh, spec->partial_axes, &comm));
    stn_status status = stni_bucket_reduce(context, comm, STN_SUM, n, items);
    for (int i = 0; i < n; i++) {
        if (status == STN_OK)
            status = add_to_grad(leaves[i], items[i].out);
        stni_tensor_drop(&items[i].out);
    }
    return status;
}

/* How many leaves from the first one pend alike: same mesh, axes and dtype. */
static int alike(const struct stni_bucket_item *items, int n)
{
    const stn_spec *s = items[0].in->spec;
    int same = 1;
    for (; same < n; same++) {
        const stn_spec *t = items[same].in->spec;
        if (s->layout.mesh != t->layout.mesh || s->layout.dtype != t->layout.dtype || s->partial_axes != t->partial_axes)
            break;
    }
    return same;
}

/* Buckets of neighbours. */
static stn_status sync_pending(stn_context *context, int n, struct stni_leaf *const *leaves,
                               struct stni_bucket_item *items)
{
    for (int i = 0; i < n;) {
        const int member = items[i].in->spec->layout.mesh->member;
        const int taken = member ? stni_bucket_fill(items + i, alike(items + i, n - i)) : 1;
        STNI_TRY(taken == 1 ? sync_alone(leaves[i]) : sync_bucket(context, taken, leaves + i, items + i));
        i += taken;
    }
    return STN_OK;
}

/* Which leaves only wait for their hooks is this rank's own affair. */
static int take_pending(uint64_t mark, int n, struct stni_leaf *const *leaves, struct stni_leaf **pending,
                        struct stni_bucket_item *items)
{
    int n_pending = 0;
    for (int i = 0; i < n; i++) {
        if (leaves[i]->pending && leaves[i]->mark != mark) {
            items[n_pending] = (struct stni_bucket_item){.in = leaves[i]->pending};
            pending[n_pending++] = leaves[i];
        }
        leaves[i]->mark = mark; /* a caller may name one twice */
    }
    return n_pending;
}

stn_status stni_leaves_sync(stn_context *context, int n, struct stni_leaf *const *leaves)
{
    const size_t bytes = ((size_t)n + 1) * (sizeof *leaves + sizeof(struct stni_bucket_item));
    struct stni_bucket_item *items = stni_malloc(bytes);
    if (!items)
        return stni_fail_memory(context, "list of leaves", bytes);
    struct stni_leaf **pending = (struct stni_leaf **)(items + n + 1);
    const int n_pending = take_pending(context->tape->mark += 2, n, leaves, pending, items);
    stn_status status = sync_pending(context, n_pending, pending, items);
    stni_free(items);
    return status;
}

/* A hook may run a backward of its own, which runs the other hooks and shortens the list. */
static stn_status tell_open_leaves(stn_context *context)
{
    const struct stni_tape *tape = context->tape;
    for (int l = 0; l < tape->n_open; l++) {
        struct stni_leaf *leaf = tape->open[l];
        stni_leaf_retain(leaf);
        stn_status status = stni_leaf_tell(leaf);
        stni_leaf_release(leaf);
        STNI_TRY(status);
    }
    return STN_OK;
}

stn_status stni_tape_sync(stn_context *context)
{
    stn_status status = stni_leaves_sync(context, context->tape->n_open, context->tape->open);
    if (status == STN_OK)
        status = tell_open_leaves(context);
    stni_tape_settle(context);
    return status;
}

static stn_status leaf_of(stn_context *context, stn_tensor *tensor, int i, struct stni_leaf **out)
{
    *out = tensor ? tensor->leaf : NULL;
    return *out ? STN_OK : stni_fail(context, STN_ERR_STATE, "stn_grad_sync: leaves[%d] is no leaf that requires grad", i);
}

static stn_status sync_and_tell(stn_context *context, int n, struct stni_leaf *const *leaves)
{
    STNI_TRY(stni_leaves_sync(context, n, leaves));
    for (int i = 0; i < n; i++)
        STNI_TRY(stni_leaf_tell(leaves[i]));
    return STN_OK;
}

/* The frame is that of a backward: hooks run in it. */
static stn_status sync_framed(stn_context *context, int n, struct stni_leaf *const *leaves)
{
    struct stni_thread_state guard = stni_thread_state_clear();
    context->no_grad++;
    context->busy++;
    stni_scope_enter(context);
    stn_status status = sync_and_tell(context, n, leaves);
    if (context->error.status == STN_OK)
        status = stni_fail_queue(context, status);
    stni_tape_settle(context);
    stni_scope_leave(context);
    context->busy--;
    context->no_grad--;
    stni_thread_state_restore(guard);
    return status;
}

stn_status stn_grad_sync(stn_context *context, int n, stn_tensor *const *leaves)
{
    if (!context || n < 0 || (n > 0 && !leaves))
        return STN_ERR_ARGUMENT;
    if (context->error.status != STN_OK)
        return context->error.status;
    struct stni_leaf **list = stni_malloc((size_t)(n + 1) * sizeof *list);
    if (!list)
        return stni_fail_memory(context, "list of leaves", (size_t)n * sizeof *list);
    stn_status status = STN_OK;
    for (int i = 0; i < n && status == STN_OK; i++)
        status = leaf_of(context, leaves[i], i, &list[i]);
    if (status == STN_OK)
        status = sync_framed(context, n, list);
    stni_free(list);
    return status;
}
