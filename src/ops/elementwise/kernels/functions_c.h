/* How C spells what functions.h and the rows of arithmetic leave to the language: complex numbers, and the choice of
 * a function by the type of x. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_FUNCTIONS_C_H
#define STNI_OPS_ELEMENTWISE_KERNELS_FUNCTIONS_C_H

#include <complex.h>
#undef complex /* a row has that name */
#undef I

#define COMPLEX_F32 float _Complex
#define COMPLEX_F64 double _Complex
#define REAL(x) (__real__(x))
#define IMAG(x) (__imag__(x))
#define COMPLEX(re, im) __builtin_complex(re, im)
#define CONJUGATE(x) (~(x))

#define FLOATING(x, f32, f64) _Generic((x), float: f32, default: f64)
#define COMPLEX_ONLY(x, c64, c128) _Generic((x), float _Complex: c64, double _Complex: c128)
#define ANALYTIC(x, f32, f64, c64, c128) _Generic((x), float: f32, double: f64, float _Complex: c64, double _Complex: c128)
#define WITH_INTEGERS(x, f32, f64, i64) _Generic((x), float: f32, double: f64, int64_t: i64)
#define ANALYTIC_OR_INTEGER(x, f32, f64, c64, c128, i64) \
    _Generic((x), float: f32, double: f64, float _Complex: c64, double _Complex: c128, int64_t: i64)

#endif
