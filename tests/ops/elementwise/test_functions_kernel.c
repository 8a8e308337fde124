/* The elementary functions of kernels in f32 against the C library in f64, over all magnitudes and on every
 * instruction set; and 16-bit floats, which are rounded once. */
#include "harness.h"

#include "core/base/dtype.h"
#include "core/device/device.h"
#include "ops/elementwise/pointwise.h"
#include "ops/cpu/convert.h"

#include <complex.h>
#include <fenv.h>
#undef complex
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double rsqrt(double x) { return 1 / sqrt(x); }
static double reciprocal(double x) { return 1 / x; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); }
static double logsigmoid(double x) { return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x)); }
static double logit(double x) { return log(x / (1 - x)); }
static double softsign(double x) { return x / (1 + fabs(x)); }
static double elu(double x) { return x > 0 ? x : expm1(x); }

static const struct {
    const char *name;
    enum stni_pointwise_op op;
    double (*exact)(double);
    double tolerance; /* relative */
    int steps;        /* of subnormal numbers that are allowed besides */
} functions[] = {
    {"exp", STNI_POINTWISE_exp, exp, 1.5e-7, 2},
    {"exp2", STNI_POINTWISE_exp2, exp2, 4e-7, 2},
    {"expm1", STNI_POINTWISE_expm1, expm1, 6e-7, 2},
    {"log", STNI_POINTWISE_log, log, 3e-7, 2},
    {"log2", STNI_POINTWISE_log2, log2, 6e-7, 2},
    {"log10", STNI_POINTWISE_log10, log10, 4e-7, 2},
    {"log1p", STNI_POINTWISE_log1p, log1p, 4e-7, 2},
    {"sqrt", STNI_POINTWISE_sqrt, sqrt, 1e-7, 2},
    {"rsqrt", STNI_POINTWISE_rsqrt, rsqrt, 2e-7, 2},
    {"reciprocal", STNI_POINTWISE_reciprocal, reciprocal, 1e-7, 2},
    {"sinh", STNI_POINTWISE_sinh, sinh, 8e-7, 2},
    {"cosh", STNI_POINTWISE_cosh, cosh, 8e-7, 2},
    {"tanh", STNI_POINTWISE_tanh, tanh, 3e-7, 2},
    {"asinh", STNI_POINTWISE_asinh, asinh, 3e-7, 2},
    {"acosh", STNI_POINTWISE_acosh, acosh, 3e-7, 2},
    {"atanh", STNI_POINTWISE_atanh, atanh, 3e-7, 2},
    {"sigmoid", STNI_POINTWISE_sigmoid, sigmoid, 3e-7, 2},
    {"sin", STNI_POINTWISE_sin, sin, 2e-7, 2},
    {"cos", STNI_POINTWISE_cos, cos, 2e-7, 2},
    {"tan", STNI_POINTWISE_tan, tan, 4e-7, 2},
    {"atan", STNI_POINTWISE_atan, atan, 2e-7, 2},
    {"asin", STNI_POINTWISE_asin, asin, 3e-7, 2},
    {"acos", STNI_POINTWISE_acos, acos, 2e-7, 2},
    {"erf", STNI_POINTWISE_erf, erf, 2e-7, 2},
    {"erfc", STNI_POINTWISE_erfc, erfc, 5e-7, 2},
    {"silu", STNI_POINTWISE_silu, silu, 5e-7, 200}, /* a subnormal sigmoid times x */
    {"softplus", STNI_POINTWISE_softplus, softplus, 6e-7, 2},
    {"logsigmoid", STNI_POINTWISE_logsigmoid, logsigmoid, 6e-7, 2},
    {"elu", STNI_POINTWISE_elu, elu, 6e-7, 2},
    {"logit", STNI_POINTWISE_logit, logit, 3e-7, 2},
    {"softsign", STNI_POINTWISE_softsign, softsign, 1.3e-7, 2},
};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0], CHUNK = 1000 };

/* Their first number: logit's is -1 where it has no eps. */
static struct stni_pointwise_number first_number(int f)
{
    return (struct stni_pointwise_number){functions[f].op == STNI_POINTWISE_logit ? -1 : 1, 1};
}

static int is_right(int f, float got, double want)
{
    double tolerance = functions[f].tolerance;
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(got) || fabs(want) > FLT_MAX) /* what overflows does so within the tolerance of the largest float */
        return fabs(want) >= FLT_MAX * (1 - tolerance) && fabsf(got) >= FLT_MAX * (1 - (float)tolerance) &&
               (got > 0) == (want > 0);
    return fabs(got - want) <= tolerance * fabs(want) + functions[f].steps * 0x1p-149;
}

/* Counts and prints the arguments, bit patterns from `first` by `step`, at which a function is wrong. */
static int64_t sweep(int f, enum stni_isa isa, uint32_t step)
{
    float x[CHUNK], y[CHUNK];
    int64_t wrong = 0;
    for (uint64_t first = 0; first <= UINT32_MAX; first += (uint64_t)CHUNK * step) {
        for (uint32_t i = 0; i < CHUNK; i++) {
            uint32_t bits = (uint32_t)first + i * step;
            memcpy(&x[i], &bits, sizeof bits);
        }
        struct stni_pointwise_block block = {
            .op = functions[f].op, .n = CHUNK, .out = y, .in = {x, x, x}, .a = first_number(f), .b = {20, 20}};
        stni_pointwise_block_of(functions[f].op, STN_DTYPE_F32, isa)(&block);
        for (int i = 0; i < CHUNK; i++) {
            double want = functions[f].exact(x[i]);
            if (is_right(f, y[i], want))
                continue;
            if (wrong++ < 3)
                fprintf(stderr, "%s(%.9g) got %.9g, wanted %.17g\n", functions[f].name, (double)x[i], (double)y[i],
                        want);
        }
    }
    return wrong;
}

static void f32_functions_are_right_for_all_magnitudes(void)
{
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (int f = 0; f < N_FUNCTIONS; f++)
            CHECK_I64(sweep(f, (enum stni_isa)isa, 24593), 0);
}

static void ends_of_the_range_are_the_c_librarys(void)
{
    const float x[] = {0.0f,      -0.0f,      INFINITY, -INFINITY, NAN,       FLT_MAX,  -FLT_MAX, FLT_MIN,  -FLT_MIN,
                       0x1p-149f, -0x1p-149f, 1.0f,     -1.0f,     88.72284f, 88.7229f, -87.34f,  -103.97f, -104.0f,
                       128.0f,    -149.0f,    -150.5f,  89.41599f, 89.41601f, 0.5f,     2.0f,     1e10f};
    enum { N = sizeof x / sizeof x[0] };
    float y[N];
    for (int k = 0; k < N_FUNCTIONS * ((int)stni_isa_best() + 1); k++) {
        const int f = k % N_FUNCTIONS;
        struct stni_pointwise_block block = {
            .op = functions[f].op, .n = N, .out = y, .in = {x, x, x}, .a = first_number(f), .b = {20, 20}};
        stni_pointwise_block_of(functions[f].op, STN_DTYPE_F32, (enum stni_isa)(k / N_FUNCTIONS))(&block);
        for (int i = 0; i < N; i++) {
            const double want = functions[f].exact(x[i]);
            const int sign = x[i] != 0 || want != 0 || !signbit(want) == !signbit(y[i]); /* of a zero */
            if (!CHECK(sign && is_right(f, y[i], want)))
                fprintf(stderr, "%s(%.9g) got %.9g\n", functions[f].name, (double)x[i], (double)y[i]);
        }
    }
}

static double xlogy(double x, double y) { return isnan(y) ? y : x == 0 ? 0 : x * log(y); }
static double logaddexp(double x, double y)
{
    const double more = x > y ? x : y, less = x > y ? y : x;
    return isnan(x) || isnan(y) ? NAN : x == y ? x + M_LN2 : more + log1p(exp(less - more));
}

/* All pairs of magnitudes and signs, the ends among them. A sum of exponentials' second addend is as wrong as the
 * difference of the operands is. */
static int64_t wrong_pairs(enum stni_pointwise_op op, double (*exact)(double, double), int is_sum, enum stni_isa isa)
{
    enum { N = 512 };
    static const float ends[] = {0.0f, INFINITY, NAN, FLT_MAX, FLT_MIN, 0x1p-149f, 1.0f, 0x1p-140f};
    float all[N], y[N], x[N], got[N];
    int64_t wrong = 0;
    for (int i = 0; i < N; i++)
        all[i] = (i & 1 ? -1.0f : 1.0f) *
                 (i < 16 ? ends[i / 2]
                         : ldexpf(1.0f + (float)(i * 37 % 64) / 64.0f, i < 128 ? i % 8 - 4 : i * 13 % 250 - 125));
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            y[j] = all[i];
            x[j] = all[j];
        }
        struct stni_pointwise_block block = {.op = op, .n = N, .out = got, .in = {y, x, x}};
        stni_pointwise_block_of(op, STN_DTYPE_F32, isa)(&block);
        for (int j = 0; j < N; j++) {
            const double want = exact(y[j], x[j]);
            const double apart = is_sum ? fmin(fabs((double)y[j] - x[j]), 200) : 200;
            const double size = fabs(want) + (1 + apart) * exp(-apart);
            const int near = isinf((float)want) ? isinf(got[j]) : fabs(got[j] - want) <= 2.4e-7 * size + 2 * 0x1p-149;
            const int right = isnan(want) ? isnan(got[j]) : near && !signbit(got[j]) == !signbit(want);
            if (!right && wrong++ < 3)
                fprintf(stderr, "op %d of %.9g and %.9g got %.9g, wanted %.17g\n", (int)op, (double)y[j],
                        (double)x[j], (double)got[j], want);
        }
    }
    return wrong;
}

static void functions_of_two_are_right_for_all_magnitudes(void)
{
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
        CHECK_I64(wrong_pairs(STNI_POINTWISE_atan2, atan2, 0, (enum stni_isa)isa), 0);
        CHECK_I64(wrong_pairs(STNI_POINTWISE_hypot, hypot, 0, (enum stni_isa)isa), 0);
        CHECK_I64(wrong_pairs(STNI_POINTWISE_xlogy, xlogy, 0, (enum stni_isa)isa), 0);
        CHECK_I64(wrong_pairs(STNI_POINTWISE_copysign, copysign, 0, (enum stni_isa)isa), 0);
        CHECK_I64(wrong_pairs(STNI_POINTWISE_logaddexp, logaddexp, 1, (enum stni_isa)isa), 0);
    }
}

/* Bases of all magnitudes to the power of ends, whole numbers, odd ones, halves and numbers near a threshold. */
static int64_t wrong_powers(enum stni_isa isa)
{
    enum { N = 512 };
    static const float ends[] = {0.0f, INFINITY, NAN, FLT_MAX, FLT_MIN, 0x1p-149f, 1.0f, 0x1.fffffep-1f, 0x1.000002p+0f,
                                 0.5f, 1.5f, 3.0f, 16777215.0f, 16777216.0f, 8388607.5f, 33.0f};
    float all[N], x[N], y[N], got[N];
    int64_t wrong = 0;
    for (int i = 0; i < N; i++)
        all[i] = (i & 1 ? -1.0f : 1.0f) *
                 (i < 32 ? ends[i / 2] : ldexpf(1.0f + (float)(i * 37 % 64) / 64.0f,
                                                i < 256 ? i % 12 - 6 : i * 13 % 270 - 145));
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            x[j] = all[i];
            y[j] = all[j];
        }
        struct stni_pointwise_block block = {.op = STNI_POINTWISE_pow, .n = N, .out = got, .in = {x, y, x}};
        stni_pointwise_block_of(STNI_POINTWISE_pow, STN_DTYPE_F32, isa)(&block);
        for (int j = 0; j < N; j++) {
            const double want = pow(x[j], y[j]);
            const float nearest = (float)want;
            const int same_sign = !signbit(got[j]) == !signbit(nearest);
            const int near = isinf(nearest) ? isinf(got[j]) : fabs(got[j] - want) <= 1.2e-7 * fabs(want) + 0x1p-149;
            if (!(isnan(want) ? isnan(got[j]) : near && same_sign) && wrong++ < 3)
                fprintf(stderr, "pow(%.9g, %.9g) got %.9g, wanted %.17g\n", (double)x[j], (double)y[j], (double)got[j],
                        want);
        }
    }
    return wrong;
}

static void powers_are_right_for_all_magnitudes(void)
{
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        CHECK_I64(wrong_powers((enum stni_isa)isa), 0);
}

/* Every bf16 and f16: the result is f32's, rounded. */
static void sixteen_bit_floats_are_rounded_once(void)
{
    stn_queue best = {.isa = stni_isa_best()};
    enum { N = 65536 };
    static uint16_t x[N], y[N];
    static float wide[N], result[N];
    for (int half = 0; half < 2; half++) {
        stn_dtype dtype = half ? STN_DTYPE_F16 : STN_DTYPE_BF16;
        for (int i = 0; i < N; i++) {
            x[i] = (uint16_t)i;
            wide[i] = half ? stni_f16_to_f32(x[i]) : stni_bf16_to_f32(x[i]);
        }
        for (int f = 0; f < N_FUNCTIONS; f++) {
            struct stni_pointwise_args args = {.op = functions[f].op,
                                               .compute = STN_DTYPE_F32,
                                               .ndim = 1,
                                               .n_in = 1,
                                               .shape = {N},
                                               .out = {y, dtype, {1}},
                                               .in = {{x, dtype, {1}}},
                                               .a = first_number(f),
                                               .b = {20, 20}};
            struct stni_pointwise_block block = {
                .op = functions[f].op, .n = N, .out = result, .in = {wide, wide, wide}, .a = first_number(f),
                .b = {20, 20}};
            CHECK_STATUS(stni_pointwise_cpu(&best, &args), STN_OK);
            stni_pointwise_block_of(functions[f].op, STN_DTYPE_F32, stni_isa_best())(&block);
            int64_t wrong = 0;
            for (int i = 0; i < N; i++)
                wrong += !isnan(result[i]) && y[i] != (half ? stni_f32_to_f16(result[i]) : stni_f32_to_bf16(result[i]));
            CHECK_I64(wrong, 0);
        }
    }
}

/* Whether a kernel came to a number below the normal ones, at which x86 processors lose 150 cycles. */
static int underflows(enum stni_pointwise_op op, stn_dtype dtype, enum stni_isa isa, double x)
{
    enum { SOME = 64 };
    float narrow[SOME], result[SOME];
    double wide[SOME], wide_result[SOME];
    for (int i = 0; i < SOME; i++) {
        wide[i] = x;
        narrow[i] = (float)x;
    }
    const int is_wide = dtype == STN_DTYPE_F64;
    const void *in = is_wide ? (const void *)wide : narrow;
    struct stni_pointwise_block block = {.op = op, .n = SOME, .out = is_wide ? (void *)wide_result : result,
                                         .in = {in, in, in}, .a = {1, 1}, .b = {20, 20}};
    feclearexcept(FE_ALL_EXCEPT);
    stni_pointwise_block_of(op, dtype, isa)(&block);
    return fetestexcept(FE_UNDERFLOW) != 0;
}

/* Results that have come to 0 or 1, or to the argument, come by no subnormal number. */
static void check_settled_results(void)
{
    static const struct {
        enum stni_pointwise_op op;
        stn_dtype dtype;
    } rows[] = {{STNI_POINTWISE_exp, STN_DTYPE_F32},       {STNI_POINTWISE_exp, STN_DTYPE_F64},
                {STNI_POINTWISE_exp2, STN_DTYPE_F32},      {STNI_POINTWISE_expm1, STN_DTYPE_F32},
                {STNI_POINTWISE_tanh, STN_DTYPE_F32},      {STNI_POINTWISE_sigmoid, STN_DTYPE_F32},
                {STNI_POINTWISE_sigmoid, STN_DTYPE_F64},   {STNI_POINTWISE_silu, STN_DTYPE_F32},
                {STNI_POINTWISE_silu, STN_DTYPE_F64},      {STNI_POINTWISE_gelu, STN_DTYPE_F32},
                {STNI_POINTWISE_gelu_tanh, STN_DTYPE_F32}, {STNI_POINTWISE_gelu_tanh, STN_DTYPE_F64},
                {STNI_POINTWISE_elu, STN_DTYPE_F32}};
    static const double settled[] = {8, 12, 14, 16, 30, 45, 60, 800, 1e4, INFINITY};
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
            for (size_t i = 0; i < 2 * (sizeof settled / sizeof settled[0]); i++) {
                const double x = (i % 2 ? -1 : 1) * settled[i / 2];
                if (!CHECK(!underflows(rows[r].op, rows[r].dtype, (enum stni_isa)isa, x)))
                    fprintf(stderr, "row %d at %g, instruction set %d\n", (int)r, x, isa);
            }
}

/* Sets with a fused multiply-add square small numbers without underflow; the basic one does not. */
static void check_small_arguments(void)
{
    static const enum stni_pointwise_op ops[] = {STNI_POINTWISE_expm1, STNI_POINTWISE_tanh, STNI_POINTWISE_erf,
                                                 STNI_POINTWISE_atan,  STNI_POINTWISE_sin,  STNI_POINTWISE_sinh,
                                                 STNI_POINTWISE_gelu,  STNI_POINTWISE_gelu_tanh};
    for (int isa = STNI_ISA_AVX2; isa <= (int)stni_isa_best(); isa++)
        for (size_t r = 0; r < sizeof ops / sizeof ops[0]; r++)
            if (!CHECK(!underflows(ops[r], STN_DTYPE_F32, (enum stni_isa)isa, -1e-22)))
                fprintf(stderr, "row %d, instruction set %d\n", (int)r, isa);
}

static void usual_results_do_not_underflow(void)
{
    check_settled_results();
    check_small_arguments();
}

/* Choices among several numbers: what NaN, infinities and zeros do. */
static void special_values_follow_the_usual_rules(void)
{
    const float x[] = {NAN, 1, 0, -7.5f, 7.5f, INFINITY, -0.5f, 2.5f}, y[] = {1, NAN, 0, 2, -2, 2, 1, 0};
    const double maximum[] = {NAN, NAN, 0, 2, 7.5, INFINITY, 1, 2.5},
                 floor_quotient[] = {NAN, NAN, NAN, -4, -4, NAN, -1, INFINITY},
                 remainder[] = {NAN, NAN, NAN, 0.5, -0.5, NAN, 0.5, NAN},
                 fmods[] = {NAN, NAN, NAN, -1.5, 1.5, NAN, -0.5, NAN}, rounded[] = {NAN, 1, 0, -8, 8, INFINITY, 0, 2},
                 relu[] = {NAN, 1, 0, 0, 7.5, INFINITY, 0, 2.5}, number[] = {9, 1, 0, -7.5, 7.5, 3, -0.5, 2.5},
                 sign[] = {0, 1, 0, -1, 1, 1, -1, 1};
    const struct {
        enum stni_pointwise_op op;
        const double *want;
    } rows[] = {{STNI_POINTWISE_maximum, maximum},
                {STNI_POINTWISE_div_floor, floor_quotient},
                {STNI_POINTWISE_remainder, remainder},
                {STNI_POINTWISE_fmod, fmods},
                {STNI_POINTWISE_relu, relu},
                {STNI_POINTWISE_nan_to_num, number},
                {STNI_POINTWISE_sign, sign}};
    float got[8];
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct stni_pointwise_block block = {
            .op = rows[r].op, .n = 8, .out = got, .in = {x, y, y}, .a = {9, 9}, .b = {3, 3}, .c = {-3, -3}};
        stni_pointwise_block_of(rows[r].op, STN_DTYPE_F32, stni_isa_best())(&block);
        for (int i = 0; i < 8; i++)
            if (!CHECK_NEAR(got[i], rows[r].want[i], 0))
                fprintf(stderr, "op %d, element %d\n", (int)rows[r].op, i);
    }
    struct stni_pointwise_block block = {.op = STNI_POINTWISE_round, .n = 8, .out = got, .in = {x, y, y}, .a = {1, 1}};
    stni_pointwise_block_of(STNI_POINTWISE_round, STN_DTYPE_F32, stni_isa_best())(&block);
    for (int i = 0; i < 8; i++)
        CHECK_NEAR(got[i], rounded[i], 0);
}

static void integers_divide_without_traps(void)
{
    const int64_t x[] = {7, -7, 7, -7, 5, INT64_MIN, 0, -1}, y[] = {2, 2, -2, -2, 0, -1, 3, 4};
    const int64_t floors[] = {3, -4, -4, 3, 0, INT64_MIN, 0, -1}, truncs[] = {3, -3, -3, 3, 0, INT64_MIN, 0, 0},
                  rests[] = {1, 1, -1, -1, 0, 0, 0, 3}, fmods[] = {1, -1, 1, -1, 0, 0, 0, -1};
    const struct {
        enum stni_pointwise_op op;
        const int64_t *want;
    } rows[] = {{STNI_POINTWISE_div_floor, floors},
                {STNI_POINTWISE_div_trunc, truncs},
                {STNI_POINTWISE_remainder, rests},
                {STNI_POINTWISE_fmod, fmods}};
    int64_t got[8];
    for (int r = 0; r < 4; r++) {
        struct stni_pointwise_block block = {.op = rows[r].op, .n = 8, .out = got, .in = {x, y, y}};
        stni_pointwise_block_of(rows[r].op, STN_DTYPE_I64, stni_isa_best())(&block);
        for (int i = 0; i < 8; i++)
            CHECK_I64(got[i], rows[r].want[i]);
    }
    const int64_t base[] = {2, -3, 0, 1, -1, 2, -1, 7}, power[] = {10, 3, 0, -5, -5, -1, -4, 22};
    const int64_t powers[] = {1024, -27, 1, 1, -1, 0, 1, 3909821048582988049};
    struct stni_pointwise_block block = {.op = STNI_POINTWISE_pow, .n = 8, .out = got, .in = {base, power, base}};
    stni_pointwise_block_of(STNI_POINTWISE_pow, STN_DTYPE_I64, stni_isa_best())(&block);
    for (int i = 0; i < 8; i++)
        CHECK_I64(got[i], powers[i]);
}

static double _Complex crsqrt(double _Complex x) { return 1 / csqrt(x); }
static double _Complex creciprocal(double _Complex x) { return 1 / x; }
static double _Complex csigmoid(double _Complex x) { return 1 / (1 + cexp(-x)); }
static double _Complex cexp2(double _Complex x) { return cpow(2, x); }
static double _Complex cexpm1(double _Complex x) { return cexp(x) - 1; }
static double _Complex clog_2(double _Complex x) { return clog(x) / log(2); }
static double _Complex clog_10(double _Complex x) { return clog(x) / log(10); }
static double _Complex clog_1p(double _Complex x) { return clog(1 + x); }

static void complex_functions_are_the_c_librarys(void)
{
    static const struct {
        enum stni_pointwise_op op;
        double _Complex (*exact)(double _Complex);
    } rows[] = {{STNI_POINTWISE_exp, cexp},         {STNI_POINTWISE_exp2, cexp2},     {STNI_POINTWISE_expm1, cexpm1},
                {STNI_POINTWISE_log, clog},         {STNI_POINTWISE_log2, clog_2},    {STNI_POINTWISE_log1p, clog_1p},
                {STNI_POINTWISE_sqrt, csqrt},       {STNI_POINTWISE_rsqrt, crsqrt},   {STNI_POINTWISE_reciprocal, creciprocal},
                {STNI_POINTWISE_sinh, csinh},       {STNI_POINTWISE_cosh, ccosh},     {STNI_POINTWISE_tanh, ctanh},
                {STNI_POINTWISE_sigmoid, csigmoid}, {STNI_POINTWISE_sin, csin},       {STNI_POINTWISE_cos, ccos},
                {STNI_POINTWISE_tan, ctan},         {STNI_POINTWISE_asin, casin},     {STNI_POINTWISE_acos, cacos},
                {STNI_POINTWISE_atan, catan},       {STNI_POINTWISE_asinh, casinh},   {STNI_POINTWISE_acosh, cacosh},
                {STNI_POINTWISE_atanh, catanh},     {STNI_POINTWISE_log10, clog_10}};
    enum { N = 37 };
    float _Complex x[N], y[N];
    double _Complex wide[N], result[N];
    for (int i = 0; i < N; i++)
        wide[i] = x[i] = (float)sin(1.0 + i) * 1.5f + (float)cos(2.0 * i) * 1.5f * (float _Complex)I;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct stni_pointwise_block narrow = {.op = rows[r].op, .n = N, .out = y, .in = {x, x, x}};
        struct stni_pointwise_block block = {.op = rows[r].op, .n = N, .out = result, .in = {wide, wide, wide}};
        stni_pointwise_block_of(rows[r].op, STN_DTYPE_C64, stni_isa_best())(&narrow);
        stni_pointwise_block_of(rows[r].op, STN_DTYPE_C128, stni_isa_best())(&block);
        for (int i = 0; i < N; i++) {
            double _Complex want = rows[r].exact(wide[i]);
            CHECK(cabs(y[i] - want) <= 2e-6 * cabs(want));
            CHECK(cabs(result[i] - want) <= 1e-14 * cabs(want));
        }
    }
}

/* exp(x) - 1 and log(1 + x) of small x have x's digits: the first terms of their series in higher precision. */
static void small_complex_numbers_keep_their_digits(void)
{
    static const double lengths[] = {0.05, 1e-3, 1e-5, 1e-8, 4e-12, 1e-30};
    enum { N = 16, N_LENGTHS = sizeof lengths / sizeof lengths[0] };
    static const enum stni_pointwise_op rows[] = {STNI_POINTWISE_expm1, STNI_POINTWISE_log1p};
    float _Complex x[N], y[N];
    double _Complex wide[N], result[N];
    for (int k = 0; k < N_LENGTHS * 2; k++) {
        for (int i = 0; i < N; i++)
            wide[i] = x[i] = (float _Complex)(lengths[k / 2] * cexp((double _Complex)I * M_PI / 8 * i));
        struct stni_pointwise_block narrow = {.op = rows[k % 2], .n = N, .out = y, .in = {x, x, x}};
        struct stni_pointwise_block block = {.op = rows[k % 2], .n = N, .out = result, .in = {wide, wide, wide}};
        stni_pointwise_block_of(rows[k % 2], STN_DTYPE_C64, stni_isa_best())(&narrow);
        stni_pointwise_block_of(rows[k % 2], STN_DTYPE_C128, stni_isa_best())(&block);
        for (int i = 0; i < N; i++) {
            long double _Complex want = 0, term = 1;
            for (int j = 1; j <= 20; j++) {
                term *= k % 2 ? (j > 1 ? -1 : 1) * (long double _Complex)wide[i] : (long double _Complex)wide[i] / j;
                want += k % 2 ? term / j : term;
            }
            CHECK(cabs((double _Complex)(y[i] - want)) <= 4e-7 * cabs((double _Complex)want));
            if (!CHECK(cabs((double _Complex)(result[i] - want)) <= 1e-15 * cabs((double _Complex)want)))
                fprintf(stderr, "op %d of %g + %g i\n", (int)rows[k % 2], creal(wide[i]), cimag(wide[i]));
        }
    }
}

/* No rule admits a dtype for which the list of its row has no block. */
static void every_dtype_that_an_op_takes_has_a_kernel(void)
{
    for (int i = 0; i < STNI_OP_COUNT; i++) {
        const stn_op_desc *desc = stni_op_table[i];
        if (desc->impl != &stni_pointwise_impl)
            continue;
        const struct stni_pointwise_rule *rule = desc->arg;
        for (int d = 0; d < STN_DTYPE_COUNT; d++)
            if (!rule->dtypes || (rule->dtypes >> d & 1))
                if (!CHECK(stni_pointwise_block_of(rule->op, stni_compute_dtype((stn_dtype)d), STNI_ISA_BASE) != NULL))
                    fprintf(stderr, "%s of %s\n", desc->name, stn_dtype_name((stn_dtype)d));
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"f32_functions_are_right_for_all_magnitudes", f32_functions_are_right_for_all_magnitudes},
        {"ends_of_the_range_are_the_c_librarys", ends_of_the_range_are_the_c_librarys},
        {"functions_of_two_are_right_for_all_magnitudes", functions_of_two_are_right_for_all_magnitudes},
        {"powers_are_right_for_all_magnitudes", powers_are_right_for_all_magnitudes},
        {"sixteen_bit_floats_are_rounded_once", sixteen_bit_floats_are_rounded_once},
        {"usual_results_do_not_underflow", usual_results_do_not_underflow},
        {"special_values_follow_the_usual_rules", special_values_follow_the_usual_rules},
        {"complex_functions_are_the_c_librarys", complex_functions_are_the_c_librarys},
        {"small_complex_numbers_keep_their_digits", small_complex_numbers_keep_their_digits},
        {"every_dtype_that_an_op_takes_has_a_kernel", every_dtype_that_an_op_takes_has_a_kernel},
        {"integers_divide_without_traps", integers_divide_without_traps},
    };
    return TEST_MAIN(argc, argv, cases);
}
