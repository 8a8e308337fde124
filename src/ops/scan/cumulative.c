/* cumsum, cumprod, logcumsumexp, and the affine scan that gradients are made of. All of them are differentiable as
 * often as one likes. */
#include "ops/scan/scan.h"

#include "ops/common/call.h"
#include "ops/elementwise/pointwise.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

#include <math.h>

stn_tensor *stn_cumsum(stn_tensor *input, int dim)
{
    return stni_scan_call(STNI_OP_cumsum, input, dim, 0, STNI_SCAN_INCLUSIVE);
}

stn_tensor *stn_cumprod(stn_tensor *input, int dim)
{
    return stni_scan_call(STNI_OP_cumprod, input, dim, 0, STNI_SCAN_INCLUSIVE);
}

stn_tensor *stn_logcumsumexp(stn_tensor *input, int dim)
{
    return stni_scan_call(STNI_OP_logcumsumexp, input, dim, 0, STNI_SCAN_INCLUSIVE);
}

stn_tensor *stni_affine_scan(stn_tensor *x, stn_tensor *y, int64_t dim, int64_t reverse, enum stni_scan_kind kind)
{
    struct stni_scan_attrs attrs = {dim, reverse, kind};
    return stni_call(STNI_OP_affine_scan, 2, (stn_tensor *[]){x, y}, &attrs);
}

/* 16-bit floats in f32, in which what gradients are made of is multiplied. */
static stn_tensor *wide(stn_tensor *t)
{
    return stn_cast(t, stni_wide_dtype(stn_tensor_dtype(t)));
}

/* The sum the other way. */
static stn_status sum_backward(stn_backward_call *call)
{
    const struct stni_scan_attrs *attrs = call->attrs;
    call->grad_in[0] = stni_scan_call(STNI_OP_cumsum, call->grad_out[0], attrs->dim, !attrs->reverse,
                                      (enum stni_scan_kind)attrs->kind);
    return stn_context_status(call->context);
}

static uint64_t saves_input(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1 : 0;
}

/* Element k is in y_i, i >= k, with the product of those before it, which is the exclusive scan, and of those
 * between k and i, which the affine scan of the cotangents collects from behind: no division, so that zeros are
 * right. */
static stn_status prod_backward(stn_backward_call *call)
{
    const struct stni_scan_attrs *attrs = call->attrs;
    stn_tensor *x = stni_conjugate(wide(call->in[0]));
    stn_tensor *before = stni_scan_call(STNI_OP_cumprod, x, attrs->dim, attrs->reverse, STNI_SCAN_EXCLUSIVE);
    stn_tensor *behind = stni_affine_scan(x, wide(call->grad_out[0]), attrs->dim, !attrs->reverse,
                                          attrs->kind == STNI_SCAN_EXCLUSIVE ? STNI_SCAN_EXCLUSIVE : STNI_SCAN_LAGGED);
    call->grad_in[0] = stn_cast(stn_mul(before, behind), stn_spec_dtype(call->in_spec[0]));
    return stn_context_status(call->context);
}

static uint64_t saves_both(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? UINT64_C(1) << 32 | 1 : 0;
}

/* sum_{i >= k} g_i exp(x_k - y_i) = exp(x_k - y_k) r_k with r_k = g_k + exp(y_k - y_{k+1}) r_{k+1}: no exponent is
 * above 0. */
static stn_status logsumexp_backward(stn_backward_call *call)
{
    const struct stni_scan_attrs *attrs = call->attrs;
    stn_tensor *x = wide(call->in[0]), *y = call->out[0];
    if (stn_tensor_dtype(x) != stn_tensor_dtype(call->in[0])) /* digits that 16 bits do not have */
        y = stni_scan_call(STNI_OP_logcumsumexp, x, attrs->dim, attrs->reverse, (enum stni_scan_kind)attrs->kind);
    stn_tensor *next = stni_scan_neighbour(y, attrs->dim, 1, INFINITY);
    stn_tensor *ratio = stni_conjugate(stn_exp(stn_sub(y, next)));
    stn_tensor *r = stni_affine_scan(ratio, wide(call->grad_out[0]), attrs->dim, 1, STNI_SCAN_INCLUSIVE);
    call->grad_in[0] = stn_cast(stn_mul(stni_conjugate(stn_exp(stn_sub(x, y))), r), stn_spec_dtype(call->in_spec[0]));
    return stn_context_status(call->context);
}

enum { FACTOR, ADDED };

static uint64_t affine_saves(const stn_op_call *call, uint32_t needs)
{
    const struct stni_scan_attrs *attrs = call->attrs;
    const uint64_t out = needs >> FACTOR & 1 && attrs->kind != STNI_SCAN_INCLUSIVE ? UINT64_C(1) << 32 : 0;
    return (needs ? 1u << FACTOR : 0) | (needs >> FACTOR & 1 ? 1u << ADDED : 0) | out;
}

/* The cotangents t of the recurrence r = x r' + y run the other way, and those of x are t r':
 *     inclusive   t_p = g_p + x_{p+1} t_{p+1}: lagged        r' is the exclusive scan
 *     exclusive   t_p = g_{p+1} + x_{p+1} t_{p+1}: exclusive r' is the result
 *     lagged      t_p = g_p + x_p t_{p+1}: inclusive         x_p meets the result r_p and t_{p+1}, the exclusive one */
static stn_status affine_backward(stn_backward_call *call)
{
    static const enum stni_scan_kind other_way[] = {[STNI_SCAN_INCLUSIVE] = STNI_SCAN_LAGGED,
                                                    [STNI_SCAN_EXCLUSIVE] = STNI_SCAN_EXCLUSIVE,
                                                    [STNI_SCAN_LAGGED] = STNI_SCAN_INCLUSIVE};
    const struct stni_scan_attrs *attrs = call->attrs;
    stn_tensor *x = call->in[FACTOR], *g = call->grad_out[0], *back = stni_conjugate(x);
    const enum stni_scan_kind kind = (enum stni_scan_kind)attrs->kind;
    stn_tensor *t = stni_affine_scan(back, g, attrs->dim, !attrs->reverse, other_way[kind]);
    if (call->needs >> ADDED & 1)
        call->grad_in[ADDED] = t;
    if (!(call->needs >> FACTOR & 1))
        return stn_context_status(call->context);
    if (kind == STNI_SCAN_LAGGED)
        t = stni_affine_scan(back, g, attrs->dim, !attrs->reverse, STNI_SCAN_EXCLUSIVE);
    stn_tensor *r = kind != STNI_SCAN_INCLUSIVE
                        ? call->out[0]
                        : stni_affine_scan(x, call->in[ADDED], attrs->dim, attrs->reverse, STNI_SCAN_EXCLUSIVE);
    call->grad_in[FACTOR] = stn_mul(t, stni_conjugate(r));
    return stn_context_status(call->context);
}

static const stn_input_schema affine_inputs[] = {[FACTOR] = {.name = "factor"}, [ADDED] = {.name = "added"}};

static const stn_op_impl cumsum_impl = {
    .check = stni_scan_check, .place = stni_scan_place, .run = stni_scan_run, .backward = sum_backward,
    STN_SLOTS(stni_scan_slots), STN_KERNELS(stni_scan_kernels),
};
static const stn_op_impl cumprod_impl = {
    .check = stni_scan_check,
    .place = stni_scan_place,
    .run = stni_scan_run,
    .saves = saves_input,
    .backward = prod_backward,
    STN_SLOTS(stni_scan_slots),
    STN_KERNELS(stni_scan_kernels),
};
static const stn_op_impl logcumsumexp_impl = {
    .check = stni_scan_check,
    .place = stni_scan_place,
    .run = stni_scan_run,
    .saves = saves_both,
    .backward = logsumexp_backward,
    STN_SLOTS(stni_scan_slots),
    STN_KERNELS(stni_scan_kernels),
};
static const stn_op_impl affine_impl = {
    .check = stni_scan_check,
    .place = stni_scan_place,
    .run = stni_scan_run,
    .saves = affine_saves,
    .backward = affine_backward,
    STN_SLOTS(stni_scan_slots),
    STN_KERNELS(stni_scan_kernels),
};

const stn_op_desc stni_op_cumsum = {
    .size = sizeof(stn_op_desc),
    .name = "cumsum",
    STN_INPUTS(stni_scan_inputs),
    STN_ATTRS(stni_scan_attrs_schema, struct stni_scan_attrs),
    .attrs_init = &stni_scan_defaults,
    .n_outputs = 1,
    .impl = &cumsum_impl,
    .arg = (void *)&(const struct stni_scan_rule){.op = STNI_SCAN_SUM, .promotes = 1, .linear = 1},
    .signature = "input, dim",
};

const stn_op_desc stni_op_cumprod = {
    .size = sizeof(stn_op_desc),
    .name = "cumprod",
    STN_INPUTS(stni_scan_inputs),
    STN_ATTRS(stni_scan_attrs_schema, struct stni_scan_attrs),
    .attrs_init = &stni_scan_defaults,
    .n_outputs = 1,
    .impl = &cumprod_impl,
    .arg = (void *)&(const struct stni_scan_rule){.op = STNI_SCAN_PROD, .promotes = 1},
    .signature = "input, dim",
};

const stn_op_desc stni_op_logcumsumexp = {
    .size = sizeof(stn_op_desc),
    .name = "logcumsumexp",
    STN_INPUTS(stni_scan_inputs),
    STN_ATTRS(stni_scan_attrs_schema, struct stni_scan_attrs),
    .attrs_init = &stni_scan_defaults,
    .n_outputs = 1,
    .impl = &logcumsumexp_impl,
    .arg = (void *)&(const struct stni_scan_rule){.op = STNI_SCAN_LOGSUMEXP,
                                                  .dtypes = STNI_SCAN_FLOATING | STNI_SCAN_COMPLEX,
                                                  .wanted = "a floating or complex dtype"},
    .signature = "input, dim",
};

const stn_op_desc stni_op_affine_scan = {
    .size = sizeof(stn_op_desc),
    .name = "affine_scan",
    STN_INPUTS(affine_inputs),
    STN_ATTRS(stni_scan_attrs_schema, struct stni_scan_attrs),
    .attrs_init = &stni_scan_defaults,
    .n_outputs = 1,
    .impl = &affine_impl,
    .arg = (void *)&(const struct stni_scan_rule){.op = STNI_SCAN_AFFINE,
                                                  .dtypes = STNI_SCAN_FLOATING | STNI_SCAN_COMPLEX,
                                                  .wanted = "a floating or complex dtype"},
    .flags = STN_OP_INTERNAL,
};
