/* The rows of arithmetic are read by C for the CPU's kernels and by C++ for those of CUDA devices. Both give the
 * same bits, with and without fused multiply-adds: over all combinations of special values, and over random ones.
 * Complex functions of devices have algorithms of their own: their results are near. */
#include "harness.h"

#include "core/base/isa.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"
#include "ops/elements.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef void (*rows_cxx)(const struct stni_pointwise_block *block, stn_dtype compute);
void test_rows_cxx_base(const struct stni_pointwise_block *block, stn_dtype compute);
void test_rows_cxx_avx2(const struct stni_pointwise_block *block, stn_dtype compute);

static const double special[] = {0.0,    -0.0,  1,    -1,      0.5,      2,         -3,  6,    1e-3, -20.5, 88.9,
                                 -104.5, 1e-40, 3e38, DBL_MAX, INFINITY, -INFINITY, NAN, 1e-9, -16631};
enum {
    SPECIAL = sizeof special / sizeof special[0],
    RANDOM = 2001,
    N = SPECIAL * SPECIAL * SPECIAL + RANDOM,
    OPERANDS = STNI_POINTWISE_MAX_IN
};
enum { SIZE_MAX_ELEMENT = 16 };

static _Alignas(64) char operand[OPERANDS][N * SIZE_MAX_ELEMENT], by_c[N * SIZE_MAX_ELEMENT],
    by_cxx[N * SIZE_MAX_ELEMENT];
static uint64_t state;

static uint64_t random_bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 32 | state << 32;
}

static double value_of(int i, int step)
{
    if (i < N - RANDOM)
        return special[i / step % SPECIAL];
    return ldexp((double)(int64_t)random_bits(), (int)(random_bits() % 24) - 75);
}

/* Integers are small, or any. */
static int64_t integer_of(double value)
{
    return fabs(value) < 1e15 ? (int64_t)value : value > 0 ? (int64_t)random_bits() : INT64_MIN;
}

static void set(void *data, stn_dtype dtype, int i, double re, double im)
{
    float *f = data;
    double *d = data;
    switch ((int)dtype) {
    case STN_DTYPE_F32: f[i] = (float)re; break;
    case STN_DTYPE_F64: d[i] = re; break;
    case STN_DTYPE_I64: ((int64_t *)data)[i] = integer_of(re); break;
    case STN_DTYPE_BOOL: ((uint8_t *)data)[i] = re > 0; break;
    case STN_DTYPE_C64: f[2 * i] = (float)re, f[2 * i + 1] = (float)im; break;
    case STN_DTYPE_C128: d[2 * i] = re, d[2 * i + 1] = im; break;
    }
}

static void set_operands(stn_dtype dtype)
{
    state = 5;
    for (int k = 0, step = 1; k < OPERANDS; k++, step *= SPECIAL)
        for (int i = 0; i < N; i++)
            set(operand[k], dtype, i, value_of(i, step), value_of(i, k == 0 ? SPECIAL : 1));
}

static double number_at(const void *data, int is_f64, int64_t i)
{
    return is_f64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* The blocks have a sine of their own (trigonometry_block.c), C++ the complex functions of complex_functions.cuh. */
static double tolerance_of(enum stni_pointwise_op op, stn_dtype dtype)
{
    const int is_of_sine = op >= STNI_POINTWISE_sin && op <= STNI_POINTWISE_tan_double_backward,
              is_of_own = op >= STNI_POINTWISE_exp && op <= STNI_POINTWISE_atan_double_backward;
    switch ((int)dtype) {
    case STN_DTYPE_F32: return is_of_sine ? 1e-6 : 0;
    case STN_DTYPE_F64: return is_of_sine ? 1e-15 : 0;
    case STN_DTYPE_C64: return is_of_own ? 1e-6 : 0;
    case STN_DTYPE_C128: return is_of_own ? 2e-15 : 0;
    }
    return 0;
}

/* clang's complex arithmetic in C gives zeros other signs than C++ does, so that numbers on a branch cut come to lie
 * on its other side. */
#ifdef __clang__
enum { HAS_SIGNED_CUTS = 0 };
#else
enum { HAS_SIGNED_CUTS = 1 };
#endif

/* A part of a complex number of this length. Some of C's complex products give infinities for NaN, and lengths
 * overflow where numbers do not. */
static int parts_agree(double c, double cxx, double length, double tolerance)
{
    return c == cxx || !isfinite(c) || (!HAS_SIGNED_CUTS && fabs(c) == fabs(cxx)) ||
           fabs(c - cxx) <= tolerance * (isfinite(length) ? length : fabs(c));
}

/* The bits of NaN are free. */
static int agree(double c, double cxx, double tolerance)
{
    if (isnan(c) || isnan(cxx))
        return isnan(c) && isnan(cxx);
    return (c == cxx && !signbit(c) == !signbit(cxx)) ||
           fabs(c - cxx) <= tolerance * fmax(fabs(c), FLT_MIN);
}

static int64_t wrong_numbers(enum stni_pointwise_op op, stn_dtype dtype)
{
    const int is_f64 = dtype == STN_DTYPE_F64 || dtype == STN_DTYPE_C128;
    const int64_t n = N * (int64_t)(stn_dtype_size(dtype) / (is_f64 ? sizeof(double) : sizeof(float)));
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        const double c = number_at(by_c, is_f64, i), cxx = number_at(by_cxx, is_f64, i);
        const double tolerance = tolerance_of(op, dtype);
        const int right = stni_dtype_is_complex(dtype)
                              ? parts_agree(c, cxx, hypot(c, number_at(by_c, is_f64, i ^ 1)), tolerance)
                              : agree(c, cxx, tolerance);
        if (!right && wrong++ < 3)
            fprintf(stderr, "op %d in %s, number %d: C %.17g, C++ %.17g\n", (int)op, stn_dtype_name(dtype), (int)i, c,
                    cxx);
    }
    return wrong;
}

/* The CPU's truths are bytes, those of C++ are of the type that was compared. */
static int64_t wrong_truths(stn_dtype dtype)
{
    int64_t wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += (uint8_t)by_c[i] != creal(element_get(dtype, by_cxx, i));
    return wrong;
}

static int64_t wrong_results(enum stni_pointwise_op op, stn_dtype dtype)
{
    return stni_pointwise_result(op, dtype) == dtype ? wrong_numbers(op, dtype) : wrong_truths(dtype);
}

static void compare_row(enum stni_pointwise_op op, stn_dtype dtype, stni_pointwise_block_fn c, rows_cxx cxx)
{
    struct stni_pointwise_block block = {.op = op,
                                         .n = N,
                                         .out = by_c,
                                         .in = {operand[0], operand[1], operand[2]},
                                         .a = {0.75, 3},
                                         .b = {20, 20},
                                         .c = {-2, -2}};
    c(&block);
    block.out = by_cxx;
    cxx(&block, dtype);
    const stn_dtype result = stni_pointwise_result(op, dtype);
    if (result == dtype && (dtype == STN_DTYPE_I64 || dtype == STN_DTYPE_BOOL))
        CHECK_BYTES(by_cxx, by_c, N * stn_dtype_size(dtype));
    else if (!CHECK_I64(wrong_results(op, dtype), 0))
        fprintf(stderr, "op %d in %s\n", (int)op, stn_dtype_name(dtype));
}

/* Complex numbers have no order: what stands in these rows has no meaning. */
static int is_run(enum stni_pointwise_op op, stn_dtype dtype)
{
    return !stni_dtype_is_complex(dtype) || op < STNI_POINTWISE_lt || op > STNI_POINTWISE_ge;
}

static void compare(enum stni_isa isa, rows_cxx cxx)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32,  STN_DTYPE_F64, STN_DTYPE_I64,
                                       STN_DTYPE_BOOL, STN_DTYPE_C64, STN_DTYPE_C128};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        set_operands(dtypes[d]);
        for (int op = 0; op < STNI_POINTWISE_COUNT; op++) {
            stni_pointwise_block_fn c = stni_pointwise_block_of((enum stni_pointwise_op)op, dtypes[d], isa);
            if (c && is_run((enum stni_pointwise_op)op, dtypes[d]))
                compare_row((enum stni_pointwise_op)op, dtypes[d], c, cxx);
        }
    }
}

static void rows_are_the_same_in_both_languages(void)
{
    if (!stni_isa_is_built(STNI_ISA_BASE))
        SKIP("the build has no kernels of the base set");
    compare(STNI_ISA_BASE, test_rows_cxx_base);
}

static void rows_with_fused_multiply_adds_are_the_same_in_both_languages(void)
{
    if (stni_isa_best() < STNI_ISA_AVX2 || !stni_isa_is_built(STNI_ISA_AVX2))
        SKIP("the build or the processor has no AVX2");
    compare(STNI_ISA_AVX2, test_rows_cxx_avx2);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"rows_are_the_same_in_both_languages", rows_are_the_same_in_both_languages},
        {"rows_with_fused_multiply_adds_are_the_same_in_both_languages",
         rows_with_fused_multiply_adds_are_the_same_in_both_languages},
    };
    return TEST_MAIN(argc, argv, cases);
}
