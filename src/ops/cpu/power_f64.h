/* x to the power of y in f64, for kernels of the CPU: branch-free, as math_f64.h. The logarithm and its product with y
 * are sums of two numbers, the second of which is what rounding took from the first: together they are exact to 2^-64,
 * so that the result's error is its last rounding and the exponential's, one unit in the last place. Signs, zeros,
 * infinities and NaN are as the C library's, which serves where vectors are too narrow to be faster. */
#ifndef STNI_OPS_CPU_POWER_F64_H
#define STNI_OPS_CPU_POWER_F64_H

#include "ops/cpu/math_f64.h"

#if defined(__AVX2__) && !defined(__CUDACC__)

/* log a and in *low what it lacks, a > 0. With f = m - 1 and s = f / (2 + f): log m = 2 s + 2/3 s^3 + s^5 P(s^2), of
 * which the first two terms are sums of two numbers. */
STNI_KERNEL_INLINE double stni_log_exact_f64(double a, double *low)
{
    double k;
    const double f = stni_mantissa_f64(a, &k) - 1.0, d = 2.0 + f, inverse = 1.0 / d;
    const double s = f * inverse, s_low = (STNI_FMA_F64(-s, d, f) - s * (f - (d - 2.0))) * inverse;
    const double z = s * s, z_low = STNI_FMA_F64(2.0 * s, s_low, STNI_FMA_F64(s, s, -z));
    const double cube = s * z, cube_low = STNI_FMA_F64(s, z, -cube) + STNI_FMA_F64(s, z_low, s_low * z);
    const double third = cube * 0.66666666666666663;
    const double third_low = STNI_FMA_F64(cube, 0.66666666666666663, -third) +
                             STNI_FMA_F64(cube, 3.7007434154171883e-17, cube_low * 0.66666666666666663);
    double p = 0.13196367445949866;
    STNI_TERM_F64(p, z, 0.1325681346461966);
    STNI_TERM_F64(p, z, 0.1538675752101768);
    STNI_TERM_F64(p, z, 0.18181784362838668);
    STNI_TERM_F64(p, z, 0.22222222519974286);
    STNI_TERM_F64(p, z, 0.28571428570099267);
    STNI_TERM_F64(p, z, 0.40000000000002256);
    const double first = 2.0 * s, log_m = first + third, rest = (first - log_m) + third;
    const double log_m_low = rest + (STNI_FMA_F64(2.0, s_low, third_low) + z * cube * p);
    const double whole = k * 0x1.62e42fefa3800p-1, log_a = whole + log_m;
    *low = ((whole - log_a) + log_m) + STNI_FMA_F64(k, 5.4979230187083712e-14, log_m_low);
    return log_a;
}

/* a to the power of y, a >= 0. */
STNI_KERNEL_INLINE double stni_pow_magnitude_f64(double a, double y)
{
    uint64_t k;
    double low;
    const double log_a = stni_log_exact_f64(a, &low), product = y * log_a;
    double e = product > -746.0 ? product : -746.0;
    e = e < 710.0 ? e : 710.0;
    const double rest = STNI_FMA_F64(y, low, STNI_FMA_F64(y, log_a, -product));
    const double r = stni_exp_split_f64(e, &k) + (e == product ? rest : 0.0), p = stni_exp_near_f64(r);
    const uint64_t half = (uint64_t)((int64_t)(k - 969u) >> 1);
    const double at_zero = y > 0.0 ? 0.0 : INFINITY, at_infinity = y > 0.0 ? INFINITY : 0.0;
    double value = p * stni_pow2_f64(half) * stni_pow2_f64(k - half);
    value = a == 0.0 ? at_zero : value;
    value = a > DBL_MAX ? at_infinity : value;
    return a == 1.0 ? 1.0 : value;
}

/* As stni_pow_f32; from 2^53 on every f64 is an even integer. */
STNI_KERNEL_INLINE double stni_pow_f64(double x, double y)
{
    const double a = fabs(x), small = fabs(y) < 9007199254740992.0 ? y : 0.0, half = 0.5 * small;
    const double power = stni_pow_magnitude_f64(a, y), sum = x + y, none = NAN;
    double value = rint(half) != half ? copysign(power, x) : power;
    const double of_negative = rint(small) != small ? none : value;
    value = rint(small) != small ? power : value;
    value = ((x < 0.0) & (a <= DBL_MAX)) ? of_negative : value;
    value = sum != sum ? (((a <= INFINITY) & (fabs(y) <= INFINITY)) ? value : sum) : value;
    value = y == 0.0 ? 1.0 : value;
    return x == 1.0 ? 1.0 : value;
}

#else

STNI_KERNEL_INLINE double stni_pow_f64(double x, double y) { return pow(x, y); }

#endif

#endif
