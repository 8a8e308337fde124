/* Losses that are functions of input and target each, not of their difference: the binary cross entropies, the
 * Kullback-Leibler divergence, Poisson's likelihood, and two margins. What each computes is a row of loss_kernel.h. */
#include "ops/loss/loss.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

static stn_tensor *call(enum stni_op_index op, const char *name, int n, stn_tensor *const *in,
                        const struct stni_loss_attrs *attrs, int64_t last)
{
    if (attrs->reduction < 0 || attrs->reduction > last)
        return stni_call_fail(in[0], STN_ERR_ARGUMENT, "%s: 'reduction' got %d, wanted 0 to %d", name,
                              (int)attrs->reduction, (int)last);
    return stni_call(op, n, in, attrs);
}

stn_tensor *stn_binary_cross_entropy(stn_tensor *input, stn_tensor *target, stn_tensor *weight,
                                     stn_loss_reduction reduction)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction};
    return call(STNI_OP_binary_cross_entropy, "binary_cross_entropy", 3, (stn_tensor *[]){input, target, weight},
                &attrs, STN_REDUCE_SUM);
}

stn_tensor *stn_binary_cross_entropy_with_logits(stn_tensor *input, stn_tensor *target, stn_tensor *weight,
                                                 stn_tensor *pos_weight, stn_loss_reduction reduction)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction};
    return call(STNI_OP_binary_cross_entropy_with_logits, "binary_cross_entropy_with_logits", 4,
                (stn_tensor *[]){input, target, weight, pos_weight}, &attrs, STN_REDUCE_SUM);
}

stn_tensor *stn_kl_div(stn_tensor *input, stn_tensor *target, stn_loss_reduction reduction, int log_target)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction, .in_log = log_target != 0};
    return call(STNI_OP_kl_div, "kl_div", 2, (stn_tensor *[]){input, target}, &attrs, STN_REDUCE_BATCHMEAN);
}

stn_tensor *stn_poisson_nll_loss(stn_tensor *input, stn_tensor *target, int log_input, int full, double eps,
                                 stn_loss_reduction reduction)
{
    const struct stni_loss_attrs attrs = {
        .reduction = (int64_t)reduction, .p = eps, .in_log = log_input != 0, .full = full != 0};
    return call(STNI_OP_poisson_nll_loss, "poisson_nll_loss", 2, (stn_tensor *[]){input, target}, &attrs,
                STN_REDUCE_SUM);
}

stn_tensor *stn_soft_margin_loss(stn_tensor *input, stn_tensor *target, stn_loss_reduction reduction)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction};
    return call(STNI_OP_soft_margin_loss, "soft_margin_loss", 2, (stn_tensor *[]){input, target}, &attrs,
                STN_REDUCE_SUM);
}

stn_tensor *stn_hinge_embedding_loss(stn_tensor *input, stn_tensor *target, double margin, stn_loss_reduction reduction)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction, .p = margin};
    return call(STNI_OP_hinge_embedding_loss, "hinge_embedding_loss", 2, (stn_tensor *[]){input, target}, &attrs,
                STN_REDUCE_SUM);
}

static const struct stni_loss_attrs defaults = {.reduction = STN_REDUCE_MEAN},
                                    margin_defaults = {.reduction = STN_REDUCE_MEAN, .p = 1},
                                    poisson_defaults = {.reduction = STN_REDUCE_MEAN, .p = 1e-8, .in_log = 1};

static const char *const kl_reductions[] = {[STN_REDUCE_MEAN] = "mean",
                                            [STN_REDUCE_NONE] = "none",
                                            [STN_REDUCE_SUM] = "sum",
                                            [STN_REDUCE_BATCHMEAN] = "batchmean",
                                            NULL};

static const stn_attr_schema plain[] = {
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), stni_loss_reductions}};
static const stn_attr_schema kl_schema[] = {
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), kl_reductions},
    {"log_target", STN_ATTR_BOOL, offsetof(struct stni_loss_attrs, in_log), NULL},
};

static const stn_attr_schema poisson_schema[] = {
    {"log_input", STN_ATTR_BOOL, offsetof(struct stni_loss_attrs, in_log), NULL},
    {"full", STN_ATTR_BOOL, offsetof(struct stni_loss_attrs, full), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct stni_loss_attrs, p), NULL},
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), stni_loss_reductions},
};
static const stn_attr_schema margin_schema[] = {
    {"margin", STN_ATTR_FLOAT, offsetof(struct stni_loss_attrs, p), NULL},
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), stni_loss_reductions},
};

static const stn_input_schema pair[] = {[STNI_LOSS_INPUT] = {.name = "input"}, [STNI_LOSS_TARGET] = {.name = "target"}};
static const stn_input_schema weighted[] = {
    [STNI_LOSS_INPUT] = {.name = "input"}, [STNI_LOSS_TARGET] = {.name = "target"},
    [STNI_LOSS_WEIGHT] = {.name = "weight", .optional = 1},
};
static const stn_input_schema logits_inputs[] = {
    [STNI_LOSS_INPUT] = {.name = "input"}, [STNI_LOSS_TARGET] = {.name = "target"},
    [STNI_LOSS_WEIGHT] = {.name = "weight", .optional = 1}, [STNI_LOSS_EXTRA] = {.name = "pos_weight", .optional = 1},
};

const stn_op_desc stni_op_binary_cross_entropy = {
    .size = sizeof(stn_op_desc), .name = "binary_cross_entropy", STN_INPUTS(weighted),
    STN_ATTRS(plain, struct stni_loss_attrs), .attrs_init = &defaults,
    STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_binary_cross_entropy, .same_shape = 1}),
    .signature = "input, target, weight=, *, reduction=",
};

const stn_op_desc stni_op_binary_cross_entropy_with_logits = {
    .size = sizeof(stn_op_desc), .name = "binary_cross_entropy_with_logits", STN_INPUTS(logits_inputs),
    STN_ATTRS(plain, struct stni_loss_attrs), .attrs_init = &defaults,
    STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_binary_cross_entropy_with_logits, .same_shape = 1}),
    .signature = "input, target, weight=, *, reduction=, pos_weight=",
};

const stn_op_desc stni_op_kl_div = {
    .size = sizeof(stn_op_desc), .name = "kl_div", STN_INPUTS(pair), STN_ATTRS(kl_schema, struct stni_loss_attrs),
    .attrs_init = &defaults, STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_kl_div, .has_log = 1}),
    .signature = "input, target, *, reduction=, log_target=",
};

const stn_op_desc stni_op_poisson_nll_loss = {
    .size = sizeof(stn_op_desc), .name = "poisson_nll_loss", STN_INPUTS(pair),
    STN_ATTRS(poisson_schema, struct stni_loss_attrs), .attrs_init = &poisson_defaults,
    STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_poisson_nll, .has_log = 1, .constant = 1}),
    .signature = "input, target, log_input=, full=, *, eps=, reduction=",
};

const stn_op_desc stni_op_soft_margin_loss = {
    .size = sizeof(stn_op_desc), .name = "soft_margin_loss", STN_INPUTS(pair), STN_ATTRS(plain, struct stni_loss_attrs),
    .attrs_init = &defaults, STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_soft_margin_loss}),
    .signature = "input, target, *, reduction=",
};

const stn_op_desc stni_op_hinge_embedding_loss = {
    .size = sizeof(stn_op_desc), .name = "hinge_embedding_loss", STN_INPUTS(pair),
    STN_ATTRS(margin_schema, struct stni_loss_attrs), .attrs_init = &margin_defaults,
    STNI_LOSS(&(const struct stni_loss_rule){.loss = STNI_LOSS_hinge_embedding_loss}),
    .signature = "input, target, margin=, *, reduction=",
};
