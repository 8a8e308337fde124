/* Quotients and elementary functions of complex numbers: those of the standard library, whose template is no type of
 * kernels, since its functions cannot be called on a device. */
#ifndef STNI_CORE_DEVICE_CUDA_COMPLEX_FUNCTIONS_CUH
#define STNI_CORE_DEVICE_CUDA_COMPLEX_FUNCTIONS_CUH

#include "core/device/cuda/complex.cuh"

#ifdef __CUDACC__
#include <cuda/std/complex>
#define STNI_COMPLEX_STD cuda::std
#else
#include <complex>
#define STNI_COMPLEX_STD std
#endif

template <class F> STNI_INLINE STNI_COMPLEX_STD::complex<F> stni_complex_standard(stni_complex<F> x)
{
    return {x.re, x.im};
}

template <class F> STNI_INLINE stni_complex<F> stni_complex_own(STNI_COMPLEX_STD::complex<F> z)
{
    return {z.real(), z.imag()};
}

template <class F> STNI_INLINE stni_complex<F> operator/(stni_complex<F> x, stni_complex<F> y)
{
    return stni_complex_own(stni_complex_standard(x) / stni_complex_standard(y));
}

template <class F> STNI_INLINE stni_complex<F> operator/(part_of<stni_complex<F>> x, stni_complex<F> y)
{
    return stni_complex<F>(x) / y;
}

/* C's names: one for each type. */
#define FUNCTION_OF(name, F, type)                                                 \
    STNI_INLINE stni_complex<F> type(stni_complex<F> x)                            \
    {                                                                              \
        return stni_complex_own(STNI_COMPLEX_STD::name(stni_complex_standard(x))); \
    }
#define FUNCTION(name) FUNCTION_OF(name, float, c##name##f) FUNCTION_OF(name, double, c##name)
FUNCTION(exp)
FUNCTION(log)
FUNCTION(sqrt)
FUNCTION(sinh)
FUNCTION(cosh)
FUNCTION(tanh)
FUNCTION(asinh)
FUNCTION(acosh)
FUNCTION(atanh)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(tan)
FUNCTION(asin)
FUNCTION(acos)
FUNCTION(atan)
#undef FUNCTION
#undef FUNCTION_OF

STNI_INLINE float cabsf(stni_complex<float> x) { return hypotf(x.re, x.im); }
STNI_INLINE double cabs(stni_complex<double> x) { return hypot(x.re, x.im); }
STNI_INLINE stni_complex<float> cpowf(stni_complex<float> x, stni_complex<float> y)
{
    return stni_complex_own(STNI_COMPLEX_STD::pow(stni_complex_standard(x), stni_complex_standard(y)));
}
STNI_INLINE stni_complex<double> cpow(stni_complex<double> x, stni_complex<double> y)
{
    return stni_complex_own(STNI_COMPLEX_STD::pow(stni_complex_standard(x), stni_complex_standard(y)));
}

#endif
