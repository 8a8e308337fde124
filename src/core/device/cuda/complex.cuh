/* The types that kernels in C++ compute in. bool computes with the numbers 0 and 1.
 *
 * Complex numbers, for hosts and CUDA devices: two numbers, with C's arithmetic. Sums, and products and quotients
 * with a real number, are taken part by part, as C does; quotients and elementary functions stand in
 * complex_functions.cuh, since reading the header that they need takes nvcc longer than compiling most kernels. */
#ifndef STNI_CORE_DEVICE_CUDA_COMPLEX_CUH
#define STNI_CORE_DEVICE_CUDA_COMPLEX_CUH

#include "core/base/inline.h"

#include <stdint.h>

template <class F> struct stni_complex {
    F re, im;

    stni_complex() = default;
    STNI_ANY_DEVICE stni_complex(F re_, F im_ = 0) : re(re_), im(im_) {}

    friend STNI_ANY_DEVICE stni_complex operator-(stni_complex x) { return {-x.re, -x.im}; }
    friend STNI_ANY_DEVICE stni_complex operator+(stni_complex x, stni_complex y) { return {x.re + y.re, x.im + y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator-(stni_complex x, stni_complex y) { return {x.re - y.re, x.im - y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator*(stni_complex x, stni_complex y)
    {
        return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
    }
    friend STNI_ANY_DEVICE stni_complex operator+(F x, stni_complex y) { return {x + y.re, y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator-(F x, stni_complex y) { return {x - y.re, -y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator-(stni_complex x, F y) { return {x.re - y, x.im}; }
    friend STNI_ANY_DEVICE stni_complex operator*(F x, stni_complex y) { return {x * y.re, x * y.im}; }
    friend STNI_ANY_DEVICE stni_complex operator/(stni_complex x, F y) { return {x.re / y, x.im / y}; }
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

#endif
