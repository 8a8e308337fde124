/* Random numbers: published answers of the cipher, ranges, and the functions that make numbers of words. */
#include "harness.h"

#include "core/base/dtype.h"
#include "core/box/rng.h"

/* Known answers published with the paper's own implementation. */
static void cipher_gives_the_published_answers(void)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } answers[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
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

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"cipher_gives_the_published_answers", cipher_gives_the_published_answers},
        {"uniform_stays_below_one_and_keeps_its_bits", uniform_stays_below_one_and_keeps_its_bits},
        {"logarithm_is_that_of_the_library", logarithm_is_that_of_the_library},
        {"quantile_inverts_the_normal_distribution", quantile_inverts_the_normal_distribution},
    };
    return TEST_MAIN(argc, argv, cases);
}
