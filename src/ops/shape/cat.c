/* cat: tensors one after the other along a dim.
 *
 * Layouts are aligned as those of pointwise ops are. Along a dim that is not sharded only local copies are made;
 * along a sharded dim every rank sends the elements that other ranks of the result own straight from its chunks, in
 * one exchange for all tensors. */
#include "core/context/context.h"
#include "core/base/clamp.h"
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"
#include "ops/common/call.h"
#include "ops/placement/splits.h"
#include "ops/common/dims.h"
#include "ops/common/promote.h"
#include "ops/exchange/remap.h"
#include "ops/common/sum_to.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

struct cat_attrs {
    int64_t dim;
};

stn_tensor *stn_cat(int n, stn_tensor *const *tensors, int dim)
{
    struct cat_attrs attrs = {dim};
    if (n < 1 || n > STN_MAX_INPUTS || !tensors)
        return stni_call_fail(n > 0 && tensors ? tensors[0] : NULL, STN_ERR_ARGUMENT, "cat: 'n' got %d, wanted 1 to %d",
                              n, STN_MAX_INPUTS);
    return stni_call(STNI_OP_cat, n, tensors, &attrs);
}

/* Tensors of shape (0) are passed over, whatever the others' dims. */
static int is_nothing(const stn_spec *spec)
{
    return spec->layout.ndim == 1 && spec->layout.shape[0] == 0;
}

static int counts(const stn_op_call *call, int i, int ndim)
{
    return call->in_spec[i]->layout.ndim == ndim || !is_nothing(call->in_spec[i]);
}

/* The first tensor that gives the shape. */
static const stn_spec *first_of(const stn_op_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (!is_nothing(call->in_spec[i]))
            return call->in_spec[i];
    return call->in_spec[0];
}

static stn_status check(stn_op_call *call)
{
    const struct cat_attrs *attrs = call->attrs;
    const struct stni_layout *first = &first_of(call)->layout;
    stn_meta *meta = &call->out_meta[0];
    int dim;
    if (first->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'tensor' got one without dims, wanted at least 1");
    STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim, first->ndim, &dim));
    meta->dtype = stni_promote(call->n_in, call->in_spec, NULL);
    meta->ndim = first->ndim;
    memcpy(meta->shape, first->shape, sizeof meta->shape);
    meta->shape[dim] = 0;
    for (int i = 0; i < call->n_in; i++) {
        const struct stni_layout *in = &call->in_spec[i]->layout;
        if (!counts(call, i, first->ndim))
            continue;
        int fits = in->ndim == first->ndim;
        for (int d = 0; fits && d < in->ndim; d++)
            fits = d == dim || in->shape[d] == first->shape[d];
        if (!fits) {
            char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
            return stn_op_fail(
                call, STN_ERR_SHAPE, "'tensor%d' got shape %s, wanted that of the others, %s, but for dim %d", i,
                stni_shape_text(in->ndim, in->shape, got), stni_shape_text(first->ndim, first->shape, wanted), dim);
        }
        if (__builtin_add_overflow(meta->shape[dim], in->shape[dim], &meta->shape[dim]))
            return stn_op_fail(call, STN_ERR_SHAPE, "the sizes along dim %d add up to more than 2^63 - 1", dim);
    }
    return STN_OK;
}

/* Whether a pending reduction stays: all tensors have it, and none is converted. */
static int stays_partial(const stn_op_call *call, int axis)
{
    stn_placement first = call->in_spec[0]->layout.placement[axis];
    for (int i = 0; i < call->n_in; i++) {
        stn_placement p = call->in_spec[i]->layout.placement[axis];
        if (p.kind != STN_PLACE_PARTIAL || p.op != first.op ||
            call->in_spec[i]->layout.dtype != call->out_meta[0].dtype)
            return 0;
    }
    return 1;
}

static stn_placement common_placement(const stn_op_call *call, int axis, int ndim)
{
    const stn_spec *best = NULL;
    for (int i = 0; i < call->n_in; i++) {
        const stn_spec *in = call->in_spec[i];
        if (counts(call, i, ndim) && in->layout.placement[axis].kind == STN_PLACE_SHARD &&
            (!best || in->numel > best->numel))
            best = in;
    }
    return best ? stn_shard(best->layout.placement[axis].dim) : stn_replicate();
}

/* Whether the same axes, in one order, cut a dim of both. */
static int is_cut_alike(const struct stni_layout *a, const struct stni_layout *b, int d)
{
    int of_a[STN_MAX_MESH_NDIM], of_b[STN_MAX_MESH_NDIM];
    const int n = stni_layout_dim_axes(a, d, of_a);
    return n > 0 && n == stni_layout_dim_axes(b, d, of_b) && memcmp(of_a, of_b, (size_t)n * sizeof *of_a) == 0;
}

/* Each rank's share of the dim that grows is what it has of all tensors that are cut like `best`: of two parts, one on
 * the first ranks and one on the last, no rank gets all. */
static stn_status joined_split(const stn_op_call *call, int dim, const struct stni_layout *best, int64_t n_out,
                               const struct stni_split **out)
{
    const struct stni_split *like = best->split[dim], *joined;
    size_t bytes = ((size_t)like->n_parts + 1) * sizeof(int64_t);
    int64_t *offsets = stni_malloc(bytes);
    if (!offsets)
        return stni_fail_memory(call->context, "cut of a cat", bytes);
    memset(offsets, 0, bytes);
    for (int i = 0; i < call->n_in; i++) {
        const struct stni_layout *in = &call->in_spec[i]->layout;
        for (int p = 0; counts(call, i, best->ndim) && is_cut_alike(in, best, dim) && p <= like->n_parts; p++)
            offsets[p] += stni_split_offset(in->split[dim], p);
    }
    stn_status status =
        stni_split_explicit(call->context, offsets[like->n_parts], like->n_levels, like->parts, offsets, &joined);
    stni_free(offsets);
    return status == STN_OK ? stni_split_scaled(call->context, joined, n_out, out) : status;
}

/* The cut of a dim is that of the largest tensor which has it sharded by the same axes. Along the dim that grows it
 * stays balanced, or is that of all together. */
static stn_status copy_split(const stn_op_call *call, int cat_dim, int d, struct stni_layout *out)
{
    const stn_spec *best = NULL;
    for (int i = 0; i < call->n_in; i++) {
        const stn_spec *in = call->in_spec[i];
        if (counts(call, i, out->ndim) && stni_splits_match(&in->layout, d, out, d) &&
            (!best || in->numel > best->numel))
            best = in;
    }
    if (!best)
        return STN_OK;
    stni_splits_take(out, d, &best->layout, d, 1);
    if (d != cat_dim)
        return STN_OK;
    return best->layout.split[d]->offsets
               ? joined_split(call, d, &best->layout, out->shape[d], &out->split[d])
               : stni_split_scaled(call->context, best->layout.split[d], out->shape[d], &out->split[d]);
}

/* The pieces of `out` as far as they lie in `n` elements from `begin` on: a tensor with this cut needs no further
 * exchange. */
static stn_status clipped_split(stn_context *context, const struct stni_split *out, int64_t begin, int64_t n,
                                const struct stni_split **in)
{
    size_t bytes = ((size_t)out->n_parts + 1) * sizeof(int64_t);
    int64_t *offsets = stni_malloc(bytes);
    if (!offsets)
        return stni_fail_memory(context, "cut of a cat", bytes);
    for (int i = 0; i <= out->n_parts; i++)
        offsets[i] = stni_clamp(stni_split_offset(out, i) - begin, 0, n);
    stn_status status = stni_split_explicit(context, n, out->n_levels, out->parts, offsets, in);
    stni_free(offsets);
    return status;
}

/* Where a tensor has to be: as the result, but along the dim that grows it keeps a cut of its own by the same axes. */
static stn_status place_tensor(stn_op_call *call, int i, int dim, int64_t begin, const struct stni_layout *out)
{
    const struct stni_layout *in = &call->in_spec[i]->layout;
    struct stni_layout want = *in;
    int wanted[STN_MAX_MESH_NDIM], n = stni_layout_dim_axes(out, dim, wanted);
    int keeps = is_cut_alike(in, out, dim);
    memcpy(want.placement, out->placement, sizeof want.placement);
    memcpy(want.axis_order, out->axis_order, sizeof want.axis_order);
    for (int d = 0; d < out->ndim; d++)
        if (d != dim || n == 0)
            want.split[d] = out->split[d];
    if (n > 0 && !keeps)
        STNI_TRY(clipped_split(call->context, out->split[dim], begin, in->shape[dim], &want.split[dim]));
    return stni_spec_intern(call->context, &want, &call->want[i]);
}

static int dim_of(const stn_op_call *call, int ndim)
{
    int dim = 0;
    stni_dim_wrap(call, "dim", ((const struct cat_attrs *)call->attrs)->dim, ndim, &dim);
    return dim;
}

static void make_map(const stn_spec *in, int dim, int64_t begin, struct stni_remap *map)
{
    stni_remap_init(map, in->layout.ndim, in->layout.shape);
    map->segment[dim][0].dst = begin;
}

static void copy_memory_order(const stn_op_call *call, struct stni_layout *out)
{
    const stn_spec *best = NULL;
    for (int i = 0; i < call->n_in; i++)
        if (counts(call, i, out->ndim) && (!best || call->in_spec[i]->numel > best->numel))
            best = call->in_spec[i];
    memcpy(out->memory_order, best->layout.memory_order, sizeof out->memory_order);
}

/* The note: mesh axes along which elements move. */
static stn_status place(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    struct stni_layout out;
    struct stni_remap map;
    int dim = dim_of(call, meta->ndim);
    int64_t begin = 0;
    stni_layout_init(&out, first_of(call)->layout.mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; out.mesh && a < out.mesh->ndim; a++)
        out.placement[a] =
            stays_partial(call, a) ? call->in_spec[0]->layout.placement[a] : common_placement(call, a, out.ndim);
    for (int d = 0; out.mesh && d < out.ndim; d++)
        STNI_TRY(copy_split(call, dim, d, &out));
    copy_memory_order(call, &out);
    STNI_TRY(stni_layout_balance(call->context, &out));
    STNI_TRY(stni_spec_intern(call->context, &out, &call->out_spec[0]));
    call->note = 0;
    for (int i = 0; i < call->n_in; i++) {
        if (!counts(call, i, out.ndim))
            continue;
        STNI_TRY(place_tensor(call, i, dim, begin, &out));
        make_map(call->in_spec[i], dim, begin, &map);
        call->note |= stni_remap_moves(&map, call->want[i], call->out_spec[0]);
        begin += call->in_spec[i]->layout.shape[dim];
    }
    return STN_OK;
}

/* Maps of the tensors that count; those of another dtype are converted first. */
static stn_status run_maps(stn_op_call *call, struct stni_remap *maps)
{
    stn_tensor *sources[STN_MAX_INPUTS];
    int n = 0, ndim = call->out[0]->spec->layout.ndim, dim = dim_of(call, ndim);
    stn_dtype dtype = call->out[0]->spec->layout.dtype;
    int64_t begin = 0;
    for (int i = 0; i < call->n_in; i++) {
        if (!counts(call, i, ndim))
            continue;
        make_map(call->in[i]->spec, dim, begin, &maps[n]);
        sources[n] = call->in[i]->spec->layout.dtype == dtype ? call->in[i] : stn_cast(call->in[i], dtype);
        STNI_TRY(stn_context_status(call->context));
        begin += call->in[i]->spec->layout.shape[dim];
        n++;
    }
    return stni_remap_run(call, n, maps, sources, call->out[0], (uint32_t)call->note, NULL);
}

static stn_status run(stn_op_call *call)
{
    stn_context *context = call->context;
    struct stni_remap *maps = stni_malloc((size_t)call->n_in * sizeof *maps);
    if (!maps)
        return stni_fail_memory(context, "maps of cat", (size_t)call->n_in * sizeof *maps);
    stni_scope_enter(context); /* owns converted tensors */
    context->no_grad++;
    stn_status status = run_maps(call, maps);
    context->no_grad--;
    stni_scope_leave(context);
    stni_free(maps);
    return status;
}

static stn_status backward(stn_backward_call *call)
{
    int ndim = call->out_spec[0]->layout.ndim, dim = (int)((const struct cat_attrs *)call->attrs)->dim;
    int64_t begin = 0;
    dim = dim < 0 ? dim + ndim : dim;
    for (int i = 0; i < call->n_in; i++) {
        const struct stni_layout *in = &call->in_spec[i]->layout;
        if (in->ndim != ndim)
            continue; /* of shape (0): no gradient */
        if (call->needs >> i & 1)
            call->grad_in[i] =
                stni_sum_to(stn_slice(call->grad_out[0], dim, begin, begin + in->shape[dim], 1), call->in_spec[i]);
        begin += in->shape[dim];
    }
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "tensor", .variadic = 1}};
static const stn_attr_schema attrs[] = {{"dim", STN_ATTR_INT, offsetof(struct cat_attrs, dim), NULL}};

static const stn_op_impl impl = {
    .check = check,
    .place = place,
    .run = run,
    .backward = backward,
    STN_SLOTS(stni_remap_slots),
    STN_KERNELS(stni_remap_kernels),
};

const stn_op_desc stni_op_cat = {
    .size = sizeof(stn_op_desc),
    .name = "cat",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct cat_attrs),
    .n_outputs = 1,
    .impl = &impl,
};
