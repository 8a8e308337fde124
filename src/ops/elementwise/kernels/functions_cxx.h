/* How C++ spells what functions.h and the rows of arithmetic leave to the language, as functions_c.h does for C: a
 * function is chosen by the type of its first argument, in a lambda whose other branches are discarded. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_FUNCTIONS_CXX_H
#define STNI_OPS_ELEMENTWISE_KERNELS_FUNCTIONS_CXX_H

#include "core/device/cuda/complex_functions.cuh"

#define COMPLEX_F32 stni_complex<float>
#define COMPLEX_F64 stni_complex<double>
#define REAL(x) ((x).re)
#define IMAG(x) ((x).im)
#define COMPLEX(re, im) stni_complex_of(re, im)
#define CONJUGATE(x) stni_conjugate_of(x)

#define CHOSEN(type, function)                    \
    if constexpr (is_same<decltype(first), type>) \
        return function(first, others...);        \
    else
#define CHOICE(...)                                         \
    [](auto first, auto... others) {                        \
        __VA_ARGS__                                         \
        static_assert(is_same<decltype(first), void>, "no function for this type"); \
    }

#define FLOATING(x, f32, f64) CHOICE(CHOSEN(float, f32) CHOSEN(double, f64))
#define COMPLEX_ONLY(x, c64, c128) CHOICE(CHOSEN(COMPLEX_F32, c64) CHOSEN(COMPLEX_F64, c128))
#define ANALYTIC(x, f32, f64, c64, c128) CHOICE(CHOSEN(float, f32) CHOSEN(double, f64) CHOSEN(COMPLEX_F32, c64) CHOSEN(COMPLEX_F64, c128))
#define WITH_INTEGERS(x, f32, f64, i64) CHOICE(CHOSEN(float, f32) CHOSEN(double, f64) CHOSEN(int64_t, i64))
#define ANALYTIC_OR_INTEGER(x, f32, f64, c64, c128, i64) \
    CHOICE(CHOSEN(float, f32) CHOSEN(double, f64) CHOSEN(COMPLEX_F32, c64) CHOSEN(COMPLEX_F64, c128) CHOSEN(int64_t, i64))

#endif
