/* gaussian_nll_loss: a row of loss_kernel.h whose third operand is the variance, seen so that it broadcasts. */
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/loss/loss.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <string.h>

enum { INPUT, TARGET, VAR };

stn_tensor *stn_gaussian_nll_loss(stn_tensor *input, stn_tensor *target, stn_tensor *var, int full, double eps,
                                  stn_loss_reduction reduction)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction, .p = eps, .full = full != 0};
    if ((unsigned)reduction > STN_REDUCE_SUM)
        return stni_call_fail(input, STN_ERR_ARGUMENT,
                              "gaussian_nll_loss: 'reduction' got %d, wanted mean, none or sum", (int)reduction);
    return stni_call(STNI_OP_gaussian_nll_loss, 3, (stn_tensor *[]){input, target, var}, &attrs);
}

/* var has input's shape without the last dim. */
static int lacks_last_dim(const struct stni_layout *x, const struct stni_layout *var)
{
    return var->ndim == x->ndim - 1 && memcmp(var->shape, x->shape, (size_t)var->ndim * sizeof *var->shape) == 0;
}

/* Where var lacks the last dim it broadcasts as input does. */
static stn_status check_operands(const stn_op_call *call, int lacks)
{
    const stn_dtype var = call->in_spec[VAR]->layout.dtype;
    stn_meta meta = {.ndim = 0};
    if (lacks && stni_dtype_is_complex(var))
        return stn_op_fail(call, STN_ERR_DTYPE, "'var' got %s, wanted a floating dtype", stn_dtype_name(var));
    return stni_loss_check_operands(call, lacks ? 2 : 3, &meta);
}

static stn_status gaussian_nll_loss(stn_op_call *call)
{
    const struct stni_loss_attrs *attrs = call->attrs;
    const int lacks = lacks_last_dim(&call->in_spec[INPUT]->layout, &call->in_spec[VAR]->layout);
    stn_tensor *in[] = {call->in[INPUT], call->in[TARGET], NULL, call->in[VAR]};
    if (!(attrs->p > 0))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'eps' got %g, wanted more than 0", attrs->p);
    STNI_TRY(check_operands(call, lacks));
    if (lacks)
        in[STNI_LOSS_EXTRA] = stn_unsqueeze(call->in[VAR], -1);
    call->out[0] = stni_call(STNI_OP_gaussian_nll, 4, in, attrs);
    return STN_OK;
}

static const stn_input_schema inputs[] = {
    [INPUT] = {.name = "input"}, [TARGET] = {.name = "target"}, [VAR] = {.name = "var"}};
static const stn_input_schema row_inputs[] = {[STNI_LOSS_INPUT] = {.name = "input"},
                                              [STNI_LOSS_TARGET] = {.name = "target"},
                                              [STNI_LOSS_WEIGHT] = {.name = "weight", .optional = 1},
                                              [STNI_LOSS_EXTRA] = {.name = "var"}};

static const stn_attr_schema attrs_schema[] = {
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), stni_loss_reductions},
    {"eps", STN_ATTR_FLOAT, offsetof(struct stni_loss_attrs, p), NULL},
    {"full", STN_ATTR_BOOL, offsetof(struct stni_loss_attrs, full), NULL},
};

static const struct stni_loss_attrs defaults = {.reduction = STN_REDUCE_MEAN, .p = 1e-6};

const stn_op_desc stni_op_gaussian_nll_loss = {
    .size = sizeof(stn_op_desc),
    .name = "gaussian_nll_loss",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_loss_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = gaussian_nll_loss},
    .signature = "input, target, var, full=, eps=, reduction=",
};

static const struct stni_loss_rule rule = {
    .loss = STNI_LOSS_gaussian_nll, .extra_gradient = 1, .constant = 0.91893853320467274178 /* log(2 pi) / 2 */};

const stn_op_desc stni_op_gaussian_nll = {
    .size = sizeof(stn_op_desc), .name = "gaussian_nll", STN_INPUTS(row_inputs),
    STN_ATTRS(attrs_schema, struct stni_loss_attrs), .attrs_init = &defaults, STNI_LOSS(&rule),
    .flags = STN_OP_INTERNAL,
};
