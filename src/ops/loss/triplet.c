/* triplet_margin_loss: distances of rows, and how far one is beyond the other. */
#include "core/tensor/tensor.h"
#include "ops/loss/loss.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

enum { ANCHOR, POSITIVE, NEGATIVE };

struct triplet_attrs {
    int64_t reduction, swap;
    double margin, p, eps;
};

static const struct triplet_attrs defaults = {STN_REDUCE_MEAN, 0, 1, 2, 1e-6};

stn_tensor *stn_triplet_margin_loss(stn_tensor *anchor, stn_tensor *positive, stn_tensor *negative, double margin,
                                    double p, double eps, int swap, stn_loss_reduction reduction)
{
    const struct triplet_attrs attrs = {(int64_t)reduction, swap != 0, margin, p, eps};
    if ((unsigned)reduction > STN_REDUCE_SUM)
        return stni_call_fail(anchor, STN_ERR_ARGUMENT,
                              "triplet_margin_loss: 'reduction' got %d, wanted mean, none or sum", (int)reduction);
    return stni_call(STNI_OP_triplet_margin_loss, 3, (stn_tensor *[]){anchor, positive, negative}, &attrs);
}

/* The first `n` dims of two inputs broadcast. */
static stn_status check_pair(const stn_op_call *call, int i, int with, int n)
{
    const struct stni_layout *x = &call->in_spec[i]->layout, *y = &call->in_spec[with]->layout;
    const stn_input_schema *names = stn_op_descriptor(call->op)->inputs;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    for (int d = 0; d < n; d++)
        if (x->shape[d] != y->shape[d] && x->shape[d] != 1 && y->shape[d] != 1)
            return stn_op_fail(call, STN_ERR_SHAPE,
                               "'%s' got shape %s, wanted one that broadcasts with that of '%s', %s", names[i].name,
                               stni_shape_text(x->ndim, x->shape, got), names[with].name,
                               stni_shape_text(y->ndim, y->shape, wanted));
    return STN_OK;
}

static stn_status check(const stn_op_call *call)
{
    const int ndim = call->in_spec[ANCHOR]->layout.ndim;
    for (int i = 0; i < 3; i++) {
        const struct stni_layout *in = &call->in_spec[i]->layout;
        const char *name = stn_op_descriptor(call->op)->inputs[i].name;
        STNI_TRY(stni_check_floating(call, i));
        if (in->ndim != ndim || ndim == 0)
            return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got %d dims, wanted as many as 'anchor', at least 1", name,
                               in->ndim);
    }
    STNI_TRY(check_pair(call, POSITIVE, ANCHOR, ndim));
    STNI_TRY(check_pair(call, NEGATIVE, ANCHOR, ndim));
    /* Their distances meet, which have no last dim. */
    return check_pair(call, NEGATIVE, POSITIVE, ((const struct triplet_attrs *)call->attrs)->swap ? ndim : ndim - 1);
}

/* What several differences read is reduced once, before. Where all three are pending so are the two differences, which
 * are as few to reduce as two of the tensors. */
static void complete(const stn_op_call *call, stn_tensor **in)
{
    const struct triplet_attrs *attrs = call->attrs;
    int pending = 0;
    for (int i = 0; i < 3; i++)
        pending += call->in_spec[i]->partial_axes != 0;
    for (int i = 0; i < 3; i++)
        in[i] = attrs->swap || (i == ANCHOR && pending < 3) ? stni_call_complete(call->in[i]) : call->in[i];
}

static stn_tensor *distance(const stn_op_call *call, stn_tensor *a, stn_tensor *b)
{
    const struct triplet_attrs *attrs = call->attrs;
    const int last = -1;
    return stn_vector_norm(stn_add_number(stn_sub(a, b), attrs->eps), attrs->p, 1, &last, 0);
}

static stn_status triplet_margin_loss(stn_op_call *call)
{
    const struct triplet_attrs *attrs = call->attrs;
    stn_tensor *in[3];
    STNI_TRY(check(call));
    complete(call, in);
    stn_tensor *far = distance(call, in[ANCHOR], in[NEGATIVE]);
    if (attrs->swap)
        far = stn_minimum(far, distance(call, in[POSITIVE], in[NEGATIVE]));
    stn_tensor *near = distance(call, in[ANCHOR], in[POSITIVE]);
    stn_tensor *loss = stn_relu(stn_add_number(stn_sub(near, far), attrs->margin));
    call->out[0] = attrs->reduction == STN_REDUCE_NONE  ? loss
                   : attrs->reduction == STN_REDUCE_SUM ? stn_sum(loss, 0, NULL, 0)
                                                        : stn_mean(loss, 0, NULL, 0);
    return STN_OK;
}

static const stn_input_schema inputs[] = {
    [ANCHOR] = {.name = "anchor"}, [POSITIVE] = {.name = "positive"}, [NEGATIVE] = {.name = "negative"}};

static const stn_attr_schema attrs_schema[] = {
    {"margin", STN_ATTR_FLOAT, offsetof(struct triplet_attrs, margin), NULL},
    {"p", STN_ATTR_FLOAT, offsetof(struct triplet_attrs, p), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct triplet_attrs, eps), NULL},
    {"swap", STN_ATTR_BOOL, offsetof(struct triplet_attrs, swap), NULL},
    {"reduction", STN_ATTR_CHOICE, offsetof(struct triplet_attrs, reduction), stni_loss_reductions},
};

const stn_op_desc stni_op_triplet_margin_loss = {
    .size = sizeof(stn_op_desc),
    .name = "triplet_margin_loss",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct triplet_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = triplet_margin_loss},
    .signature = "anchor, positive, negative, margin=, p=, eps=, swap=, *, reduction=",
};
