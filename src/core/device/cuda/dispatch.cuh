/* From a dtype to the type of its elements: a launcher calls one of these with a function object that is a template,
 *
 *     dispatch_floating(args.dtype, [&](auto element) { launch_of<decltype(element)>(args, stream); });
 *
 * which is instantiated for each of the types and called with a 0 of the dtype's; for any other dtype nothing is
 * called. A bool's elements are u8's. */
#ifndef STNI_CORE_DEVICE_CUDA_DISPATCH_CUH
#define STNI_CORE_DEVICE_CUDA_DISPATCH_CUH

#include "core/device/cuda/complex.cuh"
#include "core/device/cuda/elements.cuh"

#include <shardtensor/dtype.h>

namespace {

template <class S> constexpr stn_dtype dtype_of = STN_DTYPE_COUNT;
template <> constexpr stn_dtype dtype_of<float> = STN_DTYPE_F32;
template <> constexpr stn_dtype dtype_of<double> = STN_DTYPE_F64;
template <> constexpr stn_dtype dtype_of<bf16> = STN_DTYPE_BF16;
template <> constexpr stn_dtype dtype_of<f16> = STN_DTYPE_F16;
template <> constexpr stn_dtype dtype_of<int64_t> = STN_DTYPE_I64;
template <> constexpr stn_dtype dtype_of<int32_t> = STN_DTYPE_I32;
template <> constexpr stn_dtype dtype_of<uint8_t> = STN_DTYPE_U8;
template <> constexpr stn_dtype dtype_of<int8_t> = STN_DTYPE_I8;
template <> constexpr stn_dtype dtype_of<int16_t> = STN_DTYPE_I16;
template <> constexpr stn_dtype dtype_of<stni_complex<float>> = STN_DTYPE_C64;
template <> constexpr stn_dtype dtype_of<stni_complex<double>> = STN_DTYPE_C128;

/* Among these types. */
template <class... S, class F> void dispatch(stn_dtype dtype, F launch)
{
    static_assert(((dtype_of<S> != STN_DTYPE_COUNT) && ...), "every type has a dtype");
    const stn_dtype stored = dtype == STN_DTYPE_BOOL ? STN_DTYPE_U8 : dtype;
    ((stored == dtype_of<S> ? launch(S{}) : void()), ...);
}

template <class F> void dispatch_floating(stn_dtype dtype, F launch)
{
    dispatch<float, double, bf16, f16>(dtype, launch);
}

template <class F> void dispatch_complex(stn_dtype dtype, F launch)
{
    dispatch<stni_complex<float>, stni_complex<double>>(dtype, launch);
}

template <class F> void dispatch_integer(stn_dtype dtype, F launch)
{
    dispatch<int64_t, int32_t, uint8_t>(dtype, launch);
}

/* Those that only some kernels are compiled for. */
template <class F> void dispatch_narrow(stn_dtype dtype, F launch)
{
    dispatch<int8_t, int16_t>(dtype, launch);
}

template <class F> void dispatch_floating_and_complex(stn_dtype dtype, F launch)
{
    dispatch_floating(dtype, launch);
    dispatch_complex(dtype, launch);
}

template <class F> void dispatch_all(stn_dtype dtype, F launch)
{
    dispatch_floating_and_complex(dtype, launch);
    dispatch_integer(dtype, launch);
    dispatch_narrow(dtype, launch);
}

/* What is moved as it is needs no dtype: the types are unsigned integers of 1, 2, 4, 8 and 16 bytes. */
struct alignas(16) unit16 {
    uint64_t low, high;
};

template <class F> auto dispatch_unit(size_t bytes, F launch)
{
    switch (bytes) {
    case 1: return launch(uint8_t());
    case 2: return launch(uint16_t());
    case 4: return launch(uint32_t());
    case 8: return launch(uint64_t());
    default: return launch(unit16());
    }
}

}

#endif
