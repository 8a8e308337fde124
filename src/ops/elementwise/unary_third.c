/* Third derivatives of unary functions. In comments s is the sigmoid of v, and p = s (1 - s) its derivative. */
#include "ops/elementwise/unary_third.h"
#include "ops/elementwise/kernels/activation_functions.h"
#include "ops/elementwise/kernels/function_words.h"
#include "ops/elementwise/unary_rule.h"

#include <shardtensor/ops.h>

/* a x + b */
static stn_tensor *line(double a, stn_tensor *x, double b)
{
    return stn_add_number(stn_mul_number(x, a), b);
}

/* Exponentials, powers and roots */

/* x / v^3 */
static stn_tensor *by_cube(stn_tensor *x, stn_tensor *v)
{
    return stn_div(stn_div(x, stn_square(v)), v);
}

STNI_THIRD(log)
{
    (void)attrs;
    return stn_mul_number(by_cube(x, v), 2);
}

STNI_THIRD(log2)
{
    (void)attrs;
    return stn_mul_number(by_cube(x, v), 2 * STNI_RLN2);
}

STNI_THIRD(log10)
{
    (void)attrs;
    return stn_mul_number(by_cube(x, v), 2 * STNI_RLN10);
}

STNI_THIRD(log1p)
{
    (void)attrs;
    return stn_mul_number(by_cube(x, stn_add_number(v, 1)), 2);
}

STNI_THIRD(sqrt)
{
    (void)attrs;
    return by_cube(x, v);
}

STNI_THIRD(rsqrt)
{
    (void)attrs;
    return stn_mul_number(stn_mul(x, v), -3);
}

STNI_THIRD(reciprocal)
{
    (void)v, (void)attrs;
    return stn_mul_number(x, -2);
}

STNI_THIRD(sinh)
{
    (void)attrs;
    return stn_mul(x, stn_cosh(v));
}

STNI_THIRD(cosh)
{
    (void)attrs;
    return stn_mul(x, stn_sinh(v));
}

STNI_THIRD(tanh)
{
    (void)v, (void)attrs;
    return stn_mul_number(x, -2);
}

/* (2 v^2 - 1) / (v^2 + 1)^(5/2) */
STNI_THIRD(asinh)
{
    (void)attrs;
    stn_tensor *squared = stn_square(v), *sum = stn_add_number(squared, 1);
    return stn_div(stn_mul(stn_mul(x, line(2, squared, -1)), stn_rsqrt(sum)), stn_square(sum));
}

/* (2 v^2 + 1) / (v^2 - 1)^(5/2), the root on acosh's branch. */
STNI_THIRD(acosh)
{
    (void)attrs;
    stn_tensor *less = stn_add_number(v, -1), *more = stn_add_number(v, 1), *rest = stn_mul(less, more);
    stn_tensor *root = stn_mul(stn_rsqrt(less), stn_rsqrt(more));
    return stn_div(stn_mul(stn_mul(x, line(2, stn_square(v), 1)), root), stn_square(rest));
}

/* (6 v^2 + 2) / (1 - v^2)^3 */
STNI_THIRD(atanh)
{
    (void)attrs;
    stn_tensor *squared = stn_square(v);
    return by_cube(stn_mul(x, line(6, squared, 2)), line(-1, squared, 1));
}

STNI_THIRD(sigmoid)
{
    (void)v, (void)attrs;
    return stn_mul_number(x, -2);
}

/* Trigonometry */

STNI_THIRD(sin)
{
    (void)attrs;
    return stn_neg(stn_mul(x, stn_cos(v)));
}

STNI_THIRD(cos)
{
    (void)attrs;
    return stn_mul(x, stn_sin(v));
}

STNI_THIRD(tan)
{
    (void)v, (void)attrs;
    return stn_mul_number(x, 2);
}

/* (1 + 2 v^2) / (1 - v^2)^(5/2) */
STNI_THIRD(asin)
{
    (void)attrs;
    stn_tensor *squared = stn_square(v), *rest = line(-1, squared, 1);
    return stn_div(stn_mul(stn_mul(x, line(2, squared, 1)), stn_rsqrt(rest)), stn_square(rest));
}

STNI_THIRD(acos)
{
    return stn_neg(stni_third_asin(x, v, attrs));
}

/* (6 v^2 - 2) / (1 + v^2)^3 */
STNI_THIRD(atan)
{
    (void)attrs;
    stn_tensor *squared = stn_square(v);
    return by_cube(stn_mul(x, line(6, squared, -2)), stn_add_number(squared, 1));
}

/* Activations */

/* 2 / sqrt(pi) e^-v^2 (4 v^2 - 2) */
STNI_THIRD(erf)
{
    (void)attrs;
    stn_tensor *squared = stn_square(v);
    return stn_mul(stn_mul(x, stn_exp(stn_neg(squared))), line(4 * STNI_2RSQRTPI, squared, -2 * STNI_2RSQRTPI));
}

STNI_THIRD(erfc)
{
    return stn_neg(stni_third_erf(x, v, attrs));
}

/* The density of the normal distribution times v (v^2 - 4). */
static stn_tensor *third_of_gelu(stn_tensor *x, stn_tensor *v)
{
    stn_tensor *squared = stn_square(v), *falling = stn_exp(stn_mul_number(squared, -0.5));
    return stn_mul(stn_mul(stn_mul_number(stn_mul(x, falling), GELU_DENSITY), v), stn_add_number(squared, -4));
}

/* Of v (1 + h) / 2 with h = tanh(u), u = K (v + C v^3), w = 1 - h^2: the derivatives of h are w u',
 * w bend with bend = u'' - 2 h u'^2, and w (u''' - 2 w u'^3 - 4 h u' u'' - 2 h u' bend). */
static stn_tensor *third_of_gelu_tanh(stn_tensor *x, stn_tensor *v)
{
    const double k = GELU_K, c = GELU_C;
    stn_tensor *squared = stn_square(v);
    stn_tensor *h = stn_tanh(stn_mul(v, line(k * c, squared, k))), *w = line(-1, stn_square(h), 1);
    stn_tensor *du = line(3 * k * c, squared, k), *ddu = stn_mul_number(v, 6 * k * c);
    stn_tensor *hdu = stn_mul(h, du), *bend = stn_sub(ddu, stn_mul_number(stn_mul(hdu, du), 2));
    stn_tensor *other = stn_mul(hdu, stn_add(stn_mul_number(ddu, 2), bend));
    stn_tensor *third = stn_sub(line(-2, stn_mul(stn_mul(w, du), stn_square(du)), 6 * k * c), stn_mul_number(other, 2));
    stn_tensor *sum = stn_add(stn_mul_number(bend, 3), stn_mul(v, third));
    return stn_mul_number(stn_mul(stn_mul(x, w), sum), 0.5);
}

STNI_THIRD(gelu)
{
    return *(const int64_t *)attrs == STN_GELU_TANH ? third_of_gelu_tanh(x, v) : third_of_gelu(x, v);
}

static stn_tensor *slope_of_sigmoid(stn_tensor *s)
{
    return stn_mul(s, line(-1, s, 1));
}

/* p (3 (1 - 2 s) + v (1 - 6 p)) */
STNI_THIRD(silu)
{
    (void)attrs;
    stn_tensor *s = stn_sigmoid(v), *p = slope_of_sigmoid(s);
    return stn_mul(stn_mul(x, p), stn_add(line(-6, s, 3), stn_mul(v, line(-6, p, 1))));
}

/* Of v t with t = tanh(log(1 + e^v)), w = 1 - t^2: the derivatives of t are w s, w bend with bend = p - 2 t s^2, and
 * w (p (1 - 2 s) - 2 w s^3 - 2 t s (2 p + bend)). */
STNI_THIRD(mish)
{
    (void)attrs;
    stn_tensor *s = stn_sigmoid(v), *p = slope_of_sigmoid(s);
    stn_tensor *t = stn_tanh(stn_softplus(v, 1, 20)), *w = line(-1, stn_square(t), 1);
    stn_tensor *ts = stn_mul(t, s), *bend = stn_sub(p, stn_mul_number(stn_mul(ts, s), 2));
    stn_tensor *other = stn_mul(ts, stn_add(stn_mul_number(p, 2), bend));
    other = stn_add(other, stn_mul(stn_mul(w, s), stn_square(s)));
    stn_tensor *third = stn_sub(stn_mul(p, line(-2, s, 1)), stn_mul_number(other, 2));
    return stn_mul(stn_mul(x, w), stn_add(stn_mul_number(bend, 3), stn_mul(v, third)));
}

/* x where v < limit, else 0. */
static stn_tensor *below(stn_tensor *x, stn_tensor *v, double limit)
{
    return stn_where(stn_lt_number(v, limit), x, stn_mul_number(v, 0));
}

/* a^2 p (1 - 2 s), of a v, below the threshold */
STNI_THIRD(softplus)
{
    const struct stni_unary_attrs *numbers = attrs;
    const double a = numbers->a;
    stn_tensor *scaled = stn_mul_number(v, a), *s = stn_sigmoid(scaled);
    stn_tensor *third = stn_mul(stn_mul_number(slope_of_sigmoid(s), a * a), line(-2, s, 1));
    return below(stn_mul(x, third), scaled, numbers->b);
}

STNI_THIRD(logsigmoid)
{
    (void)attrs;
    stn_tensor *s = stn_sigmoid(v);
    return stn_mul(stn_mul(x, slope_of_sigmoid(s)), line(2, s, -1));
}

/* factor e^(rate v) where v < 0: above it might overflow. */
static stn_tensor *exponential_below(stn_tensor *x, stn_tensor *v, double factor, double rate)
{
    stn_tensor *negative = stn_neg(stn_relu(stn_neg(v)));
    return below(stn_mul_number(stn_mul(x, stn_exp(stn_mul_number(negative, rate))), factor), v, 0);
}

STNI_THIRD(elu)
{
    return exponential_below(x, v, ((const struct stni_unary_attrs *)attrs)->a, 1);
}

STNI_THIRD(celu)
{
    const double a = ((const struct stni_unary_attrs *)attrs)->a;
    return exponential_below(x, v, 1 / (a * a), 1 / a);
}

STNI_THIRD(selu)
{
    (void)attrs;
    return exponential_below(x, v, STNI_SELU_NEGATIVE, 1);
}

/* With p = v (1 - v): (2 p + 2 (2 v - 1)^2) / p^3 = (2 - 6 p) / p^3 between eps and 1 - eps. */
STNI_THIRD(logit)
{
    const stn_number *eps = &((const struct stni_eps_attrs *)attrs)->eps;
    const double lowest = eps->kind == STN_NUMBER_NONE || eps->f < 0 ? 0 : eps->f;
    stn_tensor *outside = stn_logical_or(stn_lt_number(v, lowest), stn_gt_number(v, 1 - lowest));
    stn_tensor *p = stn_masked_fill(stn_mul(v, line(-1, v, 1)), outside, 1);
    return stn_masked_fill(by_cube(stn_mul(x, line(-6, p, 2)), p), outside, 0);
}

/* 6 / (1 + |v|)^4 */
STNI_THIRD(softsign)
{
    (void)attrs;
    stn_tensor *squared = stn_square(stn_add_number(stn_abs(v), 1));
    return stn_div(stn_mul_number(x, 6), stn_square(squared));
}
