/* searchsorted and bucketize: order_search under the names that users know, after promotion. */
#include "ops/sort/sort_family.h"

#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/promote.h"
#include "ops/index/access.h"
#include "ops/placement/unshard.h"

#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

enum side { NO_SIDE = -1, LEFT, RIGHT };

struct searchsorted_attrs {
    stn_number input;
    int64_t out_int32, right, side;
};

struct bucketize_attrs {
    stn_number input;
    int64_t out_int32, right;
};

stn_tensor *stn_searchsorted(stn_tensor *sorted_sequence, stn_tensor *input, int right, stn_tensor *sorter)
{
    const struct searchsorted_attrs attrs = {.right = right != 0, .side = NO_SIDE};
    return stni_call(STNI_OP_searchsorted, 3, (stn_tensor *[]){sorted_sequence, input, sorter}, &attrs);
}

stn_tensor *stn_bucketize(stn_tensor *input, stn_tensor *boundaries, int right)
{
    const struct bucketize_attrs attrs = {.right = right != 0};
    return stni_call(STNI_OP_bucketize, 2, (stn_tensor *[]){input, boundaries}, &attrs);
}

/* The two operands, by their numbers among the op's inputs; the value may be a number. */
struct operands {
    int sequence, value;
    const stn_number *number;
};

static stn_status check_operands(const stn_op_call *call, const struct operands *o)
{
    const stn_input_schema *names = stn_op_descriptor(call->op)->inputs;
    const struct stni_layout *sequence = &call->in_spec[o->sequence]->layout;
    const struct stni_layout *value = call->in_spec[o->value] ? &call->in_spec[o->value]->layout : NULL;
    const stn_dtype dtypes[] = {sequence->dtype, value ? value->dtype : STN_DTYPE_F32};
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (!value && o->number->kind == STN_NUMBER_NONE)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' is missing, wanted a tensor or a number",
                           names[o->value].name);
    for (int i = 0; i < 2; i++)
        if (!((unsigned)STNI_SORT_DTYPES >> dtypes[i] & 1))
            return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted a dtype with an order",
                               names[i ? o->value : o->sequence].name, stn_dtype_name(dtypes[i]));
    int fits = sequence->ndim == 1 || (sequence->ndim > 1 && value && value->ndim == sequence->ndim);
    for (int d = 0; fits && d < sequence->ndim - 1; d++)
        fits = value->shape[d] == sequence->shape[d];
    return fits ? STN_OK
                : stn_op_fail(call, STN_ERR_SHAPE,
                              "'%s' got shape %s beside values of shape %s, wanted one dim, or theirs but for the last",
                              names[o->sequence].name, stni_shape_text(sequence->ndim, sequence->shape, got),
                              stni_shape_text(value ? value->ndim : 0, value ? value->shape : NULL, wanted));
}

static stn_tensor *search(const stn_op_call *call, const struct operands *o, stn_tensor *sequence, int64_t right,
                          int64_t out_int32)
{
    const struct stni_sort_search_attrs attrs = {*o->number, right, out_int32};
    const stn_spec *specs[] = {call->in_spec[o->sequence], call->in_spec[o->value]};
    const stn_number numbers[] = {{0}, *o->number};
    const stn_dtype dtype = stni_promote(2, specs, numbers);
    stn_tensor *in[] = {stn_cast(sequence, dtype), call->in[o->value] ? stn_cast(call->in[o->value], dtype) : NULL};
    return stni_call(STNI_OP_order_search, 2, in, &attrs);
}

static stn_status check_sorter(const stn_op_call *call, const struct stni_layout *sorter)
{
    const struct stni_layout *sequence = &call->in_spec[0]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (sorter->dtype != STN_DTYPE_I64)
        return stn_op_fail(call, STN_ERR_DTYPE, "'sorter' got %s, wanted i64", stn_dtype_name(sorter->dtype));
    if (sorter->ndim == sequence->ndim && memcmp(sorter->shape, sequence->shape, sizeof sorter->shape) == 0)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'sorter' got shape %s, wanted that of 'sorted_sequence', %s",
                       stni_shape_text(sorter->ndim, sorter->shape, got),
                       stni_shape_text(sequence->ndim, sequence->shape, wanted));
}

/* The sequence in the order that the sorter gives. A sorter puts it in ascending order: where ranks share the dim
 * they sort it. */
static stn_tensor *in_order(const stn_op_call *call, stn_tensor *sequence, stn_tensor *sorter)
{
    const struct stni_layout *layout = &call->in_spec[0]->layout;
    const int dim = layout->ndim - 1;
    const struct stni_access_attrs along = {.dim = dim, .what = STNI_OP_searchsorted};
    uint32_t axes;
    if (stni_dim_ranks(layout, dim, &axes) > 1)
        return stn_sort(sequence, dim, 0, NULL);
    return stni_index_read(sequence, sorter, &along);
}

static stn_status searchsorted(stn_op_call *call)
{
    const struct searchsorted_attrs *attrs = call->attrs;
    const struct operands o = {0, 1, &attrs->input};
    stn_tensor *sequence = call->in[0];
    STNI_TRY(check_operands(call, &o));
    if (attrs->right && attrs->side == LEFT)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'side' got left and 'right' true, wanted one of them, or the same");
    if (call->in_spec[2]) {
        STNI_TRY(check_sorter(call, &call->in_spec[2]->layout));
        sequence = in_order(call, sequence, call->in[2]);
    }
    call->out[0] = search(call, &o, sequence, attrs->right || attrs->side == RIGHT, attrs->out_int32);
    return STN_OK;
}

static stn_status bucketize(stn_op_call *call)
{
    const struct bucketize_attrs *attrs = call->attrs;
    const struct operands o = {1, 0, &attrs->input};
    STNI_TRY(check_operands(call, &o));
    if (call->in_spec[1]->layout.ndim != 1)
        return stn_op_fail(call, STN_ERR_SHAPE, "'boundaries' got %d dims, wanted 1", call->in_spec[1]->layout.ndim);
    call->out[0] = search(call, &o, call->in[1], attrs->right, attrs->out_int32);
    return STN_OK;
}

static const char *const sides[] = {[LEFT] = "left", [RIGHT] = "right", NULL};
static const stn_input_schema search_inputs[] = {
    {.name = "sorted_sequence"}, {.name = "input", .optional = 1}, {.name = "sorter", .optional = 1}};
static const stn_input_schema bucketize_inputs[] = {{.name = "input", .optional = 1}, {.name = "boundaries"}};
static const stn_attr_schema search_schema[] = {
    {"input", STN_ATTR_NUMBER, offsetof(struct searchsorted_attrs, input), NULL},
    {"out_int32", STN_ATTR_BOOL, offsetof(struct searchsorted_attrs, out_int32), NULL},
    {"right", STN_ATTR_BOOL, offsetof(struct searchsorted_attrs, right), NULL},
    {"side", STN_ATTR_CHOICE, offsetof(struct searchsorted_attrs, side), sides},
};
static const stn_attr_schema bucketize_schema[] = {
    {"input", STN_ATTR_NUMBER, offsetof(struct bucketize_attrs, input), NULL},
    {"out_int32", STN_ATTR_BOOL, offsetof(struct bucketize_attrs, out_int32), NULL},
    {"right", STN_ATTR_BOOL, offsetof(struct bucketize_attrs, right), NULL},
};
static const struct searchsorted_attrs search_init = {.side = NO_SIDE};

const stn_op_desc stni_op_searchsorted = {
    .size = sizeof(stn_op_desc),
    .name = "searchsorted",
    STN_INPUTS(search_inputs),
    STN_ATTRS(search_schema, struct searchsorted_attrs),
    .attrs_init = &search_init,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = searchsorted},
    .signature = "sorted_sequence, input, *, out_int32=, right=, side=, sorter=",
};

const stn_op_desc stni_op_bucketize = {
    .size = sizeof(stn_op_desc),
    .name = "bucketize",
    STN_INPUTS(bucketize_inputs),
    STN_ATTRS(bucketize_schema, struct bucketize_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = bucketize},
    .signature = "input, boundaries, *, out_int32=, right=",
};
