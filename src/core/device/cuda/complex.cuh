/* The types that kernels in C++ compute in. bool computes with the numbers 0 and 1.
 *
 * Complex numbers, for hosts and CUDA devices: two numbers, with C's arithmetic. Sums, and products and quotients with a real number, are
 * taken part by part, as C does; a quotient and the elementary functions are the standard library's: its template is no type of kernels, since its
 * functions cannot be called on a device. */
#ifndef STNI_CORE_DEVICE_CUDA_COMPLEX_CUH
#define STNI_CORE_DEVICE_CUDA_COMPLEX_CUH

#include "core/base/inline.h"

#include <stdint.h>

#ifdef __CUDACC__
#include <cuda/std/complex>
#define STNI_COMPLEX_STD cuda::std
#else
#include <complex>
#define STNI_COMPLEX_STD std
#endif

template <class F> struct stni_complex {
    F re, im;

    stni_complex() = default;
    STNI_ANY_DEVICE stni_complex(F re_, F im_ = 0) : re(re_), im(im_) {}
    STNI_ANY_DEVICE explicit stni_complex(STNI_COMPLEX_STD::complex<F> z) : re(z.real()), im(z.imag()) {}
    STNI_ANY_DEVICE STNI_COMPLEX_STD::complex<F> standard() const { return {re, im}; }

    friend STNI_ANY_DEVICE stni_complex operator-(stni_complex x) { return {-x.re, -x.im}; }
    friend STNI_ANY_DEVICE stni_complex operator+(stni_complex x, stni_complex y) { return {x.re + y.re, x.im + y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator-(stni_complex x, stni_complex y) { return {x.re - y.re, x.im - y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator*(stni_complex x, stni_complex y)
    {
        return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
    }
    friend STNI_ANY_DEVICE stni_complex operator/(stni_complex x, stni_complex y) { return stni_complex(x.standard() / y.standard()); }
    friend STNI_ANY_DEVICE stni_complex operator+(F x, stni_complex y) { return {x + y.re, y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator-(F x, stni_complex y) { return {x - y.re, -y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator-(stni_complex x, F y) { return {x.re - y, x.im}; }
    friend STNI_ANY_DEVICE stni_complex operator*(F x, stni_complex y) { return {x * y.re, x * y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator/(stni_complex x, F y) { return {x.re / y, x.im / y}; }
    friend STNI_ANY_DEVICE stni_complex operator/(F x, stni_complex y) { return stni_complex(x) / y; }
    friend STNI_ANY_DEVICE bool operator==(stni_complex x, stni_complex y) { return x.re == y.re && x.im == y.im; }
    friend STNI_ANY_DEVICE bool operator!=(stni_complex x, stni_complex y) { return !(x == y); }
};

namespace {

typedef uint8_t truth;

template <class T, class U> constexpr bool is_same = false;
template <class T> constexpr bool is_same<T, T> = true;

/* The type of a complex number's parts; a real type is its own. */
template <class T> struct part {
    typedef T type;
};
template <class F> struct part<stni_complex<F>> {
    typedef F type;
};
template <class T> using part_of = typename part<T>::type;

template <class T> constexpr bool is_complex = !is_same<T, part_of<T>>;
template <class T> constexpr bool is_floating = is_same<T, float> || is_same<T, double>;

}

template <class F> STNI_INLINE stni_complex<F> stni_complex_of(F re, F im) { return {re, im}; }
template <class F> STNI_INLINE stni_complex<F> stni_conjugate_of(stni_complex<F> x) { return {x.re, -x.im}; }

/* C's names: one for each type. */
#define FUNCTION_OF(name, F, type) \
    STNI_INLINE stni_complex<F> type(stni_complex<F> x) { return stni_complex<F>(STNI_COMPLEX_STD::name(x.standard())); }
#define FUNCTION(name) FUNCTION_OF(name, float, c##name##f) FUNCTION_OF(name, double, c##name)
FUNCTION(exp)
FUNCTION(log)
FUNCTION(sqrt)
FUNCTION(sinh)
FUNCTION(cosh)
FUNCTION(tanh)
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
    return stni_complex<float>(STNI_COMPLEX_STD::pow(x.standard(), y.standard()));
}
STNI_INLINE stni_complex<double> cpow(stni_complex<double> x, stni_complex<double> y)
{
    return stni_complex<double>(STNI_COMPLEX_STD::pow(x.standard(), y.standard()));
}

#endif
