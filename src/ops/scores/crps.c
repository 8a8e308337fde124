/* crps_ensemble: mean |x_i - y| minus half the mean |x_i - x_j|. With the members in order, x_(0) <= x_(1) <= …, the
 * sum of x_(j) - x_(i) over pairs is sum_k (2 k - m + 1) x_(k): no pair is formed. What is sorted are the differences
 * from the target: they are small where the ensemble is good, so that nothing cancels. */
#include "ops/common/call.h"
#include "ops/scores/score.h"

#include <shardtensor/ops.h>

enum { INPUT, TARGET, INPUTS };

struct crps_attrs {
    int64_t dim, fair;
};

stn_tensor *stn_crps_ensemble(stn_tensor *input, stn_tensor *target, int dim, int fair)
{
    const struct crps_attrs attrs = {dim, fair != 0};
    return stni_call(STNI_OP_crps_ensemble, INPUTS, (stn_tensor *[]){input, target}, &attrs);
}

static stn_status crps_ensemble(stn_op_call *call)
{
    const struct crps_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[INPUT]->layout;
    stn_tensor *factors;
    int dim;
    STNI_TRY(stni_score_check_members(call, attrs->dim, (int)attrs->fair, &dim));
    stn_tensor *d =
        stni_call_complete(stn_sub(stni_score_wide(call, INPUT), stn_unsqueeze(stni_score_wide(call, TARGET), dim)));
    if (stn_tensor_is_error(d))
        return stn_context_status(call->context);
    const double pair = stni_score_pair_weight(in->shape[dim], attrs->fair);
    STNI_TRY(stni_score_line(call, d, dim, pair * (double)(1 - in->shape[dim]), 2 * pair, &factors));
    stn_tensor *spread = stn_sum(stn_mul(stn_sort(d, dim, 0, NULL), factors), 1, &dim, 0);
    call->out[0] = stn_cast(stn_sub(stn_mean(stn_abs(d), 1, &dim, 0), spread), in->dtype);
    return STN_OK;
}

static const stn_input_schema inputs[] = {[INPUT] = {.name = "input"}, [TARGET] = {.name = "target"}};

static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct crps_attrs, dim), NULL},
    {"fair", STN_ATTR_BOOL, offsetof(struct crps_attrs, fair), NULL},
};

const stn_op_desc stni_op_crps_ensemble = {
    .size = sizeof(stn_op_desc),
    .name = "crps_ensemble",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct crps_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = crps_ensemble},
};
