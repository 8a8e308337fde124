/* dist_halo: local tensors with margins that the neighbours along a mesh fill. Its adjoint sends margins back and
 * adds them. */
#include "ops/dist/halo_line.h"
#include "ops/dist/collective.h"

#include <stddef.h>

stn_tensor *stn_dist_halo(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes,
                          const stn_dist_margin *margin, stn_grad_convention convention)
{
    const int is_good = margin && margin->size == sizeof *margin;
    struct stni_dist_attrs attrs = {
        .dim = dim, .convention = convention, .below = -1}; /* of a bad margin: refused by the plan */
    if (is_good) {
        attrs.below = margin->below;
        attrs.above = margin->above;
        attrs.mode = margin->mode;
    }
    const struct stni_dist_list list = {sizes, mesh ? mesh->size : 0};
    return stni_dist_call(STNI_OP_dist_halo, input, mesh, &attrs, 1, &list);
}

static stn_status plan(struct stni_dist *d)
{
    const int64_t *offsets;
    stni_fact_add(&d->facts, "below", NULL, d->attrs->below);
    stni_fact_add(&d->facts, "above", NULL, d->attrs->above);
    stni_fact_add(&d->facts, "mode", NULL, d->attrs->mode);
    STNI_TRY(stni_dist_same_sizes(d, 0, 0, &offsets));
    if (d->n != offsets[d->me + 1] - offsets[d->me])
        return stn_op_fail(d->call, STN_ERR_SHAPE,
                           "input has %lld elements along dim %d, wanted sizes[%d], which is %lld", (long long)d->n,
                           d->dim, d->me, (long long)(offsets[d->me + 1] - offsets[d->me]));
    const struct stni_halo_line line = {d->context, offsets, d->p, d->me, d->attrs->below, d->attrs->above,
                                        (enum stni_boundary)d->attrs->mode};
    STNI_TRY(stni_halo_line_check(&line, stn_op_descriptor(d->call->op)->name));
    d->length = stni_halo_line_length(&line);
    return stni_halo_line_route(&line, &d->send, &d->receive);
}

static const char *const modes[] = {"zeros", "reflect", "replicate", "circular", NULL};
static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "sizes", .optional = 1}};
static const stn_attr_schema attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct stni_dist_attrs, dim), NULL},
    {"below", STN_ATTR_INT, offsetof(struct stni_dist_attrs, below), NULL},
    {"above", STN_ATTR_INT, offsetof(struct stni_dist_attrs, above), NULL},
    {"mode", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, mode), modes},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};

static const struct stni_dist_page page = {
    .plan = plan, .along_dim = 1, .meets = STNI_ROUTE_MEETS_BACK, .lists = {"sizes"}};

static const stn_op_impl impl = {.compose = stni_dist_compose};

const stn_op_desc stni_op_dist_halo = {
    .size = sizeof(stn_op_desc),
    .name = "dist_halo",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&page,
};
