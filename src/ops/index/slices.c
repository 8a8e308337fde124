/* index_add, index_copy and index_fill: slices along a dim by an index of one dim. Layouts and gradients are
 * index_write's. */
#include "ops/index/arguments.h"

#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/promote.h"

#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

struct add_attrs {
    int64_t dim;
    stn_number alpha;
};

struct copy_attrs {
    int64_t dim;
};

struct fill_attrs {
    int64_t dim;
    stn_number value;
};

stn_tensor *stn_index_add(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *source, double alpha)
{
    const struct add_attrs attrs = {dim, stni_number(alpha)};
    return stni_call(STNI_OP_index_add, 3, (stn_tensor *[]){input, index, source}, &attrs);
}

stn_tensor *stn_index_copy(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *source)
{
    const struct copy_attrs attrs = {dim};
    return stni_call(STNI_OP_index_copy, 3, (stn_tensor *[]){input, index, source}, &attrs);
}

stn_tensor *stn_index_fill(stn_tensor *input, int dim, stn_tensor *index, double value)
{
    const struct fill_attrs attrs = {dim, stni_number(value)};
    return stni_call(STNI_OP_index_fill, 3, (stn_tensor *[]){input, index, NULL}, &attrs);
}

/* The shape of the slices that the index names. */
static int slices_shape(const stn_op_call *call, int64_t dim, int64_t *shape)
{
    const struct stni_layout *in = &call->in_spec[STNI_INDEXED]->layout;
    int ndim = in->ndim > 0 ? in->ndim : 1;
    memcpy(shape, in->shape, STN_MAX_NDIM * sizeof *shape);
    shape[dim] = call->in_spec[STNI_INDEX]->numel;
    return ndim;
}

/* `source` has the shape of the slices; without dims it stands for one element. */
static stn_status check_source(const stn_op_call *call, int64_t dim)
{
    const struct stni_layout *got = &call->in_spec[STNI_SOURCE]->layout;
    int64_t wanted[STN_MAX_NDIM];
    int ndim = slices_shape(call, dim, wanted);
    STNI_TRY(stni_index_same_dtype(call));
    if (got->ndim == 0 && ndim == 1 && wanted[0] == 1)
        return STN_OK;
    return stni_check_shape(call, STNI_SOURCE, ndim, wanted, NULL);
}

static void write(stn_op_call *call, stn_tensor *source, struct stni_access_attrs *attrs)
{
    stn_tensor *input = call->in[STNI_INDEXED], *index = stni_index_with_dims(call->in[STNI_INDEX]);
    attrs->slices = 1;
    call->out[0] = stni_index_as(stni_index_write(stni_index_with_dims(input), index, source, attrs), input);
}

static stn_status index_add(stn_op_call *call)
{
    const struct add_attrs *own = call->attrs;
    stn_dtype dtype = call->in_spec[STNI_INDEXED]->layout.dtype;
    struct stni_access_attrs attrs;
    STNI_TRY(stni_index_begin(call, own->dim, &attrs));
    STNI_TRY(stni_index_is_line(call));
    STNI_TRY(check_source(call, attrs.dim));
    attrs.scale = own->alpha.kind == STN_NUMBER_FLOAT ? stni_number(own->alpha.f) : own->alpha;
    if (attrs.scale.kind == STN_NUMBER_FLOAT && !stn_dtype_is_differentiable(dtype))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'alpha' got %g, wanted a whole number for %s", own->alpha.f,
                           stn_dtype_name(dtype));
    attrs.mode = STNI_ACCESS_ADD;
    if (own->alpha.f == 1)
        attrs.scale.kind = STN_NUMBER_NONE;
    write(call, stni_index_with_dims(call->in[STNI_SOURCE]), &attrs);
    return STN_OK;
}

static stn_status index_copy(stn_op_call *call)
{
    struct stni_access_attrs attrs;
    STNI_TRY(stni_index_begin(call, ((const struct copy_attrs *)call->attrs)->dim, &attrs));
    STNI_TRY(stni_index_is_line(call));
    STNI_TRY(check_source(call, attrs.dim));
    write(call, stni_index_with_dims(call->in[STNI_SOURCE]), &attrs);
    return STN_OK;
}

/* Along `dim` whether the index names the slice: a bool for each, seen with the input's dims, the same on all ranks. */
static stn_tensor *named_slices(const stn_op_call *call, const struct stni_access_attrs *attrs)
{
    const struct stni_layout *in = &call->in_spec[STNI_INDEXED]->layout;
    stn_tensor *index = stni_index_with_dims(call->in[STNI_INDEX]), *named;
    const stn_placement whole[STN_MAX_MESH_NDIM] = {{0}};
    const stn_spec *like;
    const int64_t n = in->ndim > 0 ? in->shape[attrs->dim] : 1;
    int64_t shape[STN_MAX_NDIM];
    if (stn_spec_like(call->in_spec[STNI_INDEXED], in->mesh ? whole : NULL, STN_DTYPE_BOOL, 1, &n, &like) != STN_OK)
        return call->context->error_tensor;
    struct stni_access_attrs line = *attrs;
    line.dim = 0;
    named = stni_index_write_zeros(like, index, stn_eq(index, index), &line);
    stn_spec_release(&like);
    for (int d = 0; d < in->ndim; d++)
        shape[d] = d == attrs->dim ? n : 1;
    return stn_view(named, in->ndim, shape);
}

/* A fill by mask, so that a slice counts once in the value's gradient, however often the index names it. */
static stn_tensor *fill_by_tensor(const stn_op_call *call, const struct stni_access_attrs *attrs)
{
    stn_tensor *input = call->in[STNI_INDEXED], *value = call->in[STNI_SOURCE];
    return stni_call(STNI_OP_masked_fill, 3, (stn_tensor *[]){input, named_slices(call, attrs), value}, NULL);
}

static stn_status index_fill(stn_op_call *call)
{
    const struct fill_attrs *own = call->attrs;
    stn_tensor *value = call->in[STNI_SOURCE];
    struct stni_access_attrs attrs;
    if ((value != NULL) == (own->value.kind != STN_NUMBER_NONE))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'value' got %s, wanted a number or a tensor",
                           value ? "both" : "nothing");
    if (value && call->in_spec[STNI_SOURCE]->layout.ndim > 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'value' got %d dims, wanted none",
                           call->in_spec[STNI_SOURCE]->layout.ndim);
    STNI_TRY(stni_index_begin(call, own->dim, &attrs));
    STNI_TRY(stni_index_is_line(call));
    STNI_TRY(stni_check_number(call, "value", &own->value, call->in_spec[STNI_INDEXED]->layout.dtype));
    attrs.value = own->value;
    attrs.wrap = 1;
    attrs.slices = 1;
    if (value)
        call->out[0] = fill_by_tensor(call, &attrs);
    else
        write(call, NULL, &attrs);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "index"}, {.name = "source"}};
static const stn_input_schema fill_inputs[] = {{.name = "input"}, {.name = "index"}, {.name = "value", .optional = 1}};
static const stn_attr_schema add_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct add_attrs, dim), NULL},
    {"alpha", STN_ATTR_NUMBER, offsetof(struct add_attrs, alpha), NULL},
};
static const stn_attr_schema copy_schema[] = {{"dim", STN_ATTR_INT, offsetof(struct copy_attrs, dim), NULL}};
static const stn_attr_schema fill_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct fill_attrs, dim), NULL},
    {"value", STN_ATTR_NUMBER, offsetof(struct fill_attrs, value), NULL},
};
static const struct add_attrs add_init = {.alpha = {STN_NUMBER_INT, 1, 1}};

const stn_op_desc stni_op_index_add = {
    .size = sizeof(stn_op_desc),
    .name = "index_add",
    STN_INPUTS(inputs),
    STN_ATTRS(add_schema, struct add_attrs),
    .attrs_init = &add_init,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = index_add},
    .signature = "input, dim, index, source, *, alpha=",
};

const stn_op_desc stni_op_index_copy = {
    .size = sizeof(stn_op_desc),
    .name = "index_copy",
    STN_INPUTS(inputs),
    STN_ATTRS(copy_schema, struct copy_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = index_copy},
    .signature = "input, dim, index, source",
};

const stn_op_desc stni_op_index_fill = {
    .size = sizeof(stn_op_desc),
    .name = "index_fill",
    STN_INPUTS(fill_inputs),
    STN_ATTRS(fill_schema, struct fill_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = index_fill},
    .signature = "input, dim, index, value",
};
