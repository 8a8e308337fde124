/* The CPU's pointwise blocks, all of them: every instruction set gives the same, and what is streamed is what is
 * stored. */
#include "harness.h"
#include "every_isa.h"

#include "ops/elementwise/kernels/pointwise_kernel.h"
#include "ops/elements.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/nontemporal_blocks.h"

#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

enum { OPERANDS = 3 };

/* The first element in which two runs differ by more than `near`, relative to the larger; -1: none. Two NaNs are
 * equal: which sign one has is not promised. */
static int64_t first_difference(stn_dtype d, const void *got, const void *wanted, int64_t n, double near)
{
    size_t size = stn_dtype_size(d);
    for (int64_t i = 0; i < n; i++) {
        double _Complex g = element_get(d, got, i), w = element_get(d, wanted, i);
        int nans = isnan(creal(g)) == isnan(creal(w)) && isnan(cimag(g)) == isnan(cimag(w)) && g != g;
        int same = memcmp((const char *)got + (size_t)i * size, (const char *)wanted + (size_t)i * size, size) == 0;
        if (!nans && !same && !(cabs(g - w) <= near * fmax(cabs(g), cabs(w))))
            return i;
    }
    return -1;
}

/* Where a polynomial is worked out, fused multiply-adds that the base set lacks. Losses of digits in a formula
 * multiply that. */
static double nearness(enum stni_pointwise_op op, stn_dtype d, int isa)
{
    static const enum stni_pointwise_op exact[] = {
#define ROW(op, ...) STNI_POINTWISE_##op,
        STNI_ARITHMETIC_LIST(ROW) STNI_COMPARISON_LIST(ROW)
#undef ROW
    };
    const int is_function = op == STNI_POINTWISE_exp_of_difference || op == STNI_POINTWISE_pow ||
                            op == STNI_POINTWISE_atan2 || op == STNI_POINTWISE_angle || op == STNI_POINTWISE_hypot ||
                            op == STNI_POINTWISE_logaddexp || op == STNI_POINTWISE_xlogy;
    for (size_t k = 0; k < sizeof exact / sizeof exact[0] && !is_function; k++)
        if (exact[k] == op)
            return 0;
    return isa > STNI_ISA_AVX2 ? 0 : d == STN_DTYPE_F32 || d == STN_DTYPE_C64 ? 2e-6 : 4e-15;
}

static void instruction_sets_agree_bit_for_bit_but_for_fused_polynomials(void)
{
    enum { N = 1003 };
    static char x[N * 16], y[N * 16], got[N * 16], wanted[N * 16];
    uint64_t seed = 14;
    for (int d = 0; d < STN_DTYPE_COUNT; d++) {
        if (stni_compute_dtype((stn_dtype)d) != (stn_dtype)d)
            continue;
        for (int64_t i = 0; i < N; i++) {
            double scale = d == STN_DTYPE_BOOL || d == STN_DTYPE_I64 ? 1 : 0.37;
            element_set((stn_dtype)d, x, i, scale * element_draw((stn_dtype)d, &seed));
            element_set((stn_dtype)d, y, i, scale * element_draw((stn_dtype)d, &seed));
        }
        for (int op = 0; op < STNI_POINTWISE_COUNT; op++)
            for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
                struct stni_pointwise_block block = {
                    .op = (enum stni_pointwise_op)op, .n = N, .out = got, .in = {x, y, x}, .a = {.f = 3, .i = 3}};
                stni_pointwise_block_fn compute = stni_pointwise_block_of(block.op, (stn_dtype)d, (enum stni_isa)isa);
                if (!compute)
                    continue;
                compute(&block);
                if (isa && !CHECK_I64(first_difference(stni_pointwise_result(block.op, (stn_dtype)d), got, wanted, N,
                                                       nearness(block.op, (stn_dtype)d, isa)), -1))
                    fprintf(stderr, "op %d in %s, set %d\n", op, stn_dtype_name((stn_dtype)d), isa);
                memcpy(wanted, got, sizeof wanted);
            }
    }
    CHECK(stni_isa_best() >= STNI_ISA_BASE);
}

/* From the middle of a line to the middle of another, and nothing around them. */
static void every_block_streams_what_it_stores(void)
{
    enum { N = 1003 };
    static alignas(64) char in[OPERANDS][N * 16], got[(N + 2) * 16], wanted[(N + 2) * 16], buffer[STNI_BLOCK_ROOM];
    uint64_t seed = 15;
    for (int d = 0; d < STN_DTYPE_COUNT; d++) {
        for (int64_t i = 0; i < OPERANDS * N; i++)
            element_set((stn_dtype)d, in[i % OPERANDS], i / OPERANDS, element_draw((stn_dtype)d, &seed));
        for (int op = 0; op < STNI_POINTWISE_COUNT; op++)
            for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
                const stn_dtype result = stni_pointwise_result((enum stni_pointwise_op)op, (stn_dtype)d);
                const size_t size = stn_dtype_size(result);
                struct stni_pointwise_block block = {.op = (enum stni_pointwise_op)op, .n = N, .out = wanted + size,
                                                     .in = {in[0], in[1], in[2]}, .a = {.f = 3, .i = 3}};
                stni_pointwise_block_fn compute = stni_pointwise_block_of(block.op, (stn_dtype)d, (enum stni_isa)isa);
                if (!compute)
                    continue;
                memset(wanted, 42, sizeof wanted);
                memset(got, 42, sizeof got);
                compute(&block);
                block.out = got + size;
                block.buffer = buffer;
                block.piece = (size_t)(STNI_PIECE >> d % 3);
                block.ahead[1] = STNI_BLOCK_AHEAD;
                compute(&block);
                CHECK_I64(first_difference(result, got + size, wanted + size, N, 0), -1);
                CHECK(memcmp(got, wanted, size) == 0 &&
                      memcmp(got + (N + 1) * size, wanted + (N + 1) * size, size) == 0);
            }
    }
}

enum { RUN = 5003 }; /* more than any block looks at together */

static char operand[OPERANDS][RUN * 16], everywhere[RUN * 16], some[RUN * 16];

/* The first element of an operand, RUN times; and only as often as the longest piece of results of so many bytes has
 * elements, another one then. */
static void repeat_first(stn_dtype d, int i, size_t result_size)
{
    const double _Complex first = element_get(d, operand[i], 0), other = element_get(d, operand[i], 1) + 1;
    for (int64_t k = 0; k < RUN; k++) {
        element_set(d, everywhere, k, first);
        element_set(d, some, k, k < STNI_PIECE / (int64_t)result_size ? first : other);
    }
}

/* What a block streams of operands of which one is one value: the same as of the value in every element, and nothing
 * around it. */
static void check_one_value(stn_dtype d, enum stni_pointwise_op op, stni_pointwise_block_fn compute, int i)
{
    static alignas(64) char got[(RUN + 2) * 16], wanted[(RUN + 2) * 16], buffer[STNI_BLOCK_ROOM];
    const stn_dtype result = stni_pointwise_result(op, d);
    const size_t size = stn_dtype_size(result);
    struct stni_pointwise_block block = {.op = op,
                                         .n = RUN,
                                         .out = wanted + size,
                                         .in = {operand[0], operand[1], operand[2]},
                                         .a = {.f = 3, .i = 3},
                                         .buffer = buffer,
                                         .piece = STNI_PIECE};
    repeat_first(d, i, size);
    memset(wanted, 42, sizeof wanted);
    memset(got, 42, sizeof got);
    block.in[i] = everywhere;
    compute(&block);
    block.out = got + size;
    block.in[i] = some;
    block.same[i] = 1;
    compute(&block);
    CHECK_I64(first_difference(result, got + size, wanted + size, RUN, 0), -1);
    CHECK(memcmp(got, wanted, size) == 0 && memcmp(got + (RUN + 1) * size, wanted + (RUN + 1) * size, size) == 0);
}

static void one_value_is_read_again_for_every_piece(void)
{
    uint64_t seed = 16;
    for (int d = 0; d < STN_DTYPE_COUNT; d++) {
        for (int64_t k = 0; k < OPERANDS * RUN; k++)
            element_set((stn_dtype)d, operand[k % OPERANDS], k / OPERANDS, element_draw((stn_dtype)d, &seed));
        for (int op = 0; op < STNI_POINTWISE_COUNT; op++)
            for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
                stni_pointwise_block_fn compute =
                    stni_pointwise_block_of((enum stni_pointwise_op)op, (stn_dtype)d, (enum stni_isa)isa);
                for (int i = 0; compute && i < OPERANDS; i++)
                    check_one_value((stn_dtype)d, (enum stni_pointwise_op)op, compute, i);
            }
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"instruction_sets_agree_bit_for_bit_but_for_fused_polynomials",
         instruction_sets_agree_bit_for_bit_but_for_fused_polynomials},
        {"every_block_streams_what_it_stores", every_block_streams_what_it_stores},
        {"one_value_is_read_again_for_every_piece", one_value_is_read_again_for_every_piece},
    };
    return TEST_MAIN(argc, argv, cases);
}
