/* rmse and lp_loss: powers of differences, summed with a weight per element. */
#include "ops/common/call.h"
#include "ops/reduce/vector_norm.h"
#include "ops/scores/score.h"

#include <shardtensor/ops.h>

#include <math.h>

enum { INPUT, TARGET, WEIGHT, INPUTS };

struct rmse_attrs {
    stn_ints dim;
    int64_t keepdim;
};

struct lp_attrs {
    stn_ints dim;
    int64_t keepdim;
    double p;
    int64_t relative;
};

static const struct rmse_attrs rmse_defaults = {.dim = {.n = -1}};
static const struct lp_attrs lp_defaults = {.dim = {.n = -1}, .p = 2};

stn_tensor *stn_rmse(stn_tensor *input, stn_tensor *target, stn_tensor *weight, int n_dims, const int *dims,
                     int keepdim)
{
    struct rmse_attrs attrs = {.keepdim = keepdim != 0};
    return stni_score_call(STNI_OP_rmse, INPUTS, (stn_tensor *[]){input, target, weight}, n_dims, dims, &attrs);
}

stn_tensor *stn_lp_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, double p, int relative, int n_dims,
                        const int *dims, int keepdim)
{
    struct lp_attrs attrs = {.keepdim = keepdim != 0, .p = p, .relative = relative != 0};
    return stni_score_call(STNI_OP_lp_loss, INPUTS, (stn_tensor *[]){input, target, weight}, n_dims, dims, &attrs);
}

static stn_status rmse(stn_op_call *call)
{
    const struct rmse_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[INPUT]->layout;
    struct stni_dims_list over;
    STNI_TRY(stni_score_check(call, INPUTS));
    STNI_TRY(stni_dims_list(call, "dim", &attrs->dim, in->ndim, &over));
    stn_tensor *weight = stni_score_wide(call, WEIGHT);
    stn_tensor *error = stn_square(stn_sub(stni_score_wide(call, INPUT), stni_score_wide(call, TARGET)));
    stn_tensor *mean = weight ? stn_weighted_mean(error, weight, over.n, over.dims, (int)attrs->keepdim)
                              : stn_mean(error, over.n, over.dims, (int)attrs->keepdim);
    call->out[0] = stn_cast(stni_vector_norm_root(mean, 2), in->dtype);
    return STN_OK;
}

/* sum weight |x|^p: for the powers in use without pow. */
static stn_tensor *power_sum(stn_tensor *x, stn_tensor *weight, const struct lp_attrs *attrs,
                             const struct stni_dims_list *over)
{
    stn_tensor *power = attrs->p == 2   ? stn_square(x)
                        : attrs->p == 1 ? stn_abs(x)
                                        : stn_pow_number(stn_abs(x), attrs->p);
    return stni_score_sum(power, weight, over, (int)attrs->keepdim);
}

static stn_status lp_loss(stn_op_call *call)
{
    const struct lp_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[INPUT]->layout;
    struct stni_dims_list over;
    STNI_TRY(stni_score_check(call, INPUTS));
    STNI_TRY(stni_dims_list(call, "dim", &attrs->dim, in->ndim, &over));
    if (!(attrs->p > 0) || isinf(attrs->p))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'p' got %g, wanted a finite number above 0", attrs->p);
    stn_tensor *weight = stni_score_wide(call, WEIGHT), *target = stni_score_wide(call, TARGET);
    if (attrs->relative)
        target = stni_call_complete(target);
    stn_tensor *sums[] = {power_sum(stn_sub(stni_score_wide(call, INPUT), target), weight, attrs, &over), NULL};
    if (attrs->relative) {
        sums[1] = power_sum(stn_expand(target, in->ndim, in->shape), weight, attrs, &over);
        STNI_TRY(stni_score_complete(call, 2, sums));
        sums[0] = stn_div(sums[0], sums[1]);
    }
    call->out[0] = stn_cast(attrs->p == 1 ? sums[0] : stni_vector_norm_root(sums[0], attrs->p), in->dtype);
    return STN_OK;
}

static const stn_input_schema inputs[] = {
    [INPUT] = {.name = "input"}, [TARGET] = {.name = "target"}, [WEIGHT] = {.name = "weight", .optional = 1}};

static const stn_attr_schema rmse_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct rmse_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct rmse_attrs, keepdim), NULL},
};

static const stn_attr_schema lp_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct lp_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct lp_attrs, keepdim), NULL},
    {"p", STN_ATTR_FLOAT, offsetof(struct lp_attrs, p), NULL},
    {"relative", STN_ATTR_BOOL, offsetof(struct lp_attrs, relative), NULL},
};

const stn_op_desc stni_op_rmse = {
    .size = sizeof(stn_op_desc),
    .name = "rmse",
    STN_INPUTS(inputs),
    STN_ATTRS(rmse_schema, struct rmse_attrs),
    .attrs_init = &rmse_defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = rmse},
    .signature = "input, target, weight=, dim=, keepdim=",
};

const stn_op_desc stni_op_lp_loss = {
    .size = sizeof(stn_op_desc),
    .name = "lp_loss",
    STN_INPUTS(inputs),
    STN_ATTRS(lp_schema, struct lp_attrs),
    .attrs_init = &lp_defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = lp_loss},
    .signature = "input, target, weight=, p=, relative=, dim=, keepdim=",
};
