/* The elementary functions of kernels in f64 against the C library's of long double, over all magnitudes and on every
 * instruction set. */
#include "harness.h"

#include "core/base/isa.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static long double logit(long double x) { return logl(x / (1 - x)); }
static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }

static const struct {
    const char *name;
    enum stni_pointwise_op op;
    long double (*exact)(long double);
    double ulps; /* units in the last place of the exact result, or of the smallest number */
} functions[] = {
    {"exp", STNI_POINTWISE_exp, expl, 1.5},      {"exp2", STNI_POINTWISE_exp2, exp2l, 1.5},
    {"expm1", STNI_POINTWISE_expm1, expm1l, 2},  {"log", STNI_POINTWISE_log, logl, 1},
    {"log2", STNI_POINTWISE_log2, log2l, 2},     {"log1p", STNI_POINTWISE_log1p, log1pl, 2},
    {"sinh", STNI_POINTWISE_sinh, sinhl, 3},     {"cosh", STNI_POINTWISE_cosh, coshl, 2},
    {"tanh", STNI_POINTWISE_tanh, tanhl, 3},     {"sigmoid", STNI_POINTWISE_sigmoid, sigmoid, 3},
    {"sin", STNI_POINTWISE_sin, sinl, 1.5},      {"cos", STNI_POINTWISE_cos, cosl, 1.5},
    {"tan", STNI_POINTWISE_tan, tanl, 3},        {"asin", STNI_POINTWISE_asin, asinl, 2.5},
    {"acos", STNI_POINTWISE_acos, acosl, 1.5},   {"atan", STNI_POINTWISE_atan, atanl, 2.5},
    {"log10", STNI_POINTWISE_log10, log10l, 2},  {"asinh", STNI_POINTWISE_asinh, asinhl, 2},
    {"acosh", STNI_POINTWISE_acosh, acoshl, 2.5}, {"atanh", STNI_POINTWISE_atanh, atanhl, 3},
    {"logit", STNI_POINTWISE_logit, logit, 3},
    {"erf", STNI_POINTWISE_erf, erfl, 2.5},      {"erfc", STNI_POINTWISE_erfc, erfcl, 4},
};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0] };

static int is_right(double got, long double want, double ulps)
{
    int exponent;
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(got) || fabsl(want) > DBL_MAX)
        return fabsl(want) >= DBL_MAX && fabs(got) >= DBL_MAX && (got > 0) == (want > 0);
    frexpl(want, &exponent);
    const long double ulp = ldexpl(1, want == 0 || exponent - 53 < -1074 ? -1074 : exponent - 53);
    return fabsl(got - want) <= ulps * ulp && (want != 0 || !signbit(got) == !signbit(want));
}

/* A zero or an end is there. */
static int is_bent_at_1(long double (*exact)(long double))
{
    return exact == logl || exact == log2l || exact == log10l || exact == acoshl || exact == atanhl;
}

/* Ends of the range, then numbers of every magnitude, of magnitudes near 1, and near 1 or multiples of pi / 2. */
static double argument(int f, int i)
{
    static const double ends[] = {0.0, INFINITY, NAN, DBL_MAX, DBL_MIN, 0x1p-1074, 1.0, 710.0, 710.4758, 710.47587,
                                  709.7827, 745.1, 746.0, 1022.5, 1024.0, 1074.5, 0.5, 0x1p-54, 524288.0, 524289.0};
    enum { N_ENDS = sizeof ends / sizeof ends[0] };
    const double sign = i & 1 ? -1.0 : 1.0, part = 1.0 + (double)((uint32_t)i * 2654435761u % 1048576u) / 1048576.0;
    if (i < 2 * N_ENDS)
        return sign * ends[i / 2];
    switch (i % 3) {
    case 0: return sign * ldexp(part, i * 37 % 2098 - 1074);
    case 1: return sign * ldexp(part, i * 13 % 24 - 14);
    default: return is_bent_at_1(functions[f].exact)
                        ? 1.0 + sign * ldexp(part, -2 - i % 50)
                        : sign * (double)(i * 7919 % 330000) * 1.57079632679489661923;
    }
}

static void functions_are_right_for_all_magnitudes(void)
{
    enum { N = 30000 };
    static double x[N], y[N];
    for (int k = 0; k < N_FUNCTIONS * ((int)stni_isa_best() + 1); k++) {
        const int f = k % N_FUNCTIONS;
        int64_t wrong = 0;
        for (int i = 0; i < N; i++)
            x[i] = argument(f, i);
        struct stni_pointwise_block block = {.op = functions[f].op, .n = N, .out = y, .in = {x, x, x}, .a = {-1, -1}};
        stni_pointwise_block_of(functions[f].op, STN_DTYPE_F64, (enum stni_isa)(k / N_FUNCTIONS))(&block);
        for (int i = 0; i < N; i++) {
            const long double want = functions[f].exact(x[i]);
            if (!is_right(y[i], want, functions[f].ulps) && wrong++ < 3)
                fprintf(stderr, "%s(%a) got %a, wanted %La\n", functions[f].name, x[i], y[i], want);
        }
        CHECK_I64(wrong, 0);
    }
}

static long double xlogyl(long double x, long double y) { return isnan(y) ? y : x == 0 ? 0 : x * logl(y); }

static int64_t wrong_pairs(enum stni_pointwise_op op, long double (*exact)(long double, long double), double ulps,
                           enum stni_isa isa)
{
    enum { N = 400 };
    double all[N], y[N], got[N];
    for (int i = 0; i < N; i++)
        all[i] = argument(0, i);
    int64_t wrong = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            y[j] = all[i];
        struct stni_pointwise_block block = {.op = op, .n = N, .out = got, .in = {y, all, y}};
        stni_pointwise_block_of(op, STN_DTYPE_F64, isa)(&block);
        for (int j = 0; j < N; j++)
            if (!is_right(got[j], exact(y[j], all[j]), ulps) && wrong++ < 3)
                fprintf(stderr, "op %d of %a and %a got %a\n", (int)op, y[j], all[j], got[j]);
    }
    return wrong;
}

/* All pairs of magnitudes and signs, the ends among them. Rests are exact. */
static void functions_of_two_are_right_for_all_magnitudes(void)
{
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
        CHECK_I64(wrong_pairs(STNI_POINTWISE_atan2, atan2l, 3, (enum stni_isa)isa), 0);
        CHECK_I64(wrong_pairs(STNI_POINTWISE_hypot, hypotl, 1.5, (enum stni_isa)isa), 0);
        CHECK_I64(wrong_pairs(STNI_POINTWISE_xlogy, xlogyl, 1.5, (enum stni_isa)isa), 0);
        CHECK_I64(wrong_pairs(STNI_POINTWISE_copysign, copysignl, 0, (enum stni_isa)isa), 0);
        CHECK_I64(wrong_pairs(STNI_POINTWISE_fmod, fmodl, 0, (enum stni_isa)isa), 0);
        CHECK_I64(wrong_pairs(STNI_POINTWISE_pow, powl, 1.5, (enum stni_isa)isa), 0);
    }
}

/* However large its neighbours are, which a layout may take away: sines and their derivatives, the argument of which is
 * the last operand. */
static void neighbours_do_not_change_bits(void)
{
    enum { N = 3000 };
    static double wide[3][N];
    static float narrow[3][N];
    const enum stni_pointwise_op ops[] = {STNI_POINTWISE_sin, STNI_POINTWISE_sin_backward,
                                          STNI_POINTWISE_cos_double_backward, STNI_POINTWISE_tan};
    for (int i = 0; i < 3 * N; i++)
        narrow[i / N][i % N] = (float)(wide[i / N][i % N] = argument(0, 40 + i * 7));
    for (int k = 0; k < 4 * ((int)stni_isa_best() + 1); k++) {
        const enum stni_pointwise_op op = ops[k % 4];
        for (int f64 = 0; f64 < 2; f64++) {
            static double all[N], one;
            const size_t size = f64 ? sizeof(double) : sizeof(float);
            struct stni_pointwise_block block = {.op = op, .n = N, .out = all};
            for (int i = 0; i < 3; i++)
                block.in[i] = f64 ? (void *)wide[i] : (void *)narrow[i];
            const stni_pointwise_block_fn run =
                stni_pointwise_block_of(op, f64 ? STN_DTYPE_F64 : STN_DTYPE_F32, (enum stni_isa)(k / 4));
            int64_t wrong = 0;
            run(&block);
            struct stni_pointwise_block alone = block;
            alone.n = 1, alone.out = &one;
            for (int j = 0; j < N; j++) {
                for (int i = 0; i < 3; i++)
                    alone.in[i] = (const char *)block.in[i] + (size_t)j * size;
                run(&alone);
                wrong += memcmp(&one, (char *)all + (size_t)j * size, size) != 0;
            }
            CHECK_I64(wrong, 0);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"functions_are_right_for_all_magnitudes", functions_are_right_for_all_magnitudes},
        {"functions_of_two_are_right_for_all_magnitudes", functions_of_two_are_right_for_all_magnitudes},
        {"neighbours_do_not_change_bits", neighbours_do_not_change_bits},
    };
    return TEST_MAIN(argc, argv, cases);
}
