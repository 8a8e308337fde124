/* Quotients and elementary functions of complex numbers. Quotients and powers are those of the standard library, whose
 * template is no type of kernels, since its functions cannot be called on a device. Functions that CUDA's writes down
 * as they are defined (asinh x = log(x + sqrt(x^2 + 1)), which is -inf at -16,631 and 0 at 1e-9) have algorithms of
 * their own, on the host too. */
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

/* The real functions that the algorithms below are made of, by the type of their argument. */
#define REAL_FUNCTION(name)                                                   \
    STNI_INLINE float stni_real_##name(float x) { return name##f(x); }        \
    STNI_INLINE double stni_real_##name(double x) { return name(x); }
#define REAL_FUNCTION_OF_TWO(name)                                                    \
    STNI_INLINE float stni_real_##name(float x, float y) { return name##f(x, y); }    \
    STNI_INLINE double stni_real_##name(double x, double y) { return name(x, y); }
REAL_FUNCTION(fabs)
REAL_FUNCTION(sqrt)
REAL_FUNCTION(exp)
REAL_FUNCTION(log)
REAL_FUNCTION(log1p)
REAL_FUNCTION(sin)
REAL_FUNCTION(cos)
REAL_FUNCTION(tan)
REAL_FUNCTION(sinh)
REAL_FUNCTION(cosh)
REAL_FUNCTION(asinh)
REAL_FUNCTION_OF_TWO(fmax)
REAL_FUNCTION_OF_TWO(fmin)
REAL_FUNCTION_OF_TWO(hypot)
REAL_FUNCTION_OF_TWO(atan2)
REAL_FUNCTION_OF_TWO(copysign)
#undef REAL_FUNCTION
#undef REAL_FUNCTION_OF_TWO

/* Of a float or a double: HUGE_PART is what sums of few of which, and squares of whose root, have room; beyond
 * LARGE_PART 1 is lost beside a number, below SMALL_PART the square of one beside 1. */
template <class F> constexpr F stni_huge_part = sizeof(F) == 4 ? (F)0x1p125f : (F)0x1p1021;
template <class F> constexpr F stni_tiny_part = sizeof(F) == 4 ? (F)0x1p-100f : (F)0x1p-960;
template <class F> constexpr F stni_large_part = sizeof(F) == 4 ? (F)0x1p30f : (F)0x1p60;
template <class F> constexpr F stni_small_part = sizeof(F) == 4 ? (F)0x1p-13f : (F)0x1p-28;
template <class F> constexpr F stni_ln2 = (F)0.69314718055994530942;
template <class F> constexpr F stni_half_pi = (F)1.57079632679489661923;

template <class F> STNI_INLINE bool stni_is_infinite(F x)
{
    return stni_real_fabs(x) > (sizeof(F) == 4 ? (F)0x1.fffffep127f : (F)0x1.fffffffffffffp1023);
}

/* r e^x (cos y + i sin y), r being 1 or 1/2; where e^x has no room its root is multiplied by twice, so that parts that
 * have room are right. On the real axis the imaginary part stays a zero. */
template <class F> STNI_INLINE stni_complex<F> stni_complex_turned(F r, F x, F y)
{
    const bool far = x > (sizeof(F) == 4 ? 88 : 709) && !stni_is_infinite(x);
    const F e = stni_real_exp(far ? x / 2 : x), last = far ? e * r : r, c = stni_real_cos(y), s = stni_real_sin(y);
    if (stni_is_infinite(x) && c != c)
        return {e, x < 0 ? 0 : c};
    return {e * c * last, y == 0 ? y : e * s * last};
}

template <class F> STNI_INLINE stni_complex<F> stni_complex_exp(stni_complex<F> z)
{
    return stni_complex_turned((F)1, z.re, z.im);
}

/* 0 times NaN is 0: a part that vanishes on an axis vanishes on all of it. */
template <class F> STNI_INLINE F stni_product_on_axis(F p, F q)
{
    return p == 0 && q != q ? p : q == 0 && p != p ? q : p * q;
}

template <class F> STNI_INLINE stni_complex<F> stni_complex_sinh(stni_complex<F> z)
{
    const F x = z.re, y = z.im, wide = stni_real_fabs(x);
    if (wide > (sizeof(F) == 4 ? 40 : 300)) {
        const stni_complex<F> w = stni_complex_turned((F)0.5, wide, y);
        return {x < 0 ? -w.re : w.re, w.im};
    }
    return {stni_product_on_axis(stni_real_sinh(x), stni_real_cos(y)),
            stni_product_on_axis(stni_real_cosh(x), stni_real_sin(y))};
}

template <class F> STNI_INLINE stni_complex<F> stni_complex_cosh(stni_complex<F> z)
{
    const F x = z.re, y = z.im, wide = stni_real_fabs(x);
    if (wide > (sizeof(F) == 4 ? 40 : 300)) {
        const stni_complex<F> w = stni_complex_turned((F)0.5, wide, y);
        return {w.re, x < 0 ? -w.im : w.im};
    }
    return {stni_real_cosh(x) * stni_real_cos(y),
            stni_product_on_axis(stni_real_sinh(x), stni_real_sin(y))};
}

template <class F> STNI_INLINE stni_complex<F> stni_complex_cos(stni_complex<F> z)
{
    return stni_complex_cosh(stni_complex<F>(-z.im, z.re));
}

/* log |z|, of lengths about 1 from |z|^2 - 1. */
template <class F> STNI_INLINE F stni_log_of_length(F x, F y)
{
    const F a = stni_real_fabs(x), b = stni_real_fabs(y), more = stni_real_fmax(a, b), less = stni_real_fmin(a, b);
    if (more > (F)0.5 && a < 2 && b < 2)
        return stni_real_log1p((more - 1) * (more + 1) + less * less) / 2;
    return more > stni_huge_part<F> ? stni_real_log(stni_real_hypot(x / 4, y / 4)) + 2 * stni_ln2<F>
                                    : stni_real_log(stni_real_hypot(x, y));
}

template <class F> STNI_INLINE stni_complex<F> stni_complex_log(stni_complex<F> z)
{
    return {stni_log_of_length(z.re, z.im), stni_real_atan2(z.im, z.re)};
}

/* Each part is right by itself, also where it is much smaller than the other. */
template <class F> STNI_INLINE stni_complex<F> stni_complex_sqrt(stni_complex<F> z)
{
    if (stni_is_infinite(z.im))
        return {stni_real_fabs(z.im), z.im};
    if (z.re == 0 && z.im == 0)
        return {0, z.im};
    const F largest = stni_real_fmax(stni_real_fabs(z.re), stni_real_fabs(z.im));
    const F scale = largest > stni_huge_part<F> ? (F)0.0625 : largest < stni_tiny_part<F> ? 1 / stni_tiny_part<F> : 1;
    const F x = z.re * scale, y = z.im * scale, back = 1 / stni_real_sqrt(scale);
    const F root = stni_real_sqrt((stni_real_fabs(x) + stni_real_hypot(x, y)) / 2), other = y / (2 * root);
    return z.re < 0 ? stni_complex<F>(stni_real_fabs(other) * back, stni_real_copysign(root * back, z.im))
                    : stni_complex<F>(root * back, other * back);
}

/* The inverse functions are Kahan's (Branch cuts for complex elementary functions, 1987): products of the roots of
 * 1 - z and 1 + z, whose terms have the same sign. Far from 0 they are logarithms. */
template <class F> STNI_INLINE stni_complex<F> stni_complex_asinh(stni_complex<F> z)
{
    const F x = z.re, y = z.im;
    if (stni_real_fmax(stni_real_fabs(x), stni_real_fabs(y)) > stni_large_part<F>)
        return {stni_real_copysign(stni_log_of_length(x, y) + stni_ln2<F>, x), stni_real_atan2(y, stni_real_fabs(x))};
    const stni_complex<F> below = stni_complex_sqrt(stni_complex<F>(1 + y, -x)),
                          above = stni_complex_sqrt(stni_complex<F>(1 - y, x));
    return {stni_real_asinh(below.re * above.im - below.im * above.re),
            y == 0 ? y : stni_real_atan2(y, below.re * above.re - below.im * above.im)};
}

template <class F> STNI_INLINE stni_complex<F> stni_complex_acos(stni_complex<F> z)
{
    const F x = z.re, y = z.im;
    if (stni_real_fmax(stni_real_fabs(x), stni_real_fabs(y)) > stni_large_part<F>)
        return {stni_real_atan2(stni_real_fabs(y), x), stni_real_copysign(stni_log_of_length(x, y) + stni_ln2<F>, -y)};
    const stni_complex<F> below = stni_complex_sqrt(stni_complex<F>(1 - x, -y)),
                          above = stni_complex_sqrt(stni_complex<F>(1 + x, y));
    return {x == 0 ? stni_half_pi<F> : 2 * stni_real_atan2(below.re, above.re),
            stni_real_asinh(above.re * below.im - above.im * below.re)};
}

template <class F> STNI_INLINE stni_complex<F> stni_complex_acosh(stni_complex<F> z)
{
    const stni_complex<F> angle = stni_complex_acos(z);
    return {stni_real_fabs(angle.im), stni_real_copysign(angle.re, z.im)};
}

/* Four times the real part is the logarithm of |1 + z|^2 over |1 - z|^2. */
template <class F> STNI_INLINE stni_complex<F> stni_complex_atanh(stni_complex<F> z)
{
    const F x = stni_real_fabs(z.re), y = z.im, height = stni_real_fabs(y);
    if (stni_real_fmax(x, height) > stni_large_part<F>) {
        const F length = stni_real_hypot(x / 4, y / 4);
        const F inverse = stni_is_infinite(length) ? 0 : x / length / length / 16;
        return {stni_real_copysign(inverse, z.re), y == y ? stni_real_copysign(stni_half_pi<F>, y) : y};
    }
    const F real = x == 1 && height < stni_small_part<F>
                       ? (stni_ln2<F> - stni_real_log(height)) / 2
                       : stni_real_log1p(4 * x / ((1 - x) * (1 - x) + y * y)) / 4;
    return {x == 0 ? z.re : stni_real_copysign(real, z.re),
            stni_real_atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2};
}

/* By the tangent of the imaginary part, near whose poles a cosine would have no digits. */
template <class F> STNI_INLINE stni_complex<F> stni_complex_tanh(stni_complex<F> z)
{
    const F x = z.re, y = z.im, wide = stni_real_fabs(x);
    if (wide > (sizeof(F) == 4 ? 11 : 22)) {
        const F turn = stni_real_sin(y) * stni_real_cos(y), small = stni_real_exp(-wide);
        if (turn != turn)
            return stni_is_infinite(x) ? stni_complex<F>(stni_real_copysign((F)1, x), 0) : stni_complex<F>(turn, turn);
        return {stni_real_copysign((F)1, x), 4 * turn * small * small};
    }
    const F t = stni_real_tan(y), slope = 1 + t * t, s = stni_real_sinh(x), c = stni_real_sqrt(1 + s * s);
    const F below = 1 + slope * s * s;
    return {x == 0 ? x : slope * c * s / below, y == 0 ? y : t / below};
}

/* f(i z) / i of an odd function f, as is of each one of these by another. */
#define TURNED(name, other)                                                         \
    template <class F> STNI_INLINE stni_complex<F> stni_complex_##name(stni_complex<F> z) \
    {                                                                               \
        const stni_complex<F> w = stni_complex_##other(stni_complex<F>(-z.im, z.re)); \
        return {w.im, -w.re};                                                       \
    }
TURNED(sin, sinh)
TURNED(tan, tanh)
TURNED(asin, asinh)
TURNED(atan, atanh)
#undef TURNED

/* C's names: one for each type. */
#define NAMED(name)                                                                                   \
    STNI_INLINE stni_complex<float> c##name##f(stni_complex<float> z) { return stni_complex_##name(z); } \
    STNI_INLINE stni_complex<double> c##name(stni_complex<double> z) { return stni_complex_##name(z); }
NAMED(exp)
NAMED(log)
NAMED(sqrt)
NAMED(sinh)
NAMED(cosh)
NAMED(tanh)
NAMED(asinh)
NAMED(acosh)
NAMED(atanh)
NAMED(sin)
NAMED(cos)
NAMED(tan)
NAMED(asin)
NAMED(acos)
NAMED(atan)
#undef NAMED

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
