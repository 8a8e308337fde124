#include "dispatch/settle.h"

#include "autograd/node.h"
#include "core/box/box.h"
#include "core/tensor/kept.h"
#include "core/tensor/tensor.h"
#include "dispatch/registry.h"

#include <shardtensor/ops.h>

stn_status stni_copy_with_history(stn_tensor *tensor, stn_tensor **copy)
{
    stn_tensor *made;
    STNI_TRY(stni_tensor_create(tensor->context, tensor->spec, &made));
    made->flags |= tensor->flags & STNI_TENSOR_REQUIRES_GRAD;
    stni_share_autograd(tensor, made);
    stn_status status = stni_tensor_copy_elements(made, tensor);
    if (status == STN_OK)
        *copy = made;
    else
        stni_tensor_drop(&made);
    return status;
}

/* Another handle of an input: a view of it, with its history. */
static stn_status alias_input(stn_tensor *in, stn_tensor **out)
{
    STNI_TRY(stni_tensor_on(in->context, in->spec, in->storage, in->data, in->strides,
                            in->flags & STNI_TENSOR_REQUIRES_GRAD, out));
    stni_share_autograd(in, *out);
    stni_tensor_share(*out, in);
    stni_tensor_keep_as(*out, in);
    return STN_OK;
}

/* Inputs that have a tensor's memory, on this rank, or that it shows, on all of them alike. */
enum kinship { HAS_MEMORY = 1, SHOWS = 2 };

static int kinship_of(const struct stni_walk *w, const stn_tensor *made)
{
    int kinship = 0;
    for (int i = 0; i < w->call.n_in; i++) {
        const stn_tensor *in = w->in[i];
        kinship |= in && in->storage == made->storage ? HAS_MEMORY : 0;
        kinship |= in && stni_tensor_root(in) == stni_tensor_root(made) ? SHOWS : 0;
    }
    return kinship;
}

static int is_known_to_others(const stn_tensor *made)
{
    return atomic_load_explicit(&stni_tensor_root(made)->views, memory_order_relaxed) > 1;
}

static stn_status take_view(const struct stni_walk *w, stn_tensor *made, stn_tensor **out)
{
    for (int i = 0; i < w->call.n_in; i++)
        if (w->in[i] == made)
            return alias_input(made, out);
    if (!(kinship_of(w, made) & SHOWS) && !is_known_to_others(made))
        stni_tensor_show_nothing(made);
    *out = stn_tensor_retain(made);
    return STN_OK;
}

/* Whether an output before the k-th has the memory of what was made. */
static int has_been_given(const struct stni_walk *w, int k, const stn_tensor *made)
{
    int found = 0;
    for (int i = 0; i < k; i++)
        found |= w->out[i]->storage == made->storage;
    return found;
}

/* Whether a chunk has to be copied is each rank's own affair: what comes of it is not. A view apart may have an element
 * more than once, and others of what was made on the way may have its memory. */
static stn_status take_own(const struct stni_walk *w, int k, stn_tensor *made, stn_tensor **out)
{
    const int kinship = kinship_of(w, made), is_known = !(kinship & SHOWS) && is_known_to_others(made),
              is_apart = (made->flags & (STNI_TENSOR_VIEW | STNI_TENSOR_SHARES)) == STNI_TENSOR_VIEW;
    if ((kinship & HAS_MEMORY) || has_been_given(w, k, made) ||
        (is_apart && (is_known || !stni_tensor_is_dense(made))))
        return stni_copy_with_history(made, out);
    if (!is_known)
        stni_tensor_show_nothing(made);
    *out = stn_tensor_retain(made);
    return STN_OK;
}

stn_status stni_settle_late(struct stni_walk *w, int k)
{
    stn_tensor *made = w->out[k], *own;
    if (!(made->flags & STNI_TENSOR_VIEW) || (w->desc->flags & STN_OP_ALIAS) || (kinship_of(w, made) & SHOWS))
        return STN_OK;
    if (!is_known_to_others(made)) {
        stni_tensor_show_nothing(made);
        return STN_OK;
    }
    STNI_TRY(stni_copy_with_history(made, &own));
    stni_tensor_drop(&w->out[k]);
    w->out[k] = own;
    return STN_OK;
}

stn_status stni_settle(struct stni_walk *w, int k)
{
    stn_tensor *made = w->out[k];
    if (!made || stni_is_error(made))
        return stni_fail(w->call.context, STN_ERR_INTERNAL, "%s: its compose gave no output %d", w->desc->name, k);
    if (w->desc->flags & STN_OP_ALIAS)
        return take_view(w, made, &w->out[k]);
    for (int i = 0; i < w->call.n_in; i++)
        if (w->in[i] == made) /* whose history is not the result's */
            made = stn_clone(made);
    return stni_is_error(made) ? stn_context_status(w->call.context) : take_own(w, k, made, &w->out[k]);
}
