/* dist_all_reduce: a reduction over ranks of local tensors, on every one of them. */
#include "ops/dist/all_reduction.h"
#include "ops/dist/collective.h"

#include <stddef.h>

stn_tensor *stn_dist_all_reduce(stn_tensor *input, const stn_mesh *mesh, stn_reduce_op op,
                                stn_grad_convention convention)
{
    const struct stni_dist_attrs attrs = {.op = op, .convention = convention};
    return stni_dist_call(STNI_OP_dist_all_reduce, input, mesh, &attrs, 0, NULL);
}

static stn_status apply(struct stni_dist *d)
{
    const struct stni_all_reduction_attrs attrs = {d->mesh->id, d->attrs->op, d->attrs->convention};
    d->call->out[0] = stni_call(STNI_OP_dist_all_reduction, 1, d->call->in, &attrs);
    return stn_context_status(d->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"op", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, op), stni_dist_op_names},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};

static const struct stni_dist_page page = {.plan = stni_dist_op, .apply = apply};

static const stn_op_impl impl = {.compose = stni_dist_compose};

const stn_op_desc stni_op_dist_all_reduce = {
    .size = sizeof(stn_op_desc),
    .name = "dist_all_reduce",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&page,
    .signature = "input, *, mesh=, op=, convention=",
};
