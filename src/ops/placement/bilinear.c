#include "ops/placement/bilinear.h"

#include "core/shard/spec.h"

#include <string.h>

/* What a mesh axis does to the product, if no label: */
enum { NOTHING = -1, PARTIAL_0 = -2, PARTIAL_1 = -3 };

/* How a label is sharded: by which axes, major to minor, and where, for a dim of split->n elements (NULL: balanced). */
struct cut {
    int n_axes, axes[STN_MAX_MESH_NDIM];
    const struct stni_split *split;
};

struct placing {
    const stn_op_call *call;
    const struct stni_bilinear *rule;
    const stn_mesh *mesh;
    int larger; /* operand 0 or 1 */
    int8_t choice[STN_MAX_MESH_NDIM];
    struct cut cut[STNI_MAX_LABELS];
    uint8_t axis_order[STN_MAX_MESH_NDIM];
};

static int choice_of(const struct placing *p, int operand, int axis)
{
    stn_placement placement = p->call->in_spec[operand]->layout.placement[axis];
    if (placement.kind == STN_PLACE_SHARD)
        return p->rule->in[operand].of[placement.dim];
    if (placement.kind == STN_PLACE_PARTIAL && placement.op == STN_SUM)
        return operand == 0 ? PARTIAL_0 : PARTIAL_1;
    return NOTHING;
}

static void choose(struct placing *p)
{
    for (int axis = 0; axis < p->mesh->ndim; axis++) {
        int a = choice_of(p, p->larger, axis), b = choice_of(p, 1 - p->larger, axis);
        p->choice[axis] = (int8_t)(a != NOTHING ? a : b);
    }
}

static int dim_of(const struct stni_labels *labels, int ndim, int label)
{
    for (int d = 0; d < ndim; d++)
        if (labels->of[d] == label)
            return d;
    return -1;
}

static unsigned mask_of(const int *axes, int n)
{
    unsigned mask = 0;
    for (int i = 0; i < n; i++)
        mask |= 1u << axes[i];
    return mask;
}

/* Whether a split leaves each of a label's parts on one rank. */
static int keeps_parts(const struct stni_split *split, int64_t parts)
{
    if (parts == 0 || split->n <= parts)
        return 1;
    for (int i = 0; i < split->n_parts; i++)
        if (stni_split_offset(split, i) % (split->n / parts) != 0)
            return 0;
    return 1;
}

/* Copies the operand's cut of the label if it is by the chosen axes. */
static int copy_split(struct placing *p, int operand, int label)
{
    const struct stni_layout *layout = &p->call->in_spec[operand]->layout;
    struct cut *cut = &p->cut[label];
    int d = dim_of(&p->rule->in[operand], layout->ndim, label), axes[STN_MAX_MESH_NDIM];
    if (d < 0)
        return 0;
    int n = stni_layout_dim_axes(layout, d, axes);
    if (mask_of(axes, n) != mask_of(cut->axes, cut->n_axes) || !keeps_parts(layout->split[d], p->rule->parts[label]))
        return 0;
    memcpy(cut->axes, axes, sizeof axes);
    cut->split = layout->split[d];
    return 1;
}

/* Whole parts, balanced; its n is the number of parts. */
static stn_status cut_parts(struct placing *p, int label)
{
    struct cut *cut = &p->cut[label];
    int sizes[STN_MAX_MESH_NDIM];
    for (int i = 0; i < cut->n_axes; i++)
        sizes[i] = p->mesh->sizes[cut->axes[i]];
    return stni_split_balanced(p->call->context, p->rule->parts[label], cut->n_axes, sizes, &cut->split);
}

static stn_status find_cuts(struct placing *p)
{
    int at = 0;
    for (int label = 0; label < STNI_MAX_LABELS; label++) {
        struct cut *cut = &p->cut[label];
        for (int axis = 0; axis < p->mesh->ndim; axis++)
            if (p->choice[axis] == label)
                cut->axes[cut->n_axes++] = axis;
        if (cut->n_axes == 0)
            continue;
        int first = p->rule->leading >> label & 1 ? 0 : p->larger;
        if (!copy_split(p, first, label) && !copy_split(p, 1 - first, label) && p->rule->parts[label] > 0)
            STNI_TRY(cut_parts(p, label));
        for (int i = 0; i < cut->n_axes; i++)
            p->axis_order[at++] = (uint8_t)cut->axes[i];
    }
    for (int axis = 0; axis < p->mesh->ndim; axis++)
        if (p->choice[axis] < 0)
            p->axis_order[at++] = (uint8_t)axis;
    return STN_OK;
}

/* The split of a dim of n elements that carries the label; NULL stands for balanced. */
static stn_status split_dim(const struct placing *p, int label, int64_t n, const struct stni_split **out)
{
    const struct stni_split *split = p->cut[label].split;
    int64_t parts = p->rule->parts[label];
    if (split == NULL || split->n == n) {
        *out = split;
        return STN_OK;
    }
    if (parts == 0)
        return stni_split_scaled(p->call->context, split, n, out);
    STNI_TRY(stni_split_divided(p->call->context, split, split->n > parts ? split->n / parts : 1, &split));
    return stni_split_multiplied(p->call->context, split, n > parts ? n / parts : 1, out);
}

/* The layout of a tensor whose dims carry `labels`: Partial(sum) where `partial` says so, with bits for mesh axes. */
static stn_status place(const struct placing *p, struct stni_layout *layout, const struct stni_labels *labels,
                        unsigned partial, const stn_spec **out)
{
    memcpy(layout->axis_order, p->axis_order, sizeof layout->axis_order);
    memset(layout->split, 0, sizeof layout->split);
    for (int axis = 0; p->mesh != NULL && axis < p->mesh->ndim; axis++) {
        int label = p->choice[axis], d = label < 0 ? -1 : dim_of(labels, layout->ndim, label);
        layout->placement[axis] = partial >> axis & 1 ? stn_partial(STN_SUM) : d >= 0 ? stn_shard(d) : stn_replicate();
        if (d >= 0)
            STNI_TRY(split_dim(p, label, layout->shape[d], &layout->split[d]));
    }
    if (labels->memory_order != NULL)
        memcpy(layout->memory_order, labels->memory_order, sizeof layout->memory_order);
    return stni_spec_intern(p->call->context, layout, out);
}

/* The axes on which the result is Partial(sum): an operand is, or a label is summed over. */
static unsigned partial_axes(const struct placing *p)
{
    unsigned mask = 0;
    for (int axis = 0; p->mesh != NULL && axis < p->mesh->ndim; axis++)
        if (p->choice[axis] != NOTHING &&
            (p->choice[axis] < 0 || dim_of(&p->rule->out, STN_MAX_NDIM, p->choice[axis]) < 0))
            mask |= 1u << axis;
    return mask;
}

static unsigned operand_partial_axes(const struct placing *p, int operand)
{
    unsigned mask = 0;
    for (int axis = 0; p->mesh != NULL && axis < p->mesh->ndim; axis++)
        if (p->choice[axis] == (operand == 0 ? PARTIAL_0 : PARTIAL_1))
            mask |= 1u << axis;
    return mask;
}

stn_status stni_bilinear_place(stn_op_call *call, const struct stni_bilinear *rule)
{
    struct placing p = {.call = call, .rule = rule, .mesh = call->in_spec[0]->layout.mesh};
    p.larger = call->in_spec[1]->numel > call->in_spec[0]->numel;
    if (p.mesh != NULL) {
        choose(&p);
        STNI_TRY(find_cuts(&p));
    }
    for (int i = 0; i < 2; i++) {
        struct stni_layout layout = call->in_spec[i]->layout;
        STNI_TRY(place(&p, &layout, &rule->in[i], operand_partial_axes(&p, i), &call->want[i]));
    }
    unsigned partial = partial_axes(&p);
    if (rule->added != NULL && call->n_in > 2 && call->in_spec[2] != NULL) {
        struct stni_layout layout = call->in_spec[2]->layout;
        STNI_TRY(place(&p, &layout, rule->added, partial, &call->want[2]));
    }
    struct stni_layout layout;
    stni_layout_init(&layout, p.mesh, call->out_meta[0].dtype, call->out_meta[0].ndim, call->out_meta[0].shape);
    return place(&p, &layout, &rule->out, partial, &call->out_spec[0]);
}
