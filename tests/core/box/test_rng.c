/* Random numbers: published answers of the cipher, ranges and moments, and values that belong to elements. */
#include "harness.h"

#include "core/base/dtype.h"
#include "core/box/rng.h"

#include <stdlib.h>

/* Known answers published with the paper's own implementation. */
static void cipher_gives_the_published_answers(void)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } answers[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        struct stni_philox counter;
        memcpy(counter.v, answers[i].counter, sizeof counter.v);
        struct stni_philox got = stni_philox_cipher(counter, answers[i].key[0], answers[i].key[1]);
        CHECK_BYTES(got.v, answers[i].want, sizeof got.v);
    }
    struct stni_philox got = stni_rng_block(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u);
    CHECK_BYTES(got.v, answers[2].want, sizeof got.v);
}

static void uniform_stays_below_one_and_keeps_its_bits(void)
{
    CHECK_NEAR((double)stni_rng_uniform(0, 24), 0, 0);
    CHECK_NEAR((double)stni_rng_uniform(~0u, 24), 1 - 0x1p-24, 0);
    CHECK_NEAR((double)stni_bf16_to_f32(stni_f32_to_bf16(stni_rng_uniform(~0u, 8))), 1 - 0x1p-8, 0);
    CHECK_NEAR((double)stni_f16_to_f32(stni_f32_to_f16(stni_rng_uniform(~0u, 11))), 1 - 0x1p-11, 0);
    CHECK_NEAR(stni_rng_uniform64(0, 0), 0, 0);
    CHECK_NEAR(stni_rng_uniform64(~0u, ~0u), 1 - 0x1p-53, 0);
    CHECK_NEAR(stni_rng_uniform64(1u << 11, 0), 0x1p-53, 0);
}

static void logarithm_is_that_of_the_library(void)
{
    for (double x = 1e-300; x < 1e300; x *= 1.7)
        CHECK_NEAR(stni_rng_log(x), log(x), 1e-15);
    for (double x = 0.5; x < 2; x += 0.0137)
        CHECK(fabs(stni_rng_log(x) - log(x)) <= 2e-16 + 4e-16 * fabs(log(x)));
}

static void quantile_inverts_the_normal_distribution(void)
{
    for (double z = -8.2; z < 0; z += 0.0173) {
        double p = 0.5 * erfc(-z * 0.70710678118654752440);
        CHECK(fabs(stni_rng_normal_quantile(p) - z) <= 3e-15 * fabs(z) + 3e-16); /* p itself is rounded to 2^-54 */
    }
    for (double p = 0.001; p < 1; p += 0.001)
        CHECK(fabs(stni_rng_normal_quantile(p) + stni_rng_normal_quantile(1 - p)) < 1e-13);
    CHECK(fabs((double)stni_rng_normal(0)) < 6.4 && fabs((double)stni_rng_normal(~0u)) < 6.4);
    CHECK(fabs(stni_rng_normal64(0, 0)) < 8.3 && fabs(stni_rng_normal64(~0u, ~0u)) < 8.3);
}

static const stn_dtype floating[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};

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
            struct stni_rng_fill fill = {.seed = 42, .stream = 7, .kind = (enum stni_rng_kind)kind, .dtype = floating[t],
                                         .global_shape = {N}};
            stn_box box = {data, 1, {N}, {1}};
            stni_rng_fill_now(&box, &fill);
            double mean = 0, square = 0, fourth = 0;
            for (int64_t i = 0; i < N; i++) {
                double x = value_at(data, i, floating[t]) - (kind == STNI_RNG_UNIFORM ? 0.5 : 0);
                mean += x / N;
                square += x * x / N;
                fourth += x * x * x * x / N;
            }
            double variance = kind == STNI_RNG_UNIFORM ? 1.0 / 12 : 1, kurtosis = kind == STNI_RNG_UNIFORM ? 1.0 / 80 : 3;
            double error = 5 / sqrt(N), coarse = floating[t] == STN_DTYPE_BF16 ? 0x1p-8 : floating[t] == STN_DTYPE_F16 ? 0x1p-11 : 0;
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
            struct stni_rng_fill fill = {.seed = 0x123456789abcdefu, .stream = 3, .kind = (enum stni_rng_kind)kind,
                                         .dtype = floating[t], .global_shape = {A, B, C}};
            stn_box all = {whole, 3, {A, B, C}, {B * C, C, 1}};
            stni_rng_fill_now(&all, &fill);
            for (int64_t a = 0; a < A; a += 2)
                for (int64_t b = 0; b < B; b += 3)
                    for (int64_t c = 0; c < C; c += 3) {
                        int64_t n[3] = {A - a < 2 ? A - a : 2, B - b < 3 ? B - b : 3, C - c < 3 ? C - c : 3};
                        stn_box box = {piece, 3, {n[0], n[1], n[2]}, {1, n[0], n[0] * n[1]}};
                        struct stni_rng_fill part = fill;
                        memcpy(part.offset, (int64_t[3]){a, b, c}, sizeof(int64_t[3]));
                        stni_rng_fill_now(&box, &part);
                        for (int64_t i = 0; i < n[0]; i++)
                            for (int64_t j = 0; j < n[1]; j++)
                                for (int64_t k = 0; k < n[2]; k++, seen++)
                                    CHECK_BYTES((char *)piece + (i + j * n[0] + k * n[0] * n[1]) * size,
                                                (char *)whole + ((a + i) * B * C + (b + j) * C + c + k) * size, (size_t)size);
                    }
            CHECK_I64(seen, N);
        }
}

static void streams_and_seeds_differ(void)
{
    float a[64], b[64];
    stn_box box_a = {a, 1, {64}, {1}}, box_b = {b, 1, {64}, {1}};
    struct stni_rng_fill fill = {.seed = 1, .stream = 1, .dtype = STN_DTYPE_F32, .global_shape = {64}};
    const struct stni_rng_fill others[] = {
        {.seed = 2, .stream = 1, .dtype = STN_DTYPE_F32, .global_shape = {64}},
        {.seed = 1, .stream = 2, .dtype = STN_DTYPE_F32, .global_shape = {64}},
        {.seed = 1 + (1ull << 32), .stream = 1, .dtype = STN_DTYPE_F32, .global_shape = {64}},
        {.seed = 1, .stream = 1 + (1ull << 32), .dtype = STN_DTYPE_F32, .global_shape = {64}},
    };
    stni_rng_fill_now(&box_a, &fill);
    for (int i = 0; i < 4; i++) {
        int equal = 0;
        stni_rng_fill_now(&box_b, &others[i]);
        for (int k = 0; k < 64; k++)
            equal += a[k] == b[k];
        CHECK_I64(equal, 0);
    }
}

static void empty_and_zero_dim_pieces_are_filled(void)
{
    float cells[3] = {-1, -1, -1}, whole[1];
    struct stni_rng_fill fill = {.seed = 5, .dtype = STN_DTYPE_F32, .kind = STNI_RNG_NORMAL, .global_shape = {0, 3}};
    stn_box empty = {cells, 2, {0, 3}, {3, 1}}, none = {cells, 2, {3, 0}, {1, 1}}, scalar = {whole, 0, {0}, {0}};
    stni_rng_fill_now(&empty, &fill);
    stni_rng_fill_now(&none, &fill);
    CHECK(cells[0] == -1 && cells[1] == -1 && cells[2] == -1);
    stni_rng_fill_now(&scalar, &fill);
    CHECK_NEAR((double)whole[0], (double)stni_rng_normal(stni_rng_block(5, 0, 0).v[0]), 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"cipher_gives_the_published_answers", cipher_gives_the_published_answers},
        {"uniform_stays_below_one_and_keeps_its_bits", uniform_stays_below_one_and_keeps_its_bits},
        {"logarithm_is_that_of_the_library", logarithm_is_that_of_the_library},
        {"quantile_inverts_the_normal_distribution", quantile_inverts_the_normal_distribution},
        {"moments_are_those_of_the_distributions", moments_are_those_of_the_distributions},
        {"pieces_have_the_values_of_the_whole", pieces_have_the_values_of_the_whole},
        {"streams_and_seeds_differ", streams_and_seeds_differ},
        {"empty_and_zero_dim_pieces_are_filled", empty_and_zero_dim_pieces_are_filled},
    };
    return TEST_MAIN(argc, argv, cases);
}
