/* The typed functions of the family: from the callers' attributes to the ops'. */
#include "ops/conv/conv.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <string.h>

/* An entry for each windowed dim; 0 stands for `absent`. */
static stn_ints list_of(const int64_t *given, int dims, int64_t absent)
{
    stn_ints list = {.n = dims};
    for (int d = 0; d < dims; d++)
        list.v[d] = given[d] == 0 ? absent : given[d];
    return list;
}

/* Returns NULL, or the error tensor of what does not fit. */
static stn_tensor *read_attrs(stn_tensor *input, const char *name, int dims, const stn_conv_attrs *given,
                              struct stni_conv_attrs *attrs)
{
    if (given->size != sizeof *given)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: attrs.size got %zu, wanted %zu", name, given->size,
                              sizeof *given);
    attrs->stride = list_of(given->stride, dims, 1);
    attrs->padding = list_of(given->padding, dims, 0);
    attrs->dilation = list_of(given->dilation, dims, 1);
    attrs->groups = given->groups == 0 ? 1 : given->groups;
    attrs->auto_padding = given->same ? STNI_CONV_PADDING_SAME : STNI_CONV_PADDING_GIVEN;
    for (int d = 0; d < dims; d++) {
        if ((unsigned)given->mode[d] > STN_PADDING_CIRCULAR)
            return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: attrs.mode got %d, wanted an stn_padding_mode", name,
                                  (int)given->mode[d]);
        attrs->dim_mode[dims - 1 - d] = given->mode[d];
    }
    return NULL;
}

static stn_tensor *convolve(enum stni_op_index op, const char *name, int dims, stn_tensor *input, stn_tensor *weight,
                            stn_tensor *bias, const stn_conv_attrs *given)
{
    struct stni_conv_attrs attrs = stni_conv_attrs_init;
    stn_tensor *in[] = {input, weight, bias};
    if (given != NULL && !stn_tensor_is_error(input)) {
        stn_tensor *error = read_attrs(input, name, dims, given, &attrs);
        if (error != NULL)
            return error;
    }
    return stni_call(op, 3, in, &attrs);
}

static stn_tensor *transpose(enum stni_op_index op, const char *name, int dims, stn_tensor *input, stn_tensor *weight,
                             stn_tensor *bias, const stn_conv_transpose_attrs *given)
{
    struct stni_conv_attrs attrs = stni_conv_attrs_init;
    stn_tensor *in[] = {input, weight, bias};
    if (given != NULL) {
        if (given->size != sizeof *given)
            return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: attrs.size got %zu, wanted %zu", name, given->size,
                                  sizeof *given);
        attrs.stride = list_of(given->stride, dims, 1);
        attrs.padding = list_of(given->padding, dims, 0);
        attrs.output_padding = list_of(given->output_padding, dims, 0);
        attrs.dilation = list_of(given->dilation, dims, 1);
        attrs.groups = given->groups == 0 ? 1 : given->groups;
    }
    return stni_call(op, 3, in, &attrs);
}

stn_tensor *stn_conv1d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias, const stn_conv_attrs *attrs)
{
    return convolve(STNI_OP_conv1d, "conv1d", 1, input, weight, bias, attrs);
}

stn_tensor *stn_conv2d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias, const stn_conv_attrs *attrs)
{
    return convolve(STNI_OP_conv2d, "conv2d", 2, input, weight, bias, attrs);
}

stn_tensor *stn_conv3d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias, const stn_conv_attrs *attrs)
{
    return convolve(STNI_OP_conv3d, "conv3d", 3, input, weight, bias, attrs);
}

stn_tensor *stn_conv_transpose1d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias,
                                 const stn_conv_transpose_attrs *attrs)
{
    return transpose(STNI_OP_conv_transpose1d, "conv_transpose1d", 1, input, weight, bias, attrs);
}

stn_tensor *stn_conv_transpose2d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias,
                                 const stn_conv_transpose_attrs *attrs)
{
    return transpose(STNI_OP_conv_transpose2d, "conv_transpose2d", 2, input, weight, bias, attrs);
}

stn_tensor *stn_conv_transpose3d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias,
                                 const stn_conv_transpose_attrs *attrs)
{
    return transpose(STNI_OP_conv_transpose3d, "conv_transpose3d", 3, input, weight, bias, attrs);
}
