/* All elements of a pack at once, in what they are computed, and back. 16-bit floats are taken from words of two
 * and joined to them, which takes an instruction an element and one for two.
 *
 * The pack is a variable, which is read from memory and written there as a whole: of a memcpy of one word in memory the
 * compiler knows no more than the alignment of an element, and moves bytes one by one. */
#ifndef STNI_CORE_DEVICE_CUDA_PACKS_CUH
#define STNI_CORE_DEVICE_CUDA_PACKS_CUH

#include "core/device/cuda/elements.cuh"

namespace {

/* Two elements: the first is the lower half of the word. */
#ifdef __CUDA_ARCH__
STNI_DEVICE void load_two(bf16, uint32_t word, float &first, float &second)
{
    first = __uint_as_float(word << 16);
    second = __uint_as_float(word & 0xffff0000u);
}

STNI_DEVICE void load_two(f16, uint32_t word, float &first, float &second)
{
    first = stni_grid_f16_to_f32((uint16_t)word);
    second = stni_grid_f16_to_f32((uint16_t)(word >> 16));
}

STNI_DEVICE uint32_t store_two(bf16, float first, float second)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

STNI_DEVICE uint32_t store_two(f16, float first, float second)
{
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}
#else
template <class S> STNI_HOST_DEVICE void load_two(S, uint32_t word, float &first, float &second)
{
    first = load(S{(uint16_t)word});
    second = load(S{(uint16_t)(word >> 16)});
}

template <class S> STNI_HOST_DEVICE uint32_t store_two(S, float first, float second)
{
    S low, high;
    store(low, first);
    store(high, second);
    return (uint32_t)high.bits << 16 | low.bits;
}
#endif

template <class S> STNI_DEVICE void load_pack(const pack<S> &from, typename computed<S>::type (&to)[pack<S>::SIZE])
{
    if constexpr (sizeof(S) == sizeof(typename computed<S>::type)) {
        STNI_UNROLL
        for (int k = 0; k < pack<S>::SIZE; k++)
            to[k] = from.v[k];
    } else {
        STNI_UNROLL
        for (int k = 0; k < pack<S>::SIZE; k += 2) {
            uint32_t word;
            memcpy(&word, &from.v[k], sizeof word);
            load_two(S{}, word, to[k], to[k + 1]);
        }
    }
}

template <class S> STNI_DEVICE void store_pack(pack<S> &to, const typename computed<S>::type (&from)[pack<S>::SIZE])
{
    if constexpr (sizeof(S) == sizeof(typename computed<S>::type)) {
        STNI_UNROLL
        for (int k = 0; k < pack<S>::SIZE; k++)
            to.v[k] = from[k];
    } else {
        STNI_UNROLL
        for (int k = 0; k < pack<S>::SIZE; k += 2) {
            const uint32_t word = store_two(S{}, from[k], from[k + 1]);
            memcpy(&to.v[k], &word, sizeof word);
        }
    }
}

}

#endif
