/* The terms of a line's sum in softmax on a CUDA device, each e^z, z <= 0, times a unit that cancels. */
#ifndef STNI_OPS_SOFTMAX_SOFTMAX_TERMS_CUH
#define STNI_OPS_SOFTMAX_SOFTMAX_TERMS_CUH

#include <math.h>

#include "core/device/cuda/elements.cuh"
#include "ops/cpu/math.cuh"

namespace {

/* Of 16-bit floats 2^64, so that terms that are as small as the smallest bf16 are normal numbers of f32, which the
 * device's instruction for powers of 2 needs. */
template <class S> constexpr typename computed<S>::type TERM_UNIT = 1;
template <> constexpr float TERM_UNIT<bf16> = 0x1p64f;
template <> constexpr float TERM_UNIT<f16> = 0x1p64f;

template <class S> STNI_DEVICE S term_of(S, S z)
{
    return exp_negative_of(z);
}

#ifdef __CUDA_ARCH__
STNI_DEVICE float narrow_power_of_2(float y)
{
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(y));
    return value;
}
#else
/* As there, nothing is subnormal. */
STNI_DEVICE float narrow_power_of_2(float y)
{
    const float value = exp2f(y);
    return value < 0x1p-126f ? 0 : value;
}
#endif

/* y is wrong by less than 2^-16 where the term is at least 2^-133, the least bf16, and by less than 2^-18 where it is
 * at least 2^-24, the least f16; the power is wrong by 2^-22 of itself. So what a term is in 16 bits is within 0.51
 * units in the last place. */
STNI_DEVICE float narrow_term(float z)
{
    return narrow_power_of_2(STNI_FMA_F32(z, 1.44269504f, 64.0f));
}

STNI_DEVICE float term_of(bf16, float z)
{
    return narrow_term(z);
}

STNI_DEVICE float term_of(f16, float z)
{
    return narrow_term(z);
}

}

#endif
