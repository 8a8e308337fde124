/* Losses of probabilities, which are functions of input and target each: the binary cross entropies and the Kullback-Leibler divergence. What each computes
 * is a row of loss_kernel.h. */
#include "ops/loss/loss.h"
#include "ops/util/call.h"

#include <shardtensor/ops.h>

static stn_tensor *call(enum stni_op_index op, const char *name, int n, stn_tensor *const *in, const struct stni_loss_attrs *attrs, int64_t last)
{
    if (attrs->reduction < 0 || attrs->reduction > last)
        return stni_call_fail(in[0], STN_ERR_ARGUMENT, "%s: 'reduction' got %d, wanted 0 to %d", name, (int)attrs->reduction, (int)last);
    return stni_call(op, n, in, attrs);
}

stn_tensor *stn_binary_cross_entropy(stn_tensor *input, stn_tensor *target, stn_tensor *weight, stn_loss_reduction reduction)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction};
    return call(STNI_OP_binary_cross_entropy, "binary_cross_entropy", 3, (stn_tensor *[]){input, target, weight}, &attrs, STN_REDUCE_SUM);
}

stn_tensor *stn_binary_cross_entropy_with_logits(stn_tensor *input, stn_tensor *target, stn_tensor *weight, stn_tensor *pos_weight,
                                                 stn_loss_reduction reduction)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction};
    return call(STNI_OP_binary_cross_entropy_with_logits, "binary_cross_entropy_with_logits", 4,
                (stn_tensor *[]){input, target, weight, pos_weight}, &attrs, STN_REDUCE_SUM);
}

stn_tensor *stn_kl_div(stn_tensor *input, stn_tensor *target, stn_loss_reduction reduction, int log_target)
{
    const struct stni_loss_attrs attrs = {.reduction = (int64_t)reduction, .flag = log_target != 0};
    return call(STNI_OP_kl_div, "kl_div", 2, (stn_tensor *[]){input, target}, &attrs, STN_REDUCE_BATCHMEAN);
}

static const struct stni_loss_attrs defaults = {.reduction = STN_REDUCE_MEAN};

static const char *const kl_reductions[] = {[STN_REDUCE_MEAN] = "mean", [STN_REDUCE_NONE] = "none", [STN_REDUCE_SUM] = "sum",
                                            [STN_REDUCE_BATCHMEAN] = "batchmean", NULL};

static const stn_attr_schema plain[] = {{"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), stni_loss_reductions}};
static const stn_attr_schema kl_schema[] = {
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_loss_attrs, reduction), kl_reductions},
    {"log_target", STN_ATTR_BOOL, offsetof(struct stni_loss_attrs, flag), NULL},
};

const stn_op_desc stni_op_binary_cross_entropy = {
    STNI_LOSS_FIELDS("binary_cross_entropy", 3, .loss = STNI_LOSS_binary_cross_entropy, .same_shape = 1),
    .attrs = plain, .n_attrs = 1, .attrs_init = &defaults,
};

const stn_op_desc stni_op_binary_cross_entropy_with_logits = {
    STNI_LOSS_FIELDS("binary_cross_entropy_with_logits", 4, .loss = STNI_LOSS_binary_cross_entropy_with_logits, .same_shape = 1),
    .attrs = plain, .n_attrs = 1, .attrs_init = &defaults,
};

const stn_op_desc stni_op_kl_div = {
    STNI_LOSS_FIELDS("kl_div", 2, .loss = STNI_LOSS_kl_div, .flag_is_row = 1), .attrs = kl_schema, .n_attrs = 2, .attrs_init = &defaults,
};
