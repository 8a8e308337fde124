/* Functions that the CPU computes in bf16 itself: every element against the exact result, and the same bits in every
 * form of the operand. */
#include "harness.h"

#include "core/base/dtype.h"
#include "core/box/nontemporal.h"
#include "core/device/device.h"
#include "every_isa.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL = 65536, ROWS = 96, COLUMNS = 130, GAP = 7 };

static uint16_t every[ALL], result[ALL], wanted[ALL];

static struct stni_pointwise_args gelu_of(const uint16_t *x, uint16_t *y, int64_t n)
{
    return (struct stni_pointwise_args){.op = STNI_POINTWISE_gelu,
                                        .compute = STN_DTYPE_F32,
                                        .ndim = 1,
                                        .n_in = 1,
                                        .shape = {n},
                                        .out = {y, STN_DTYPE_BF16, {1}},
                                        .in = {{(void *)x, STN_DTYPE_BF16, {1}}}};
}

static void run(const struct stni_pointwise_args *args, enum stni_isa isa)
{
    stn_queue queue = {.isa = isa};
    CHECK_STATUS(stni_pointwise_cpu(&queue, args), STN_OK);
}

/* One unit in the last place of the bf16 numbers around v. */
static double unit_of(double v)
{
    int exponent;
    frexp(v, &exponent);
    return fabs(v) < 0x1p-126 ? 0x1p-133 : ldexp(1, exponent - 8);
}

static void gelu_is_nearly_the_rounded_exact_result(void)
{
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
        double worst = 0;
        int64_t wrong = 0;
        const struct stni_pointwise_args args = gelu_of(every, result, ALL);
        run(&args, (enum stni_isa)isa);
        for (int i = 0; i < ALL; i++) {
            const double x = stni_bf16_to_f32(every[i]), got = stni_bf16_to_f32(result[i]),
                         exact = x * 0.5 * erfc(-x * sqrt(0.5));
            if (isnan(exact) || isinf(exact)) {
                wrong += isnan(exact) ? !isnan(got) : got != exact;
                continue;
            }
            const double error = fabs(got - exact) / unit_of(exact);
            worst = test_worst(worst, error);
            wrong += !signbit(got) != !signbit(x);
        }
        CHECK_I64(wrong, 0);
        if (!CHECK(worst <= 0.51))
            fprintf(stderr, "%s: %.4f units in the last place\n", stni_isa_name((enum stni_isa)isa), worst);
    }
}

/* A matrix of drawn finite elements, and what its dense run gives. */
static uint16_t *make_matrix(int64_t n, uint16_t *dense)
{
    uint16_t *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint16_t)((i * 40503 + i / 7) & 0xbfff);
    const struct stni_pointwise_args args = gelu_of(x, dense, n);
    run(&args, STNI_ISA_BASE);
    return x;
}

/* The elements x[row * row_stride + col * col_stride] as rows and columns. */
static void compare_form(const char *what, const uint16_t *x, int64_t row_stride, int64_t col_stride)
{
    static uint16_t from[ROWS * COLUMNS], to[ROWS * (COLUMNS + GAP)];
    struct stni_pointwise_args args = gelu_of(x, to, 0);
    args.ndim = 2;
    args.shape[0] = ROWS;
    args.shape[1] = COLUMNS;
    args.in[0].strides[0] = row_stride;
    args.in[0].strides[1] = col_stride;
    args.out.strides[0] = COLUMNS + GAP;
    args.out.strides[1] = 1;
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
        for (int64_t i = 0; i < ROWS * COLUMNS; i++)
            from[i] = x[i / COLUMNS * row_stride + i % COLUMNS * col_stride];
        const struct stni_pointwise_args dense = gelu_of(from, wanted, ROWS * COLUMNS);
        run(&dense, (enum stni_isa)isa);
        memset(to, 0x5a, sizeof to);
        run(&args, (enum stni_isa)isa);
        int64_t wrong = 0;
        for (int64_t i = 0; i < ROWS * (COLUMNS + GAP); i++) {
            const int64_t row = i / (COLUMNS + GAP), col = i % (COLUMNS + GAP);
            wrong += to[i] != (col < COLUMNS ? wanted[row * COLUMNS + col] : 0x5a5a);
        }
        test_check_i64(wrong, 0, __FILE__, __LINE__, what);
    }
}

static void strided_operands_give_the_bits_of_dense_ones(void)
{
    uint16_t *x = make_matrix(ALL, result);
    compare_form("with gaps", x, COLUMNS + GAP, 1);
    compare_form("transposed", x, 1, ROWS);
    compare_form("every second", x, 2 * COLUMNS, 2);
    compare_form("backwards", x + COLUMNS - 1, COLUMNS, -1);
    compare_form("a row", x, 0, 1);
    compare_form("a column", x, 1, 0);
    compare_form("one element", x + 11, 0, 0);
    free(x);
}

static void large_results_give_the_bits_of_small_ones(void)
{
    enum { PIECE = 1000 };
    const int64_t n = STNI_STREAMING_RESULT / 2 + 333;
    uint16_t *whole = malloc((size_t)n * 2), *pieces = malloc((size_t)n * 2), *x = make_matrix(n, whole);
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
        const struct stni_pointwise_args all = gelu_of(x, whole, n);
        run(&all, (enum stni_isa)isa);
        for (int64_t at = 0; at < n; at += PIECE) {
            const struct stni_pointwise_args some = gelu_of(x + at, pieces + at, n - at < PIECE ? n - at : PIECE);
            run(&some, (enum stni_isa)isa);
        }
        CHECK_I64(memcmp(whole, pieces, (size_t)n * 2), 0);
    }
    free(x);
    free(pieces);
    free(whole);
}

static float plain(enum stni_pointwise_op op, float x, float y, float a)
{
    return op == STNI_POINTWISE_add ? x + a * y
           : op == STNI_POINTWISE_sub ? x - a * y
           : op == STNI_POINTWISE_mul ? x * y
                                      : x / y;
}

/* Of x and every step-th element of y. */
static struct stni_pointwise_args two_of(enum stni_pointwise_op op, const uint16_t *x, const uint16_t *y, int64_t step,
                                         uint16_t *out, int64_t n)
{
    return (struct stni_pointwise_args){.op = op, .compute = STN_DTYPE_F32, .ndim = 1, .n_in = 2, .shape = {n},
                                        .out = {out, STN_DTYPE_BF16, {1}}, .a = {.f = 0.75, .i = 0},
                                        .in = {{(void *)x, STN_DTYPE_BF16, {1}}, {(void *)y, STN_DTYPE_BF16, {step}}}};
}

/* Every element beside another one of all magnitudes; the same where an operand has a step, or is one element. */
static void arithmetic_is_that_of_f32_rounded_once(void)
{
    static const enum stni_pointwise_op ops[] = {STNI_POINTWISE_add, STNI_POINTWISE_sub, STNI_POINTWISE_mul,
                                                 STNI_POINTWISE_div};
    static uint16_t other[2 * ALL];
    for (int i = 0; i < 2 * ALL; i++)
        other[i] = (uint16_t)(i * 40503 + i / 7);
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (int k = 0; k < 4; k++)
            for (int64_t step = 0; step < 3; step++) {
                const struct stni_pointwise_args args = two_of(ops[k], every, other, step, result, ALL);
                int64_t wrong = 0;
                run(&args, (enum stni_isa)isa);
                for (int i = 0; i < ALL; i++) {
                    const float x = stni_bf16_to_f32(every[i]), y = stni_bf16_to_f32(other[step * i]);
                    const float want = plain(ops[k], x, y, 0.75f);
                    wrong += isnan(want) ? !isnan(stni_bf16_to_f32(result[i])) : result[i] != stni_f32_to_bf16(want);
                }
                CHECK_I64(wrong, 0);
            }
}

static void sets_with_fused_multiply_adds_agree(void)
{
    struct stni_pointwise_args args = gelu_of(every, wanted, ALL);
    run(&args, stni_isa_best());
    args.out.data = result;
    for (int isa = STNI_ISA_AVX2; isa <= (int)stni_isa_best(); isa++) {
        if (!stni_isa_is_built((enum stni_isa)isa))
            continue;
        run(&args, (enum stni_isa)isa);
        CHECK_I64(memcmp(result, wanted, sizeof result), 0);
    }
}

int main(int argc, char **argv)
{
    for (int i = 0; i < ALL; i++)
        every[i] = (uint16_t)i;
    static const struct test_case cases[] = {
        {"gelu_is_nearly_the_rounded_exact_result", gelu_is_nearly_the_rounded_exact_result},
        {"strided_operands_give_the_bits_of_dense_ones", strided_operands_give_the_bits_of_dense_ones},
        {"large_results_give_the_bits_of_small_ones", large_results_give_the_bits_of_small_ones},
        {"arithmetic_is_that_of_f32_rounded_once", arithmetic_is_that_of_f32_rounded_once},
        {"sets_with_fused_multiply_adds_agree", sets_with_fused_multiply_adds_agree},
    };
    return TEST_MAIN(argc, argv, cases);
}
