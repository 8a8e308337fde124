/* narrow, select, unbind, split and chunk: slices under other names. */
#include "core/shard/spec.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

#include <inttypes.h>

struct narrow_attrs {
    int64_t dim, start, length;
};

struct select_attrs {
    int64_t dim, index;
};

struct split_attrs {
    int64_t size; /* of each part but the last; -1: by the list */
    stn_ints sizes;
    int64_t dim;
};

struct chunk_attrs {
    int64_t chunks, dim;
};

stn_tensor *stn_narrow(stn_tensor *input, int dim, int64_t start, int64_t length)
{
    struct narrow_attrs attrs = {dim, start, length};
    return stni_call(STNI_OP_narrow, 1, &input, &attrs);
}

stn_tensor *stn_select(stn_tensor *input, int dim, int64_t index)
{
    struct select_attrs attrs = {dim, index};
    return stni_call(STNI_OP_select, 1, &input, &attrs);
}

static const struct stni_layout *layout_of(const stn_op_call *call)
{
    return &call->in_spec[0]->layout;
}

/* A dim of a tensor that has one. */
static stn_status wrap(const stn_op_call *call, int64_t given, int *dim)
{
    if (layout_of(call)->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got no dims, wanted at least 1");
    return stni_dim_wrap(call, "dim", given, layout_of(call)->ndim, dim);
}

static stn_status narrow(stn_op_call *call)
{
    const struct narrow_attrs *attrs = call->attrs;
    int dim;
    STNI_TRY(wrap(call, attrs->dim, &dim));
    int64_t n = layout_of(call)->shape[dim], start = attrs->start < 0 ? attrs->start + n : attrs->start;
    if (start < 0 || start > n || attrs->length < 0 || attrs->length > n - start)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'start' got %" PRId64 " and 'length' %" PRId64 ", wanted a part of %" PRId64 " elements",
                           attrs->start, attrs->length, n);
    call->out[0] = stn_slice(call->in[0], dim, start, start + attrs->length, 1);
    return STN_OK;
}

/* Element `index` of a dim, without the dim. */
static stn_tensor *select_one(const stn_op_call *call, int dim, int64_t index)
{
    int64_t shape[STN_MAX_NDIM];
    int n = 0;
    for (int d = 0; d < layout_of(call)->ndim; d++)
        if (d != dim)
            shape[n++] = layout_of(call)->shape[d];
    return stn_view(stn_slice(call->in[0], dim, index, index + 1, 1), n, shape);
}

static stn_status select_op(stn_op_call *call)
{
    const struct select_attrs *attrs = call->attrs;
    int dim;
    STNI_TRY(wrap(call, attrs->dim, &dim));
    int64_t n = layout_of(call)->shape[dim], index = attrs->index < 0 ? attrs->index + n : attrs->index;
    if (index < 0 || index >= n)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'index' got %" PRId64 ", wanted %" PRId64 " <= index < %" PRId64,
                           attrs->index, -n, n);
    call->out[0] = select_one(call, dim, index);
    return STN_OK;
}

static stn_status check_count(stn_op_call *call, int64_t n)
{
    if (n > STN_MAX_OUTPUTS)
        return stn_op_fail(call, STN_ERR_UNSUPPORTED, "gives %" PRId64 " tensors, wanted at most %d", n,
                           STN_MAX_OUTPUTS);
    call->n_out = (int)n;
    return STN_OK;
}

static stn_status unbind(stn_op_call *call)
{
    const struct select_attrs *attrs = call->attrs;
    int dim;
    STNI_TRY(wrap(call, attrs->dim, &dim));
    STNI_TRY(check_count(call, layout_of(call)->shape[dim]));
    for (int k = 0; k < call->n_out; k++)
        call->out[k] = select_one(call, dim, k);
    return STN_OK;
}

/* n parts of `size` elements each; the last ones take what is left. */
static void cut_even(stn_op_call *call, int dim, int64_t size)
{
    for (int k = 0; k < call->n_out; k++)
        call->out[k] = stn_slice(call->in[0], dim, k * size, (k + 1) * size, 1);
}

static stn_status split_by_list(stn_op_call *call, int dim, const stn_ints *sizes)
{
    int64_t n = layout_of(call)->shape[dim], total = 0;
    int bad = 0;
    for (int64_t k = 0; k < sizes->n && !bad; k++)
        bad = sizes->v[k] < 0 || __builtin_add_overflow(total, sizes->v[k], &total);
    if (bad || total != n)
        return stn_op_fail(
            call, STN_ERR_SHAPE,
            "'split_sizes' got sizes that add up to %" PRId64 ", wanted %" PRId64 " in parts of at least 0", total, n);
    call->n_out = (int)sizes->n;
    int64_t begin = 0;
    for (int k = 0; k < call->n_out; begin += sizes->v[k], k++)
        call->out[k] = stn_slice(call->in[0], dim, begin, begin + sizes->v[k], 1);
    return STN_OK;
}

static stn_status split(stn_op_call *call)
{
    const struct split_attrs *attrs = call->attrs;
    int dim;
    STNI_TRY(wrap(call, attrs->dim, &dim));
    int64_t n = layout_of(call)->shape[dim];
    if ((attrs->size >= 0) == (attrs->sizes.n >= 0))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "got %s, wanted one of 'split_size' and 'split_sizes'",
                           attrs->size < 0 ? "neither" : "both");
    if (attrs->sizes.n >= 0)
        return split_by_list(call, dim, &attrs->sizes);
    if (attrs->size == 0 && n > 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'split_size' got 0 for %" PRId64 " elements, wanted at least 1", n);
    STNI_TRY(check_count(call, n == 0 ? 1 : (n - 1) / attrs->size + 1));
    cut_even(call, dim, attrs->size);
    return STN_OK;
}

static stn_status chunk(stn_op_call *call)
{
    const struct chunk_attrs *attrs = call->attrs;
    int dim;
    STNI_TRY(wrap(call, attrs->dim, &dim));
    int64_t n = layout_of(call)->shape[dim];
    if (attrs->chunks < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'chunks' got %" PRId64 ", wanted at least 1", attrs->chunks);
    int64_t size = n == 0 ? 0 : (n - 1) / attrs->chunks + 1;
    STNI_TRY(check_count(call, n == 0 ? attrs->chunks : (n - 1) / size + 1));
    cut_even(call, dim, size);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema narrow_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct narrow_attrs, dim), NULL},
    {"start", STN_ATTR_INT, offsetof(struct narrow_attrs, start), NULL},
    {"length", STN_ATTR_INT, offsetof(struct narrow_attrs, length), NULL},
};
static const stn_attr_schema select_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct select_attrs, dim), NULL},
    {"index", STN_ATTR_INT, offsetof(struct select_attrs, index), NULL},
};
static const stn_attr_schema unbind_schema[] = {{"dim", STN_ATTR_INT, offsetof(struct select_attrs, dim), NULL}};
static const stn_attr_schema split_schema[] = {
    {"split_size", STN_ATTR_INT, offsetof(struct split_attrs, size), NULL},
    {"split_sizes", STN_ATTR_INTS, offsetof(struct split_attrs, sizes), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct split_attrs, dim), NULL},
};
static const stn_attr_schema chunk_schema[] = {
    {"chunks", STN_ATTR_INT, offsetof(struct chunk_attrs, chunks), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct chunk_attrs, dim), NULL},
};
static const struct split_attrs split_init = {.size = -1, .sizes = {.n = -1}};

const stn_op_desc stni_op_narrow = {
    .size = sizeof(stn_op_desc), .name = "narrow", STN_INPUTS(inputs), STN_ATTRS(narrow_schema, struct narrow_attrs),
    .n_outputs = 1, .flags = STN_OP_ALIAS | STN_OP_VIEW, .impl = &(const stn_op_impl){.compose = narrow},
    .signature = "input, dim, start, length",
};

const stn_op_desc stni_op_select = {
    .size = sizeof(stn_op_desc), .name = "select", STN_INPUTS(inputs), STN_ATTRS(select_schema, struct select_attrs),
    .n_outputs = 1, .flags = STN_OP_ALIAS | STN_OP_VIEW, .impl = &(const stn_op_impl){.compose = select_op},
    .signature = "input, dim, index",
};

const stn_op_desc stni_op_unbind = {
    .size = sizeof(stn_op_desc), .name = "unbind", STN_INPUTS(inputs), STN_ATTRS(unbind_schema, struct select_attrs),
    .n_outputs = STN_MAX_OUTPUTS, .flags = STN_OP_ALIAS | STN_OP_VIEW, .impl = &(const stn_op_impl){.compose = unbind},
};

const stn_op_desc stni_op_split = {
    .size = sizeof(stn_op_desc), .name = "split", STN_INPUTS(inputs), STN_ATTRS(split_schema, struct split_attrs),
    .attrs_init = &split_init, .n_outputs = STN_MAX_OUTPUTS, .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &(const stn_op_impl){.compose = split},
    .signature = "input, split_size=None, dim=, *, split_sizes=",
};

const stn_op_desc stni_op_chunk = {
    .size = sizeof(stn_op_desc), .name = "chunk", STN_INPUTS(inputs), STN_ATTRS(chunk_schema, struct chunk_attrs),
    .n_outputs = STN_MAX_OUTPUTS, .flags = STN_OP_ALIAS | STN_OP_VIEW, .impl = &(const stn_op_impl){.compose = chunk},
    .signature = "input, chunks, dim=",
};

static stn_status call_many(enum stni_op_index index, stn_tensor *input, const void *attrs, int n_outputs,
                            stn_tensor **outputs)
{
    stn_context *context = stn_tensor_context(input);
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    return stn_op_apply(stn_op_find(context, stni_op_table[index]->name), 1, &input, attrs, n_outputs, outputs);
}

stn_status stn_unbind(stn_tensor *input, int dim, int n_outputs, stn_tensor **outputs)
{
    struct select_attrs attrs = {dim, 0};
    return call_many(STNI_OP_unbind, input, &attrs, n_outputs, outputs);
}

stn_status stn_split(stn_tensor *input, int dim, int64_t size, int n_outputs, stn_tensor **outputs)
{
    struct split_attrs attrs = {size < 0 ? 0 : size, {.n = -1}, dim};
    return call_many(STNI_OP_split, input, &attrs, n_outputs, outputs);
}

stn_status stn_chunk(stn_tensor *input, int dim, int64_t chunks, int n_outputs, stn_tensor **outputs)
{
    struct chunk_attrs attrs = {chunks, dim};
    return call_many(STNI_OP_chunk, input, &attrs, n_outputs, outputs);
}
