/* max, min, argmax, argmin: the greatest and the least element, and where it is. All are order_top's first one;
 * without a dim, max and min are reductions. NaN wins. */
#include "ops/sort/sort_family.h"
#include "ops/reduce/reduction.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <stddef.h>

struct extreme_attrs {
    stn_ints dim;
    int64_t keepdim;
};

/* What an op is. */
struct extreme {
    int largest;
    enum stni_op_index all; /* without a dim */
};

stn_tensor *stn_max(stn_tensor *input)
{
    return stni_sort_call(STNI_OP_max, input, NULL, NULL);
}

stn_tensor *stn_min(stn_tensor *input)
{
    return stni_sort_call(STNI_OP_min, input, NULL, NULL);
}

stn_tensor *stn_max_dim(stn_tensor *input, int dim, int keepdim, stn_tensor **indices)
{
    const struct extreme_attrs attrs = {stni_sort_dim(&dim), keepdim != 0};
    return stni_sort_call(STNI_OP_max, input, &attrs, indices);
}

stn_tensor *stn_min_dim(stn_tensor *input, int dim, int keepdim, stn_tensor **indices)
{
    const struct extreme_attrs attrs = {stni_sort_dim(&dim), keepdim != 0};
    return stni_sort_call(STNI_OP_min, input, &attrs, indices);
}

stn_tensor *stn_argmax(stn_tensor *input, const int *dim, int keepdim)
{
    const struct extreme_attrs attrs = {stni_sort_dim(dim), keepdim != 0};
    return stni_sort_call(STNI_OP_argmax, input, &attrs, NULL);
}

stn_tensor *stn_argmin(stn_tensor *input, const int *dim, int keepdim)
{
    const struct extreme_attrs attrs = {stni_sort_dim(dim), keepdim != 0};
    return stni_sort_call(STNI_OP_argmin, input, &attrs, NULL);
}

static stn_tensor *first(const stn_op_call *call, stn_tensor **indices)
{
    const struct extreme_attrs *attrs = call->attrs;
    const struct extreme *extreme = call->arg;
    const struct stni_sort_top_attrs top = {attrs->dim, 1, extreme->largest, 1, attrs->keepdim};
    return stni_sort_call(STNI_OP_order_top, call->in[0], &top, indices);
}

static stn_status element(stn_op_call *call)
{
    const struct extreme_attrs *attrs = call->attrs;
    const struct extreme *extreme = call->arg;
    uint32_t dims;
    STNI_TRY(stni_sort_check(call, &attrs->dim, 1, &dims));
    if (attrs->dim.n <= 0) {
        call->n_out = 1;
        call->out[0] = stni_call(extreme->all, 1, call->in, NULL);
    } else {
        call->out[0] = first(call, &call->out[1]);
    }
    return STN_OK;
}

static stn_status place_of(stn_op_call *call)
{
    const struct extreme_attrs *attrs = call->attrs;
    uint32_t dims;
    STNI_TRY(stni_sort_check(call, &attrs->dim, 1, &dims));
    first(call, &call->out[0]);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct extreme_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct extreme_attrs, keepdim), NULL},
};
static const struct extreme_attrs attrs_init = {.dim = {.n = -1}};

const stn_op_desc stni_op_max = {
    .size = sizeof(stn_op_desc), .name = "max", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct extreme_attrs),
    .attrs_init = &attrs_init, .n_outputs = 2, .impl = &(const stn_op_impl){.compose = element},
    .arg = (void *)&(const struct extreme){1, STNI_OP_max_all},
    .signature = "input, dim=, keepdim= -> Tensor | (Tensor, Tensor)",
};

const stn_op_desc stni_op_min = {
    .size = sizeof(stn_op_desc), .name = "min", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct extreme_attrs),
    .attrs_init = &attrs_init, .n_outputs = 2, .impl = &(const stn_op_impl){.compose = element},
    .arg = (void *)&(const struct extreme){0, STNI_OP_min_all},
    .signature = "input, dim=, keepdim= -> Tensor | (Tensor, Tensor)",
};

const stn_op_desc stni_op_argmax = {
    .size = sizeof(stn_op_desc), .name = "argmax", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct extreme_attrs),
    .attrs_init = &attrs_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = place_of},
    .arg = (void *)&(const struct extreme){1, STNI_OP_max_all},
};

const stn_op_desc stni_op_argmin = {
    .size = sizeof(stn_op_desc), .name = "argmin", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct extreme_attrs),
    .attrs_init = &attrs_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = place_of},
    .arg = (void *)&(const struct extreme){0, STNI_OP_min_all},
};

/* amax and amin of all elements, but for the gradient, which elements that are NaN share as others do. */
static stn_tensor *derivative(const stn_backward_call *call, stn_tensor *grad, uint32_t reduced)
{
    (void)reduced;
    return stni_sort_share(grad, call->in[0], call->out[0]);
}

static const struct stni_reduction_rule max_rule = {
    .op = STNI_REDUCTION_amax, .pending = STN_MAX, .needs_elements = 1, .derivative = derivative,
    .reads = UINT64_C(1) << 32 | 1,
};
static const struct stni_reduction_rule min_rule = {
    .op = STNI_REDUCTION_amin, .pending = STN_MIN, .needs_elements = 1, .derivative = derivative,
    .reads = UINT64_C(1) << 32 | 1,
};

const stn_op_desc stni_op_max_all = {
    .size = sizeof(stn_op_desc), .name = "max_all", STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&max_rule), .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_min_all = {
    .size = sizeof(stn_op_desc), .name = "min_all", STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&min_rule), .flags = STN_OP_INTERNAL,
};
