/* Random numbers that belong to elements, not to ranks: a block cipher in counter mode turns (seed, stream, global
 * index of the element) into bits, so a tensor has the same values on any number of ranks and in any layout.
 *
 * The cipher is Philox4x32-10: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011. The
 * seed is the key; the counter is the number of the block in its lower half and the stream in its upper.
 *
 * For gcc and nvcc. Only integers and the correctly rounded operations + - * / sqrt are used: with contraction off,
 * the bits are the same everywhere. */
#ifndef STNI_CORE_BOX_RNG_H
#define STNI_CORE_BOX_RNG_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define STNI_RNG_FN static inline __host__ __device__
#else
#define STNI_RNG_FN static inline
#endif

struct stni_philox {
    uint32_t v[4];
};

/* One round mixes each pair through a product of 64 bits. */
STNI_RNG_FN struct stni_philox stni_philox_round(struct stni_philox c, uint32_t k0, uint32_t k1)
{
    uint64_t p0 = (uint64_t)0xD2511F53u * c.v[0], p1 = (uint64_t)0xCD9E8D57u * c.v[2];
    struct stni_philox out;
    out.v[0] = (uint32_t)(p1 >> 32) ^ c.v[1] ^ k0;
    out.v[1] = (uint32_t)p1;
    out.v[2] = (uint32_t)(p0 >> 32) ^ c.v[3] ^ k1;
    out.v[3] = (uint32_t)p0;
    return out;
}

STNI_RNG_FN struct stni_philox stni_philox_cipher(struct stni_philox counter, uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        counter = stni_philox_round(counter, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return counter;
}

/* Block `block` of a stream: four words. */
STNI_RNG_FN struct stni_philox stni_rng_block(uint64_t seed, uint64_t stream, uint64_t block)
{
    struct stni_philox counter;
    counter.v[0] = (uint32_t)block;
    counter.v[1] = (uint32_t)(block >> 32);
    counter.v[2] = (uint32_t)stream;
    counter.v[3] = (uint32_t)(stream >> 32);
    return stni_philox_cipher(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* Uniform in [0, 1): the upper `bits` bits of a word as a fraction; 24 for f32, 11 for f16, 8 for bf16, so that none
 * rounds to 1. */
STNI_RNG_FN float stni_rng_uniform(uint32_t word, int bits)
{
    return (float)(word >> (32 - bits)) / (float)(1u << bits);
}

/* Uniform in [0, 1) with 53 bits. */
STNI_RNG_FN double stni_rng_uniform64(uint32_t low, uint32_t high)
{
    return (double)(((uint64_t)high << 32 | low) >> 11) / 9007199254740992.0;
}

/* Natural logarithm of a normal positive number: x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1)
 * / (m + 1)) by its series. */
STNI_RNG_FN double stni_rng_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t e = (int64_t)((bits - 0x3FE6A09E667F3BCDu) >> 52 << 52);
    bits -= (uint64_t)e;
    double m;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), q = s * s, sum = 0;
    for (int k = 23; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * q;
    double exponent = (double)(e / 4503599627370496);
    return exponent * 0.693147180369123816490 + (exponent * 1.90821492927058770002e-10 + 2 * (s + s * sum));
}

/* P(r) / Q(r), coefficients from the constant term up. */
STNI_RNG_FN double stni_rng_ratio(const double p[8], const double q[8], double r)
{
    double above = p[7], below = q[7];
    for (int i = 6; i >= 0; i--) {
        above = above * r + p[i];
        below = below * r + q[i];
    }
    return above / below;
}

/* The number below which a standard normal one falls with probability p, 0 < p < 1. Wichura, Algorithm AS 241
 * (PPND16), Applied Statistics 37, 1988: rational functions in the middle, in the tails and far out. */
STNI_RNG_FN double stni_rng_normal_quantile(double p)
{
    const double a[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
                         4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3};
    const double b[8] = {1.0,                      4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
                         2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3};
    const double c[8] = {1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
                         1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
    const double d[8] = {1.0,                       2.05319162663775882187e0,  1.67638483018380384940e0,  6.89767334985100004550e-1,
                         1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9};
    const double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,  2.96560571828504891230e-1,
                         2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
    const double f[8] = {1.0,                       5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
                         7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15};
    double q = p - 0.5;
    if (q >= -0.425 && q <= 0.425)
        return q * stni_rng_ratio(a, b, 0.180625 - q * q);
    double r = sqrt(-stni_rng_log(q < 0 ? p : 1 - p));
    double z = r <= 5 ? stni_rng_ratio(c, d, r - 1.6) : stni_rng_ratio(e, f, r - 5);
    return q < 0 ? -z : z;
}

/* Standard normal out of one word: the quantile in the middle of its step of 2^-32. |z| < 6.4. */
STNI_RNG_FN float stni_rng_normal(uint32_t word)
{
    return (float)stni_rng_normal_quantile(((double)word + 0.5) / 4294967296.0);
}

/* Standard normal out of 52 bits of two words. |z| < 8.3. */
STNI_RNG_FN double stni_rng_normal64(uint32_t low, uint32_t high)
{
    return stni_rng_normal_quantile(((double)(((uint64_t)high << 32 | low) >> 12) + 0.5) / 4503599627370496.0);
}

#endif
