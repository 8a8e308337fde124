/* Collectives on whole tensors with a root: broadcast and reduce, each the adjoint of the other. */
#include "ops/dist/collective.h"

#include <stddef.h>

stn_tensor *stn_dist_broadcast(stn_tensor *input, const stn_mesh *mesh, int root, stn_grad_convention convention)
{
    const struct stni_dist_attrs attrs = {.root = root, .convention = convention};
    return stni_dist_call(STNI_OP_dist_broadcast, input, mesh, &attrs, 0, NULL);
}

stn_tensor *stn_dist_reduce(stn_tensor *input, const stn_mesh *mesh, stn_reduce_op op, int root,
                            stn_grad_convention convention)
{
    const struct stni_dist_attrs attrs = {.root = root, .op = op, .convention = convention};
    return stni_dist_call(STNI_OP_dist_reduce, input, mesh, &attrs, 0, NULL);
}

static stn_status plan_broadcast(struct stni_dist *d)
{
    int root;
    stni_dist_set_kind(d, STNI_ROUTE_SPREADS);
    STNI_TRY(stni_dist_root(d, &root));
    for (int r = 0; r < d->p && d->me == root; r++)
        STNI_TRY(stni_dist_send(d, r, 0, d->n));
    return stni_dist_receive(d, root, 0, d->n);
}

static stn_status plan_reduce(struct stni_dist *d)
{
    int root;
    stni_dist_set_kind(d, STNI_ROUTE_SUMS);
    STNI_TRY(stni_dist_op(d));
    STNI_TRY(stni_dist_root(d, &root));
    for (int r = 0; r < d->p && d->me == root; r++)
        STNI_TRY(stni_dist_receive(d, r, 0, d->n));
    return stni_dist_send(d, root, 0, d->n);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema broadcast_attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"root", STN_ATTR_INT, offsetof(struct stni_dist_attrs, root), NULL},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};
static const stn_attr_schema reduce_attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"op", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, op), stni_dist_op_names},
    {"root", STN_ATTR_INT, offsetof(struct stni_dist_attrs, root), NULL},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};

static const struct stni_dist_page broadcast_page = {.plan = plan_broadcast,
                                                     .native = STNI_NATIVE_BROADCAST,
                                                     .meets = STNI_ROUTE_MEETS_BACK},
                                   reduce_page = {
                                       .plan = plan_reduce, .native = STNI_NATIVE_REDUCE, .meets = STNI_ROUTE_MEETS};

static const stn_op_impl impl = {.compose = stni_dist_compose};

const stn_op_desc stni_op_dist_broadcast = {
    .size = sizeof(stn_op_desc),
    .name = "dist_broadcast",
    STN_INPUTS(inputs),
    STN_ATTRS(broadcast_attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&broadcast_page,
};

const stn_op_desc stni_op_dist_reduce = {
    .size = sizeof(stn_op_desc),
    .name = "dist_reduce",
    STN_INPUTS(inputs),
    STN_ATTRS(reduce_attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&reduce_page,
};
