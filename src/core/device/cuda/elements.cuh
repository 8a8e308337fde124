/* How elements lie in memory, in what they are computed, and packs of 16 bytes, which a thread reads and writes at
 * once. */
#ifndef STNI_CORE_DEVICE_CUDA_ELEMENTS_CUH
#define STNI_CORE_DEVICE_CUDA_ELEMENTS_CUH

#include "core/device/cuda/grid.h"

namespace {

struct bf16 {
    uint16_t bits;
};

struct f16 {
    uint16_t bits;
};

/* What elements of S are computed in: 16-bit floats in f32, the others in themselves. */
template <class S> struct computed {
    typedef S type;
};
template <> struct computed<bf16> {
    typedef float type;
};
template <> struct computed<f16> {
    typedef float type;
};

template <class S> STNI_HOST_DEVICE S load(S value)
{
    return value;
}

STNI_HOST_DEVICE float load(bf16 value)
{
    return stni_grid_bf16_to_f32(value.bits);
}

STNI_HOST_DEVICE float load(f16 value)
{
    return stni_grid_f16_to_f32(value.bits);
}

/* `value` as an element of S: of 16-bit floats the nearest, ties to even. */
template <class S> STNI_HOST_DEVICE void store(S &at, typename computed<S>::type value)
{
    at = value;
}

STNI_HOST_DEVICE void store(bf16 &at, float value)
{
    at.bits = stni_grid_f32_to_bf16(value);
}

STNI_HOST_DEVICE void store(f16 &at, float value)
{
    at.bits = stni_grid_f32_to_f16(value);
}

/* N elements side by side, which a thread reads and writes at once, 16 bytes at a time at most. */
template <class S, int N> struct alignas(N * sizeof(S) < 16 ? N * sizeof(S) : 16) side_by_side {
    S v[N];
};

template <class S> struct alignas(16) pack {
    enum { SIZE = 16 / sizeof(S) }; /* elements */
    S v[SIZE];
};

/* Whether all of `addresses`, ored together, allow packs. */
STNI_HOST_DEVICE bool is_pack_aligned(uintptr_t addresses)
{
    return addresses % 16 == 0;
}

}

#endif
