/* The losses of input - target: what each computes is a row of loss_kernel.h. */
#include "ops/loss/loss.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

static stn_tensor *call(enum stni_op_index op, const char *name, stn_tensor *input, stn_tensor *target,
                        stn_tensor *weight, stn_loss_reduction reduction, double p)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction, .p = p};
    if ((unsigned)reduction > STN_REDUCE_SUM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: 'reduction' got %d, wanted an stn_loss_reduction", name,
                              (int)reduction);
    return stni_call(op, weight ? 3 : 2, (stn_tensor *[]){input, target, weight}, &attrs);
}

stn_tensor *stn_mse_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, stn_loss_reduction reduction)
{
    return call(STNI_OP_mse_loss, "mse_loss", input, target, weight, reduction, 1);
}

stn_tensor *stn_l1_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, stn_loss_reduction reduction)
{
    return call(STNI_OP_l1_loss, "l1_loss", input, target, weight, reduction, 1);
}

stn_tensor *stn_huber_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, stn_loss_reduction reduction,
                           double delta)
{
    return call(STNI_OP_huber_loss, "huber_loss", input, target, weight, reduction, delta);
}

stn_tensor *stn_smooth_l1_loss(stn_tensor *input, stn_tensor *target, stn_loss_reduction reduction, double beta)
{
    return call(STNI_OP_smooth_l1_loss, "smooth_l1_loss", input, target, NULL, reduction, beta);
}

const char *const stni_loss_reductions[] = {
    [STN_REDUCE_MEAN] = "mean", [STN_REDUCE_NONE] = "none", [STN_REDUCE_SUM] = "sum", NULL};

static const struct stni_loss_attrs defaults = {.reduction = STN_REDUCE_MEAN, .p = 1};

static const stn_attr_schema plain[] = {
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), stni_loss_reductions}};
static const stn_attr_schema with_delta[] = {
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), stni_loss_reductions},
    {"delta", STN_ATTR_FLOAT, offsetof(struct stni_loss_attrs, p), NULL},
};
static const stn_attr_schema with_beta[] = {
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), stni_loss_reductions},
    {"beta", STN_ATTR_FLOAT, offsetof(struct stni_loss_attrs, p), NULL},
};

static const stn_input_schema pair[] = {[STNI_LOSS_INPUT] = {.name = "input"}, [STNI_LOSS_TARGET] = {.name = "target"}};
static const stn_input_schema weighted[] = {
    [STNI_LOSS_INPUT] = {.name = "input"}, [STNI_LOSS_TARGET] = {.name = "target"},
    [STNI_LOSS_WEIGHT] = {.name = "weight", .optional = 1},
};

const stn_op_desc stni_op_mse_loss = {
    .size = sizeof(stn_op_desc), .name = "mse_loss", STN_INPUTS(weighted), STN_ATTRS(plain, struct stni_loss_attrs),
    .attrs_init = &defaults, STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_mse_loss, .by_weights = 1}),
    .signature = "input, target, *, reduction=, weight=",
};

const stn_op_desc stni_op_l1_loss = {
    .size = sizeof(stn_op_desc), .name = "l1_loss", STN_INPUTS(weighted), STN_ATTRS(plain, struct stni_loss_attrs),
    .attrs_init = &defaults, STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_l1_loss, .by_weights = 1}),
    .signature = "input, target, *, reduction=, weight=",
};

const stn_op_desc stni_op_huber_loss = {
    .size = sizeof(stn_op_desc), .name = "huber_loss", STN_INPUTS(weighted),
    STN_ATTRS(with_delta, struct stni_loss_attrs), .attrs_init = &defaults,
    STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_huber_loss}),
    .signature = "input, target, reduction=, delta=, weight=",
};

const stn_op_desc stni_op_smooth_l1_loss = {
    .size = sizeof(stn_op_desc), .name = "smooth_l1_loss", STN_INPUTS(pair),
    STN_ATTRS(with_beta, struct stni_loss_attrs), .attrs_init = &defaults,
    STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_smooth_l1_loss}),
    .signature = "input, target, *, reduction=, beta=",
};
