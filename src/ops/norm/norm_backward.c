/* The backward half of every normalisation, an op of its own. With g = weight dy, x^ = (x - mean) rstd and P the mean
 * over the elements that share a statistic:
 *
 *     dx = J(g), J(g) = rstd (g - P(g) - x^ P(g x^)),   dweight = sum dy x^,   dbias = sum dy;
 *
 * about zero J has no P(g).
 *
 * Two passes over the chunk, sums and dx, and between them, where ranks share statistics, one all-reduce of two numbers
 * per statistic. The gradients of the parameters stay pending. Mean and rstd are functions of x: the gradient of x
 * includes what flows through them, and they get none of their own. */
#include "ops/norm/norm.h"

#include "core/comm/comm.h"
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/sum_to.h"

#include <shardtensor/ops.h>

#include <string.h>

enum { SUMS, APPLY };
enum {
    GRAD = STNI_NORM_GRAD,
    INPUT = STNI_NORM_SAVED,
    MEAN = STNI_NORM_MEAN,
    RSTD = STNI_NORM_RSTD,
    WEIGHT = STNI_NORM_SAVED_WEIGHT
};

const stn_input_schema stni_norm_backward_inputs[5] = {
    [GRAD] = {.name = "grad"}, [INPUT] = {.name = "input"}, [MEAN] = {.name = "mean"}, [RSTD] = {.name = "rstd"},
    [WEIGHT] = {.name = "weight", .optional = 1}};

static const struct stni_norm_rule *rule_of(const void *arg)
{
    return arg;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *x = &call->in_spec[INPUT]->layout;
    struct stni_norm norm;
    stn_meta whole = {.dtype = x->dtype, .ndim = x->ndim}, stat, param;
    STNI_TRY(stni_check_floating(call, INPUT));
    STNI_TRY(rule_of(call->arg)->describe(call, x, &norm));
    memcpy(whole.shape, x->shape, sizeof x->shape);
    stni_norm_stat_meta(&norm, x, &stat);
    stni_norm_param_meta(&norm, x, &param);
    STNI_TRY(stni_norm_check_like(call, GRAD, &whole));
    STNI_TRY(stni_norm_check_like(call, MEAN, &stat));
    STNI_TRY(stni_norm_check_like(call, RSTD, &stat));
    STNI_TRY(stni_norm_check_like(call, WEIGHT, &param));
    call->out_meta[0] = whole;
    call->out_meta[1] = call->out_meta[2] = param;
    return STN_OK;
}

/* The input's layout; the cotangent's where only that is sharded, since taking a chunk of a replica moves nothing.
 * Each is read in its own memory order. */
static stn_status place(stn_op_call *call)
{
    const stn_spec *grad = call->in_spec[GRAD], *input = call->in_spec[INPUT];
    int follow_grad = !input->shard_axes && !input->partial_axes && !grad->partial_axes;
    struct stni_layout x = follow_grad ? grad->layout : input->layout;
    struct stni_norm norm;
    stn_meta stat;
    STNI_TRY(rule_of(call->arg)->describe(call, &x, &norm));
    stni_layout_reduce(&x, 0);
    memcpy(x.memory_order, grad->layout.memory_order, sizeof x.memory_order);
    STNI_TRY(stni_spec_intern(call->context, &x, &call->want[GRAD]));
    memcpy(x.memory_order, input->layout.memory_order, sizeof x.memory_order);
    STNI_TRY(stni_spec_intern(call->context, &x, &call->want[INPUT]));
    stni_norm_stat_meta(&norm, &x, &stat);
    STNI_TRY(stni_norm_stat_spec(call, &norm, &x, &stat, &call->want[MEAN]));
    call->want[RSTD] = call->want[MEAN];
    if (call->in_spec[WEIGHT])
        STNI_TRY(stni_norm_param_spec(call, &norm, &x, &call->out_meta[1], 0,
                                      call->in_spec[WEIGHT]->layout.memory_order, &call->want[WEIGHT]));
    call->out_spec[0] = call->want[INPUT];
    STNI_TRY(stni_norm_param_spec(call, &norm, &x, &call->out_meta[1], 1, NULL, &call->out_spec[1]));
    call->out_spec[2] = call->out_spec[1];
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    const stn_tensor *x = call->in[INPUT];
    struct stni_norm norm;
    struct stni_norm_args args;
    stn_comm *comm;
    STNI_TRY(rule_of(call->arg)->describe(call, &x->spec->layout, &norm));
    STNI_TRY(stni_norm_comm(x->spec, call->in[MEAN]->spec, &comm));
    stni_norm_args_make(&norm, x, call->in[MEAN], call->in[GRAD], call->out[0], call->in[WEIGHT], call->out[1]->strides,
                        &args);
    args.whole = comm == NULL;
    args.mean = call->in[MEAN]->data;
    args.rstd = call->in[RSTD]->data;
    args.grad_weight = call->out[1]->data;
    args.grad_bias = call->out[2]->data;
    STNI_TRY(stni_norm_scratch(call, 2, &args));
    STNI_TRY(stn_op_launch(call, SUMS, args.dtype, &args, sizeof args));
    if (comm && call->in[MEAN]->spec->local_numel > 0) /* which is the same for all of them */
        STNI_TRY(stni_comm_all_reduce(comm, call->context->queue, args.coarse, args.coarse, 2 * args.rows * args.groups,
                                      STN_DTYPE_F64, STN_SUM));
    return args.empty ? STN_OK : stn_op_launch(call, APPLY, args.dtype, &args, sizeof args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1u << GRAD | 1u << INPUT | 1u << MEAN | 1u << RSTD | 1u << WEIGHT : 0;
}

stn_status stni_norm_gradients(const struct stni_norm_rule *rule, const struct stni_norm_attrs *attrs, stn_tensor *grad,
                               stn_tensor *x, stn_tensor *mean, stn_tensor *rstd, stn_tensor *weight,
                               stn_tensor *out[3])
{
    stn_tensor *in[] = {[GRAD] = grad, [INPUT] = x, [MEAN] = mean, [RSTD] = rstd, [WEIGHT] = weight};
    return stni_dispatch(x->context->registry->ops[rule->backward], 5, in, attrs, 3, out);
}

/* One call of the double backward. */
struct again {
    const stn_backward_call *call;
    const struct stni_norm_rule *rule;
    stn_tensor *x, *normal; /* x^ */
    stn_tensor *weight;     /* seen with x's dims; NULL: none */
    struct stni_norm norm;
};

/* J(g) */
static stn_tensor *project(const struct again *s, stn_tensor *g)
{
    stn_tensor *out[3];
    if (stn_tensor_is_error(g) || stni_norm_gradients(s->rule, s->call->attrs, g, s->x, s->call->in[MEAN],
                                                      s->call->in[RSTD], NULL, out) != STN_OK)
        return s->call->context->error_tensor;
    return out[0];
}

static stn_tensor *group_mean(const struct again *s, stn_tensor *t)
{
    return stn_tensor_is_error(t) ? t : s->rule->group_mean(t, s->call->attrs);
}

/* A parameter as a tensor that broadcasts to x. */
static stn_tensor *as_x(const struct again *s, stn_tensor *param)
{
    int64_t shape[STN_MAX_NDIM];
    int ndim = s->call->in_spec[INPUT]->layout.ndim;
    for (int d = 0; d < ndim; d++)
        shape[d] = s->norm.param_dims >> d & 1 ? s->call->in_spec[INPUT]->layout.shape[d] : 1;
    return param ? stn_view(param, ndim, shape) : NULL;
}

/* 1 / sqrt(var + eps) for every element, computed from x: the saved mean and rstd carry no gradient to x. */
static stn_tensor *spread_rstd(const struct again *s)
{
    stn_tensor *deviation = s->norm.about_zero ? s->x : stn_sub(s->x, group_mean(s, s->x));
    return stn_rsqrt(stn_add_number(group_mean(s, stn_square(deviation)), s->norm.eps));
}

static stn_tensor *sum_of(stn_tensor *a, stn_tensor *b)
{
    return !a ? b : !b ? a : stn_add(a, b);
}

static stn_tensor *weighted(const struct again *s, stn_tensor *t)
{
    return s->weight ? stn_mul(t, s->weight) : t;
}

/* Of <h, J(g)> in x: with a = P(h x^), b = P(g x^), it is -J(a g + b h) rstd - P(h J(g)) rstd x^. */
static stn_tensor *second_derivative(const struct again *s, stn_tensor *h, stn_tensor *g)
{
    stn_tensor *a = group_mean(s, stn_mul(h, s->normal)), *b = group_mean(s, stn_mul(g, s->normal));
    stn_tensor *projected = project(s, stn_add(stn_mul(a, g), stn_mul(b, h)));
    stn_tensor *scaled = stn_mul(group_mean(s, stn_mul(h, project(s, g))), s->normal);
    return stn_mul_number(stn_mul(stn_add(projected, scaled), spread_rstd(s)), -1);
}

/* Cotangents h of dx, u of dweight, v of dbias. */
static stn_status backward(stn_backward_call *call)
{
    stn_tensor *dy = call->in[GRAD], *h = call->grad_out[0], *grad_dy = NULL, *grad_x = NULL;
    struct again s = {.call = call, .rule = call->arg, .x = call->in[INPUT]};
    const stn_op_call shape = {.context = call->context, .op = call->op, .attrs = call->attrs, .arg = call->arg};
    STNI_TRY(s.rule->describe(&shape, &call->in_spec[INPUT]->layout, &s.norm));
    s.normal = stni_call(s.rule->forward, 1, &s.x, call->attrs);
    s.weight = as_x(&s, call->in[WEIGHT]);
    stn_tensor *u = as_x(&s, call->grad_out[1]), *v = as_x(&s, call->grad_out[2]);
    stn_tensor *q = h ? project(&s, h) : NULL;
    if (call->needs >> GRAD & 1) {
        grad_dy = q ? weighted(&s, q) : NULL;
        grad_dy = sum_of(grad_dy, u ? stn_mul(u, s.normal) : NULL);
        grad_dy = sum_of(
            grad_dy, v ? stn_expand(v, call->in_spec[INPUT]->layout.ndim, call->in_spec[INPUT]->layout.shape) : NULL);
        call->grad_in[GRAD] = grad_dy;
    }
    if (call->needs >> INPUT & 1) {
        grad_x = u ? project(&s, stn_mul(u, dy)) : NULL;
        grad_x = sum_of(grad_x, h ? second_derivative(&s, h, weighted(&s, dy)) : NULL);
        call->grad_in[INPUT] = grad_x;
    }
    if ((call->needs >> WEIGHT & 1) && q)
        call->grad_in[WEIGHT] = stn_view(stni_sum_to(stn_mul(q, dy), stn_tensor_spec(s.weight)),
                                         call->in_spec[WEIGHT]->layout.ndim, call->in_spec[WEIGHT]->layout.shape);
    return stn_context_status(call->context);
}

static const stn_kernel_slot slots[] = {
    {"sums", sizeof(struct stni_norm_args)},
    {"apply", sizeof(struct stni_norm_args)},
};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("sums", STNI_NORM_DTYPES, struct stni_norm_args, stni_norm_sums_cpu, stni_norm_workspace),
    STNI_CPU_ROW("apply", STNI_NORM_DTYPES, struct stni_norm_args, stni_norm_apply_cpu, stni_norm_workspace),
};

const stn_op_impl stni_norm_backward_impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};
