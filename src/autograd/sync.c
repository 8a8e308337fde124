/* Reducing what is pending: small gradients together in one buffer, so that many parameters cost few messages. */
#include "autograd/sync.h"

#include "autograd/accumulate.h"
#include "autograd/tape.h"
#include "core/base/thread_state.h"
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"
#include "core/redistribute/redistribute.h"

enum { BUCKET_BYTES = 4 << 20, ALIGNMENT = 64 };

/* A run of pending leaves that one all-reduce serves: same mesh, axes and dtype. */
struct bucket {
    struct stni_leaf *const *leaves;
    int n;
    int64_t elements; /* padded so that each piece is aligned */
};

static int64_t padded(const stn_tensor *t)
{
    int64_t per_line = ALIGNMENT / (int64_t)stn_dtype_size(t->spec->layout.dtype);
    return (t->spec->local_numel + per_line - 1) / per_line * per_line;
}

static int fits(const struct bucket *b, const stn_tensor *next)
{
    const stn_spec *s = b->leaves[0]->pending->spec, *t = next->spec;
    return s->layout.mesh == t->layout.mesh && s->layout.dtype == t->layout.dtype && s->partial_axes == t->partial_axes &&
           (b->elements + padded(next)) * (int64_t)stn_dtype_size(t->layout.dtype) <= BUCKET_BYTES;
}

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
    return stni_cotangent_add(reduced->spec, &leaf->grad, reduced);
}

/* One large gradient on its own: no copy into a buffer. */
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

static stn_status copy_in(const struct bucket *b, char *buffer)
{
    for (int i = 0; i < b->n; i++) {
        stn_tensor *t = b->leaves[i]->pending;
        size_t size = stn_dtype_size(t->spec->layout.dtype);
        stn_box from, to;
        stni_tensor_box(t, &from);
        to = from;
        to.data = buffer;
        for (int d = 0; d < to.ndim; d++)
            to.strides[d] = t->spec->strides[d];
        STNI_TRY(stni_box_copy(t->context->queue, &to, &from, size));
        buffer += padded(t) * (int64_t)size;
    }
    return STN_OK;
}

/* The reduced gradients are tensors on the buffer itself: nothing is copied out. */
static stn_status hand_out(const struct bucket *b, struct stni_storage *storage)
{
    char *at = storage->data;
    for (int i = 0; i < b->n; i++) {
        stn_tensor *t = b->leaves[i]->pending, *reduced;
        const stn_spec *whole;
        int64_t bytes = padded(t) * (int64_t)stn_dtype_size(t->spec->layout.dtype);
        STNI_TRY(whole_of(t->spec, &whole));
        STNI_TRY(stni_tensor_on(t->context, whole, storage, at, NULL, 0, &reduced));
        stn_status status = add_to_grad(b->leaves[i], reduced);
        stni_tensor_drop(&reduced);
        STNI_TRY(status);
        at += bytes;
    }
    return STN_OK;
}

static stn_status sync_bucket(stn_context *context, const struct bucket *b)
{
    const stn_spec *spec = b->leaves[0]->pending->spec;
    struct stni_storage *storage = NULL;
    stn_comm *comm;
    stn_status status;
    if (b->n == 1 || !spec->layout.mesh->member)
        return sync_alone(b->leaves[0]);
    STNI_TRY(stni_mesh_comm(spec->layout.mesh, spec->partial_axes, &comm));
    STNI_TRY(stni_storage_create(context, (size_t)b->elements * stn_dtype_size(spec->layout.dtype), &storage));
    STNI_TRY_GOTO(copy_in(b, storage->data), out);
    STNI_TRY_GOTO(stni_comm_all_reduce(comm, context->queue, storage->data, storage->data, b->elements, spec->layout.dtype, STN_SUM),
                  out);
    status = hand_out(b, storage);
out:
    stni_storage_release(storage);
    return status;
}

/* The leaves that have something pending, in buckets of neighbours: which leaves only wait for their hooks is this rank's own affair. */
static stn_status sync_pending(stn_context *context, int n, struct stni_leaf *const *leaves)
{
    for (int i = 0; i < n;) {
        struct bucket b = {leaves + i, 1, padded(leaves[i]->pending)};
        int alone = !leaves[i]->pending->spec->layout.mesh->member;
        while (!alone && i + b.n < n && fits(&b, leaves[i + b.n]->pending)) {
            b.elements += padded(leaves[i + b.n]->pending);
            b.n++;
        }
        STNI_TRY(sync_bucket(context, &b));
        i += b.n;
    }
    return STN_OK;
}

stn_status stni_leaves_sync(stn_context *context, int n, struct stni_leaf *const *leaves)
{
    size_t bytes = ((size_t)n + 1) * sizeof *leaves;
    struct stni_leaf **pending = stni_malloc(bytes);
    uint64_t mark = context->tape->mark += 2;
    int n_pending = 0;
    if (!pending)
        return stni_fail_memory(context, "list of leaves", bytes);
    for (int i = 0; i < n; i++) {
        if (leaves[i]->pending && leaves[i]->mark != mark)
            pending[n_pending++] = leaves[i];
        leaves[i]->mark = mark; /* a caller may name one twice */
    }
    stn_status status = sync_pending(context, n_pending, pending);
    stni_free(pending);
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
