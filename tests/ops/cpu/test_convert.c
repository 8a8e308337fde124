/* Conversions of tiles, for every instruction set that this processor has: values, rounding, strides. */
#include "harness.h"

#include "ops/elements.h"
#include "ops/cpu/convert.h"

#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 77 };

static const struct stni_convert_kernels *kernels(enum stni_isa isa)
{
    return STNI_ISA_PICK(stni_convert_kernels, isa);
}

/* What an element becomes, one at a time. */
static double _Complex converted(stn_dtype to, double _Complex v)
{
    double re = creal(v);
    char bytes[16];
    if (to == STN_DTYPE_BOOL)
        return v != 0;
    if (to == STN_DTYPE_I64 && !(re >= -0x1p63 && re < 0x1p63))
        return -0x1p63;
    element_set(to, bytes, 0, v);
    return element_get(to, bytes, 0);
}

static int same(double _Complex a, double _Complex b)
{
    return memcmp(&a, &b, sizeof a) == 0 || a == b || (isnan(creal(a)) && isnan(creal(b)) && cimag(a) == cimag(b));
}

static const double edges[] = {0,      1,          -1,         0.5,     -0.5,  2.5,        255,          256,  257,
                               258.5,  1.00390625, 1.01171875, 65504,   65520, 3e38,       -3e38,        1e-8, 6e-8,
                               0x1p62, 0x1p63,     -0x1p63,    -0x1p64, 1e300, 2147483647, -2147483648.0};

static double _Complex drawn_value(stn_dtype from, int64_t i, uint64_t *seed)
{
    double v = i < (int64_t)(sizeof edges / sizeof edges[0]) ? edges[i] : ((double)draw_below(seed, 20000) - 10000) / 7;
    char bytes[16];
    if (from == STN_DTYPE_BOOL)
        return v > 0;
    if (from == STN_DTYPE_U8)
        return (double)((int64_t)fabs(fmod(v, 256)));
    if (from == STN_DTYPE_I8 || from == STN_DTYPE_I16)
        return fmod(trunc(v), from == STN_DTYPE_I8 ? 128 : 32768);
    if (from == STN_DTYPE_I32)
        return fabs(v) < 0x1p31 ? trunc(v) : 7;
    if (from == STN_DTYPE_I64)
        return fabs(v) < 0x1p53 ? trunc(v) : 7;
    /* What the dtype makes of it. */
    element_set(from, bytes, 0, stni_dtype_is_complex(from) ? v + 3 * I : v);
    return element_get(from, bytes, 0);
}

static void check_pair(enum stni_isa isa, stn_dtype to, stn_dtype from, uint64_t *seed)
{
    static char source[3 * N * 16], result[3 * N * 16];
    stni_convert_fn convert = kernels(isa)->pair[to][from];
    if (!convert)
        return;
    double _Complex values[N];
    for (int64_t from_col = 0; from_col < 3; from_col++)
        for (int64_t to_col = 1; to_col < 3; to_col++) {
            const struct stni_tile tile = {1, N, 0, to_col, 0, from_col, 0, 0};
            int64_t wrong = -1;
            for (int64_t i = 0; i < N; i++) {
                values[i] = drawn_value(from, from_col ? i : 9, seed);
                element_set(from, source, i * from_col, values[i]);
            }
            convert(result, source, &tile);
            for (int64_t i = 0; i < N && wrong < 0; i++)
                if (!same(element_get(to, result, i * to_col), converted(to, element_get(from, source, i * from_col))))
                    wrong = i;
            char what[64];
            snprintf(what, sizeof what, "%s to %s, strides %d %d", stn_dtype_name(from), stn_dtype_name(to),
                     (int)from_col, (int)to_col);
            test_check_i64(wrong, -1, __FILE__, __LINE__, what);
        }
}

enum { STREAMED = 1127 };

/* From the middle of a line to the middle of another, and nothing around them: several pieces, some lines, and some
 * elements. */
static void check_streamed_pair(enum stni_isa isa, stn_dtype to, stn_dtype from, uint64_t *seed)
{
    static alignas(64) char source[STREAMED * 16], result[(STREAMED + 2) * 16], wanted[(STREAMED + 2) * 16];
    const int64_t size = (int64_t)stn_dtype_size(to);
    stni_convert_fn convert = kernels(isa)->pair[to][from];
    if (!convert)
        return;
    for (int64_t i = 0; i < STREAMED; i++)
        element_set(from, source, i, drawn_value(from, i, seed));
    memset(result, 42, sizeof result);
    memset(wanted, 42, sizeof wanted);
    convert(wanted + size, source, &(struct stni_tile){1, STREAMED, 0, 1, 0, 1, 0, 0});
    convert(result + size, source, &(struct stni_tile){1, STREAMED, 0, 1, 0, 1, 1, 4096});
    CHECK(memcmp(result, wanted, sizeof result) == 0);
}

static void streamed_rows_are_those_that_stay(void)
{
    uint64_t seed = 52;
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (int to = 0; to < STN_DTYPE_COUNT; to++)
            for (int from = 0; from < STN_DTYPE_COUNT; from++)
                check_streamed_pair((enum stni_isa)isa, (stn_dtype)to, (stn_dtype)from, &seed);
}

static void every_pair_converts_as_one_element_does(void)
{
    uint64_t seed = 51;
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (int to = 0; to < STN_DTYPE_COUNT; to++)
            for (int from = 0; from < STN_DTYPE_COUNT; from++)
                check_pair((enum stni_isa)isa, (stn_dtype)to, (stn_dtype)from, &seed);
}

static void every_dtype_is_read_into_every_compute_type_and_written_from_its_own(void)
{
    for (int d = 0; d < STN_DTYPE_COUNT; d++) {
        stn_dtype compute = stni_compute_dtype((stn_dtype)d);
        CHECK_I64(stni_compute_dtype(compute), compute);
        CHECK(kernels(STNI_ISA_BASE)->pair[d][compute] != NULL);
        for (int from = 0; from < STN_DTYPE_COUNT; from++)
            CHECK(kernels(STNI_ISA_BASE)->pair[compute][from] != NULL);
    }
}

static void nan_is_nan_true_and_the_smallest_integer(void)
{
    float nan = NAN, out;
    uint16_t half;
    uint8_t truth;
    int64_t whole;
    const struct stni_tile one = {1, 1, 1, 1, 1, 1, 0, 0};
    const struct stni_convert_kernels *k = kernels(stni_isa_best());
    k->pair[STN_DTYPE_BF16][STN_DTYPE_F32](&half, &nan, &one);
    k->pair[STN_DTYPE_F32][STN_DTYPE_BF16](&out, &half, &one);
    CHECK(isnan(out));
    k->pair[STN_DTYPE_F16][STN_DTYPE_F32](&half, &nan, &one);
    k->pair[STN_DTYPE_F32][STN_DTYPE_F16](&out, &half, &one);
    CHECK(isnan(out));
    k->pair[STN_DTYPE_BOOL][STN_DTYPE_F32](&truth, &nan, &one);
    CHECK_I64(truth, 1);
    k->pair[STN_DTYPE_I64][STN_DTYPE_F32](&whole, &nan, &one);
    CHECK_I64(whole, INT64_MIN);
}

/* A tile gives the same whichever side is run along. */
static void tiles_of_any_form_convert_row_by_row(void)
{
    enum { MAX = 40 };
    static float source[MAX * MAX * 3], result[MAX * MAX * 3];
    uint64_t seed = 52;
    for (int round = 0; round < 300; round++) {
        int64_t rows = 1 + draw_below(&seed, MAX), cols = 1 + draw_below(&seed, MAX), wrong = -1;
        int transposed = (int)draw_below(&seed, 2);
        struct stni_tile tile = {rows, cols, cols + 1, 1, transposed ? 1 : cols + 2, transposed ? rows + 3 : 1, 0, 0};
        for (int64_t i = 0; i < MAX * MAX * 3; i++)
            source[i] = (float)draw_below(&seed, 1000);
        memset(result, 0, sizeof result);
        stni_convert_tile(kernels(stni_isa_best())->pair[STN_DTYPE_F32][STN_DTYPE_F32], result, source, tile);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c <= cols && wrong < 0; c++)
                if (result[r * (cols + 1) + c] != (c < cols ? source[r * tile.from_row + c * tile.from_col] : 0))
                    wrong = r * cols + c;
        CHECK_I64(wrong, -1);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_pair_converts_as_one_element_does", every_pair_converts_as_one_element_does},
        {"streamed_rows_are_those_that_stay", streamed_rows_are_those_that_stay},
        {"every_dtype_is_read_into_every_compute_type_and_written_from_its_own",
         every_dtype_is_read_into_every_compute_type_and_written_from_its_own},
        {"nan_is_nan_true_and_the_smallest_integer", nan_is_nan_true_and_the_smallest_integer},
        {"tiles_of_any_form_convert_row_by_row", tiles_of_any_form_convert_row_by_row},
    };
    return TEST_MAIN(argc, argv, cases);
}
