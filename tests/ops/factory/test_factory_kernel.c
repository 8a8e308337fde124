/* The CPU's kernel of factories: moments of random numbers in each dtype, and values that belong to elements of the
 * whole. */
#include "harness.h"

#include "core/base/dtype.h"
#include "core/box/rng.h"
#include "ops/factory/factory_kernel.h"

#include <stdlib.h>

static const enum stni_factory_value kinds[] = {STNI_FACTORY_UNIFORM, STNI_FACTORY_NORMAL};
static const stn_dtype floating[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};

static void fill(const struct stni_factory_args *args)
{
    CHECK_STATUS(stni_factory_cpu(NULL, args), STN_OK);
}

static double value_at(const void *data, int64_t i, stn_dtype dtype)
{
    switch (stn_dtype_size(dtype)) {
    case 8: return ((const double *)data)[i];
    case 4: return (double)((const float *)data)[i];
    default: return (double)(dtype == STN_DTYPE_BF16 ? stni_bf16_to_f32(((const uint16_t *)data)[i])
                                                     : stni_f16_to_f32(((const uint16_t *)data)[i]));
    }
}

/* Moments of 2^18 numbers within five standard errors; bf16 truncates to 8 bits, which moves the mean by 2^-9. */
static void moments_are_those_of_the_distributions(void)
{
    enum { N = 1 << 18 };
    double *data = malloc(N * sizeof *data);
    for (int t = 0; t < 4; t++)
        for (int kind = 0; kind < 2; kind++) {
            const struct stni_factory_args args = {.value = kinds[kind],
                                                   .dtype = floating[t],
                                                   .dst = {data, 1, {N}, {1}},
                                                   .shape = {N},
                                                   .seed = 42,
                                                   .stream = 7,
                                                   .b = 1};
            fill(&args);
            double mean = 0, square = 0, fourth = 0;
            for (int64_t i = 0; i < N; i++) {
                double x = value_at(data, i, floating[t]) - (kinds[kind] == STNI_FACTORY_UNIFORM ? 0.5 : 0);
                mean += x / N;
                square += x * x / N;
                fourth += x * x * x * x / N;
            }
            double variance = kinds[kind] == STNI_FACTORY_UNIFORM ? 1.0 / 12 : 1,
                   kurtosis = kinds[kind] == STNI_FACTORY_UNIFORM ? 1.0 / 80 : 3;
            double error = 5 / sqrt(N), coarse = floating[t] == STN_DTYPE_BF16  ? 0x1p-8
                                                 : floating[t] == STN_DTYPE_F16 ? 0x1p-11
                                                                                : 0;
            CHECK(fabs(mean) < error * sqrt(variance) + coarse);
            CHECK(fabs(square - variance) < error * sqrt(kurtosis - variance * variance) + coarse);
            CHECK(fabs(fourth - kurtosis) < error * 10 * kurtosis + coarse);
        }
    free(data);
}

/* Cuts a 3-d tensor into pieces in many ways; each piece, filled alone, has the values of the whole. */
static void pieces_have_the_values_of_the_whole(void)
{
    enum { A = 5, B = 7, C = 11, N = A * B * C };
    double whole[N], piece[N];
    for (int t = 0; t < 4; t++)
        for (int kind = 0; kind < 2; kind++) {
            int64_t size = (int64_t)stn_dtype_size(floating[t]), seen = 0;
            const struct stni_factory_args all = {.value = kinds[kind],
                                                  .dtype = floating[t],
                                                  .dst = {whole, 3, {A, B, C}, {B * C, C, 1}},
                                                  .shape = {A, B, C},
                                                  .seed = 0x123456789abcdefu,
                                                  .stream = 3,
                                                  .b = 1};
            fill(&all);
            for (int64_t a = 0; a < A; a += 2)
                for (int64_t b = 0; b < B; b += 3)
                    for (int64_t c = 0; c < C; c += 3) {
                        int64_t n[3] = {A - a < 2 ? A - a : 2, B - b < 3 ? B - b : 3, C - c < 3 ? C - c : 3};
                        struct stni_factory_args part = all;
                        part.dst = (stn_box){piece, 3, {n[0], n[1], n[2]}, {1, n[0], n[0] * n[1]}};
                        memcpy(part.offset, (int64_t[3]){a, b, c}, sizeof(int64_t[3]));
                        fill(&part);
                        for (int64_t i = 0; i < n[0]; i++)
                            for (int64_t j = 0; j < n[1]; j++)
                                for (int64_t k = 0; k < n[2]; k++, seen++)
                                    CHECK_BYTES((char *)piece + (i + j * n[0] + k * n[0] * n[1]) * size,
                                                (char *)whole + ((a + i) * B * C + (b + j) * C + c + k) * size,
                                                (size_t)size);
                    }
            CHECK_I64(seen, N);
        }
}

static void streams_and_seeds_differ(void)
{
    static const struct {
        uint64_t seed, stream;
    } others[] = {{2, 1}, {1, 2}, {1 + (1ull << 32), 1}, {1, 1 + (1ull << 32)}};
    float a[64], b[64];
    struct stni_factory_args args = {.value = STNI_FACTORY_UNIFORM,
                                     .dtype = STN_DTYPE_F32,
                                     .dst = {a, 1, {64}, {1}},
                                     .shape = {64},
                                     .seed = 1,
                                     .stream = 1,
                                     .b = 1};
    fill(&args);
    args.dst.data = b;
    for (int i = 0; i < 4; i++) {
        int equal = 0;
        args.seed = others[i].seed;
        args.stream = others[i].stream;
        fill(&args);
        for (int k = 0; k < 64; k++)
            equal += a[k] == b[k];
        CHECK_I64(equal, 0);
    }
}

static void empty_and_zero_dim_pieces_are_filled(void)
{
    float cells[3] = {-1, -1, -1}, whole[1];
    struct stni_factory_args args = {.value = STNI_FACTORY_NORMAL,
                                     .dtype = STN_DTYPE_F32,
                                     .dst = {cells, 2, {0, 3}, {3, 1}},
                                     .shape = {0, 3},
                                     .seed = 5,
                                     .b = 1};
    fill(&args);
    args.dst = (stn_box){cells, 2, {3, 0}, {1, 1}};
    fill(&args);
    CHECK(cells[0] == -1 && cells[1] == -1 && cells[2] == -1);
    args.dst = (stn_box){.data = whole};
    fill(&args);
    CHECK_NEAR((double)whole[0], (double)stni_rng_normal(stni_rng_block(5, 0, 0).v[0]), 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"moments_are_those_of_the_distributions", moments_are_those_of_the_distributions},
        {"pieces_have_the_values_of_the_whole", pieces_have_the_values_of_the_whole},
        {"streams_and_seeds_differ", streams_and_seeds_differ},
        {"empty_and_zero_dim_pieces_are_filled", empty_and_zero_dim_pieces_are_filled},
    };
    return TEST_MAIN(argc, argv, cases);
}
