/* How two elements become one: sums and products, of integers those that wrap, the least and the greatest. */
#ifndef STNI_CORE_DEVICE_CUDA_JOINS_CUH
#define STNI_CORE_DEVICE_CUDA_JOINS_CUH

#include "core/device/cuda/complex.cuh"
#include "core/device/cuda/grid.h"

namespace {

template <class T> STNI_DEVICE T sum_of(T a, T b)
{
    return (T)(a + b);
}

STNI_DEVICE int64_t sum_of(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

STNI_DEVICE int32_t sum_of(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

template <class T> STNI_DEVICE T product_of(T a, T b)
{
    return (T)(a * b);
}

STNI_DEVICE int64_t product_of(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

STNI_DEVICE int32_t product_of(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

/* A NaN stays, and of equal values the earlier one. */
template <class T> STNI_DEVICE T least_of(T a, T b)
{
    return a <= b || a != a ? a : b;
}

template <class T> STNI_DEVICE T greatest_of(T a, T b)
{
    return a >= b || a != a ? a : b;
}

/* Complex numbers have neither: the library does not ask for it. */
template <class F> STNI_DEVICE stni_complex<F> least_of(stni_complex<F> a, stni_complex<F>)
{
    return a;
}

template <class F> STNI_DEVICE stni_complex<F> greatest_of(stni_complex<F> a, stni_complex<F>)
{
    return a;
}

}

#endif
