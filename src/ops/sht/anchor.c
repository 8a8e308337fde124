/* anchor: the tensor itself, forward. Backward one exchange, if any: to the layout that the tensor has. */
#include "ops/sht/anchor.h"

#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"

#include <shardtensor/ops.h>

stn_tensor *stni_anchor(stn_tensor *input)
{
    return stni_call(STNI_OP_anchor, 1, &input, NULL);
}

static stn_status run(stn_op_call *call)
{
    return stn_op_alias(call, 0, call->in[0], 0, call->in[0]->strides);
}

/* What is pending in the cotangent stays so where the tensor is not cut: the dual of a replica may be either. */
static stn_status backward(stn_backward_call *call)
{
    const stn_tensor *grad = call->grad_out[0];
    struct stni_layout layout = call->in_spec[0]->layout;
    const stn_spec *spec;
    call->grad_in[0] = call->grad_out[0];
    if (!layout.mesh || layout.mesh != grad->spec->layout.mesh)
        return STN_OK;
    stni_layout_reduce(&layout, 0);
    for (int a = 0; a < layout.mesh->ndim; a++)
        if (layout.placement[a].kind == STN_PLACE_REPLICATE &&
            grad->spec->layout.placement[a].kind == STN_PLACE_PARTIAL)
            layout.placement[a] = grad->spec->layout.placement[a];
    STNI_TRY(stni_spec_intern(call->context, &layout, &spec));
    if (spec != grad->spec)
        call->grad_in[0] = stn_redistribute(call->grad_out[0], spec);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_op_impl impl = {.check = stni_check_same, .place = stni_place_same, .run = run, .backward = backward};

const stn_op_desc stni_op_anchor = {.size = sizeof(stn_op_desc),
                                    .name = "anchor",
                                    STN_INPUTS(inputs),
                                    .n_outputs = 1,
                                    .flags = STN_OP_ALIAS | STN_OP_INTERNAL,
                                    .impl = &impl};
