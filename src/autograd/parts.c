/* A sum of parts is a tensor that nobody but the slot of its cotangent has until it is closed, so that it may be
 * written to. What is written lies side by side along one dim as long as parts come in the order of their places, which
 * those of a split do; the rest is filled once, when no such part can follow. */
#include "autograd/parts.h"

#include "autograd/accumulate.h"
#include "autograd/pass.h"
#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"
#include "core/tensor/kept.h"
#include "core/tensor/scope.h"

#include <shardtensor/ops.h>

/* Kept by the tensor. */
struct written {
    struct stni_kept kept;
    int dim;
    int64_t begin, end; /* of the dim; everything else counts as zero */
};

static void destroy(struct stni_kept *kept)
{
    stni_free(kept);
}

/* NULL: no sum of parts, or one that is closed. */
static struct written *written_of(const stn_tensor *sum)
{
    const int is_open = sum && (sum->flags & STNI_TENSOR_KEEPS) && sum->kept->destroy == destroy;
    return is_open ? (struct written *)sum->kept : NULL;
}

static stn_status fill(stn_tensor *sum, int dim, int64_t begin, int64_t end)
{
    if (begin < end)
        stn_fill_(stn_slice(sum, dim, begin, end, 1), 0);
    return sum->context->error.status;
}

static stn_status fill_rest(stn_tensor *sum, struct written *w)
{
    const int64_t size = sum->spec->layout.shape[w->dim];
    STNI_TRY(fill(sum, w->dim, 0, w->begin));
    STNI_TRY(fill(sum, w->dim, w->end, size));
    w->begin = 0;
    w->end = size;
    return STN_OK;
}

stn_status stni_cotangent_close(stn_tensor *sum)
{
    struct written *w = written_of(sum);
    if (!w)
        return STN_OK;
    stni_scope_enter(sum->context);
    const stn_status status = fill_rest(sum, w);
    stni_scope_leave(sum->context);
    stni_tensor_drop_kept(sum);
    return status;
}

/* Nothing is written yet. */
static stn_status open(const stn_spec *spec, const struct stni_cotangent_part *part, stn_tensor **out)
{
    stn_context *context = spec->context;
    struct written *w = stni_malloc(sizeof *w);
    if (!w)
        return stni_fail_memory(context, "a sum of parts", sizeof *w);
    *w = (struct written){{1, destroy}, part->dim, part->start, part->start};
    const stn_status status = stni_tensor_create(context, spec, out);
    if (status == STN_OK)
        stni_tensor_keep(*out, &w->kept);
    else
        stni_free(w);
    return status;
}

/* Whether a part goes on where the written elements end or begin, and what is written then. */
static int continues(struct written *w, const struct stni_cotangent_part *part)
{
    const int64_t end = part->start + part->length;
    if (part->step != 1 || part->dim != w->dim)
        return 0;
    if (w->begin == w->end)
        w->begin = w->end = part->start;
    if (w->end == part->start)
        w->end = end;
    else if (w->begin == end)
        w->begin = part->start;
    else
        return 0;
    return 1;
}

/* Whatever the order of dims in memory. */
static stn_status copy(stn_tensor *to, stn_tensor *from)
{
    const int moves = !stni_spec_same_chunks(from->spec, to->spec);
    stn_tensor *there;
    STNI_TRY(stni_redistribute(from, moves ? to->spec : from->spec, &there));
    const stn_status status = stni_tensor_copy_elements(to, there);
    stni_tensor_drop(&there);
    return status;
}

static stn_status write(stn_tensor *sum, const struct stni_cotangent_part *part, stn_tensor *grad)
{
    struct written *w = written_of(sum);
    const int is_new = continues(w, part);
    if (!is_new)
        STNI_TRY(fill_rest(sum, w));
    stn_tensor *at = stn_slice(sum, part->dim, part->start, part->start + part->length * part->step, part->step);
    STNI_TRY(sum->context->error.status);
    if (is_new)
        return copy(at, grad);
    stn_add_(at, grad, 1);
    return sum->context->error.status;
}

/* Whether the sum stays in its layout, as it is when the whole is added (accumulate.h): then the part may be brought
 * there, and no more. */
static stn_status fits(const stn_spec *forward, const stn_tensor *sum, const struct stni_cotangent_part *part, int *yes)
{
    const stn_spec *spec = part->whole;
    if (sum->spec != spec)
        STNI_TRY(stni_cotangent_spec(forward, sum->spec, spec, &spec));
    *yes = sum->spec == spec && spec->layout.dtype == part->whole->layout.dtype;
    return STN_OK;
}

/* A sum of its own, of what is in the slot. */
static stn_status take_over(stn_tensor **slot, const struct stni_cotangent_part *part)
{
    stn_tensor *own = NULL;
    STNI_TRY(open((*slot)->spec, part, &own));
    written_of(own)->begin = 0;
    written_of(own)->end = own->spec->layout.shape[part->dim];
    const stn_status status = copy(own, *slot);
    stni_tensor_drop(slot);
    *slot = own;
    return status;
}

/* Otherwise it is added as a whole. */
static stn_status add_apart(const stn_spec *forward, stn_tensor **slot, const struct stni_cotangent_part *part,
                            stn_tensor *grad)
{
    stn_tensor *own = NULL;
    STNI_TRY(open(part->whole, part, &own));
    stn_status status = write(own, part, grad);
    if (status == STN_OK)
        status = stni_cotangent_close(own);
    if (status == STN_OK)
        status = stni_cotangent_add(forward, slot, own);
    stni_tensor_drop(&own);
    return status;
}

stn_status stni_cotangent_add_part(const stn_backward_call *call, const struct stni_cotangent_part *part,
                                   stn_tensor *grad)
{
    const struct stni_pass *pass = call->context->tape->running;
    const stn_spec *forward = pass->node->in_spec[0];
    stn_tensor **slot = stni_pass_slot(pass, &pass->node->edges[0], &forward);
    int in_place = 1;
    if (!slot)
        return STN_OK;
    if (*slot)
        STNI_TRY(fits(forward, *slot, part, &in_place));
    if (!in_place)
        return add_apart(forward, slot, part, grad);
    if (!*slot)
        STNI_TRY(open(part->whole, part, slot));
    else if (!written_of(*slot))
        STNI_TRY(take_over(slot, part));
    return write(*slot, part, grad);
}
