/* power_spectrum: |y_k|^2 of the Fourier coefficients of a line, those that real input has twice counted twice. */
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/scores/score.h"

#include <shardtensor/ops.h>

struct spectrum_attrs {
    int64_t dim;
};

static const struct spectrum_attrs defaults = {-1};

stn_tensor *stn_power_spectrum(stn_tensor *input, int dim)
{
    return stni_call(STNI_OP_power_spectrum, 1, &input, &(struct spectrum_attrs){dim});
}

/* How often real input of n elements has each of the wave numbers k that stn_rfft gives: 0 and n / 2 are their own
 * negatives. */
static stn_status count_waves(const stn_op_call *call, const stn_tensor *power, int dim, int64_t n, stn_tensor **out)
{
    stn_tensor *k;
    STNI_TRY(stni_score_line(call, power, dim, 0, 1, &k));
    stn_tensor *has_negative = stn_logical_and(stn_ne_number(k, 0), stn_ne_number(k, (double)n / 2));
    *out = stn_add_number(stn_cast(has_negative, stn_tensor_dtype(power)), 1);
    return stn_context_status(call->context);
}

static stn_status power_spectrum(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_tensor *counts;
    int dim;
    STNI_TRY(stni_check_floating(call, 0));
    if (in->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got no dims, wanted at least 1");
    STNI_TRY(stni_dim_wrap(call, "dim", ((const struct spectrum_attrs *)call->attrs)->dim, in->ndim, &dim));
    if (in->shape[dim] == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got no elements along dim %d, wanted at least 1", dim);
    stn_tensor *waves = stn_rfft(stni_call_complete(stni_score_wide(call, 0)), 0, dim, STN_FFT_FORWARD);
    stn_tensor *power = stn_add(stn_square(stn_real(waves)), stn_square(stn_imag(waves)));
    if (stn_tensor_is_error(power))
        return stn_context_status(call->context);
    STNI_TRY(count_waves(call, power, dim, in->shape[dim], &counts));
    call->out[0] = stn_cast(stn_mul(power, counts), in->dtype);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs_schema[] = {{"dim", STN_ATTR_INT, offsetof(struct spectrum_attrs, dim), NULL}};

const stn_op_desc stni_op_power_spectrum = {
    .size = sizeof(stn_op_desc),
    .name = "power_spectrum",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct spectrum_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = power_spectrum},
};
