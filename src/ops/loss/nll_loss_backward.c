/* nll_loss_backward: the gradient of nll_loss, in the layout of `like`. Linear in the cotangent; its adjoint is
 * nll_loss. */
#include "ops/loss/nll.h"

#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/like.h"

#include <string.h>

enum {
    GRAD = STNI_NLL_GRAD,
    TARGET = STNI_NLL_SAVED_TARGET,
    WEIGHT = STNI_NLL_SAVED_WEIGHT,
    TOTAL = STNI_NLL_TOTAL,
    LIKE = STNI_NLL_LIKE
};

stn_tensor *stni_nll_gradient(stn_tensor *grad, stn_tensor *target, stn_tensor *weight, stn_tensor *total,
                              const stn_spec *like, const struct stni_nll_attrs *attrs)
{
    stn_tensor *in[] = {[GRAD] = grad, [TARGET] = target, [WEIGHT] = weight, [TOTAL] = total, [LIKE] = NULL};
    if (stni_like(target->context, like, &in[LIKE]) != STN_OK)
        return target->context->error_tensor;
    stn_tensor *out = stni_call(STNI_OP_nll_loss_backward, 5, in, attrs);
    stni_tensor_drop(&in[LIKE]);
    return out;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *x = &call->in_spec[LIKE]->layout, *grad = &call->in_spec[GRAD]->layout,
                             *total = &call->in_spec[TOTAL]->layout;
    stn_meta each;
    STNI_TRY(stni_nll_check(call, x, TARGET, WEIGHT, &each));
    if (grad->dtype != x->dtype)
        return stn_op_fail(call, STN_ERR_DTYPE, "'grad' got %s, wanted like's %s", stn_dtype_name(grad->dtype),
                           stn_dtype_name(x->dtype));
    if (grad->ndim > 0 &&
        (grad->ndim != each.ndim || memcmp(grad->shape, each.shape, (size_t)each.ndim * sizeof *each.shape) != 0))
        return stn_op_fail(call, STN_ERR_SHAPE, "'grad' has %d dims, wanted a number or target's shape", grad->ndim);
    if (total->ndim != 0 || total->dtype != STN_DTYPE_F64)
        return stn_op_fail(call, STN_ERR_SHAPE, "'total' has %d dims and is %s, wanted a number of f64", total->ndim,
                           stn_dtype_name(total->dtype));
    call->out_meta[0] = stni_meta_of(x);
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_layout x, target = call->in_spec[TARGET]->layout, grad = call->in_spec[GRAD]->layout,
                          total = call->in_spec[TOTAL]->layout;
    stni_nll_layout(&call->in_spec[LIKE]->layout, call->in_spec[TARGET], 0, &x);
    STNI_TRY(stni_spec_intern(call->context, &x, &call->out_spec[0]));
    stni_nll_place_targets(&x, 0, &target);
    STNI_TRY(stni_spec_intern(call->context, &target, &call->want[TARGET]));
    stni_layout_init(&total, x.mesh, STN_DTYPE_F64, 0, NULL);
    STNI_TRY(stni_spec_intern(call->context, &total, &call->want[TOTAL]));
    if (grad.ndim > 0)
        stni_nll_place_targets(&x, 0, &grad);
    else
        stni_layout_init(&grad, x.mesh, x.dtype, 0, NULL);
    STNI_TRY(stni_spec_intern(call->context, &grad, &call->want[GRAD]));
    if (!call->in_spec[WEIGHT])
        return STN_OK;
    struct stni_layout weight = call->in_spec[WEIGHT]->layout;
    stni_nll_place_classes(&x, &weight);
    return stni_spec_intern(call->context, &weight, &call->want[WEIGHT]);
}

static stn_status run(stn_op_call *call)
{
    struct stni_nll_args args;
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    stni_nll_args_make(call, call->out[0], call->in[TARGET], call->in[WEIGHT], call->in[GRAD], &args);
    args.total = call->in[TOTAL]->data;
    return stn_op_launch(call, 0, args.dtype, &args, sizeof args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs >> GRAD & 1 ? 1u << TARGET | 1u << WEIGHT : 0;
}

static stn_status backward(stn_backward_call *call)
{
    if (call->grad_out[0] && (call->needs >> GRAD & 1))
        call->grad_in[GRAD] = stni_nll_call(call->grad_out[0], call->in[TARGET], call->in[WEIGHT], call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {[GRAD] = {.name = "grad"},
                                          [TARGET] = {.name = "target"},
                                          [WEIGHT] = {.name = "weight", .optional = 1},
                                          [TOTAL] = {.name = "total"},
                                          [LIKE] = {.name = "like"}};

static const stn_kernel_slot slots[] = {{"deal", sizeof(struct stni_nll_args)}};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("deal", STNI_LOSS_DTYPES, struct stni_nll_args, stni_nll_backward_cpu, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_nll_loss_backward = {
    .size = sizeof(stn_op_desc),
    .name = "nll_loss_backward",
    STN_INPUTS(inputs),
    STN_ATTRS(stni_nll_attrs_schema, struct stni_nll_attrs),
    .attrs_init = &stni_nll_defaults,
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
