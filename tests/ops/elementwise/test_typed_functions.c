/* The typed functions of pointwise ops are those that their names say, with their arguments in their places: functions
 * in place against those that give a new tensor, and comparisons against C's own. The ops behind them have tests of
 * their own, by name. */
#include "harness.h"
#include "ranks.h"

#include <math.h>
#include <string.h>

enum { N = 5 };

static stn_tensor *vector(stn_context *context, const double *values)
{
    const int64_t shape[] = {N};
    const stn_spec *spec;
    if (!CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, shape, NULL, &spec), STN_OK))
        return NULL;
    stn_tensor *tensor = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return tensor;
}

static void same(stn_tensor *got, stn_tensor *want, const char *name)
{
    double a[N], b[N];
    test_read(got, a, N);
    test_read(want, b, N);
    test_check(memcmp(a, b, sizeof a) == 0, __FILE__, __LINE__, name);
}

/* `call` gives a new tensor, `changes` changes t to the same. */
#define SAME(call, changes)                             \
    do {                                                \
        stn_tensor *want = (call), *t = stn_clone(x);   \
        test_check((changes) == t, __FILE__, __LINE__, #changes); \
        same(t, want, #changes);                        \
    } while (0)

#define OF_ONE(X) \
    X(exp) X(exp2) X(expm1) X(log) X(log2) X(log1p) X(sqrt) X(rsqrt) X(reciprocal) X(sinh) X(cosh) X(tanh) X(sigmoid) \
    X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(erf) X(erfc) X(relu) X(silu) X(mish) X(logsigmoid) X(selu) X(relu6) \
    X(hardsigmoid) X(hardswish) X(log10) X(softsign) X(asinh) X(atanh) X(neg) X(abs) X(sign) X(square) \
    X(floor) X(ceil) X(trunc)

static stn_status in_place_body(stn_context *context, void *arg)
{
    const double values[N] = {0.75, 0.125, 0.5, 0.875, 0.3}, powers[N] = {2, 0.5, 3, 1, 0.25};
    const double lows[N] = {0.2, 0.2, 0.6, 0.1, 0.1}, highs[N] = {0.5, 0.3, 0.7, 0.8, 0.2};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = vector(context, values), *y = vector(context, powers);
    stn_tensor *low = vector(context, lows), *high = vector(context, highs);
    const double most = 9, least = -9, low_end[] = {0.4};
#define FORM(name) SAME(stn_##name(x), stn_##name##_(t));
    OF_ONE(FORM)
#undef FORM
    SAME(stn_acosh(x), stn_acosh_(t)); /* NaN below 1, else of numbers beyond */
    SAME(stn_acosh(y), stn_acosh_(stn_copy_(t, y)));
    SAME(stn_pow(x, y), stn_pow_(t, y));
    SAME(stn_pow_number(x, 3), stn_pow_number_(t, 3));
    SAME(stn_xlogy(x, y), stn_xlogy_(t, y));
    SAME(stn_xlogy_number(x, 3), stn_xlogy_number_(t, 3));
    SAME(stn_copysign(x, stn_neg(y)), stn_copysign_(t, stn_neg(y)));
    SAME(stn_copysign_number(x, -3), stn_copysign_number_(t, -3));
    SAME(stn_floor_divide(x, low), stn_floor_divide_(t, low));
    SAME(stn_floor_divide_number(x, 0.2), stn_floor_divide_number_(t, 0.2));
    SAME(stn_fmod(x, low), stn_fmod_(t, low));
    SAME(stn_fmod_number(x, 0.2), stn_fmod_number_(t, 0.2));
    SAME(stn_remainder(x, low), stn_remainder_(t, low));
    SAME(stn_remainder_number(x, -0.2), stn_remainder_number_(t, -0.2));
    SAME(stn_addcmul(x, y, low, 3), stn_addcmul_(t, y, low, 3));
    SAME(stn_addcdiv(x, y, low, 3), stn_addcdiv_(t, y, low, 3));
    SAME(stn_clamp(x, 0.2, 0.6), stn_clamp_(t, 0.2, 0.6));
    SAME(stn_clamp_tensor(x, low, high), stn_clamp_tensor_(t, low, high));
    SAME(stn_nan_to_num(x, 1, &most, &least), stn_nan_to_num_(t, 1, &most, &least));
    SAME(stn_round(x, 1), stn_round_(t, 1));
    SAME(stn_softplus(x, 2, 1.5), stn_softplus_(t, 2, 1.5));
    SAME(stn_elu(x, 0.5), stn_elu_(t, 0.5));
    SAME(stn_celu(x, 0.5), stn_celu_(t, 0.5));
    SAME(stn_leaky_relu(x, 0.5), stn_leaky_relu_(t, 0.5));
    SAME(stn_hardtanh(x, 0.2, 0.6), stn_hardtanh_(t, 0.2, 0.6));
    SAME(stn_logit(x, NULL), stn_logit_(t, NULL));
    SAME(stn_logit(x, low_end), stn_logit_(t, low_end));
    SAME(stn_hardshrink(x, 0.4), stn_hardshrink_(t, 0.4));
    SAME(stn_softshrink(x, 0.4), stn_softshrink_(t, 0.4));
    SAME(stn_threshold(x, 0.4, 9), stn_threshold_(t, 0.4, 9));
    SAME(stn_gelu(x, STN_GELU_TANH), stn_gelu_(t, STN_GELU_TANH));
    return stn_scope_end(context);
}

static void functions_in_place_are_those_of_the_same_name(void)
{
    test_ranks(1, in_place_body, NULL);
}

static void holds(stn_tensor *got, const int *want, const char *name)
{
    double values[N];
    test_read(stn_cast(got, STN_DTYPE_F64), values, N);
    for (int i = 0; i < N; i++)
        test_check(values[i] == want[i], __FILE__, __LINE__, name);
}

/* Each comparison tells all others apart. */
#define COMPARE(name, ...)                             \
    do {                                               \
        const int want[N] = {__VA_ARGS__};             \
        holds(name, want, #name);                      \
    } while (0)

static stn_status comparisons_body(stn_context *context, void *arg)
{
    const double a[N] = {1, 2, 3, 0, -INFINITY}, b[N] = {2, 2, 1, NAN, 0};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = vector(context, a), *y = vector(context, b);
    COMPARE(stn_eq(x, y), 0, 1, 0, 0, 0);
    COMPARE(stn_ne(x, y), 1, 0, 1, 1, 1);
    COMPARE(stn_lt(x, y), 1, 0, 0, 0, 1);
    COMPARE(stn_le(x, y), 1, 1, 0, 0, 1);
    COMPARE(stn_gt(x, y), 0, 0, 1, 0, 0);
    COMPARE(stn_ge(x, y), 0, 1, 1, 0, 0);
    COMPARE(stn_eq_number(x, 2), 0, 1, 0, 0, 0);
    COMPARE(stn_ne_number(x, 2), 1, 0, 1, 1, 1);
    COMPARE(stn_lt_number(x, 2), 1, 0, 0, 1, 1);
    COMPARE(stn_le_number(x, 2), 1, 1, 0, 1, 1);
    COMPARE(stn_gt_number(x, 2), 0, 0, 1, 0, 0);
    COMPARE(stn_ge_number(x, 2), 0, 1, 1, 0, 0);
    COMPARE(stn_logical_and(x, y), 1, 1, 1, 0, 0);
    COMPARE(stn_logical_or(x, y), 1, 1, 1, 1, 1);
    COMPARE(stn_logical_xor(x, y), 0, 0, 0, 1, 1);
    COMPARE(stn_logical_not(x), 0, 0, 0, 1, 0);
    COMPARE(stn_isnan(y), 0, 0, 0, 1, 0);
    COMPARE(stn_isinf(x), 0, 0, 0, 0, 1);
    COMPARE(stn_isinf(y), 0, 0, 0, 0, 0);
    COMPARE(stn_isfinite(x), 1, 1, 1, 1, 0);
    COMPARE(stn_isfinite(y), 1, 1, 1, 0, 1);
    return stn_scope_end(context);
}

static void comparisons_are_those_of_the_same_name(void)
{
    test_ranks(1, comparisons_body, NULL);
}

static stn_status shift_body(stn_context *context, void *arg)
{
    const double a[N] = {0, 1, 2, 3, 4};
    const int dims[] = {0};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = vector(context, a);
    COMPARE(stn_fftshift(x, 1, dims), 3, 4, 0, 1, 2);
    COMPARE(stn_ifftshift(x, 1, dims), 2, 3, 4, 0, 1);
    return stn_scope_end(context);
}

static void shifts_of_spectra_undo_each_other(void)
{
    test_ranks(1, shift_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"functions_in_place_are_those_of_the_same_name", functions_in_place_are_those_of_the_same_name},
        {"comparisons_are_those_of_the_same_name", comparisons_are_those_of_the_same_name},
        {"shifts_of_spectra_undo_each_other", shifts_of_spectra_undo_each_other},
    };
    return TEST_MAIN(argc, argv, cases);
}
