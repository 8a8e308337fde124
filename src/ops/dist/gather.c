/* Collectives that join the ranks' parts along a dim, or cut a tensor into them: all_gather, gather, reduce_scatter,
 * scatter. */
#include "ops/dist/collective.h"

#include <stddef.h>

stn_tensor *stn_dist_all_gather(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes,
                                stn_grad_convention convention)
{
    const struct stni_dist_attrs attrs = {.dim = dim, .convention = convention};
    const struct stni_dist_list list = {sizes, mesh ? mesh->size : 0};
    return stni_dist_call(STNI_OP_dist_all_gather, input, mesh, &attrs, 1, &list);
}

stn_tensor *stn_dist_gather(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes, int root,
                            stn_grad_convention convention)
{
    const struct stni_dist_attrs attrs = {.dim = dim, .root = root, .convention = convention};
    const struct stni_dist_list list = {sizes, mesh ? mesh->size : 0};
    return stni_dist_call(STNI_OP_dist_gather, input, mesh, &attrs, 1, &list);
}

stn_tensor *stn_dist_reduce_scatter(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes,
                                    stn_reduce_op op, stn_grad_convention convention)
{
    const struct stni_dist_attrs attrs = {.dim = dim, .op = op, .convention = convention};
    const struct stni_dist_list list = {sizes, mesh ? mesh->size : 0};
    return stni_dist_call(STNI_OP_dist_reduce_scatter, input, mesh, &attrs, 1, &list);
}

stn_tensor *stn_dist_scatter(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes, int root,
                             stn_grad_convention convention)
{
    const struct stni_dist_attrs attrs = {.dim = dim, .root = root, .convention = convention};
    const struct stni_dist_list list = {sizes, mesh ? mesh->size : 0};
    return stni_dist_call(STNI_OP_dist_scatter, input, mesh, &attrs, 1, &list);
}

static int64_t size_of(const int64_t *offsets, int r)
{
    return offsets[r + 1] - offsets[r];
}

/* This rank's part is as long as the list says. */
static stn_status check_part(const struct stni_dist *d, const int64_t *offsets)
{
    if (d->n == size_of(offsets, d->me))
        return STN_OK;
    return stn_op_fail(d->call, STN_ERR_SHAPE, "input has %lld elements along dim %d, wanted sizes[%d], which is %lld",
                       (long long)d->n, d->dim, d->me, (long long)size_of(offsets, d->me));
}

/* The parts make up this rank's whole. */
static stn_status check_whole(const struct stni_dist *d, const int64_t *offsets)
{
    if (d->n == offsets[d->p])
        return STN_OK;
    return stn_op_fail(d->call, STN_ERR_SHAPE,
                       "input has %lld elements along dim %d, wanted the sum of sizes, which is %lld", (long long)d->n,
                       d->dim, (long long)offsets[d->p]);
}

static stn_status send_whole(struct stni_dist *d)
{
    for (int r = 0; r < d->p; r++)
        STNI_TRY(stni_dist_send(d, r, 0, d->n));
    return STN_OK;
}

static stn_status send_parts(struct stni_dist *d, const int64_t *offsets)
{
    for (int r = 0; r < d->p; r++)
        STNI_TRY(stni_dist_send(d, r, offsets[r], size_of(offsets, r)));
    return STN_OK;
}

static stn_status receive_parts(struct stni_dist *d, const int64_t *offsets)
{
    d->length = offsets[d->p];
    for (int r = 0; r < d->p; r++)
        STNI_TRY(stni_dist_receive(d, r, offsets[r], size_of(offsets, r)));
    return STN_OK;
}

static stn_status plan_all_gather(struct stni_dist *d)
{
    const int64_t *offsets;
    stni_dist_set_kind(d, STNI_ROUTE_SPREADS);
    STNI_TRY(stni_dist_same_sizes(d, 0, 0, &offsets));
    STNI_TRY(check_part(d, offsets));
    STNI_TRY(send_whole(d));
    return receive_parts(d, offsets);
}

static stn_status plan_gather(struct stni_dist *d)
{
    const int64_t *offsets;
    int root;
    STNI_TRY(stni_dist_root(d, &root));
    STNI_TRY(stni_dist_same_sizes(d, 0, 0, &offsets));
    STNI_TRY(check_part(d, offsets));
    STNI_TRY(stni_dist_send(d, root, 0, d->n));
    d->length = 0;
    return d->me == root ? receive_parts(d, offsets) : STN_OK;
}

static stn_status plan_reduce_scatter(struct stni_dist *d)
{
    const int64_t *offsets;
    stni_dist_set_kind(d, STNI_ROUTE_SUMS);
    STNI_TRY(stni_dist_op(d));
    STNI_TRY(stni_dist_same_sizes(d, 0, 1, &offsets));
    STNI_TRY(check_whole(d, offsets));
    STNI_TRY(send_parts(d, offsets));
    d->length = size_of(offsets, d->me);
    for (int r = 0; r < d->p; r++)
        STNI_TRY(stni_dist_receive(d, r, 0, d->length));
    return STN_OK;
}

static stn_status plan_scatter(struct stni_dist *d)
{
    const int64_t *offsets;
    int root;
    STNI_TRY(stni_dist_root(d, &root));
    STNI_TRY(stni_dist_same_sizes(d, 0, 1, &offsets));
    if (d->me == root) {
        STNI_TRY(check_whole(d, offsets));
        STNI_TRY(send_parts(d, offsets));
    }
    d->length = size_of(offsets, d->me);
    return stni_dist_receive(d, root, 0, d->length);
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "sizes", .optional = 1}};

static const stn_attr_schema dim_attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct stni_dist_attrs, dim), NULL},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};
static const stn_attr_schema root_attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct stni_dist_attrs, dim), NULL},
    {"root", STN_ATTR_INT, offsetof(struct stni_dist_attrs, root), NULL},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};
static const stn_attr_schema op_attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct stni_dist_attrs, dim), NULL},
    {"op", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, op), stni_dist_op_names},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};

static const struct stni_dist_page all_gather_page = {.plan = plan_all_gather,
                                                      .native = STNI_NATIVE_ALL_GATHER,
                                                      .along_dim = 1,
                                                      .meets = STNI_ROUTE_MEETS_BACK,
                                                      .lists = {"sizes"}},
                                   gather_page = {.plan = plan_gather, .along_dim = 1, .lists = {"sizes"}},
                                   reduce_scatter_page = {.plan = plan_reduce_scatter,
                                                          .native = STNI_NATIVE_REDUCE_SCATTER,
                                                          .along_dim = 1,
                                                          .meets = STNI_ROUTE_MEETS,
                                                          .lists = {"sizes"}},
                                   scatter_page = {.plan = plan_scatter, .along_dim = 1, .lists = {"sizes"}};

static const stn_op_impl impl = {.compose = stni_dist_compose};

const stn_op_desc stni_op_dist_all_gather = {
    .size = sizeof(stn_op_desc),
    .name = "dist_all_gather",
    STN_INPUTS(inputs),
    STN_ATTRS(dim_attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&all_gather_page,
};

const stn_op_desc stni_op_dist_gather = {
    .size = sizeof(stn_op_desc),
    .name = "dist_gather",
    STN_INPUTS(inputs),
    STN_ATTRS(root_attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&gather_page,
};

const stn_op_desc stni_op_dist_reduce_scatter = {
    .size = sizeof(stn_op_desc),
    .name = "dist_reduce_scatter",
    STN_INPUTS(inputs),
    STN_ATTRS(op_attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&reduce_scatter_page,
};

const stn_op_desc stni_op_dist_scatter = {
    .size = sizeof(stn_op_desc),
    .name = "dist_scatter",
    STN_INPUTS(inputs),
    STN_ATTRS(root_attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&scatter_page,
};
