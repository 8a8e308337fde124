/* Broadcasting and placement of pointwise ops (contract 2, "Pointwise"; contract 4). Metadata only. */
#include "ops/placement/pointwise.h"

#include "core/base/dtype.h"
#include "core/shard/spec.h"
#include "dispatch/schema.h"
#include "ops/placement/splits.h"
#include "ops/common/dims.h"

/* Dims are aligned at the last: dim d of the output is dim d - shift of an operand. */
static int shift_of(const stn_spec *in, int out_ndim)
{
    return out_ndim - in->layout.ndim;
}

/* Joins a shape; 0, and nothing changed, where it does not fit. */
static int broadcast_with(stn_meta *meta, const struct stni_layout *in)
{
    stn_meta joined = *meta;
    joined.ndim = meta->ndim > in->ndim ? meta->ndim : in->ndim;
    for (int d = 0; d < joined.ndim; d++) {
        int before = d - (joined.ndim - meta->ndim), own = d - (joined.ndim - in->ndim);
        int64_t a = before >= 0 ? meta->shape[before] : 1, b = own >= 0 ? in->shape[own] : 1;
        if (a != b && a != 1 && b != 1)
            return 0;
        joined.shape[d] = a == 1 ? b : a;
    }
    *meta = joined;
    return 1;
}

int stni_pointwise_misfit(int n, const stn_spec *const *in, stn_meta *meta)
{
    meta->ndim = 0;
    for (int i = 0; i < n; i++)
        if (in[i] && !broadcast_with(meta, &in[i]->layout))
            return i;
    return -1;
}

stn_status stni_pointwise_broadcast(const stn_op_call *call, int n, stn_meta *meta)
{
    char got[STNI_SHAPE_TEXT], before[STNI_SHAPE_TEXT];
    int i = stni_pointwise_misfit(n, call->in_spec, meta);
    if (i < 0)
        return STN_OK;
    const struct stni_layout *in = &call->in_spec[i]->layout;
    return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got shape %s, wanted one that broadcasts with %s",
                       stni_input_name(stn_op_descriptor(call->op), i).text, stni_shape_text(in->ndim, in->shape, got),
                       stni_shape_text(meta->ndim, meta->shape, before));
}

struct placing {
    int n;
    const stn_spec *const *in; /* NULL: absent */
    const uint8_t *linear;
    struct stni_layout out;
    uint8_t partial[STN_MAX_MESH_NDIM]; /* per axis: the operands that are (or become) Partial(sum) there; the output is, where any is */
};

/* Whether the operand has output dim `d` in full: else it is broadcast along it. */
static int has_dim(const struct placing *p, const stn_spec *in, int d)
{
    int at = d - shift_of(in, p->out.ndim);
    return at >= 0 && in->layout.shape[at] == p->out.shape[d];
}

/* The output dim that `axis` cuts in the operand, -1 where there is none. */
static int shard_dim(const struct placing *p, const stn_spec *in, int axis)
{
    stn_placement placement = in->layout.placement[axis];
    if (placement.kind != STN_PLACE_SHARD)
        return -1;
    int d = placement.dim + shift_of(in, p->out.ndim);
    return has_dim(p, in, d) ? d : -1;
}

static int is_partial(const stn_spec *in, int axis)
{
    return in->layout.placement[axis].kind == STN_PLACE_PARTIAL;
}

static int is_partial_sum(const stn_spec *in, int axis)
{
    return is_partial(in, axis) && in->layout.placement[axis].op == STN_SUM;
}

/* Whether converting each addend is the same as converting the sum: no rounding and no "or". */
static int cast_is_linear(stn_dtype from, stn_dtype to)
{
    static const uint8_t bits[STN_DTYPE_COUNT] = {[STN_DTYPE_F32] = 24, [STN_DTYPE_F64] = 53, [STN_DTYPE_BF16] = 8,
                                                  [STN_DTYPE_F16] = 11, [STN_DTYPE_C64] = 24, [STN_DTYPE_C128] = 53};
    if (from == to)
        return 1;
    /* bf16 has a larger range than f16. */
    return bits[from] > 0 && bits[from] <= bits[to] && to != STN_DTYPE_F16;
}

/* Of the operands in `mask` those count that are Partial: one that becomes so has each element on one rank, and zero
 * stays zero. */
static int casts_are_linear(const struct placing *p, unsigned mask, int axis)
{
    for (int i = 0; i < p->n; i++)
        if ((mask >> i & 1) && is_partial(p->in[i], axis) && !cast_is_linear(p->in[i]->layout.dtype, p->out.dtype))
            return 0;
    return 1;
}

/* The operands that stay Partial(sum) on `axis`, 0 where none may. */
static unsigned kept_partial(const struct placing *p, int axis)
{
    unsigned pending = 0;
    for (int i = 0; i < p->n; i++) {
        if (!p->in[i])
            continue;
        if (is_partial_sum(p->in[i], axis))
            pending |= 1u << i;
        else if (is_partial(p->in[i], axis) || shard_dim(p, p->in[i], axis) >= 0)
            return 0;
    }
    for (int m = 0; pending && m < STNI_POINTWISE_MASKS; m++)
        if (p->linear[m] == pending)
            return casts_are_linear(p, pending, axis) ? pending : 0;
    return 0;
}

static stn_placement common_placement(const struct placing *p, int axis)
{
    int best = -1;
    for (int i = 0; i < p->n; i++)
        if (p->in[i] && shard_dim(p, p->in[i], axis) >= 0 && (best < 0 || p->in[i]->numel > p->in[best]->numel))
            best = i;
    return best < 0 ? stn_replicate() : stn_shard(shard_dim(p, p->in[best], axis));
}

/* Copies the cut of output dim `d` from the largest operand that has the dim in full and sharded by the same axes. */
static void copy_split(struct placing *p, int d)
{
    const stn_spec *best = NULL;
    for (int i = 0; i < p->n; i++) {
        const stn_spec *in = p->in[i];
        if (in && has_dim(p, in, d) && stni_splits_match(&p->out, d, &in->layout, d - shift_of(in, p->out.ndim)) &&
            (!best || in->numel > best->numel))
            best = in;
    }
    if (best)
        stni_splits_take(&p->out, d, &best->layout, d - shift_of(best, p->out.ndim), 1);
}

static int is_full_size(const struct placing *p, const stn_spec *in)
{
    for (int d = 0; d < p->out.ndim; d++)
        if (p->out.shape[d] != 1 && !has_dim(p, in, d))
            return 0;
    return 1;
}

static void copy_memory_order(struct placing *p)
{
    for (int i = 0; i < p->n; i++) {
        const stn_spec *in = p->in[i];
        if (!in || !is_full_size(p, in))
            continue;
        int shift = shift_of(in, p->out.ndim);
        for (int k = 0; k < p->out.ndim; k++)
            p->out.memory_order[k] = (uint8_t)(k < shift ? k : in->layout.memory_order[k - shift] + shift);
        return;
    }
}

static void place_output(struct placing *p)
{
    int axes = p->out.mesh ? p->out.mesh->ndim : 0;
    for (int a = 0; a < axes; a++) {
        p->partial[a] = (uint8_t)kept_partial(p, a);
        p->out.placement[a] = p->partial[a] ? stn_partial(STN_SUM) : common_placement(p, a);
    }
    for (int d = 0; d < p->out.ndim; d++)
        copy_split(p, d);
    copy_memory_order(p);
}

/* The first set of operands, all present, that contains the changed one and in which the op is linear. */
static unsigned mask_in_place(const struct placing *p, int axis)
{
    unsigned present = 0;
    for (int i = 0; i < p->n; i++)
        present |= p->in[i] ? 1u << i : 0;
    for (int m = 0; m < STNI_POINTWISE_MASKS; m++)
        if ((p->linear[m] & 1) && !(p->linear[m] & ~present) && casts_are_linear(p, p->linear[m], axis))
            return p->linear[m];
    return 0;
}

static stn_status place_in_place(const stn_op_call *call, struct placing *p)
{
    p->out = p->in[0]->layout;
    int axes = p->out.mesh ? p->out.mesh->ndim : 0;
    for (int a = 0; a < axes; a++) {
        if (!is_partial(p->in[0], a))
            continue;
        p->partial[a] = is_partial_sum(p->in[0], a) ? (uint8_t)mask_in_place(p, a) : 0;
        if (!p->partial[a])
            return stn_op_fail(call, STN_ERR_PARTIAL,
                               "'%s' has a reduction pending on mesh axis '%s', and this changes it in place: "
                               "wanted a reduced one",
                               stn_op_descriptor(call->op)->inputs[0].name, p->out.mesh->names[a]);
    }
    return STN_OK;
}

/* Where operand `i` has to be for the output's layout. */
static stn_status place_operand(stn_op_call *call, const struct placing *p, int i)
{
    struct stni_layout want = p->in[i]->layout;
    int axes = want.mesh ? want.mesh->ndim : 0, shift = shift_of(p->in[i], p->out.ndim);
    for (int a = 0; a < axes; a++) {
        stn_placement out = p->out.placement[a];
        want.axis_order[a] = p->out.axis_order[a];
        want.placement[a] = stn_replicate();
        if (p->partial[a] >> i & 1)
            want.placement[a] = stn_partial(STN_SUM);
        else if (out.kind == STN_PLACE_SHARD && has_dim(p, p->in[i], out.dim))
            want.placement[a] = stn_shard(out.dim - shift);
    }
    for (int d = 0; d < want.ndim; d++)
        want.split[d] = has_dim(p, p->in[i], d + shift) ? p->out.split[d + shift] : NULL;
    return stni_spec_intern(call->context, &want, &call->want[i]);
}

stn_status stni_pointwise_place(stn_op_call *call, int n, const uint8_t linear[STNI_POINTWISE_MASKS])
{
    const stn_meta *meta = &call->out_meta[0];
    struct placing p = {.n = n, .in = call->in_spec, .linear = linear};
    const stn_spec *first = NULL;
    for (int i = 0; i < n && !first; i++)
        first = call->in_spec[i];
    if (stn_op_descriptor(call->op)->flags & STN_OP_IN_PLACE) {
        STNI_TRY(place_in_place(call, &p));
    } else {
        stni_layout_init(&p.out, first->layout.mesh, meta->dtype, meta->ndim, meta->shape);
        place_output(&p);
        STNI_TRY(stni_layout_balance(call->context, &p.out));
    }
    for (int i = 0; i < n; i++)
        if (p.in[i])
            STNI_TRY(place_operand(call, &p, i));
    return stni_spec_intern(call->context, &p.out, &call->out_spec[0]);
}
