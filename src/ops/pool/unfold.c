/* unfold: windows of a dim, each an entry of that dim, their elements a last dim. A view: windows share the memory of
 * what they have in common.
 *
 * Where the dim is sharded, a rank whose windows reach beyond its chunk gets a run of elements that holds them all,
 * and the result is a view of that: far less than the windows laid out. */
#include "ops/pool/unfold.h"

#include "core/base/clamp.h"
#include "core/context/context.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/exchange/halo.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

const struct stni_unfold_attrs stni_unfold_init = {.step = 1, .size = -1, .dilation = 1};

#define ROW(name) {#name, STN_ATTR_INT, offsetof(struct stni_unfold_attrs, name), NULL}
static const stn_attr_schema schema[] = {ROW(dimension), ROW(size), ROW(step)};
const stn_attr_schema stni_unfold_adjoint_schema[] = {ROW(dimension), ROW(size), ROW(step), ROW(dilation),
                                                      ROW(input_size)};

stn_tensor *stn_unfold(stn_tensor *input, int dimension, int64_t size, int64_t step)
{
    return stni_unfold(input, &(struct stni_unfold_attrs){dimension, size, step, 1, 0});
}

stn_tensor *stni_unfold(stn_tensor *input, const struct stni_unfold_attrs *attrs)
{
    return stni_call(STNI_OP_unfold, 1, &input, attrs);
}

stn_status stni_unfold_dim(const stn_op_call *call, int ndim, int *dim)
{
    return stni_dim_wrap(call, "dimension", ((const struct stni_unfold_attrs *)call->attrs)->dimension, ndim, dim);
}

stn_status stni_unfold_read(const stn_op_call *call, int ndim, int64_t n_in, struct stni_unfold *out)
{
    const struct stni_unfold_attrs *attrs = call->attrs;
    int64_t reach;
    STNI_TRY(stni_unfold_dim(call, ndim, &out->dim));
    if (attrs->step < 1 || attrs->dilation < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'step' got %" PRId64 ", wanted at least 1", attrs->step);
    if (attrs->size < 0 || attrs->size > n_in || __builtin_mul_overflow(attrs->size - 1, attrs->dilation, &reach) ||
        reach >= n_in)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'size' got %" PRId64 ", wanted 0 to %" PRId64 ", the size of dim %d", attrs->size, n_in,
                           out->dim);
    out->n_in = n_in;
    out->size = attrs->size, out->step = attrs->step, out->dilation = attrs->dilation;
    out->n_windows = (n_in - (attrs->size > 0 ? reach + 1 : 0)) / attrs->step + 1;
    return STN_OK;
}

static int64_t extent(const struct stni_unfold *u)
{
    return u->size > 0 ? (u->size - 1) * u->dilation + 1 : 0;
}

struct stni_range stni_unfold_reads(const struct stni_unfold *u, struct stni_range windows)
{
    if (stni_range_length(windows) == 0 || u->size == 0)
        return (struct stni_range){0, 0};
    return (struct stni_range){windows.begin * u->step, (windows.end - 1) * u->step + extent(u)};
}

struct stni_range stni_unfold_readers(const struct stni_unfold *u, struct stni_range elements)
{
    struct stni_range r = {stni_ceil_div(elements.begin - extent(u) + 1, u->step),
                           stni_floor_div(elements.end - 1, u->step) + 1};
    r.begin = stni_clamp(r.begin, 0, u->n_windows);
    r.end = r.end > u->n_windows ? u->n_windows : r.end;
    return r;
}

static stn_status read(const stn_op_call *call, struct stni_unfold *out)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int dim;
    STNI_TRY(stni_unfold_dim(call, in->ndim, &dim));
    return stni_unfold_read(call, in->ndim, in->ndim > 0 ? in->shape[dim] : 1, out);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *meta = &call->out_meta[0];
    struct stni_unfold u;
    STNI_TRY(read(call, &u));
    if (in->ndim == STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at most %d", in->ndim, STN_MAX_NDIM - 1);
    *meta = (stn_meta){.dtype = in->dtype, .ndim = in->ndim + 1};
    memcpy(meta->shape, in->shape, sizeof meta->shape);
    if (in->ndim > 0)
        meta->shape[u.dim] = u.n_windows;
    meta->shape[in->ndim] = u.size;
    return STN_OK;
}

static struct stni_range chunk_of(const stn_spec *spec, int dim, const int *coordinate)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    stni_spec_chunk_at(spec, coordinate, shape, offset);
    return (struct stni_range){offset[dim], offset[dim] + shape[dim]};
}

struct windows {
    const struct stni_unfold *unfold;
    const stn_spec *in, *out;
};

/* Whether all that the windows read lies in a chunk. */
static int within(const struct stni_unfold *u, struct stni_range windows, struct stni_range chunk)
{
    struct stni_range reads = stni_unfold_reads(u, windows);
    return stni_range_length(reads) == 0 || (reads.begin >= chunk.begin && reads.end <= chunk.end);
}

static int exchanges(const struct stni_unfold *u, const struct stni_split *in, const struct stni_split *out)
{
    for (int i = 0; out && i < out->n_parts; i++) {
        struct stni_range windows = {stni_split_offset(out, i), stni_split_offset(out, i + 1)};
        if (!within(u, windows, (struct stni_range){stni_split_offset(in, i), stni_split_offset(in, i + 1)}))
            return 1;
    }
    return 0;
}

/* The input's layout, pending reductions too; windows are sharded in proportion. The note: whether ranks exchange. */
static stn_status place(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct stni_layout out = *in;
    struct stni_unfold u;
    STNI_TRY(read(call, &u));
    out.ndim = in->ndim + 1;
    memcpy(out.shape, call->out_meta[0].shape, sizeof out.shape);
    out.memory_order[in->ndim] = (uint8_t)in->ndim;
    out.split[in->ndim] = NULL;
    if (in->ndim > 0 && in->split[u.dim]) {
        STNI_TRY(stni_split_scaled(call->context, in->split[u.dim], u.n_windows, &out.split[u.dim]));
        call->note = (uint64_t)exchanges(&u, in->split[u.dim], out.split[u.dim]);
    }
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static int boxes_at(const void *arg, const int *coordinate, struct stni_halo_box *boxes)
{
    const struct windows *w = arg;
    struct stni_range windows = chunk_of(w->out, w->unfold->dim, coordinate);
    if (within(w->unfold, windows, chunk_of(w->in, w->unfold->dim, coordinate)))
        return 0;
    boxes[0].range[0] = stni_unfold_reads(w->unfold, windows);
    return 1;
}

/* Elements between windows are part of a run too: a rank that has the window before them and the window behind them
 * gets them. */
static int readers_of(const void *arg, int d, struct stni_range elements, struct stni_range *pieces)
{
    const struct windows *w = arg;
    const struct stni_split *split = w->out->layout.split[w->unfold->dim];
    struct stni_range windows = stni_unfold_readers(w->unfold, elements);
    int64_t before = elements.begin / w->unfold->step, last = w->unfold->n_windows - 1;
    (void)d;
    before = before < last ? before : last;
    windows.begin = windows.begin < before ? windows.begin : before;
    windows.end = windows.end > before ? windows.end : before + 1;
    if (stni_range_length(elements) == 0)
        return 0;
    pieces[0] = (struct stni_range){stni_split_find(split, windows.begin), stni_split_find(split, windows.end - 1) + 1};
    return 1;
}

/* A tensor for the elements that this rank's windows read, in the input's memory order. */
static stn_status make_run(const stn_op_call *call, const struct stni_unfold *u, int64_t length, stn_tensor **out)
{
    const stn_spec *in = call->in[0]->spec, *spec;
    struct stni_layout layout;
    stni_layout_init(&layout, NULL, in->layout.dtype, in->layout.ndim, in->local_shape);
    layout.shape[u->dim] = length;
    memcpy(layout.memory_order, in->layout.memory_order, sizeof layout.memory_order);
    STNI_TRY(stni_spec_intern(call->context, &layout, &spec));
    return stni_tensor_create(call->context, spec, out);
}

/* The windows as a view of a tensor whose dim begins with element `first`. */
static stn_status view(const stn_op_call *call, const struct stni_unfold *u, stn_tensor *base, int64_t first)
{
    const stn_spec *out = call->out_spec[0];
    int ndim = out->layout.ndim - 1;
    int64_t strides[STN_MAX_NDIM] = {0}, stride = ndim > 0 ? base->strides[u->dim] : 1;
    if (out->local_numel == 0) /* an empty chunk keeps no memory */
        return stni_tensor_create(call->context, out, &call->out[0]);
    memcpy(strides, base->strides, (size_t)ndim * sizeof *strides);
    strides[u->dim] = stride * u->step;
    strides[ndim] = stride * u->dilation;
    return stn_op_alias(call, 0, base, ndim > 0 ? (out->local_offset[u->dim] * u->step - first) * stride : 0, strides);
}

static stn_status run(stn_op_call *call)
{
    stn_tensor *in = call->in[0], *elements = in;
    struct stni_halo_box box;
    struct stni_unfold u;
    stn_box buffer = {0};
    stn_status status;
    STNI_TRY(read(call, &u));
    const struct windows w = {&u, in->spec, call->out_spec[0]};
    const struct stni_halo halo = {.source = in,
                                   .n_dims = 1,
                                   .dims = {{u.dim, STNI_BOUNDARY_ZERO}},
                                   .arg = &w,
                                   .boxes = boxes_at,
                                   .readers = readers_of};
    int64_t first = in->spec->layout.ndim > 0 ? in->spec->local_offset[u.dim] : 0;
    if (!call->note || !in->spec->layout.mesh->member)
        return view(call, &u, in, first);
    if (boxes_at(&w, in->spec->layout.mesh->coordinate, &box)) {
        first = box.range[0].begin;
        STNI_TRY(make_run(call, &u, stni_range_length(box.range[0]), &elements));
        stni_tensor_box(elements, &buffer);
    }
    STNI_TRY_GOTO(stni_halo_fetch(call, &halo, &buffer, ~UINT64_C(0)), out);
    status = view(call, &u, elements, first);
out:
    if (elements != in)
        stni_tensor_drop(&elements);
    return status;
}

static stn_status backward(stn_backward_call *call)
{
    struct stni_unfold_attrs attrs = *(const struct stni_unfold_attrs *)call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    if (in->ndim == 0) {
        call->grad_in[0] = stn_sum(call->grad_out[0], 0, NULL, 0);
        return stn_context_status(call->context);
    }
    attrs.dimension += attrs.dimension < 0 ? in->ndim : 0;
    attrs.input_size = in->shape[attrs.dimension];
    call->grad_in[0] = stni_unfold_backward(call->grad_out[0], &attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, .backward = backward};

const stn_op_desc stni_op_unfold = {
    .size = sizeof(stn_op_desc),
    .name = "unfold",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct stni_unfold_attrs),
    .attrs_init = &stni_unfold_init,
    .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &impl,
    .signature = "input, dimension, size, step",
};
