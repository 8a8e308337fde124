/* scatter, scatter_add and scatter_reduce: values go to elements by index, with all dims of the input. Layouts and
 * gradients are index_write's. */
#include "ops/index/arguments.h"

#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/promote.h"

#include <shardtensor/ops.h>

#include <math.h>
#include <stddef.h>

enum { REDUCE_NONE, REDUCE_ADD, REDUCE_MULTIPLY };

struct scatter_attrs {
    int64_t dim, reduce;
    stn_number value; /* instead of src */
};

struct add_attrs {
    int64_t dim;
};

struct reduce_attrs {
    int64_t dim, reduce, include_self;
};

stn_tensor *stn_scatter_from(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *src)
{
    const struct scatter_attrs attrs = {.dim = dim};
    return stni_call(STNI_OP_scatter, 3, (stn_tensor *[]){input, index, src}, &attrs);
}

stn_tensor *stn_scatter_number(stn_tensor *input, int dim, stn_tensor *index, double value)
{
    const struct scatter_attrs attrs = {.dim = dim, .value = stni_number(value)};
    return stni_call(STNI_OP_scatter, 3, (stn_tensor *[]){input, index, NULL}, &attrs);
}

stn_tensor *stn_scatter_add(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *src)
{
    const struct add_attrs attrs = {dim};
    return stni_call(STNI_OP_scatter_add, 3, (stn_tensor *[]){input, index, src}, &attrs);
}

stn_tensor *stn_scatter_reduce(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *src,
                               stn_scatter_reduction reduce, int include_self)
{
    const struct reduce_attrs attrs = {dim, reduce, include_self};
    return stni_call(STNI_OP_scatter_reduce, 3, (stn_tensor *[]){input, index, src}, &attrs);
}

static int has_order(const stn_op_call *call)
{
    stn_dtype dtype = call->in_spec[STNI_INDEXED]->layout.dtype;
    return dtype != STN_DTYPE_C64 && dtype != STN_DTYPE_C128;
}

/* The part of `tensor` that is not beyond `other`. */
static stn_tensor *within(stn_tensor *tensor, stn_tensor *other)
{
    for (int d = 0; d < stn_tensor_ndim(other) && !stn_tensor_is_error(tensor); d++)
        if (stn_tensor_shape(tensor)[d] > stn_tensor_shape(other)[d])
            tensor = stn_slice(tensor, d, 0, stn_tensor_shape(other)[d], 1);
    return tensor;
}

/* A tensor of the index's shape, whole numbers all. */
static stn_tensor *numbers_like(stn_tensor *index, int64_t value)
{
    return stn_add_number(stn_mul_number(stn_cast(index, STN_DTYPE_I64), 0), (double)value);
}

/* Everything but arguments. `src` NULL: attrs->value. An index is longer than `src` only where it has no elements. */
static stn_tensor *write(const stn_op_call *call, stn_tensor *src, const struct stni_access_attrs *attrs)
{
    stn_tensor *input = call->in[STNI_INDEXED], *index = stni_index_with_dims(call->in[STNI_INDEX]);
    if (src) {
        src = within(stni_index_with_dims(src), index);
        index = within(index, src);
    }
    return stni_index_as(stni_index_write(stni_index_with_dims(input), index, src, attrs), input);
}

static stn_status scatter(stn_op_call *call)
{
    static const enum stni_access_mode mode_of[] = {STNI_ACCESS_SET, STNI_ACCESS_ADD, STNI_ACCESS_MUL};
    const struct scatter_attrs *own = call->attrs;
    stn_tensor *src = call->in[STNI_SOURCE];
    struct stni_access_attrs attrs;
    if ((src != NULL) == (own->value.kind != STN_NUMBER_NONE))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'src' and 'value' got %s, wanted one of them",
                           src ? "both" : "neither");
    STNI_TRY(stni_index_begin(call, own->dim, &attrs));
    STNI_TRY(stni_index_fits(call, (int)attrs.dim));
    if (src)
        STNI_TRY(stni_index_same_dtype(call));
    STNI_TRY(stni_check_number(call, "value", &own->value, call->in_spec[STNI_INDEXED]->layout.dtype));
    attrs.mode = mode_of[own->reduce];
    attrs.value = own->value;
    if (!src && own->reduce != REDUCE_NONE) {
        const stn_dtype dtype = call->in_spec[STNI_INDEXED]->layout.dtype;
        src = stn_cast(numbers_like(call->in[STNI_INDEX], 1), dtype);
        if (own->value.f != 1) /* as it is: a double has not all digits of an integer */
            src = stn_cast(stni_call(STNI_OP_mul, 2, (stn_tensor *[]){src, NULL}, &own->value), dtype);
    }
    call->out[0] = write(call, src, &attrs);
    return STN_OK;
}

static stn_status scatter_add(stn_op_call *call)
{
    struct stni_access_attrs attrs;
    STNI_TRY(stni_index_begin(call, ((const struct add_attrs *)call->attrs)->dim, &attrs));
    STNI_TRY(stni_index_fits(call, (int)attrs.dim));
    STNI_TRY(stni_index_same_dtype(call));
    attrs.mode = STNI_ACCESS_ADD;
    call->out[0] = write(call, call->in[STNI_SOURCE], &attrs);
    return STN_OK;
}

/* The mean: each element's sum over its number of addends. Where no value was added that number is 1, and the
 * element is the input's. */
static stn_tensor *mean(const stn_op_call *call, const struct stni_access_attrs *attrs)
{
    stn_tensor *sum = write(call, call->in[STNI_SOURCE], attrs), *index = stni_index_with_dims(call->in[STNI_INDEX]);
    stn_tensor *table = stni_index_with_dims(call->in[STNI_INDEXED]);
    struct stni_access_attrs count = *attrs;
    if (stn_tensor_is_error(sum) || stn_tensor_is_error(table))
        return sum;
    count.fresh = 0;
    count.quiet = 1; /* the sum has reported */
    stn_tensor *n = stni_index_write_zeros(stn_tensor_spec(table), index, numbers_like(index, 1), &count);
    n = stni_index_as(attrs->fresh ? stn_clamp(n, 1, INFINITY) : stn_add_number(n, 1), call->in[STNI_INDEXED]);
    if (stn_dtype_is_differentiable(call->in_spec[STNI_INDEXED]->layout.dtype))
        return stn_div(sum, n);
    return stn_cast(stn_floor_divide(sum, n), call->in_spec[STNI_INDEXED]->layout.dtype);
}

static stn_status scatter_reduce(stn_op_call *call)
{
    static const enum stni_access_mode mode_of[] = {
        [STN_SCATTER_SUM] = STNI_ACCESS_ADD,  [STN_SCATTER_PROD] = STNI_ACCESS_MUL, [STN_SCATTER_MEAN] = STNI_ACCESS_ADD,
        [STN_SCATTER_AMAX] = STNI_ACCESS_MAX, [STN_SCATTER_AMIN] = STNI_ACCESS_MIN,
    };
    const struct reduce_attrs *own = call->attrs;
    struct stni_access_attrs attrs;
    STNI_TRY(stni_index_begin(call, own->dim, &attrs));
    STNI_TRY(stni_index_fits(call, (int)attrs.dim));
    STNI_TRY(stni_index_same_dtype(call));
    if (own->reduce < 0 || own->reduce > STN_SCATTER_AMIN)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'reduce' got %d, wanted one of stn_scatter_reduction",
                           (int)own->reduce);
    attrs.mode = mode_of[own->reduce];
    attrs.fresh = !own->include_self;
    if (own->reduce >= STN_SCATTER_AMAX && !has_order(call))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a dtype with an order for amax and amin",
                           stn_dtype_name(call->in_spec[STNI_INDEXED]->layout.dtype));
    call->out[0] = own->reduce == STN_SCATTER_MEAN ? mean(call, &attrs) : write(call, call->in[STNI_SOURCE], &attrs);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "index"}, {.name = "src"}};
static const stn_input_schema scatter_inputs[] = {{.name = "input"}, {.name = "index"}, {.name = "src", .optional = 1}};
static const char *const old_reductions[] = {"none", "add", "multiply", NULL};
static const char *const reductions[] = {"sum", "prod", "mean", "amax", "amin", NULL};
static const stn_attr_schema scatter_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct scatter_attrs, dim), NULL},
    {"value", STN_ATTR_NUMBER, offsetof(struct scatter_attrs, value), NULL},
    {"reduce", STN_ATTR_CHOICE, offsetof(struct scatter_attrs, reduce), old_reductions},
};
static const stn_attr_schema add_schema[] = {{"dim", STN_ATTR_INT, offsetof(struct add_attrs, dim), NULL}};
static const stn_attr_schema reduce_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct reduce_attrs, dim), NULL},
    {"reduce", STN_ATTR_CHOICE, offsetof(struct reduce_attrs, reduce), reductions},
    {"include_self", STN_ATTR_BOOL, offsetof(struct reduce_attrs, include_self), NULL},
};
static const struct reduce_attrs reduce_init = {.include_self = 1};

const stn_op_desc stni_op_scatter = {
    .size = sizeof(stn_op_desc),
    .name = "scatter",
    STN_INPUTS(scatter_inputs),
    STN_ATTRS(scatter_schema, struct scatter_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = scatter},
    .signature = "input, dim, index, src=, value=, *, reduce=None",
};

const stn_op_desc stni_op_scatter_add = {
    .size = sizeof(stn_op_desc),
    .name = "scatter_add",
    STN_INPUTS(inputs),
    STN_ATTRS(add_schema, struct add_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = scatter_add},
    .signature = "input, dim, index, src",
};

const stn_op_desc stni_op_scatter_reduce = {
    .size = sizeof(stn_op_desc),
    .name = "scatter_reduce",
    STN_INPUTS(inputs),
    STN_ATTRS(reduce_schema, struct reduce_attrs),
    .attrs_init = &reduce_init,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = scatter_reduce},
    .signature = "input, dim, index, src, reduce, *, include_self=",
};
