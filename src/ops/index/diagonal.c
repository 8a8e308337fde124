/* diagonal: a view of the elements whose positions along two dims differ by `offset`; diagonal_backward, its
 * adjoint, puts them back among zeros. No data moves as long as one of the two dims is whole. */
#include "core/base/clamp.h"
#include "ops/common/call.h"
#include "ops/placement/splits.h"
#include "ops/common/dims.h"
#include "ops/exchange/remap_kernel.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

struct diagonal_attrs {
    int64_t offset, dim1, dim2;
    int64_t size1, size2; /* of the adjoint: the two dims' sizes */
};

/* dim1, dim2 of the whole, which has ndim dims; where the diagonal begins in them; how long it is. */
struct diagonal {
    int ndim, dim[2];
    int64_t start[2], length;
};

stn_tensor *stn_diagonal(stn_tensor *input, int64_t offset, int dim1, int dim2)
{
    const struct diagonal_attrs attrs = {.offset = offset, .dim1 = dim1, .dim2 = dim2};
    return stni_call(STNI_OP_diagonal, 1, &input, &attrs);
}

static stn_status find(const stn_op_call *call, int ndim, struct diagonal *out)
{
    const struct diagonal_attrs *attrs = call->attrs;
    out->ndim = ndim;
    if (ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at least 2", ndim);
    STNI_TRY(stni_dim_wrap(call, "dim1", attrs->dim1, ndim, &out->dim[0]));
    STNI_TRY(stni_dim_wrap(call, "dim2", attrs->dim2, ndim, &out->dim[1]));
    if (out->dim[0] == out->dim[1])
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'dim2' got %" PRId64 ", the same as 'dim1', wanted another",
                           attrs->dim2);
    return STN_OK;
}

static void measure(int64_t offset, int64_t size1, int64_t size2, struct diagonal *d)
{
    const int64_t below = -stni_clamp(offset, -size1, 0), right = stni_clamp(offset, 0, size2);
    d->start[0] = below;
    d->start[1] = right;
    d->length = size1 - below < size2 - right ? size1 - below : size2 - right;
}

/* Dims of the whole in the order of those of the part, whose last one is the diagonal; returns how many are before
 * it. */
static int other_dims(const struct diagonal *d, int *dims)
{
    int n = 0;
    for (int k = 0; k < d->ndim; k++)
        if (k != d->dim[0] && k != d->dim[1])
            dims[n++] = k;
    return n;
}

/* A chunk of the part as it lies in the chunk of the whole: its strides; returns its first element. */
static int64_t lies(const struct diagonal *d, const stn_spec *whole, const int64_t *strides, const stn_spec *part,
                    int64_t *out)
{
    int dims[STN_MAX_NDIM], n = other_dims(d, dims);
    int64_t first = 0;
    for (int k = 0; k < n; k++)
        out[k] = strides[dims[k]];
    out[n] = strides[d->dim[0]] + strides[d->dim[1]];
    for (int i = 0; i < 2; i++)
        first += (d->start[i] + part->local_offset[n] - whole->local_offset[d->dim[i]]) * strides[d->dim[i]];
    return first;
}

/* diagonal */

static stn_status find_in_whole(const stn_op_call *call, struct diagonal *out)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    STNI_TRY(find(call, in->ndim, out));
    measure(((const struct diagonal_attrs *)call->attrs)->offset, in->shape[out->dim[0]], in->shape[out->dim[1]], out);
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *meta = &call->out_meta[0];
    struct diagonal d;
    int dims[STN_MAX_NDIM];
    STNI_TRY(find_in_whole(call, &d));
    meta->dtype = in->dtype;
    meta->ndim = other_dims(&d, dims) + 1;
    for (int k = 0; k < meta->ndim - 1; k++)
        meta->shape[k] = in->shape[dims[k]];
    meta->shape[meta->ndim - 1] = d.length;
    return STN_OK;
}

/* Where axes cut both dims, those of dim2 cut dim1 instead: one exchange. Returns which of the two is sharded. */
static int cut_one(struct stni_layout *in, const struct diagonal *d)
{
    uint32_t first = stni_layout_axes_mask(in, d->dim[0]), second = stni_layout_axes_mask(in, d->dim[1]);
    if (!first || !second)
        return second != 0;
    for (int a = 0; a < in->mesh->ndim; a++)
        if (second >> a & 1)
            in->placement[a] = stn_shard(d->dim[0]);
    in->split[d->dim[0]] = in->split[d->dim[1]] = NULL;
    return 0;
}

static stn_status place(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    struct stni_layout in = call->in_spec[0]->layout, out;
    struct diagonal d;
    int dims[STN_MAX_NDIM], becomes[STN_MAX_NDIM] = {0}, last = meta->ndim - 1;
    STNI_TRY(find_in_whole(call, &d));
    int cut = d.dim[cut_one(&in, &d)];
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    const struct stni_layout *want = &call->want[0]->layout;
    stni_layout_init(&out, in.mesh, meta->dtype, meta->ndim, meta->shape);
    other_dims(&d, dims);
    for (int k = 0; k < last; k++)
        becomes[dims[k]] = k;
    becomes[d.dim[0]] = becomes[d.dim[1]] = last;
    for (int a = 0; in.mesh && a < in.mesh->ndim; a++) {
        stn_placement p = want->placement[a];
        out.placement[a] = p.kind == STN_PLACE_SHARD ? stn_shard(becomes[p.dim]) : p;
    }
    for (int k = 0; k < last; k++)
        stni_splits_take(&out, k, want, dims[k], 1);
    STNI_TRY(stni_splits_take_part(call->context, &out, last, want, cut, d.start[cut == d.dim[1]]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    stn_tensor *in = call->in[0];
    int64_t strides[STN_MAX_NDIM];
    struct diagonal d;
    STNI_TRY(find_in_whole(call, &d));
    if (call->out_spec[0]->local_numel == 0) /* an empty chunk keeps no memory */
        return stni_tensor_create(call->context, call->out_spec[0], &call->out[0]);
    int64_t first = lies(&d, in->spec, in->strides, call->out_spec[0], strides);
    return stn_op_alias(call, 0, in, first, strides);
}

static stn_status backward(stn_backward_call *call)
{
    const struct diagonal_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int dim1 = (int)(attrs->dim1 < 0 ? attrs->dim1 + in->ndim : attrs->dim1),
        dim2 = (int)(attrs->dim2 < 0 ? attrs->dim2 + in->ndim : attrs->dim2);
    const struct diagonal_attrs whole = {attrs->offset, dim1, dim2, in->shape[dim1], in->shape[dim2]};
    call->grad_in[0] = stni_call(STNI_OP_diagonal_backward, 1, &call->grad_out[0], &whole);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema schema[] = {
    {"offset", STN_ATTR_INT, offsetof(struct diagonal_attrs, offset), NULL},
    {"dim1", STN_ATTR_INT, offsetof(struct diagonal_attrs, dim1), NULL},
    {"dim2", STN_ATTR_INT, offsetof(struct diagonal_attrs, dim2), NULL},
};
static const stn_attr_schema adjoint_schema[] = {
    {"offset", STN_ATTR_INT, offsetof(struct diagonal_attrs, offset), NULL},
    {"dim1", STN_ATTR_INT, offsetof(struct diagonal_attrs, dim1), NULL},
    {"dim2", STN_ATTR_INT, offsetof(struct diagonal_attrs, dim2), NULL},
    {"size1", STN_ATTR_INT, offsetof(struct diagonal_attrs, size1), NULL},
    {"size2", STN_ATTR_INT, offsetof(struct diagonal_attrs, size2), NULL},
};
static const struct diagonal_attrs attrs_init = {.dim1 = 0, .dim2 = 1};

static const stn_op_impl diagonal_impl = {.check = check, .place = place, .run = run, .backward = backward};

const stn_op_desc stni_op_diagonal = {
    .size = sizeof(stn_op_desc),
    .name = "diagonal",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct diagonal_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &diagonal_impl,
};

/* diagonal_backward */

static stn_status find_in_part(const stn_op_call *call, struct diagonal *out)
{
    const struct diagonal_attrs *attrs = call->attrs;
    const struct stni_layout *grad = &call->in_spec[0]->layout;
    STNI_TRY(find(call, grad->ndim + 1, out));
    measure(attrs->offset, attrs->size1, attrs->size2, out);
    if (grad->shape[grad->ndim - 1] == out->length)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got %" PRId64 " elements in its last dim, wanted %" PRId64,
                       grad->shape[grad->ndim - 1], out->length);
}

static stn_status check_backward(stn_op_call *call)
{
    const struct diagonal_attrs *attrs = call->attrs;
    const struct stni_layout *grad = &call->in_spec[0]->layout;
    stn_meta *meta = &call->out_meta[0];
    struct diagonal d;
    int dims[STN_MAX_NDIM];
    if (grad->ndim == STN_MAX_NDIM || grad->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got %d dims, wanted 1 to %d", grad->ndim, STN_MAX_NDIM - 1);
    STNI_TRY(find_in_part(call, &d));
    meta->dtype = grad->dtype;
    meta->ndim = d.ndim;
    int n = other_dims(&d, dims);
    for (int k = 0; k < n; k++)
        meta->shape[dims[k]] = grad->shape[k];
    meta->shape[d.dim[0]] = attrs->size1;
    meta->shape[d.dim[1]] = attrs->size2;
    return STN_OK;
}

static stn_status place_backward(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    const struct stni_layout *grad = &call->in_spec[0]->layout;
    struct stni_layout out;
    struct diagonal d;
    int dims[STN_MAX_NDIM];
    STNI_TRY(find_in_part(call, &d));
    stni_layout_init(&out, grad->mesh, meta->dtype, meta->ndim, meta->shape);
    int n = other_dims(&d, dims);
    dims[n] = d.dim[0];
    for (int a = 0; grad->mesh && a < grad->mesh->ndim; a++) {
        stn_placement p = grad->placement[a];
        out.placement[a] = p.kind == STN_PLACE_SHARD ? stn_shard(dims[p.dim]) : p;
    }
    for (int k = 0; k < n; k++)
        stni_splits_take(&out, dims[k], grad, k, 1);
    STNI_TRY(stni_splits_take_whole(call->context, &out, d.dim[0], grad, n, d.start[0]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status run_backward(stn_op_call *call)
{
    const stn_tensor *grad = call->in[0], *out = call->out[0];
    size_t size = stn_dtype_size(out->spec->layout.dtype);
    struct stni_remap_fill_args fill;
    struct diagonal d;
    stn_box to, from;
    STNI_TRY(find_in_part(call, &d));
    if (out->spec->local_numel == 0)
        return STN_OK;
    memset(&fill, 0, sizeof fill);
    stni_tensor_box(out, &fill.box);
    fill.element_size = size;
    STNI_TRY(stn_op_launch(call, STNI_REMAP_FILL, out->spec->layout.dtype, &fill, sizeof fill));
    if (grad->spec->local_numel == 0)
        return STN_OK;
    stni_tensor_box(grad, &from);
    to = from;
    memcpy(from.strides, grad->strides, sizeof from.strides);
    int64_t first = lies(&d, out->spec, out->strides, grad->spec, to.strides);
    to.data = (char *)out->data + first * (int64_t)size;
    return stni_box_copy(call->context->queue, &to, &from, size);
}

static stn_status backward_backward(stn_backward_call *call)
{
    const struct diagonal_attrs *attrs = call->attrs;
    call->grad_in[0] = stn_diagonal(call->grad_out[0], attrs->offset, (int)attrs->dim1, (int)attrs->dim2);
    return stn_context_status(call->context);
}

static const stn_input_schema grad_inputs[] = {{.name = "grad"}};
static const stn_kernel_slot slots[] = {[STNI_REMAP_FILL] = {"fill", sizeof(struct stni_remap_fill_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("fill", (1u << STN_DTYPE_COUNT) - 1, struct stni_remap_fill_args, stni_remap_fill_cpu, NULL),
};

static const stn_op_impl diagonal_backward_impl = {
    .check = check_backward, .place = place_backward, .run = run_backward, .backward = backward_backward,
    STN_SLOTS(slots), STN_KERNELS(kernels),
};

const stn_op_desc stni_op_diagonal_backward = {
    .size = sizeof(stn_op_desc),
    .name = "diagonal_backward",
    STN_INPUTS(grad_inputs),
    STN_ATTRS(adjoint_schema, struct diagonal_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &diagonal_backward_impl,
};
