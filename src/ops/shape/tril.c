/* tril and triu: zeros above or below a diagonal of the last two dims. Linear and diagonal: each is its own adjoint,
 * and whatever is pending stays. */
#include "core/base/clamp.h"
#include "core/tensor/tensor.h"
#include "ops/shape/tril_kernel.h"
#include "ops/common/call.h"
#include "ops/common/check.h"

#include <shardtensor/ops.h>

#include <string.h>

struct triangle_attrs {
    int64_t diagonal; /* 0: the main one; above it: positive */
};

stn_tensor *stn_tril(stn_tensor *input, int64_t diagonal)
{
    struct triangle_attrs attrs = {diagonal};
    return stni_call(STNI_OP_tril, 1, &input, &attrs);
}

stn_tensor *stn_triu(stn_tensor *input, int64_t diagonal)
{
    struct triangle_attrs attrs = {diagonal};
    return stni_call(STNI_OP_triu, 1, &input, &attrs);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    if (in->ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at least 2", in->ndim);
    call->out_meta[0] = stni_meta_of(in);
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    const stn_spec *spec = call->out[0]->spec;
    struct stni_triangle_args a;
    int ndim = spec->layout.ndim;
    if (spec->local_numel == 0)
        return STN_OK;
    memset(&a, 0, sizeof a);
    stni_tensor_box(call->in[0], &a.src);
    stni_tensor_box(call->out[0], &a.dst);
    a.element_size = stn_dtype_size(spec->layout.dtype);
    a.upper = call->arg != NULL;
    /* All diagonals beyond the corners are one: no element is on their other side. */
    a.diagonal = stni_clamp(((const struct triangle_attrs *)call->attrs)->diagonal, -spec->layout.shape[ndim - 2],
                            spec->layout.shape[ndim - 1]);
    a.row = spec->local_offset[ndim - 2];
    a.column = spec->local_offset[ndim - 1];
    return stn_op_launch(call, 0, spec->layout.dtype, &a, sizeof a);
}

static stn_status backward(stn_backward_call *call)
{
    call->grad_in[0] = stni_call(call->arg ? STNI_OP_triu : STNI_OP_tril, 1, &call->grad_out[0], call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema schema[] = {{"diagonal", STN_ATTR_INT, offsetof(struct triangle_attrs, diagonal), NULL}};

static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_triangle_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", (1u << STN_DTYPE_COUNT) - 1, struct stni_triangle_args, stni_triangle_cpu, NULL)};
static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .backward = backward, STN_SLOTS(slots), STN_KERNELS(kernels),
};

const stn_op_desc stni_op_tril = {
    .size = sizeof(stn_op_desc), .name = "tril", STN_INPUTS(inputs), STN_ATTRS(schema, struct triangle_attrs),
    .n_outputs = 1, .impl = &impl,
};

const stn_op_desc stni_op_triu = {
    .size = sizeof(stn_op_desc), .name = "triu", STN_INPUTS(inputs), STN_ATTRS(schema, struct triangle_attrs),
    .n_outputs = 1, .impl = &impl, .arg = (void *)&inputs,
};
