/* fftshift, ifftshift: the zero frequency in the middle, and back. */
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"

#include "core/shard/spec.h"

#include <shardtensor/ops.h>

#include <stddef.h>

struct shift_attrs {
    stn_ints dim;
};

static stn_tensor *call_shift(enum stni_op_index op, const char *name, stn_tensor *input, int n, const int *dims)
{
    struct shift_attrs attrs = {0};
    if (!stni_list_read_dims_or_all(input, &(struct stni_list){name, "n_dims", "dims", 0}, n, dims, &attrs.dim))
        return stni_call_error(input);
    return stni_call(op, 1, &input, &attrs);
}

stn_tensor *stn_fftshift(stn_tensor *input, int n_dims, const int *dims)
{
    return call_shift(STNI_OP_fftshift, "fftshift", input, n_dims, dims);
}

stn_tensor *stn_ifftshift(stn_tensor *input, int n_dims, const int *dims)
{
    return call_shift(STNI_OP_ifftshift, "ifftshift", input, n_dims, dims);
}

/* A dim that is named twice is shifted twice, as roll does. */
static stn_status compose(stn_op_call *call)
{
    const struct shift_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int back = *(const int *)call->arg, n = attrs->dim.n >= 0 ? (int)attrs->dim.n : in->ndim;
    int64_t shifts[STN_MAX_NDIM];
    int dims[STN_MAX_NDIM];
    for (int i = 0; i < n; i++) {
        dims[i] = i;
        if (attrs->dim.n >= 0)
            STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim.v[i], in->ndim, &dims[i]));
        const int64_t size = in->ndim > 0 ? in->shape[dims[i]] : 1;
        shifts[i] = back ? (size + 1) / 2 : size / 2;
    }
    call->out[0] = n > 0 && in->ndim > 0 ? stn_roll(call->in[0], n, shifts, dims) : call->in[0];
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema schema[] = {{"dim", STN_ATTR_INTS, offsetof(struct shift_attrs, dim), NULL}};
static const struct shift_attrs init = {.dim = {.n = -1}};

const stn_op_desc stni_op_fftshift = {
    .size = sizeof(stn_op_desc), .name = "fftshift", STN_INPUTS(inputs), STN_ATTRS(schema, struct shift_attrs),
    .attrs_init = &init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose},
    .arg = (void *)&(const int){0},
};

const stn_op_desc stni_op_ifftshift = {
    .size = sizeof(stn_op_desc), .name = "ifftshift", STN_INPUTS(inputs), STN_ATTRS(schema, struct shift_attrs),
    .attrs_init = &init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = compose},
    .arg = (void *)&(const int){1},
};
