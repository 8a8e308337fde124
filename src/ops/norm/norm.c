/* The forward half of every normalisation: y = (x - mean) / sqrt(var + eps) * weight + bias.
 *
 * Where ranks share statistics two passes over the chunk, statistics and result, and between them one all-gather of
 * three numbers per statistic (count, mean, sum of squared deviations), which every rank joins in the order of
 * ranks. Elsewhere one kernel does it all. */
#include "ops/norm/norm.h"

#include "core/comm/comm.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/moments.h"

enum { MOMENTS, NORMALISE };

const stn_input_schema stni_norm_inputs[3] = {
    {.name = "input"}, {.name = "weight", .optional = 1}, {.name = "bias", .optional = 1}};

static const struct stni_norm_rule *rule_of(const void *arg)
{
    return arg;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *x = &call->in_spec[STNI_NORM_INPUT]->layout;
    struct stni_norm norm;
    stn_meta param;
    STNI_TRY(stni_check_floating(call, STNI_NORM_INPUT));
    STNI_TRY(rule_of(call->arg)->describe(call, x, &norm));
    stni_norm_param_meta(&norm, x, &param);
    for (int i = STNI_NORM_WEIGHT; i < call->n_in; i++)
        STNI_TRY(stni_norm_check_like(call, i, &param));
    call->out_meta[0] = stni_meta_of(x);
    stni_norm_stat_meta(&norm, x, &call->out_meta[1]);
    for (int k = 2; k < call->n_out; k++)
        call->out_meta[k] = call->out_meta[1];
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_layout x = call->in_spec[STNI_NORM_INPUT]->layout;
    struct stni_norm norm;
    stn_meta param;
    STNI_TRY(rule_of(call->arg)->describe(call, &x, &norm));
    stni_layout_reduce(&x, 0);
    STNI_TRY(stni_spec_intern(call->context, &x, &call->want[STNI_NORM_INPUT]));
    stni_norm_param_meta(&norm, &x, &param);
    for (int i = STNI_NORM_WEIGHT; i < call->n_in; i++)
        if (call->in_spec[i])
            STNI_TRY(stni_norm_param_spec(call, &norm, &x, &param, 0, call->in_spec[i]->layout.memory_order,
                                          &call->want[i]));
    call->out_spec[0] = call->want[STNI_NORM_INPUT];
    STNI_TRY(stni_norm_stat_spec(call, &norm, &x, &call->out_meta[1], &call->out_spec[1]));
    for (int k = 2; k < call->n_out; k++)
        call->out_spec[k] = call->out_spec[1];
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    const stn_tensor *x = call->in[STNI_NORM_INPUT],
                     *bias = call->n_in > STNI_NORM_BIAS ? call->in[STNI_NORM_BIAS] : NULL;
    struct stni_norm norm;
    struct stni_norm_args args;
    stn_comm *comm;
    STNI_TRY(rule_of(call->arg)->describe(call, &x->spec->layout, &norm));
    STNI_TRY(stni_norm_comm(x->spec, call->out[1]->spec, &comm));
    if (call->out[1]->spec->local_numel == 0)
        return STN_OK;
    stni_norm_args_make(&norm, x, call->out[1], call->out[0], NULL, call->in[STNI_NORM_WEIGHT],
                        bias ? bias->strides : NULL, &args);
    args.bias = bias ? bias->data : NULL;
    args.mean = call->out[1]->data;
    args.rstd = call->out[2]->data;
    args.var = call->n_out > 3 ? call->out[3]->data : NULL;
    STNI_TRY(stni_norm_scratch(call, 3, &args));
    if (comm) {
        STNI_TRY(stn_op_launch(call, MOMENTS, args.dtype, &args, sizeof args));
        args.n_parts = comm->size;
        STNI_TRY(stni_moments_gather(call, comm, 3, args.coarse, args.rows * args.groups, &args.parts));
    }
    return stn_op_launch(call, NORMALISE, args.dtype, &args, sizeof args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs
               ? UINT64_C(6) << 32 | 1u << STNI_NORM_INPUT | (needs >> STNI_NORM_INPUT & 1 ? 1u << STNI_NORM_WEIGHT : 0)
               : 0;
}

static stn_status backward(stn_backward_call *call)
{
    stn_tensor *grads[3];
    if (!call->grad_out[0])
        return STN_OK;
    STNI_TRY(stni_norm_gradients(call->arg, call->attrs, call->grad_out[0], call->in[STNI_NORM_INPUT], call->out[1],
                                 call->out[2], call->in[STNI_NORM_WEIGHT], grads));
    for (int i = 0; i < call->n_in; i++)
        if (call->needs >> i & 1)
            call->grad_in[i] = grads[i];
    return stn_context_status(call->context);
}

static const stn_kernel_slot slots[] = {
    {"moments", sizeof(struct stni_norm_args)},
    {"normalise", sizeof(struct stni_norm_args)},
};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("moments", STNI_NORM_DTYPES, struct stni_norm_args, stni_norm_moments_cpu, stni_norm_workspace),
    STNI_CPU_ROW("normalise", STNI_NORM_DTYPES, struct stni_norm_args, stni_norm_normalise_cpu, stni_norm_workspace),
};

const stn_op_impl stni_norm_impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};
