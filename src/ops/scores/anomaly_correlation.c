/* anomaly_correlation: sum w a b / sqrt(sum w a^2 sum w b^2) of two anomalies, its three sums completed together. */
#include "ops/common/call.h"
#include "ops/scores/score.h"

#include <shardtensor/ops.h>

enum { INPUT, TARGET, CLIMATOLOGY, WEIGHT, INPUTS };

struct correlation_attrs {
    stn_ints dim;
    int64_t keepdim;
};

static const struct correlation_attrs defaults = {.dim = {.n = -1}};

stn_tensor *stn_anomaly_correlation(stn_tensor *input, stn_tensor *target, stn_tensor *climatology, stn_tensor *weight,
                                    int n_dims, const int *dims, int keepdim)
{
    struct correlation_attrs attrs = {.keepdim = keepdim != 0};
    stn_tensor *in[] = {input, target, climatology, weight};
    return stni_score_call(STNI_OP_anomaly_correlation, INPUTS, in, n_dims, dims, &attrs);
}

static stn_tensor *anomaly(const stn_op_call *call, int field, stn_tensor *climatology)
{
    stn_tensor *x = stni_score_wide(call, field);
    return stni_call_complete(climatology ? stn_sub(x, climatology) : x);
}

static stn_status anomaly_correlation(stn_op_call *call)
{
    const struct correlation_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[INPUT]->layout;
    const int keepdim = (int)attrs->keepdim;
    struct stni_dims_list over;
    STNI_TRY(stni_score_check(call, INPUTS));
    STNI_TRY(stni_dims_list(call, "dim", &attrs->dim, in->ndim, &over));
    stn_tensor *climatology = stni_call_complete(stni_score_wide(call, CLIMATOLOGY));
    stn_tensor *weight = stni_score_wide(call, WEIGHT);
    stn_tensor *a = anomaly(call, INPUT, climatology), *b = anomaly(call, TARGET, climatology);
    b = stn_expand(b, in->ndim, in->shape);
    stn_tensor *sums[] = {stni_score_sum(stn_mul(a, b), weight, &over, keepdim),
                          stni_score_sum(stn_square(a), weight, &over, keepdim),
                          stni_score_sum(stn_square(b), weight, &over, keepdim)};
    STNI_TRY(stni_score_complete(call, 3, sums));
    /* Two roots, whose product has room wherever the correlation does. */
    stn_tensor *r = stn_div(stn_div(sums[0], stn_sqrt(sums[1])), stn_sqrt(sums[2]));
    call->out[0] = stn_cast(r, in->dtype);
    return STN_OK;
}

static const stn_input_schema inputs[] = {[INPUT] = {.name = "input"},
                                          [TARGET] = {.name = "target"},
                                          [CLIMATOLOGY] = {.name = "climatology", .optional = 1},
                                          [WEIGHT] = {.name = "weight", .optional = 1}};

static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct correlation_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct correlation_attrs, keepdim), NULL},
};

const stn_op_desc stni_op_anomaly_correlation = {
    .size = sizeof(stn_op_desc),
    .name = "anomaly_correlation",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct correlation_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = anomaly_correlation},
    .signature = "input, target, climatology=, weight=, dim=, keepdim=",
};
