/* cross_entropy: log_softmax along the classes, and of it nll_loss or, where targets are probabilities, their
 * product. */
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/loss/nll.h"
#include "ops/common/call.h"
#include "ops/common/check.h"

#include <shardtensor/ops.h>

#include <math.h>
#include <string.h>

enum { INPUT = STNI_NLL_INPUT, TARGET = STNI_NLL_TARGET, WEIGHT = STNI_NLL_WEIGHT };

stn_tensor *stn_cross_entropy(stn_tensor *input, stn_tensor *target, stn_tensor *weight, int64_t ignore_index,
                              stn_loss_reduction reduction, double label_smoothing)
{
    const struct stni_nll_attrs attrs = {ignore_index, (int64_t)reduction, label_smoothing};
    if ((unsigned)reduction > STN_REDUCE_SUM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "cross_entropy: 'reduction' got %d, wanted mean, none or sum",
                              (int)reduction);
    return stni_call(STNI_OP_cross_entropy, 3, (stn_tensor *[]){input, target, weight}, &attrs);
}

static int are_probabilities(const stn_op_call *call)
{
    const struct stni_layout *x = &call->in_spec[INPUT]->layout, *t = &call->in_spec[TARGET]->layout;
    return stni_dtype_is_floating(t->dtype) && t->ndim == x->ndim &&
           memcmp(t->shape, x->shape, (size_t)x->ndim * sizeof *x->shape) == 0;
}

static stn_status check(const stn_op_call *call)
{
    const struct stni_nll_attrs *attrs = call->attrs;
    const struct stni_layout *x = &call->in_spec[INPUT]->layout;
    stn_meta each;
    if (!(attrs->label_smoothing >= 0 && attrs->label_smoothing <= 1))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'label_smoothing' got %g, wanted 0 to 1", attrs->label_smoothing);
    if (x->ndim == 0 || !are_probabilities(call))
        return stni_nll_check(call, x, TARGET, WEIGHT, &each);
    STNI_TRY(stni_check_floating(call, INPUT));
    const int64_t classes = x->shape[stni_nll_class_dim(x->ndim)];
    return call->in_spec[WEIGHT] ? stni_check_shape(call, WEIGHT, 1, &classes, NULL) : STN_OK;
}

/* -sum of weight target log p, of each target or of all, over their number where the mean is wanted. */
static stn_tensor *of_probabilities(const stn_op_call *call, stn_tensor *log_p)
{
    const struct stni_nll_attrs *attrs = call->attrs;
    const struct stni_layout *x = &call->in_spec[INPUT]->layout;
    const int class_dim = stni_nll_class_dim(x->ndim);
    const int64_t classes = x->shape[class_dim], wide[STN_MAX_NDIM] = {classes, 1, 1, 1, 1, 1, 1, 1};
    stn_tensor *target = call->in[TARGET], *each;
    double count = -1;
    if (attrs->label_smoothing > 0)
        target = stn_add_number(stn_mul_number(target, 1 - attrs->label_smoothing),
                                attrs->label_smoothing / (double)classes);
    each = stn_mul(log_p, target);
    if (call->in[WEIGHT])
        each = stn_mul(each, stn_view(call->in[WEIGHT], x->ndim - class_dim, wide));
    each = stn_sum(each, attrs->reduction == STN_REDUCE_NONE, &class_dim, 0);
    for (int d = 0; d < x->ndim && attrs->reduction == STN_REDUCE_MEAN; d++)
        count *= d == class_dim ? 1 : (double)x->shape[d];
    return count == 0 ? stn_div_number(each, 0) : stn_mul_number(each, 1 / count);
}

static stn_status cross_entropy(stn_op_call *call)
{
    STNI_TRY(check(call));
    stn_tensor *log_p = stn_log_softmax(call->in[INPUT], stni_nll_class_dim(call->in_spec[INPUT]->layout.ndim));
    call->out[0] = are_probabilities(call) ? of_probabilities(call, log_p)
                                           : stni_nll_call(log_p, call->in[TARGET], call->in[WEIGHT], call->attrs);
    return STN_OK;
}

static const stn_input_schema inputs[] = {
    [INPUT] = {.name = "input"}, [TARGET] = {.name = "target"}, [WEIGHT] = {.name = "weight", .optional = 1}};

const stn_op_desc stni_op_cross_entropy = {
    .size = sizeof(stn_op_desc),
    .name = "cross_entropy",
    STN_INPUTS(inputs),
    STN_ATTRS(stni_nll_attrs_schema, struct stni_nll_attrs),
    .attrs_init = &stni_nll_defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = cross_entropy},
    .signature = "input, target, weight=, *, ignore_index=, reduction=, label_smoothing=",
};
