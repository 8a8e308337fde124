/* degree_power: how much of a field's square each degree has, orders below 0 counted with those above. */
#include "ops/common/call.h"
#include "ops/scores/score.h"

#include <shardtensor/ops.h>

stn_tensor *stn_degree_power(stn_tensor *input)
{
    return stni_call(STNI_OP_degree_power, 1, &input, NULL);
}

static stn_status degree_power(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    static const int orders[] = {-1};
    stn_tensor *order;
    if (in->dtype != STN_DTYPE_C64 && in->dtype != STN_DTYPE_C128)
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted c64 or c128", stn_dtype_name(in->dtype));
    if (in->ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at least 2", in->ndim);
    stn_tensor *x = stni_call_complete(call->in[0]);
    stn_tensor *square = stn_add(stn_square(stn_real(x)), stn_square(stn_imag(x)));
    if (stn_tensor_is_error(square))
        return stn_context_status(call->context);
    STNI_TRY(stni_score_line(call, square, in->ndim - 1, 0, 1, &order));
    stn_tensor *times = stn_add_number(stn_cast(stn_ne_number(order, 0), stn_tensor_dtype(square)), 1);
    call->out[0] = stn_sum(stn_mul(square, times), 1, orders, 0);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};

const stn_op_desc stni_op_degree_power = {.size = sizeof(stn_op_desc),
                                          .name = "degree_power",
                                          STN_INPUTS(inputs),
                                          .n_outputs = 1,
                                          .impl = &(const stn_op_impl){.compose = degree_power}};
