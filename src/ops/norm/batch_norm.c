/* batch_norm and instance_norm: channel_norm where statistics are the input's, and what becomes of running ones; else
 * pointwise ops with those.
 *
 * Running statistics are numbers of their own: nothing is differentiated through them. */
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/norm/norm.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

enum { INPUT, RUNNING_MEAN, RUNNING_VAR, WEIGHT, BIAS, INPUTS };

struct running_attrs {
    int64_t own; /* whether statistics are the input's */
    double momentum, eps;
};

static const struct running_attrs batch_defaults = {0, 0.1, 1e-5}, instance_defaults = {1, 0.1, 1e-5};

static stn_tensor *call_op(enum stni_op_index op, stn_tensor *const *in, const struct running_attrs *attrs,
                           stn_tensor **new_mean, stn_tensor **new_var)
{
    stn_tensor *out[3] = {NULL, NULL, NULL};
    stn_context *context = NULL;
    for (int i = 0; i < INPUTS && !context; i++)
        context = in[i] ? in[i]->context : NULL;
    if (context)
        stni_dispatch(context->registry->ops[op], INPUTS, in, attrs, 3, out);
    if (new_mean)
        *new_mean = out[1];
    if (new_var)
        *new_var = out[2];
    return out[0];
}

stn_tensor *stn_batch_norm(stn_tensor *input, stn_tensor *running_mean, stn_tensor *running_var, stn_tensor *weight,
                           stn_tensor *bias, int training, double momentum, double eps, stn_tensor **new_mean,
                           stn_tensor **new_var)
{
    const struct running_attrs attrs = {training != 0, momentum, eps};
    return call_op(STNI_OP_batch_norm, (stn_tensor *[]){input, running_mean, running_var, weight, bias}, &attrs,
                   new_mean, new_var);
}

stn_tensor *stn_instance_norm(stn_tensor *input, stn_tensor *running_mean, stn_tensor *running_var, stn_tensor *weight,
                              stn_tensor *bias, int use_input_stats, double momentum, double eps, stn_tensor **new_mean,
                              stn_tensor **new_var)
{
    const struct running_attrs attrs = {use_input_stats != 0, momentum, eps};
    return call_op(STNI_OP_instance_norm, (stn_tensor *[]){input, running_mean, running_var, weight, bias}, &attrs,
                   new_mean, new_var);
}

/* Parameters and running statistics are floating and one per channel. */
static stn_status check_channels(const stn_op_call *call)
{
    const struct stni_layout *x = &call->in_spec[INPUT]->layout;
    char got[STNI_SHAPE_TEXT];
    STNI_TRY(stni_check_floating(call, INPUT));
    if (x->ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape %s, wanted (n, channels, …)",
                           stni_shape_text(x->ndim, x->shape, got));
    for (int i = RUNNING_MEAN; i < INPUTS; i++) {
        if (!call->in_spec[i])
            continue;
        STNI_TRY(stni_check_shape(call, i, 1, &x->shape[1], NULL));
        STNI_TRY(stni_check_floating(call, i));
    }
    return STN_OK;
}

static stn_status check(const stn_op_call *call, int per_sample)
{
    const struct running_attrs *attrs = call->attrs;
    STNI_TRY(check_channels(call));
    const struct stni_layout *x = &call->in_spec[INPUT]->layout;
    const int running = (call->in_spec[RUNNING_MEAN] != NULL) + (call->in_spec[RUNNING_VAR] != NULL);
    int64_t count = per_sample ? 1 : x->shape[0];
    char text[STNI_SHAPE_TEXT];
    for (int d = 2; d < x->ndim; d++)
        count *= x->shape[d];
    if (running == 1 || (running == 0 && !attrs->own))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' is absent, wanted %s",
                           call->in_spec[RUNNING_MEAN] ? "running_var" : "running_mean",
                           attrs->own ? "both running statistics or none"
                                      : "both running statistics, since they are to be used");
    if (attrs->own && count == 1)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape %s, wanted more than one element per statistic",
                           stni_shape_text(x->ndim, x->shape, text));
    return STN_OK;
}

static stn_tensor *as_dtype(stn_tensor *t, stn_dtype dtype)
{
    return !t || stn_tensor_is_error(t) || stn_tensor_dtype(t) == dtype ? t : stn_cast(t, dtype);
}

/* One number per channel, wide, so that it broadcasts to x. */
static stn_tensor *beside(const stn_op_call *call, stn_tensor *t)
{
    const struct stni_layout *x = &call->in_spec[INPUT]->layout;
    int64_t shape[STN_MAX_NDIM] = {x->shape[1]};
    for (int d = 1; d < x->ndim - 1; d++)
        shape[d] = 1;
    if (!t)
        return NULL;
    t = as_dtype(t, stn_tensor_dtype(t) == STN_DTYPE_F64 ? STN_DTYPE_F64 : STN_DTYPE_F32);
    return stn_view(t, x->ndim - 1, shape);
}

/* (x - mean) (weight / sqrt(var + eps)) + bias */
static stn_tensor *with_running(const stn_op_call *call)
{
    const double eps = ((const struct running_attrs *)call->attrs)->eps;
    stn_tensor *const *in = call->in, *weight = beside(call, in[WEIGHT]), *bias = beside(call, in[BIAS]);
    stn_tensor *scale = stn_rsqrt(stn_add_number(beside(call, stn_detach(in[RUNNING_VAR])), eps));
    stn_tensor *deviation = stn_sub(in[INPUT], beside(call, stn_detach(in[RUNNING_MEAN])));
    if (weight)
        scale = stn_mul(scale, weight);
    return as_dtype(bias ? stn_addcmul(bias, deviation, scale, 1) : stn_mul(deviation, scale),
                    call->in_spec[INPUT]->layout.dtype);
}

/* momentum own + (1 - momentum) running, the mean over samples of which there is one each; an input without elements,
 * whose own statistics are zeros, changes nothing. No difference of the two is taken: it would make NaN of an infinite
 * mean where momentum is a half or more. */
static stn_tensor *updated(const stn_op_call *call, stn_tensor *running, stn_tensor *own, int per_sample)
{
    const int first = 0, empty = call->in_spec[INPUT]->numel == 0;
    if (per_sample)
        own = (empty ? stn_sum : stn_mean)(own, 1, &first, 0);
    const double momentum = empty ? 0 : ((const struct running_attrs *)call->attrs)->momentum;
    stn_tensor *wide = as_dtype(running, stn_tensor_dtype(own));
    return as_dtype(stn_add_scaled(stn_mul_number(own, momentum), wide, 1 - momentum), stn_tensor_dtype(running));
}

static stn_status with_own(stn_op_call *call, int per_sample)
{
    enum { Y, MEAN, RSTD, VAR, OUTPUTS };
    const struct stni_norm_attrs attrs = {.normalized_shape = {.n = -1}, .per_sample = per_sample,
                                          .eps = ((const struct running_attrs *)call->attrs)->eps};
    const stn_dtype dtype = call->in_spec[INPUT]->layout.dtype;
    stn_tensor *in[] = {call->in[INPUT], as_dtype(call->in[WEIGHT], dtype), as_dtype(call->in[BIAS], dtype)},
               *out[OUTPUTS];
    STNI_TRY(stni_dispatch(call->context->registry->ops[STNI_OP_channel_norm], 3, in, &attrs, OUTPUTS, out));
    call->out[0] = out[Y];
    if (!call->in[RUNNING_MEAN]) {
        call->n_out = 1;
        return STN_OK;
    }
    stn_no_grad_begin(call->context);
    call->out[1] = updated(call, call->in[RUNNING_MEAN], out[MEAN], per_sample);
    call->out[2] = updated(call, call->in[RUNNING_VAR], out[VAR], per_sample);
    stn_no_grad_end(call->context);
    return STN_OK;
}

static stn_status normalise(stn_op_call *call, int per_sample)
{
    STNI_TRY(check(call, per_sample));
    if (((const struct running_attrs *)call->attrs)->own)
        return with_own(call, per_sample);
    call->n_out = 1;
    call->out[0] = with_running(call);
    return STN_OK;
}

static stn_status batch_norm(stn_op_call *call)
{
    return normalise(call, 0);
}

static stn_status instance_norm(stn_op_call *call)
{
    return normalise(call, 1);
}

static const stn_input_schema inputs[INPUTS] = {[INPUT] = {.name = "input"},
                                                [RUNNING_MEAN] = {.name = "running_mean", .optional = 1},
                                                [RUNNING_VAR] = {.name = "running_var", .optional = 1},
                                                [WEIGHT] = {.name = "weight", .optional = 1},
                                                [BIAS] = {.name = "bias", .optional = 1}};

static const stn_attr_schema batch_schema[] = {
    {"training", STN_ATTR_BOOL, offsetof(struct running_attrs, own), NULL},
    {"momentum", STN_ATTR_FLOAT, offsetof(struct running_attrs, momentum), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct running_attrs, eps), NULL},
};
static const stn_attr_schema instance_schema[] = {
    {"use_input_stats", STN_ATTR_BOOL, offsetof(struct running_attrs, own), NULL},
    {"momentum", STN_ATTR_FLOAT, offsetof(struct running_attrs, momentum), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct running_attrs, eps), NULL},
};

const stn_op_desc stni_op_batch_norm = {
    .size = sizeof(stn_op_desc),
    .name = "batch_norm",
    STN_INPUTS(inputs),
    STN_ATTRS(batch_schema, struct running_attrs),
    .attrs_init = &batch_defaults,
    .n_outputs = 3,
    .impl = &(const stn_op_impl){.compose = batch_norm},
    .signature = "input, running_mean=, running_var=, weight=, bias=, training=, momentum=, eps= -> Tensor | (Tensor, "
                 "Tensor, Tensor)",
};

const stn_op_desc stni_op_instance_norm = {
    .size = sizeof(stn_op_desc),
    .name = "instance_norm",
    STN_INPUTS(inputs),
    STN_ATTRS(instance_schema, struct running_attrs),
    .attrs_init = &instance_defaults,
    .n_outputs = 3,
    .impl = &(const stn_op_impl){.compose = instance_norm},
    .signature = "input, running_mean=, running_var=, weight=, bias=, use_input_stats=, momentum=, eps= -> Tensor | "
                 "(Tensor, Tensor, Tensor)",
};
