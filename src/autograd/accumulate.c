/* Adding cotangents that arrive in different layouts (contract 15). */
#include "autograd/accumulate.h"

#include "autograd/parts.h"
#include "core/redistribute/redistribute.h"

#include <shardtensor/ops.h>

static int same_placement(stn_placement a, stn_placement b)
{
    return a.kind == b.kind && a.dim == b.dim && a.op == b.op;
}

/* A placement that both cotangents have may stay only if they also split the dim alike. */
static int shared(const stn_spec *a, const stn_spec *b, int axis)
{
    stn_placement p = a->layout.placement[axis];
    if (!same_placement(p, b->layout.placement[axis]))
        return 0;
    return p.kind != STN_PLACE_SHARD || a->layout.split[p.dim] == b->layout.split[p.dim];
}

stn_status stni_cotangent_spec(const stn_spec *forward, const stn_spec *a, const stn_spec *b, const stn_spec **out)
{
    struct stni_layout layout = forward->layout;
    const stn_mesh *mesh = layout.mesh;
    layout.dtype = a->layout.dtype;
    for (int axis = 0; mesh && axis < mesh->ndim; axis++) {
        stn_placement p = layout.placement[axis];
        if (p.kind == STN_PLACE_SHARD)
            continue;
        if (p.kind == STN_PLACE_PARTIAL) {
            layout.placement[axis] = stn_replicate();
        } else if (!shared(a, b, axis)) {
            layout.placement[axis] = stn_partial(STN_SUM);
        } else {
            p = layout.placement[axis] = a->layout.placement[axis];
            if (p.kind == STN_PLACE_SHARD)
                layout.split[p.dim] = a->layout.split[p.dim];
        }
    }
    STNI_TRY(stni_layout_balance(forward->context, &layout));
    return stni_spec_intern(forward->context, &layout, out);
}

static stn_status add(const stn_spec *spec, stn_tensor *a, stn_tensor *b, stn_tensor **out)
{
    stn_tensor *left = NULL, *right = NULL;
    stn_status status;
    STNI_TRY_GOTO(stni_redistribute(a, spec, &left), out);
    STNI_TRY_GOTO(stni_redistribute(b, spec, &right), out);
    stn_tensor *sum = stn_add(left, right);
    status = a->context->error.status;
    if (status == STN_OK)
        *out = stn_tensor_retain(sum); /* the scope that backward has open owns the other reference */
out:
    stni_tensor_drop(&left);
    stni_tensor_drop(&right);
    return status;
}

stn_status stni_cotangent_add(const stn_spec *forward, stn_tensor **slot, stn_tensor *cotangent)
{
    stn_tensor *sum = NULL;
    const stn_spec *spec;
    if (!*slot) {
        *slot = stn_tensor_retain(cotangent);
        return STN_OK;
    }
    STNI_TRY(stni_cotangent_close(*slot));
    spec = cotangent->spec;
    if ((*slot)->spec != spec)
        STNI_TRY(stni_cotangent_spec(forward, (*slot)->spec, spec, &spec));
    STNI_TRY(add(spec, *slot, cotangent, &sum));
    stni_tensor_drop(slot);
    *slot = sum;
    return STN_OK;
}
