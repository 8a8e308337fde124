#include "dispatch/in_place.h"

#include "autograd/node.h"
#include "core/box/box.h"
#include "core/tensor/tensor.h"
#include "dispatch/schema.h"

/* A tensor that others alias is not changed in place: whether they would see it depends on layouts. */
static stn_status check_in_place(const struct stni_walk *w)
{
    stn_context *context = w->call.context;
    const stn_tensor *t = w->in[0];
    const char *why = NULL;
    if (t->flags & STNI_TENSOR_VIEW)
        why = "is a view";
    else if (atomic_load_explicit(&t->storage->views, memory_order_relaxed) > 0)
        why = "has views";
    else if (t->leaf && (t->flags & STNI_TENSOR_REQUIRES_GRAD) && stn_grad_enabled(context))
        why = "is a leaf that requires grad while grad mode is on";
    return why ? stni_fail(context, STN_ERR_STATE, "%s: '%s' %s and cannot be changed in place", w->desc->name,
                           stni_input_name(w->desc, 0), why)
               : STN_OK;
}

/* Puts a copy in an input's place: the same logical value in memory of its own. */
static stn_status copy_input(struct stni_walk *w, int i)
{
    stn_tensor *in = w->in[i], *copy;
    stn_box from, to;
    STNI_TRY(stni_tensor_create(w->call.context, in->spec, &copy));
    copy->flags |= in->flags & STNI_TENSOR_REQUIRES_GRAD;
    stni_share_autograd(in, copy);
    stni_tensor_box(in, &from);
    stni_tensor_box(copy, &to);
    if (w->moved >> i & 1)
        stni_tensor_drop(&w->in[i]);
    w->in[i] = copy;
    w->moved |= 1u << i;
    return stni_box_copy(w->call.context->queue, &to, &from, stn_dtype_size(copy->spec->layout.dtype));
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
    STNI_TRY(check_in_place(w));
    return keep_overwritten(w);
}
