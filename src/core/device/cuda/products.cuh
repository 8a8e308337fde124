/* Sums of products: the type of a term, and the wider one in which chunks of terms are added up, as the CPU's
 * kernels do. Integers wrap. */
#ifndef STNI_CORE_DEVICE_CUDA_PRODUCTS_CUH
#define STNI_CORE_DEVICE_CUDA_PRODUCTS_CUH

#include "core/device/cuda/complex.cuh"
#include "core/device/cuda/elements.cuh"

#include <math.h>

namespace {

/* Of elements that lie in memory as S. */
template <class S> struct product_types {
    typedef S term;
    typedef S total;
};
template <> struct product_types<float> {
    typedef float term;
    typedef double total;
};
template <> struct product_types<bf16> {
    typedef float term;
    typedef double total;
};
template <> struct product_types<f16> {
    typedef float term;
    typedef double total;
};
template <> struct product_types<stni_complex<float>> {
    typedef stni_complex<float> term;
    typedef stni_complex<double> total;
};
template <> struct product_types<int64_t> {
    typedef uint64_t term;
    typedef uint64_t total;
};
template <> struct product_types<int32_t> {
    typedef uint32_t term;
    typedef uint32_t total;
};

template <class T> STNI_DEVICE T zero_of()
{
    return T(0);
}

/* sum + a b. */
STNI_DEVICE float multiply_add(float a, float b, float sum)
{
    return fmaf(a, b, sum);
}

STNI_DEVICE double multiply_add(double a, double b, double sum)
{
    return fma(a, b, sum);
}

STNI_DEVICE uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t sum)
{
    return sum + a * b;
}

STNI_DEVICE uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t sum)
{
    return sum + a * b;
}

template <class F> STNI_DEVICE stni_complex<F> multiply_add(stni_complex<F> a, stni_complex<F> b, stni_complex<F> sum)
{
    return {multiply_add(-a.im, b.im, multiply_add(a.re, b.re, sum.re)),
            multiply_add(a.im, b.re, multiply_add(a.re, b.im, sum.im))};
}

/* A term as a total. */
template <class W, class T> STNI_DEVICE W widen(T value, const W *)
{
    return (W)value;
}

STNI_DEVICE stni_complex<double> widen(stni_complex<float> value, const stni_complex<double> *)
{
    return {value.re, value.im};
}

/* A total as what is stored of S. */
template <class S, class W> STNI_DEVICE typename computed<S>::type narrow(W value, const S *)
{
    return (typename computed<S>::type)value;
}

STNI_DEVICE stni_complex<float> narrow(stni_complex<double> value, const stni_complex<float> *)
{
    return {(float)value.re, (float)value.im};
}

}

#endif
