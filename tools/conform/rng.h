/* Random numbers by counter: what is drawn depends on the seeds mixed in, never on what was drawn elsewhere. */
#ifndef CONFORM_RNG_H
#define CONFORM_RNG_H

#include <stdint.h>

/** A well-mixed 64-bit value of (seed, x): the finaliser of splitmix64 (Steele, Lea and Flood 2014). */
static inline uint64_t rng_mix(uint64_t seed, uint64_t x)
{
    uint64_t z = seed + UINT64_C(0x9e3779b97f4a7c15) * (x + 1);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t rng_mix_text(uint64_t seed, const char *text)
{
    for (; *text != '\0'; text++)
        seed = rng_mix(seed, (unsigned char)*text);
    return seed;
}

struct rng {
    uint64_t seed, next;
};

/** Uniform in 0 … n - 1, n > 0. The bias of the remainder is below 2^-32 for the sizes drawn here. */
static inline int64_t rng_below(struct rng *rng, int64_t n)
{
    return (int64_t)(rng_mix(rng->seed, rng->next++) % (uint64_t)n);
}

#endif
