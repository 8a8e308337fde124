/* Leaves: grad, pending, hooks. */
#include "autograd/leaf.h"

#include "autograd/accumulate.h"
#include "autograd/captured_gradients.h"
#include "autograd/node.h"
#include "autograd/tape.h"
#include "autograd/tensor_hooks.h"
#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"
#include "core/tensor/host_memory.h"
#include "core/tensor/scope.h"

#include <shardtensor/ops.h>

struct stni_leaf *stni_leaf_create(stn_tensor *tensor)
{
    struct stni_leaf *leaf = stni_calloc(1, sizeof *leaf);
    if (!leaf)
        return NULL;
    leaf->refs = 1;
    leaf->context = tensor->context;
    leaf->spec = stni_spec_retain(tensor->spec);
    leaf->handle = tensor;
    return leaf;
}

void stni_leaf_retain(struct stni_leaf *leaf)
{
    leaf->refs++;
}

void stni_leaf_drop_gradients(struct stni_leaf *leaf)
{
    stni_tensor_drop(&leaf->grad);
    stni_tensor_drop(&leaf->pending);
    leaf->counted_elsewhere = 0;
}

/* Those that have removed themselves, or all. */
static void drop_hooks(struct stni_leaf *leaf, int all)
{
    struct stni_grad_hook_entry **at = &leaf->hooks;
    leaf->last_hook = NULL;
    while (*at) {
        struct stni_grad_hook_entry *entry = *at;
        if (!all && !entry->removed) {
            leaf->last_hook = entry;
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        if (entry->destroy)
            entry->destroy(entry->arg);
        stni_free(entry);
    }
}

void stni_leaf_release(struct stni_leaf *leaf)
{
    if (!leaf || --leaf->refs > 0)
        return;
    stni_leaf_drop_gradients(leaf);
    stni_tensor_drop(&leaf->cotangent);
    stni_tensor_hooks_destroy(&leaf->tensor_hooks);
    drop_hooks(leaf, 1);
    stni_spec_release(leaf->spec);
    stni_free(leaf);
}

stn_status stni_gradient_spec(const stn_spec *forward, const stn_spec **out)
{
    struct stni_layout layout = forward->layout;
    *out = forward;
    if (!forward->partial_axes)
        return STN_OK;
    for (int a = 0; a < layout.mesh->ndim; a++)
        if (layout.placement[a].kind == STN_PLACE_PARTIAL)
            layout.placement[a] = stn_replicate();
    return stni_spec_intern(forward->context, &layout, out);
}

/* The layout of what is still to be reduced: `whole` with Partial(sum) on the axes in `axes`. */
static stn_status pending_spec(const stn_spec *whole, uint32_t axes, const stn_spec **out)
{
    struct stni_layout layout = whole->layout;
    for (int a = 0; layout.mesh && a < layout.mesh->ndim; a++)
        if (axes >> a & 1)
            layout.placement[a] = stn_partial(STN_SUM);
    return stni_spec_intern(whole->context, &layout, out);
}

/* Whether who holds the only reference to a tensor may change its memory in place, and keeps no more than the chunk.
 * What was moved is still the value that it was, with its history. */
static int is_alone(const stn_tensor *t)
{
    const struct stni_storage *storage = t->storage;
    if (atomic_load(&t->refs) != 1 || t->node || t->leaf || (t->flags & (STNI_TENSOR_VIEW | STNI_TENSOR_MOVED)) ||
        atomic_load(&storage->refs) != 1)
        return 0;
    const size_t bytes = (size_t)t->spec->local_numel * stn_dtype_size(t->spec->layout.dtype);
    return atomic_load(&storage->views) == 0 && !storage->frozen && storage->capacity > 0 && storage->bytes == bytes &&
           memcmp(t->strides, t->spec->strides, (size_t)t->spec->layout.ndim * sizeof t->strides[0]) == 0;
}

stn_status stni_gradient_own(stn_tensor *tensor, stn_tensor **out)
{
    if (is_alone(tensor)) {
        *out = tensor;
        return STN_OK;
    }
    stn_status status = stni_tensor_create_beside(tensor, tensor->spec, out);
    if (status == STN_OK)
        status = stni_tensor_copy_elements(*out, tensor);
    stni_tensor_drop(&tensor);
    return status;
}

stn_status stni_leaf_place(const struct stni_leaf *leaf, stn_tensor **gradient)
{
    stn_tensor *placed = NULL;
    const stn_spec *spec = (*gradient)->spec;
    if (leaf->handle == NULL || stni_storage_is_in_host_memory(leaf->handle->storage) ==
                                    stni_storage_is_in_host_memory((*gradient)->storage))
        return STN_OK;
    STNI_TRY(stni_tensor_create_beside(leaf->handle, spec, &placed));
    const stn_status status = stni_tensor_copy_elements(placed, *gradient);
    stni_tensor_drop(status == STN_OK ? gradient : &placed);
    if (status == STN_OK)
        *gradient = placed;
    return status;
}

stn_status stni_leaf_add(struct stni_leaf *leaf, const stn_spec *spec, stn_tensor *gradient)
{
    if (leaf->own_sum == NULL || leaf->own_sum != leaf->grad) {
        STNI_TRY(stni_cotangent_add(spec, &leaf->grad, gradient));
        return stni_leaf_place(leaf, &leaf->grad);
    }
    stn_add_(leaf->grad, gradient, 1);
    return leaf->context->error.status;
}

static stn_tensor *take(stn_tensor **slot)
{
    stn_tensor *tensor = *slot;
    *slot = NULL;
    return tensor;
}

/* `*tensor` as `spec`, which takes the place of it. */
static stn_status move(stn_tensor **tensor, const stn_spec *spec)
{
    stn_tensor *moved;
    STNI_TRY(stni_redistribute(*tensor, spec, &moved));
    stni_tensor_drop(tensor);
    *tensor = moved;
    return STN_OK;
}

/* Its elements are copied once, be it to memory of its own or to where the leaf lies. */
static stn_status take_first(struct stni_leaf *leaf, stn_tensor *gradient)
{
    stn_status status = stni_leaf_place(leaf, &gradient);
    if (status == STN_OK)
        return stni_gradient_own(gradient, &leaf->grad);
    stni_tensor_drop(&gradient);
    return status;
}

static stn_status take_pending(struct stni_leaf *leaf, const stn_spec *whole, uint32_t axes, stn_tensor **cotangent)
{
    const stn_spec *spec;
    if (leaf->pending && (leaf->pending->spec->partial_axes | axes) != leaf->pending->spec->partial_axes) {
        STNI_TRY(pending_spec(whole, leaf->pending->spec->partial_axes | axes, &spec));
        STNI_TRY(move(&leaf->pending, spec));
    }
    if (leaf->pending)
        spec = leaf->pending->spec;
    else
        STNI_TRY(pending_spec(whole, axes, &spec));
    STNI_TRY(move(cotangent, spec));
    if (leaf->pending)
        STNI_TRY(stni_cotangent_add(spec, &leaf->pending, *cotangent));
    else
        STNI_TRY(stni_gradient_own(take(cotangent), &leaf->pending));
    return stni_tape_add_open(leaf->context, leaf);
}

/* Inside no-sync replicas are not reduced: a cotangent that is sharded where the leaf is not becomes Partial, which
 * costs nothing. Where the leaf itself is sharded, a Partial cotangent is reduced to its chunks at once: deferring
 * that would take the memory of the whole tensor. */
stn_status stni_leaf_pending_axes(const struct stni_leaf *leaf, const stn_tensor *cotangent, const stn_spec **whole,
                                  uint32_t *axes)
{
    STNI_TRY(stni_gradient_spec(leaf->spec, whole));
    *axes = cotangent->spec->partial_axes | (leaf->context->no_sync ? cotangent->spec->shard_axes : 0);
    *axes &= ~(*whole)->shard_axes;
    return STN_OK;
}

void stni_leaf_give_back(struct stni_leaf *leaf, const struct stni_leaf_before *before)
{
    stni_tensor_drop(&leaf->pending);
    leaf->pending = stn_tensor_retain(before->pending);
    leaf->due = before->due;
}

stn_status stni_leaf_take(struct stni_leaf *leaf, stn_tensor **cotangent)
{
    const stn_spec *whole;
    uint32_t axes;
    STNI_TRY(stni_gradient_used(leaf, STNI_GRADIENT_ADDED_TO));
    leaf->due |= leaf->hooks != NULL;
    leaf->hooks_wait = leaf->context->no_sync && (leaf->hooks_wait || leaf->context->tape->has_grad_hooks);
    if (leaf->due)
        STNI_TRY(stni_tape_add_open(leaf->context, leaf));
    STNI_TRY(stni_leaf_pending_axes(leaf, *cotangent, &whole, &axes));
    if (axes)
        return take_pending(leaf, whole, axes, cotangent);
    leaf->counted_elsewhere = 0;
    STNI_TRY(move(cotangent, whole));
    return leaf->grad ? stni_leaf_add(leaf, whole, *cotangent) : take_first(leaf, take(cotangent));
}

stn_status stni_leaf_tell(struct stni_leaf *leaf)
{
    if (!leaf->due || leaf->pending || leaf->reducing)
        return STN_OK;
    leaf->due = 0;
    if (!leaf->grad)
        return STN_OK;
    for (struct stni_grad_hook_entry *e = leaf->hooks; e && leaf->handle; e = e->next) { /* a hook may give it up */
        if (e->removed)
            continue;
        const int outer = stni_scope_fence(leaf->context);
        int *outer_hook = stni_hook_runs(leaf->context, &e->removed);
        stn_status status = e->hook(leaf->handle, e->arg);
        stni_hook_runs(leaf->context, outer_hook);
        stni_scope_unfence(leaf->context, outer, "stn_add_grad_hook", "a gradient hook");
        if (leaf->context->error.status != STN_OK)
            STNI_TRY(stni_tape_hook_kept(leaf->context));
        else if (status != STN_OK)
            STNI_TRY(stni_tape_hook_failed(leaf->context, "a gradient hook returned \"%s\"", stn_status_text(status)));
    }
    return leaf->context->error.status;
}

/* The public side */

static stn_status live_leaf(stn_tensor *tensor, const char *function)
{
    if (!tensor)
        return STN_ERR_ARGUMENT;
    if (tensor->context->error.status != STN_OK)
        return tensor->context->error.status;
    if (stni_is_error(tensor))
        return stni_fail(tensor->context, STN_ERR_STATE, "%s: the tensor is what an earlier failure returned",
                         function);
    if (tensor->node)
        return stni_fail(tensor->context, STN_ERR_STATE, "%s: the tensor is the result of an op, wanted a leaf",
                         function);
    return stni_tensor_arrive(tensor);
}

stn_status stn_set_requires_grad(stn_tensor *tensor, int requires_grad)
{
    STNI_TRY(live_leaf(tensor, "stn_set_requires_grad"));
    if (requires_grad && !stn_dtype_is_differentiable(tensor->spec->layout.dtype))
        return stni_fail(tensor->context, STN_ERR_DTYPE, "stn_set_requires_grad: %s has no gradients",
                         stn_dtype_name(tensor->spec->layout.dtype));
    if (requires_grad && !tensor->leaf) {
        tensor->leaf = stni_leaf_create(tensor);
        if (!tensor->leaf)
            return stni_fail_memory(tensor->context, "leaf", sizeof *tensor->leaf);
    }
    tensor->flags = requires_grad ? tensor->flags | STNI_TENSOR_REQUIRES_GRAD
                                  : tensor->flags & ~(uint32_t)STNI_TENSOR_REQUIRES_GRAD;
    if (requires_grad) /* what others have of the memory may require it all the same */
        stni_storage_note_grad(stni_tensor_root(tensor));
    return STN_OK;
}

int stn_requires_grad(const stn_tensor *tensor)
{
    return tensor && (tensor->flags & STNI_TENSOR_REQUIRES_GRAD) != 0;
}

int stn_is_leaf(const stn_tensor *tensor)
{
    return tensor && !stni_is_error(tensor) && !tensor->node;
}

/* What keeps the gradient of a result; NULL where nothing was told to. */
static struct stni_tensor_hooks *keeper_of(const stn_tensor *tensor)
{
    return tensor && tensor->node ? stni_tensor_hooks_keeper(tensor->node->hooks, tensor->output) : NULL;
}

stn_status stn_grad_of(stn_tensor *tensor, stn_tensor **out)
{
    const struct stni_tensor_hooks *keeper = keeper_of(tensor);
    if (tensor && !out)
        return stni_fail(tensor->context, STN_ERR_ARGUMENT, "stn_grad_of: out got NULL, wanted a place for it");
    if (keeper && tensor->context->error.status == STN_OK) {
        STNI_TRY(stni_kept_gradient_used(tensor->node));
        *out = keeper->grad;
        return STN_OK;
    }
    STNI_TRY(live_leaf(tensor, "stn_grad_of"));
    if (tensor->leaf && (tensor->leaf->pending || tensor->leaf->reducing))
        return stni_fail(
            tensor->context, STN_ERR_PARTIAL,
            "stn_grad_of: a reduction is pending; stn_grad_sync or a backward outside no-sync completes it");
    if (tensor->leaf)
        STNI_TRY(stni_gradient_used(tensor->leaf, STNI_GRADIENT_READ));
    *out = tensor->leaf ? tensor->leaf->grad : NULL;
    return STN_OK;
}

stn_status stn_zero_grad(stn_tensor *tensor)
{
    struct stni_tensor_hooks *keeper = keeper_of(tensor);
    if (keeper && tensor->context->error.status == STN_OK) {
        STNI_TRY(stni_kept_gradient_used(tensor->node));
        stni_tensor_drop(&keeper->grad);
        return STN_OK;
    }
    STNI_TRY(live_leaf(tensor, "stn_zero_grad"));
    if (tensor->leaf) {
        STNI_TRY(stni_gradient_used(tensor->leaf, STNI_GRADIENT_FORGOTTEN));
        stni_leaf_drop_gradients(tensor->leaf);
        tensor->leaf->due = 0;
        stni_tape_settle(tensor->context);
    }
    return STN_OK;
}

stn_status stn_add_grad_hook(stn_tensor *tensor, stn_grad_hook hook, void *arg, void (*destroy)(void *arg))
{
    STNI_TRY(live_leaf(tensor, "stn_add_grad_hook"));
    if (!tensor->leaf || !hook)
        return stni_fail(tensor->context, STN_ERR_STATE, "stn_add_grad_hook: %s",
                         hook ? "the tensor does not require grad" : "no hook");
    struct stni_leaf *leaf = tensor->leaf;
    struct stni_grad_hook_entry *entry = stni_calloc(1, sizeof *entry);
    if (!entry)
        return stni_fail_memory(tensor->context, "hook", sizeof *entry);
    *entry = (struct stni_grad_hook_entry){.hook = hook, .arg = arg, .destroy = destroy};
    if (!leaf->context->tape->removed_hook) /* no hook of the list runs */
        drop_hooks(leaf, 0);
    *(leaf->hooks ? &leaf->last_hook->next : &leaf->hooks) = entry;
    leaf->last_hook = entry;
    return STN_OK;
}

stn_tensor *stn_detach(stn_tensor *tensor)
{
    stn_tensor *out;
    if (!tensor || stni_is_error(tensor) || tensor->context->error.status != STN_OK)
        return tensor ? tensor->context->error_tensor : NULL;
    if (stni_tensor_arrive(tensor) != STN_OK || stni_tensor_on(tensor->context, tensor->spec, tensor->storage,
                                                               tensor->data, tensor->strides, 0, &out) != STN_OK)
        return tensor->context->error_tensor;
    stni_tensor_show_as(out, tensor);
    return stni_tensor_publish(out);
}
