#include "dispatch/in_place.h"

#include "autograd/node.h"
#include "core/tensor/copy_on_write.h"
#include "dispatch/schema.h"
#include "dispatch/settle.h"

#include <string.h>

/* Why a change would be wrong to somebody who sees the elements: through memory of his own, which he may have in
 * another layout or on another rank, or by a history that does not know of it: a view and what it shows have one
 * memory, and a history each. NULL: it is right. */
static const char *why_not(const struct stni_walk *w)
{
    const stn_context *context = w->call.context;
    const stn_tensor *t = w->in[0];
    const struct stni_storage *root = stni_tensor_root(t);
    if (root->frozen)
        return "is immutable";
    if (stni_tensor_is_apart(t))
        return "is a view that need not share memory";
    if (stni_tensor_has_views_apart(t))
        return "has views that need not share its memory";
    if (stni_tensor_repeats_elements(t))
        return "has elements that stand in several places";
    if (!stn_grad_enabled(context))
        return NULL;
    if (t->leaf && (t->flags & STNI_TENSOR_REQUIRES_GRAD))
        return "is a leaf that requires grad while grad mode is on";
    if (atomic_load_explicit(&root->views, memory_order_relaxed) > 0 &&
        (root->has_grad || stni_needs_grad(context, w->call.n_in, w->in)))
        return t->flags & STNI_TENSOR_VIEW ? "is a view whose change a gradient would have to follow"
                                           : "has views, whose change a gradient would have to follow,";
    return NULL;
}

stn_status stni_in_place_check(const struct stni_walk *w)
{
    STNI_TRY(stni_tensor_before_write(w->in[0]));
    const char *why = why_not(w);
    return why ? stni_fail(w->call.context, STN_ERR_STATE, "%s: '%s' %s and cannot be changed in place", w->desc->name,
                           stni_input_name(w->desc, 0).text, why)
               : STN_OK;
}

/* Puts a copy in an input's place: the same logical value in memory of its own. */
static stn_status copy_input(struct stni_walk *w, int i)
{
    stn_tensor *copy;
    STNI_TRY(stni_copy_with_history(w->in[i], &copy));
    if (w->moved >> i & 1)
        stni_tensor_drop(&w->in[i]);
    w->in[i] = copy;
    w->moved |= 1u << i;
    return STN_OK;
}

/* What overlaps the memory that run is about to change, another view of it say, is copied before: an element would be
 * read after its change. */
static stn_status keep_overlapping(struct stni_walk *w)
{
    const stn_tensor *out = w->out[0];
    for (int i = 1; i < w->call.n_in; i++) {
        const stn_tensor *in = w->in[i];
        if (!in || in->storage != out->storage)
            continue;
        if (in->spec == out->spec && in->data == out->data &&
            memcmp(in->strides, out->strides, sizeof in->strides) == 0)
            continue; /* element by element the same */
        STNI_TRY(copy_input(w, i));
    }
    return STN_OK;
}

/* What backward will read of the memory that run is about to change is copied before. */
static stn_status keep_overwritten(struct stni_walk *w)
{
    if (!w->call.op->impl.backward || !w->call.op->impl.saves)
        return STN_OK;
    uint32_t needs = stni_needs_grad(w->call.context, w->call.n_in, w->in);
    uint64_t saves = needs ? w->call.op->impl.saves(&w->call, needs) : 0;
    for (int i = 0; i < w->call.n_in; i++)
        if ((saves >> i & 1) && w->in[i] && w->in[i]->storage == w->out[0]->storage)
            STNI_TRY(copy_input(w, i));
    return STN_OK;
}

stn_status stni_in_place_begin(struct stni_walk *w)
{
    w->out[0] = w->in[0];
    STNI_TRY(stni_in_place_check(w));
    STNI_TRY(keep_overlapping(w));
    return keep_overwritten(w);
}
