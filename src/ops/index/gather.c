/* gather, index_select and take_along_dim: elements, or slices, chosen by index. Layouts and gradients are
 * index_read's. */
#include "ops/index/arguments.h"

#include "ops/common/call.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>

struct gather_attrs {
    int64_t dim;
    int64_t sparse_grad; /* a hint that changes no value: gradients are dense here */
};

struct select_attrs {
    int64_t dim;
    int64_t wrap; /* 1: negative indices count from the end */
};

struct along_attrs {
    stn_number dim; /* NONE: both tensors are taken flat */
};

stn_tensor *stn_gather(stn_tensor *input, int dim, stn_tensor *index)
{
    const struct gather_attrs attrs = {.dim = dim};
    return stni_call(STNI_OP_gather, 2, (stn_tensor *[]){input, index}, &attrs);
}

stn_tensor *stn_index_select(stn_tensor *input, int dim, stn_tensor *index)
{
    const struct select_attrs attrs = {.dim = dim};
    return stni_call(STNI_OP_index_select, 2, (stn_tensor *[]){input, index}, &attrs);
}

stn_tensor *stn_take_along_dim(stn_tensor *input, stn_tensor *indices, const int *dim)
{
    struct along_attrs attrs = {{.kind = STN_NUMBER_NONE}};
    if (dim)
        attrs.dim = (stn_number){STN_NUMBER_INT, *dim, *dim};
    return stni_call(STNI_OP_take_along_dim, 2, (stn_tensor *[]){input, indices}, &attrs);
}

static stn_status gather(stn_op_call *call)
{
    stn_tensor *index = call->in[STNI_INDEX];
    struct stni_access_attrs attrs;
    STNI_TRY(stni_index_begin(call, ((const struct gather_attrs *)call->attrs)->dim, &attrs));
    STNI_TRY(stni_index_fits(call, (int)attrs.dim));
    stn_tensor *out =
        stni_index_read(stni_index_with_dims(call->in[STNI_INDEXED]), stni_index_with_dims(index), &attrs);
    call->out[0] = stni_index_as(out, index);
    return STN_OK;
}

static stn_status index_select(stn_op_call *call)
{
    const stn_spec *index = call->in_spec[STNI_INDEX], *input = call->in_spec[STNI_INDEXED];
    const struct select_attrs *given = call->attrs;
    struct stni_access_attrs attrs;
    STNI_TRY(stni_index_begin(call, given->dim, &attrs));
    STNI_TRY(stni_index_is_line(call));
    if (input->layout.ndim == 0 && index->numel != 1)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'index' got %" PRId64 " elements, wanted 1 for an 'input' without dims", index->numel);
    attrs.slices = 1;
    attrs.wrap = given->wrap;
    stn_tensor *out = stni_index_read(stni_index_with_dims(call->in[STNI_INDEXED]),
                                      stni_index_with_dims(call->in[STNI_INDEX]), &attrs);
    call->out[0] = input->layout.ndim == 0 ? stni_index_as(out, call->in[STNI_INDEXED]) : out;
    return STN_OK;
}

/* Both shapes, except for `dim`, expanded to their common shape. */
static stn_status broadcast(const stn_op_call *call, int dim, int64_t *input, int64_t *index)
{
    const struct stni_layout *a = &call->in_spec[STNI_INDEXED]->layout, *b = &call->in_spec[STNI_INDEX]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    int fits = a->ndim == b->ndim;
    for (int d = 0; d < a->ndim && fits; d++) {
        input[d] = a->shape[d];
        index[d] = b->shape[d];
        if (d == dim || a->shape[d] == b->shape[d])
            continue;
        fits = a->shape[d] == 1 || b->shape[d] == 1;
        input[d] = index[d] = a->shape[d] == 1 ? b->shape[d] : a->shape[d];
    }
    if (fits)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE,
                       "'indices' got shape %s, wanted one that goes with 'input', %s, in all dims but 'dim'",
                       stni_shape_text(b->ndim, b->shape, got), stni_shape_text(a->ndim, a->shape, wanted));
}

static stn_status take_along_dim(stn_op_call *call)
{
    const stn_number *given = &((const struct along_attrs *)call->attrs)->dim;
    stn_tensor *input = call->in[STNI_INDEXED], *index = call->in[STNI_INDEX];
    int64_t input_shape[STN_MAX_NDIM], index_shape[STN_MAX_NDIM];
    int64_t dim = 0;
    struct stni_access_attrs attrs;
    STNI_TRY(stni_index_dtype(call, STNI_INDEX));
    STNI_TRY(stni_index_whole(call, "dim", given, &dim));
    const int flat = given->kind == STN_NUMBER_NONE;
    STNI_TRY(stni_index_begin(call, dim, &attrs));
    attrs.wrap = 1;
    if (flat) {
        call->out[0] = stni_index_read(stn_flatten(input, 0, -1), stn_flatten(index, 0, -1), &attrs);
        return STN_OK;
    }
    STNI_TRY(broadcast(call, (int)attrs.dim, input_shape, index_shape));
    int ndim = stn_tensor_ndim(input);
    stn_tensor *table = stni_index_with_dims(stn_expand(input, ndim, input_shape));
    call->out[0] = stni_index_as(
        stni_index_read(table, stni_index_with_dims(stn_expand(index, ndim, index_shape)), &attrs), index);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "index"}};
static const stn_input_schema along_inputs[] = {{.name = "input"}, {.name = "indices"}};
static const stn_attr_schema gather_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct gather_attrs, dim), NULL},
    {"sparse_grad", STN_ATTR_BOOL, offsetof(struct gather_attrs, sparse_grad), NULL},
};
static const stn_attr_schema select_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct select_attrs, dim), NULL},
    {"wrap", STN_ATTR_BOOL, offsetof(struct select_attrs, wrap), NULL},
};
static const stn_attr_schema along_schema[] = {{"dim", STN_ATTR_NUMBER, offsetof(struct along_attrs, dim), NULL}};

const stn_op_desc stni_op_gather = {
    .size = sizeof(stn_op_desc),
    .name = "gather",
    STN_INPUTS(inputs),
    STN_ATTRS(gather_schema, struct gather_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = gather},
    .signature = "input, dim, index, *, sparse_grad=",
};

const stn_op_desc stni_op_index_select = {
    .size = sizeof(stn_op_desc),
    .name = "index_select",
    STN_INPUTS(inputs),
    STN_ATTRS(select_schema, struct select_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = index_select},
    .signature = "input, dim, index, *, wrap=",
};

const stn_op_desc stni_op_take_along_dim = {
    .size = sizeof(stn_op_desc),
    .name = "take_along_dim",
    STN_INPUTS(along_inputs),
    STN_ATTRS(along_schema, struct along_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = take_along_dim},
};
