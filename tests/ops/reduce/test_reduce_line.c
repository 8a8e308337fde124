/* The CPU's reduction kernel on long lines, which it reads in streams: every reduction and dtype against a plain
 * loop, NaN in any place, and what a sum keeps. */
#include "harness.h"

#include "core/device/device.h"
#include "every_isa.h"
#include "ops/elements.h"
#include "ops/reduce/reduce_kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 150001 };

/* By each instruction set in turn. */
static void run_kernel(const struct stni_reduce_args *args)
{
    stn_queue queue = {.isa = next_isa()};
    CHECK_STATUS(stni_reduce_cpu(&queue, args), STN_OK);
}

static double join(enum stni_reduction op, double p, double v)
{
    switch (op) {
    case STNI_REDUCTION_sum: return p + v;
    case STNI_REDUCTION_prod: return p * v;
    case STNI_REDUCTION_squares: return p + v * v;
    case STNI_REDUCTION_nonzero: return p + (v != 0);
    case STNI_REDUCTION_amax: return v > p ? v : p;
    case STNI_REDUCTION_amin: return v < p ? v : p;
    case STNI_REDUCTION_any: return v != 0 || p != 0;
    case STNI_REDUCTION_all: return v != 0 && p != 0;
    case STNI_REDUCTION_COUNT: break;
    }
    return NAN;
}

static double begun(enum stni_reduction op)
{
    static const double values[] = {0, 1, 0, 0, -INFINITY, INFINITY, 0, 1};
    return values[op];
}

static stn_dtype result(enum stni_reduction op, stn_dtype dtype)
{
    if (op == STNI_REDUCTION_any || op == STNI_REDUCTION_all)
        return STN_DTYPE_BOOL;
    if (op == STNI_REDUCTION_nonzero || (op <= STNI_REDUCTION_squares && !stn_dtype_is_differentiable(dtype)))
        return STN_DTYPE_I64;
    return dtype;
}

/* Two lines of n elements, one behind the other. */
static void reduce(enum stni_reduction op, stn_dtype dtype, const void *x, int64_t n, double got[2])
{
    char out[2 * 16];
    struct stni_reduce_args args = {.op = op,
                                    .in_dtype = dtype,
                                    .out_dtype = result(op, dtype),
                                    .in = x,
                                    .out = out,
                                    .n_kept = 1,
                                    .kept = {2},
                                    .kept_in = {n},
                                    .kept_out = {1},
                                    .n_reduced = 1,
                                    .reduced = {n},
                                    .reduced_in = {1}};
    run_kernel(&args);
    for (int i = 0; i < 2; i++)
        got[i] = creal(element_get(args.out_dtype, out, i));
}

/* One number in a hundred is drawn, so that a single element decides; products are of signs. Lengths about runs,
 * slices and streams. */
static void every_reduction_of_every_dtype_matches_a_plain_loop(void)
{
    static const int64_t lengths[] = {1, 15, 127, 128, 129, 1024, 1027, 4096, 5000, 16385, 65536 + 130, LONGEST};
    void *x = malloc(2 * LONGEST * sizeof(double));
    uint64_t seed = 23;
    for (int op = 0; op < STNI_REDUCTION_COUNT; op++)
        for (int d = 0; d < STN_DTYPE_COUNT; d++)
            for (int k = 0; k < 12 && !stni_dtype_is_complex((stn_dtype)d); k++) {
                const enum stni_reduction which = (enum stni_reduction)op;
                const stn_dtype dtype = (stn_dtype)d;
                double want[2] = {begun(which), begun(which)}, got[2];
                char what[48], rounded[8];
                for (int64_t i = 0; i < 2 * lengths[k]; i++) {
                    int some = draw_below(&seed, 100) == 0 || op == STNI_REDUCTION_sum;
                    double v = some ? creal(element_draw(dtype, &seed))
                                    : op == STNI_REDUCTION_amin || op == STNI_REDUCTION_all;
                    element_set(dtype, x, i,
                                op != STNI_REDUCTION_prod                ? v
                                : stni_dtype_is_floating(dtype) && v < 0 ? -1
                                                                         : 1);
                    want[i / lengths[k]] = join(which, want[i / lengths[k]], creal(element_get(dtype, x, i)));
                }
                reduce(which, dtype, x, lengths[k], got);
                for (int i = 0; i < 2; i++) {
                    element_set(result(which, dtype), rounded, 0, want[i]);
                    snprintf(what, sizeof what, "op %d of %s, %d: line %d", op, stn_dtype_name(dtype), (int)lengths[k],
                             i);
                    test_check_i64(creal(element_get(result(which, dtype), rounded, 0)) == got[i], 1, __FILE__,
                                   __LINE__, what);
                }
            }
    free(x);
}

/* `n` lines of `length` elements, with a gap between them, into every second element of `out`. */
static void reduce_lines(enum stni_reduction op, stn_dtype dtype, const void *x, int64_t n, int64_t length, int64_t gap,
                         double *out)
{
    struct stni_reduce_args args = {.op = op, .in_dtype = dtype, .out_dtype = dtype, .in = x, .out = out,
                                    .n_kept = 1, .kept = {n}, .kept_in = {length + gap}, .kept_out = {2},
                                    .n_reduced = 1, .reduced = {length}, .reduced_in = {1}};
    run_kernel(&args);
}

/* Lines are taken several at a time, which must not be seen. */
static void many_lines_give_the_bits_of_each_alone(void)
{
    enum { LINES = 70, LENGTH = 3000, GAP = 3 };
    static const int64_t lengths[] = {128, 300, 2048, 2100, LENGTH};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_I64, STN_DTYPE_I32, STN_DTYPE_U8};
    double *x = malloc(LINES * (LENGTH + GAP) * sizeof *x), out[2 * LINES], alone[2];
    uint64_t seed = 3;
    for (int d = 0; d < 5; d++) {
        for (int64_t i = 0; i < LINES * (LENGTH + GAP); i++)
            element_set(dtypes[d], x, i, creal(element_draw(dtypes[d], &seed)) / (dtypes[d] <= STN_DTYPE_F64 ? 3 : 1));
        for (int k = 0; k < 5; k++)
            for (int op = STNI_REDUCTION_sum; op <= STNI_REDUCTION_amin; op++) {
                const int64_t size = (int64_t)stn_dtype_size(dtypes[d]);
                if (op == STNI_REDUCTION_nonzero || (dtypes[d] == STN_DTYPE_U8 && op < STNI_REDUCTION_amax))
                    continue;
                reduce_lines((enum stni_reduction)op, dtypes[d], x, LINES, lengths[k], GAP, out);
                for (int l = 0; l < LINES; l++) {
                    const char *line = (const char *)x + l * (lengths[k] + GAP) * size;
                    reduce_lines((enum stni_reduction)op, dtypes[d], line, 1, lengths[k], GAP, alone);
                    if (!CHECK_I64(memcmp((const char *)out + 2 * l * size, alone, (size_t)size), 0))
                        return;
                }
            }
    }
    free(x);
}

static void a_single_element_anywhere_decides(void)
{
    enum { N = 1100 };
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    double got[2], x[2 * N];
    for (int d = 0; d < 4; d++)
        for (int at = 0; at < N; at++) {
            for (int i = 0; i < 2 * N; i++)
                element_set(dtypes[d], x, i, i == at ? (double)NAN : i % 7);
            for (int op = STNI_REDUCTION_sum; op <= STNI_REDUCTION_amin; op++) {
                if (op == STNI_REDUCTION_nonzero)
                    continue;
                reduce((enum stni_reduction)op, dtypes[d], x, N, got);
                CHECK(isnan(got[0]) && !isnan(got[1]));
            }
            element_set(dtypes[d], x, at, 9);
            reduce(STNI_REDUCTION_amax, dtypes[d], x, N, got);
            CHECK(got[0] == 9 && got[1] == 6);
            element_set(dtypes[d], x, at, -9);
            reduce(STNI_REDUCTION_amin, dtypes[d], x, N, got);
            CHECK(got[0] == -9 && got[1] == 0);
        }
}

/* Of a line of many slices, some of which have no NaN. */
static void a_nan_in_any_slice_wins(void)
{
    enum { N = 70001 };
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    static const int places[] = {0, 3, 4100, 16384, 40000, 65536, N - 2, N - 1};
    double got[2], *x = malloc(2 * N * sizeof *x);
    for (int d = 0; d < 4; d++)
        for (int k = 0; k < 8; k++)
            for (int op = STNI_REDUCTION_amax; op <= STNI_REDUCTION_amin; op++) {
                for (int i = 0; i < 2 * N; i++)
                    element_set(dtypes[d], x, i, i == places[k] ? (double)NAN : i % 7 - 3);
                reduce((enum stni_reduction)op, dtypes[d], x, N, got);
                CHECK(isnan(got[0]) && got[1] == (op == STNI_REDUCTION_amax ? 3 : -3));
            }
    free(x);
}

static void a_long_sum_keeps_what_cancels_and_the_sign_of_zero(void)
{
    double *x = malloc(2 * LONGEST * sizeof *x), got[2];
    for (int i = 0; i < LONGEST; i++) {
        x[i] = (i % 2 ? -1 : 1) * 1e8 / (1 + i / 2) + 0.25;
        x[LONGEST + i] = -0.0;
    }
    x[LONGEST - 1] = 0.25;
    reduce(STNI_REDUCTION_sum, STN_DTYPE_F64, x, LONGEST, got);
    CHECK_NEAR(got[0], 0.25 * LONGEST, 1e-5);
    CHECK(got[1] == 0 && signbit(got[1]));
    free(x);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_reduction_of_every_dtype_matches_a_plain_loop", every_reduction_of_every_dtype_matches_a_plain_loop},
        {"many_lines_give_the_bits_of_each_alone", many_lines_give_the_bits_of_each_alone},
        {"a_single_element_anywhere_decides", a_single_element_anywhere_decides},
        {"a_nan_in_any_slice_wins", a_nan_in_any_slice_wins},
        {"a_long_sum_keeps_what_cancels_and_the_sign_of_zero", a_long_sum_keeps_what_cancels_and_the_sign_of_zero},
    };
    return TEST_MAIN(argc, argv, cases);
}
