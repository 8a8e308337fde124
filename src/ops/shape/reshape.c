/* squeeze, unsqueeze, flatten and unflatten: views whose shape is told in other ways. */
#include "core/shard/spec.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

struct dims_attrs {
    stn_ints dim;
};

struct dim_attrs {
    int64_t dim;
};

struct flatten_attrs {
    int64_t start_dim, end_dim;
};

struct unflatten_attrs {
    int64_t dim;
    stn_ints sizes;
};

stn_tensor *stn_squeeze(stn_tensor *input, int n, const int *dims)
{
    struct dims_attrs attrs = {0};
    if (!stni_list_read_dims_or_all(input, &(struct stni_list){"squeeze", "n", "dims", 0}, n, dims, &attrs.dim))
        return stni_call_error(input);
    return stni_call(STNI_OP_squeeze, 1, &input, &attrs);
}

stn_tensor *stn_unsqueeze(stn_tensor *input, int dim)
{
    struct dim_attrs attrs = {dim};
    return stni_call(STNI_OP_unsqueeze, 1, &input, &attrs);
}

stn_tensor *stn_flatten(stn_tensor *input, int start_dim, int end_dim)
{
    struct flatten_attrs attrs = {start_dim, end_dim};
    return stni_call(STNI_OP_flatten, 1, &input, &attrs);
}

stn_tensor *stn_unflatten(stn_tensor *input, int dim, int n, const int64_t *sizes)
{
    struct unflatten_attrs attrs = {.dim = dim};
    if (!stni_list_read(input, &(struct stni_list){"unflatten", "n", "sizes", 1}, n, sizes, &attrs.sizes))
        return stni_call_error(input);
    return stni_call(STNI_OP_unflatten, 1, &input, &attrs);
}

/* Dims that are named and are not 1 stay. */
static stn_status squeeze(stn_op_call *call)
{
    const stn_ints *dims = &((const struct dims_attrs *)call->attrs)->dim;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t shape[STN_MAX_NDIM];
    uint32_t named = ~0u;
    int n = 0;
    if (dims->n >= 0 && in->ndim > 0)
        STNI_TRY(stni_dims_mask(call, "dim", dims, in->ndim, &named));
    if (dims->n == 0)
        named = 0;
    for (int d = 0; d < in->ndim; d++)
        if (in->shape[d] != 1 || !(named >> d & 1))
            shape[n++] = in->shape[d];
    call->out[0] = stn_view(call->in[0], n, shape);
    return STN_OK;
}

static stn_status unsqueeze(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t shape[STN_MAX_NDIM];
    int dim;
    STNI_TRY(stni_dim_wrap(call, "dim", ((const struct dim_attrs *)call->attrs)->dim, in->ndim + 1, &dim));
    if (in->ndim == STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted fewer than %d", in->ndim, STN_MAX_NDIM);
    for (int d = 0; d <= in->ndim; d++)
        shape[d] = d == dim ? 1 : in->shape[d - (d > dim)];
    call->out[0] = stn_view(call->in[0], in->ndim + 1, shape);
    return STN_OK;
}

static stn_status flatten(stn_op_call *call)
{
    const struct flatten_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t shape[STN_MAX_NDIM], merged = 1;
    int first, last, n = 0;
    STNI_TRY(stni_dim_wrap(call, "start_dim", attrs->start_dim, in->ndim, &first));
    STNI_TRY(stni_dim_wrap(call, "end_dim", attrs->end_dim, in->ndim, &last));
    if (first > last)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'end_dim' got %" PRId64 ", wanted one not before start_dim, %" PRId64, attrs->end_dim,
                           attrs->start_dim);
    for (int d = 0; d < first; d++)
        shape[n++] = in->shape[d];
    for (int d = first; d <= last && d < in->ndim; d++)
        merged *= in->shape[d];
    shape[n++] = merged;
    for (int d = last + 1; d < in->ndim; d++)
        shape[n++] = in->shape[d];
    call->out[0] = stn_view(call->in[0], n, shape);
    return STN_OK;
}

/* The sizes that dim `dim` is cut into: -1 stands for what is missing. A tensor without elements would take any sizes
 * that the dim does not have, too. */
static stn_status infer_sizes(const stn_op_call *call, int dim, int64_t *sizes)
{
    const stn_ints *given = &((const struct unflatten_attrs *)call->attrs)->sizes;
    const int64_t wanted = call->in_spec[0]->layout.shape[dim];
    int64_t product = 1, missing = -1;
    char got[STNI_SHAPE_TEXT];
    for (int64_t i = 0; i < given->n; i++) {
        sizes[i] = given->v[i];
        if (sizes[i] < -1 || (sizes[i] == -1 && missing >= 0))
            return stn_op_fail(call, STN_ERR_ARGUMENT,
                               "'sizes' got %" PRId64 " at %" PRId64 ", wanted sizes and at most one -1", sizes[i], i);
        if (sizes[i] == -1)
            missing = i;
        else if (__builtin_mul_overflow(product, sizes[i], &product))
            product = -1;
    }
    if (missing >= 0 && product > 0 && wanted % product == 0)
        sizes[missing] = wanted / product;
    else if (missing >= 0 || product != wanted)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'sizes' got %s, wanted sizes whose product is that of dim %d, %" PRId64,
                           stni_shape_text((int)given->n, given->v, got), dim, wanted);
    return STN_OK;
}

static stn_status unflatten(stn_op_call *call)
{
    const struct unflatten_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t shape[STN_MAX_NDIM];
    int dim;
    STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim, in->ndim, &dim));
    if (attrs->sizes.n < 1 || in->ndim == 0 || in->ndim - 1 + attrs->sizes.n > STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'sizes' got %" PRId64
                           " numbers for a tensor of %d dims, wanted 1 or more, and at most %d dims",
                           attrs->sizes.n < 0 ? 0 : attrs->sizes.n, in->ndim, STN_MAX_NDIM);
    const int n = (int)attrs->sizes.n;
    STNI_TRY(infer_sizes(call, dim, shape + dim));
    memcpy(shape, in->shape, (size_t)dim * sizeof *shape);
    memcpy(shape + dim + n, in->shape + dim + 1, (size_t)(in->ndim - dim - 1) * sizeof *shape);
    call->out[0] = stn_view(call->in[0], in->ndim - 1 + n, shape);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema dims_schema[] = {{"dim", STN_ATTR_INTS, offsetof(struct dims_attrs, dim), NULL}};
static const stn_attr_schema dim_schema[] = {{"dim", STN_ATTR_INT, offsetof(struct dim_attrs, dim), NULL}};
static const stn_attr_schema flatten_schema[] = {
    {"start_dim", STN_ATTR_INT, offsetof(struct flatten_attrs, start_dim), NULL},
    {"end_dim", STN_ATTR_INT, offsetof(struct flatten_attrs, end_dim), NULL},
};
static const stn_attr_schema unflatten_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct unflatten_attrs, dim), NULL},
    {"sizes", STN_ATTR_INTS, offsetof(struct unflatten_attrs, sizes), NULL},
};
static const struct dims_attrs dims_init = {{.n = -1}};
static const struct flatten_attrs flatten_init = {.end_dim = -1};
static const struct unflatten_attrs unflatten_init = {.sizes = {.n = -1}};

const stn_op_desc stni_op_squeeze = {
    .size = sizeof(stn_op_desc), .name = "squeeze", STN_INPUTS(inputs), STN_ATTRS(dims_schema, struct dims_attrs),
    .attrs_init = &dims_init, .n_outputs = 1, .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &(const stn_op_impl){.compose = squeeze},
};

const stn_op_desc stni_op_unsqueeze = {
    .size = sizeof(stn_op_desc), .name = "unsqueeze", STN_INPUTS(inputs), STN_ATTRS(dim_schema, struct dim_attrs),
    .n_outputs = 1, .flags = STN_OP_ALIAS | STN_OP_VIEW, .impl = &(const stn_op_impl){.compose = unsqueeze},
    .signature = "input, dim",
};

const stn_op_desc stni_op_flatten = {
    .size = sizeof(stn_op_desc), .name = "flatten", STN_INPUTS(inputs), STN_ATTRS(flatten_schema, struct flatten_attrs),
    .attrs_init = &flatten_init, .n_outputs = 1, .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &(const stn_op_impl){.compose = flatten},
};

const stn_op_desc stni_op_unflatten = {
    .size = sizeof(stn_op_desc), .name = "unflatten", STN_INPUTS(inputs),
    STN_ATTRS(unflatten_schema, struct unflatten_attrs), .attrs_init = &unflatten_init, .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW, .impl = &(const stn_op_impl){.compose = unflatten},
    .signature = "input, dim, sizes",
};
