/* The arithmetic of factories, for C, C++ and CUDA compilers: an element by its place in the whole. */
#ifndef STNI_OPS_FACTORY_FACTORY_VALUE_H
#define STNI_OPS_FACTORY_FACTORY_VALUE_H

#include "core/base/inline.h"
#include "core/box/rng.h"
#include "ops/factory/factory_kernel.h"

/* The block of four words that was drawn last. */
struct stni_factory_words {
    uint64_t number;
    int drawn;
    struct stni_philox block;
};

/* The word that belongs to element `place`, a block has four; or with `wide` the two. */
STNI_INLINE const uint32_t *stni_factory_draw(const struct stni_factory_args *a, struct stni_factory_words *w,
                                              int64_t place, unsigned wide)
{
    const uint64_t number = (uint64_t)place >> (2 - wide);
    if (!w->drawn || w->number != number) {
        w->block = stni_rng_block(a->seed, a->stream, number);
        w->number = number;
        w->drawn = 1;
    }
    return w->block.v + (((unsigned)place & (wide ? 1u : 3u)) << wide);
}

/* From both ends, so that both are exact. */
STNI_INLINE double stni_factory_line(const struct stni_factory_args *a, int64_t place)
{
    const int64_t last = a->shape[0] - 1;
    const double step = last > 0 ? (a->b - a->a) / (double)last : 0;
    return 2 * place <= last ? a->a + step * (double)place : a->b - step * (double)(last - place);
}

/* As many bits as the dtype has, so that none rounds to 1. */
STNI_INLINE double stni_factory_uniform(const struct stni_factory_args *a, const uint32_t *v)
{
    const int bits = a->dtype == STN_DTYPE_BF16 ? 8 : a->dtype == STN_DTYPE_F16 ? 11 : 24;
    const double u = a->dtype == STN_DTYPE_F64 ? stni_rng_uniform64(v[0], v[1]) : (double)stni_rng_uniform(v[0], bits);
    return a->a + (a->b - a->a) * u;
}

STNI_INLINE double stni_factory_normal(const struct stni_factory_args *a, const uint32_t *v)
{
    return a->a + a->b * (a->dtype == STN_DTYPE_F64 ? stni_rng_normal64(v[0], v[1]) : (double)stni_rng_normal(v[0]));
}

/* The quantile of a uniform number between those of the ends. */
STNI_INLINE double stni_factory_truncated(const struct stni_factory_args *a, const uint32_t *v)
{
    const double u =
        a->dtype == STN_DTYPE_F64 ? stni_rng_uniform64(v[0], v[1]) + 0x1p-54 : ((double)v[0] + 0.5) * 0x1p-32;
    const double p = a->c + (a->d - a->c) * u;
    const double inside = p < 0x1p-1022 ? 0x1p-1022 : p > 1 - 0x1p-53 ? 1 - 0x1p-53 : p;
    const double x = a->a + a->b * stni_rng_normal_quantile(inside);
    return x < a->low ? a->low : x > a->high ? a->high : x;
}

/* The upper half of the product, by halves of the factors. */
STNI_INLINE uint64_t stni_factory_upper_product(uint64_t x, uint64_t y)
{
    const uint64_t x0 = (uint32_t)x, x1 = x >> 32, y0 = (uint32_t)y, y1 = y >> 32;
    const uint64_t middle = x1 * y0 + (x0 * y0 >> 32), other = x0 * y1 + (uint32_t)middle;
    return x1 * y1 + (middle >> 32) + (other >> 32);
}

/* The upper half of the product of 64 random bits and the number of choices. */
STNI_INLINE double stni_factory_integer(const struct stni_factory_args *a, const uint32_t *v)
{
    const uint64_t bits = (uint64_t)v[1] << 32 | v[0];
    return a->a + (double)stni_factory_upper_product(bits, (uint64_t)(a->b - a->a));
}

STNI_INLINE double stni_factory_element(const struct stni_factory_args *a, struct stni_factory_words *w, int64_t place)
{
    const unsigned wide = a->dtype == STN_DTYPE_F64;
    switch (a->value) {
    case STNI_FACTORY_CONSTANT: return a->a;
    case STNI_FACTORY_RAMP: return a->a + a->b * (double)place;
    case STNI_FACTORY_LINE: return stni_factory_line(a, place);
    case STNI_FACTORY_DIAGONAL: return place / a->shape[1] == place % a->shape[1];
    case STNI_FACTORY_UNIFORM: return stni_factory_uniform(a, stni_factory_draw(a, w, place, wide));
    case STNI_FACTORY_NORMAL: return stni_factory_normal(a, stni_factory_draw(a, w, place, wide));
    case STNI_FACTORY_TRUNCATED: return stni_factory_truncated(a, stni_factory_draw(a, w, place, wide));
    case STNI_FACTORY_INTEGER: return stni_factory_integer(a, stni_factory_draw(a, w, place, 1));
    case STNI_FACTORY_VALUES: break;
    }
    return 0;
}

#endif
