/* Elementary functions of f64 for kernels of the CPU: branch-free, so that loops over them are vectorised. Their errors
 * are at most three units in the last place over the whole range, of erfc four; NaN, infinities, signed zeros and
 * subnormal results are as the C library's, which serves where vectors of two elements, without a fused product and
 * sum, are not faster, and on CUDA devices, which have their own.
 *
 * A polynomial is the one of its degree whose largest relative error in the result is least: less than 2^-57, where it
 * does not say otherwise. */
#ifndef STNI_OPS_CPU_MATH_F64_H
#define STNI_OPS_CPU_MATH_F64_H

#include "ops/cpu/exp.h"

#include <float.h>
#include <math.h>

#if defined(__AVX2__) && !defined(__CUDACC__)

/* Added to a small number, it leaves the nearest integer. */
#define STNI_NEAREST_F64 6755399441055744.0

/* One step of Horner's: p z + addend. */
#define STNI_TERM_F64(p, z, addend) p = STNI_FMA_F64(p, z, addend)

/* x = 2^k m > 0, sqrt(1/2) <= m < sqrt(2). The exponent's bits become a number as the fraction of 2^52: there is no
 * conversion of 64-bit integers in AVX2. */
STNI_KERNEL_INLINE double stni_mantissa_f64(double x, double *k)
{
    const uint64_t root_half = 0x3fe6a09e667f3bcdu, exponents = 0xfff0000000000000u, one = 0x3ff0000000000000u;
    const int subnormal = x < DBL_MIN;
    const double scaled = subnormal ? x * 0x1p54 : x;
    double m, shifted;
    uint64_t bits;
    memcpy(&bits, &scaled, sizeof bits);
    bits += one - root_half; /* its exponent is now that of x / sqrt(1/2) */
    const uint64_t exponent = (bits >> 52) | 0x4330000000000000u;
    memcpy(&shifted, &exponent, sizeof shifted);
    *k = shifted - (4503599627370496.0 + 1023.0) - (subnormal ? 54.0 : 0.0);
    bits = (bits & ~exponents) + root_half;
    memcpy(&m, &bits, sizeof m);
    return m;
}

/* With f = m - 1, s = f / (2 + f) and z = s^2: log m = 2 atanh s = f - (f^2 / 2 - s (f^2 / 2 + z P(z))). The addend is
 * another small part of the logarithm, which is rounded with the last two of these. */
STNI_KERNEL_INLINE double stni_log_mantissa_f64(double m, double addend)
{
    const double f = m - 1.0, s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double p = 0.14796105287459915;
    STNI_TERM_F64(p, z, 0.15314035898408324);
    STNI_TERM_F64(p, z, 0.18183564861760801);
    STNI_TERM_F64(p, z, 0.22222198563643669);
    STNI_TERM_F64(p, z, 0.28571428742472477);
    STNI_TERM_F64(p, z, 0.39999999999414337);
    STNI_TERM_F64(p, z, 0.6666666666666734);
    return f - (half - STNI_FMA_F64(s, STNI_FMA_F64(z, p, half), addend));
}

/* What a logarithm of x is where the formulas do not hold, else `value`. */
STNI_KERNEL_INLINE double stni_log_ends_f64(double x, double value)
{
    value = x > DBL_MAX ? x : value;
    value = x == 0.0 ? -INFINITY : value;
    return x >= 0.0 ? value : NAN;
}

/* ln 2 in two parts; k times the first is exact. */
STNI_KERNEL_INLINE double stni_log_f64(double x)
{
    double k, m = stni_mantissa_f64(x, &k);
    const double value = stni_log_mantissa_f64(m, k * 5.4979230187083712e-14);
    return stni_log_ends_f64(x, STNI_FMA_F64(k, 0x1.62e42fefa3800p-1, value));
}

STNI_KERNEL_INLINE double stni_log2_f64(double x)
{
    double k, m = stni_mantissa_f64(x, &k);
    return stni_log_ends_f64(x, STNI_FMA_F64(stni_log_mantissa_f64(m, 0.0), 1.4426950408889634, k));
}

/* log10 2 in two parts; k times the first is exact. */
STNI_KERNEL_INLINE double stni_log10_f64(double x)
{
    double k, m = stni_mantissa_f64(x, &k);
    const double part = STNI_FMA_F64(stni_log_mantissa_f64(m, 0.0), 0.43429448190325182, k * 2.8363394551044964e-14);
    return stni_log_ends_f64(x, STNI_FMA_F64(k, 0x1.34413509f7800p-2, part));
}

/* With w = 1 + x rounded, log(1 + x) is log w less what the rounding added, over w. */
STNI_KERNEL_INLINE double stni_log1p_f64(double x)
{
    const double w = 1.0 + x, value = stni_log_f64(w);
    return copysign(((w > 0.0) & (w <= DBL_MAX)) ? value - ((w - 1.0) - x) / w : value, x);
}

STNI_KERNEL_INLINE double stni_exp2_f64(double x)
{
    uint64_t k;
    x = -1076.0 > x ? -1076.0 : x; /* of this k the first factor is 0 */
    x = 1025.0 < x ? 1025.0 : x;
    const double shifted = x + STNI_NEAREST_F64;
    memcpy(&k, &shifted, sizeof k);
    k -= 0x4338000000000000u;
    const double p = stni_exp_near_f64((x - (shifted - STNI_NEAREST_F64)) * 0.69314718055994531);
    const uint64_t half = (uint64_t)((int64_t)(k - 969u) >> 1);
    return p * stni_pow2_f64(half) * stni_pow2_f64(k - half);
}

/* (e^x - 1) / 2, which is finite where the hyperbolic functions are. With x = k ln 2 + r it is 2^(k - 1) (e^r - 1) and
 * 2^(k - 1) - 1/2; a quarter of it is computed, so that the power has an exponent. */
STNI_KERNEL_INLINE double stni_half_expm1_f64(double x)
{
    uint64_t k;
    x = -45.0 > x ? -45.0 : x;
    x = 710.6 < x ? 710.6 : x;
    const double r = stni_exp_split_f64(x, &k), power = stni_pow2_f64(k - 2u);
    const double p = STNI_FMA_F64(stni_exp_rest_f64(r) * r, r, r);
    return 2.0 * STNI_FMA_F64(power, p, power - 0.25);
}

/* Functions that are x near 0: halves and quarters of subnormal numbers lose digits, and quotients signs. */
STNI_KERNEL_INLINE double stni_near_0_f64(double x, double value)
{
    return fabs(x) < 0x1p-54 ? x : value;
}

STNI_KERNEL_INLINE double stni_expm1_f64(double x)
{
    return stni_near_0_f64(x, 2.0 * stni_half_expm1_f64(x));
}

/* With h = (e^a - 1) / 2 for a = |x|: sinh a = h + h / (2 h + 1), cosh a = (h + 1/2) + 1/4 / (h + 1/2). */
STNI_KERNEL_INLINE double stni_sinh_f64(double x)
{
    const double h = stni_half_expm1_f64(fabs(x)), value = h + h / STNI_FMA_F64(2.0, h, 1.0);
    return stni_near_0_f64(x, copysign(h > 0x1p1000 ? h : value, x));
}

STNI_KERNEL_INLINE double stni_cosh_f64(double x)
{
    const double w = stni_half_expm1_f64(fabs(x)) + 0.5;
    return w + 0.25 / w;
}

/* tanh a = -h / (1 + h), h = (e^-2a - 1) / 2. */
STNI_KERNEL_INLINE double stni_tanh_f64(double x)
{
    const double h = stni_half_expm1_f64(-2.0 * fabs(x));
    return stni_near_0_f64(x, copysign(h / (1.0 + h), x));
}

/* log(large + small) of two of which one is the root of `square`, rounded, and what rounding took from the sum and the
 * root is made up for; log 2 large where the other one adds nothing. */
STNI_KERNEL_INLINE double stni_log_with_root_f64(double large, double small, double root, double square)
{
    const int alone = large > 0x1p28;
    const double sum = large + small, twice = 2.0 * root, rest = small - (sum - large);
    const double missing = STNI_FMA_F64(rest, twice, STNI_FMA_F64(-root, root, square)) / (twice * sum);
    const double w = alone ? large : sum;
    double k, m = stni_mantissa_f64(w, &k);
    k = alone ? k + 1.0 : k;
    const double value = stni_log_mantissa_f64(m, STNI_FMA_F64(k, 5.4979230187083712e-14, alone ? 0.0 : missing));
    return stni_log_ends_f64(w, STNI_FMA_F64(k, 0x1.62e42fefa3800p-1, value));
}

/* asinh a = a + a^3 P(a^2) for a <= 1/2. */
STNI_KERNEL_INLINE double stni_asinh_f64(double x)
{
    const double a = fabs(x), z = a * a, square = STNI_FMA_F64(a, a, 1.0), root = a > 0x1p28 ? a : sqrt(square);
    double p = 0.0017180779515298516;
    STNI_TERM_F64(p, z, -0.0047475060367005969);
    STNI_TERM_F64(p, z, 0.0074655969232054857);
    STNI_TERM_F64(p, z, -0.0095341417483680007);
    STNI_TERM_F64(p, z, 0.011512983893616813);
    STNI_TERM_F64(p, z, -0.013960232220153612);
    STNI_TERM_F64(p, z, 0.017352386950542125);
    STNI_TERM_F64(p, z, -0.022372138357957139);
    STNI_TERM_F64(p, z, 0.030381943716387798);
    STNI_TERM_F64(p, z, -0.044642857127831746);
    STNI_TERM_F64(p, z, 0.074999999999844177);
    STNI_TERM_F64(p, z, -0.1666666666666661);
    const double near = STNI_FMA_F64(p * z, a, a), far = stni_log_with_root_f64(root, a, root, square);
    return copysign(a < 0.5 ? near : far, x);
}

/* With t = x - 1, acosh x = sqrt(2t) (1 + t P(t)) for t <= 1/2. */
STNI_KERNEL_INLINE double stni_acosh_f64(double x)
{
    const double t = x - 1.0, first = sqrt(2.0 * t), square = STNI_FMA_F64(x, x, -1.0), root = sqrt(square);
    double p = 4.1945262488521767e-07;
    STNI_TERM_F64(p, t, -2.3181181819827133e-06);
    STNI_TERM_F64(p, t, 7.2906219953178571e-06);
    STNI_TERM_F64(p, t, -1.8621370602281251e-05);
    STNI_TERM_F64(p, t, 4.4972593334440677e-05);
    STNI_TERM_F64(p, t, -0.00010906431421995009);
    STNI_TERM_F64(p, t, 0.0002711310461022207);
    STNI_TERM_F64(p, t, -0.00069912932368616061);
    STNI_TERM_F64(p, t, 0.0018988714822742374);
    STNI_TERM_F64(p, t, -0.0055803571409789683);
    STNI_TERM_F64(p, t, 0.018749999999961044);
    STNI_TERM_F64(p, t, -0.083333333333333051);
    const double near = STNI_FMA_F64(p * t, first, first), far = stni_log_with_root_f64(x, root, root, square);
    return x < 1.5 ? near : far;
}

/* atanh a = a + a^3 P(a^2) for |a| <= 1/2. */
STNI_KERNEL_INLINE double stni_atanh_near_f64(double a)
{
    const double z = a * a;
    double p = 0.2247799468265323;
    STNI_TERM_F64(p, z, -0.15290068731383652);
    STNI_TERM_F64(p, z, 0.14493234142568881);
    STNI_TERM_F64(p, z, 0.01456291118238901);
    STNI_TERM_F64(p, z, 0.059824543169204498);
    STNI_TERM_F64(p, z, 0.057743873016834646);
    STNI_TERM_F64(p, z, 0.066779454410814565);
    STNI_TERM_F64(p, z, 0.076914946615472338);
    STNI_TERM_F64(p, z, 0.090909484907008342);
    STNI_TERM_F64(p, z, 0.1111110988843233);
    STNI_TERM_F64(p, z, 0.14285714308038369);
    STNI_TERM_F64(p, z, 0.19999999999795082);
    STNI_TERM_F64(p, z, 0.33333333333333992);
    return STNI_FMA_F64(p * z, a, a);
}

/* Beyond 1/2 log((1 + a) / (1 - a)) / 2, which is NaN beyond 1. */
STNI_KERNEL_INLINE double stni_atanh_f64(double x)
{
    const double a = fabs(x), near = stni_atanh_near_f64(a), far = 0.5 * stni_log_f64((1.0 + a) / (1.0 - a));
    return copysign(a < 0.5 ? near : far, x);
}

/* atan t for |t| <= tan(pi / 8). */
STNI_KERNEL_INLINE double stni_atan_near_f64(double t)
{
    const double z = t * t;
    double p = -0.017919316943153324;
    STNI_TERM_F64(p, z, 0.038075672557658001);
    STNI_TERM_F64(p, z, -0.050397436462107432);
    STNI_TERM_F64(p, z, 0.058479868730484698);
    STNI_TERM_F64(p, z, -0.06663117438093577);
    STNI_TERM_F64(p, z, 0.076920613859830081);
    STNI_TERM_F64(p, z, -0.090908978228279771);
    STNI_TERM_F64(p, z, 0.1111111078568351);
    STNI_TERM_F64(p, z, -0.14285714280239864);
    STNI_TERM_F64(p, z, 0.19999999999954002);
    STNI_TERM_F64(p, z, -0.33333333333333198);
    return STNI_FMA_F64(p * z, t, t);
}

/* The angle of y / x for 0 <= y, 0 < x, neither large nor small beyond their product with 2: of (y - x) / (y + x),
 * where that is nearer to 0, and pi / 4, or of -x / y and pi / 2, in two parts each. */
STNI_KERNEL_INLINE double stni_angle_f64(double y, double x)
{
    const double eighth = 0.41421356237309503;
    const int middle = y > eighth * x, upper = eighth * y > x;
    double up = middle ? y - x : y, down = middle ? y + x : x;
    up = upper ? -x : up;
    down = upper ? y : down;
    double high = middle ? 0.78539816339744828 : 0.0, low = middle ? 3.061616997868383e-17 : 0.0;
    high = upper ? 1.5707963267948966 : high;
    low = upper ? 6.123233995736766e-17 : low;
    return high + (low + stni_atan_near_f64(up / down));
}

STNI_KERNEL_INLINE double stni_atan_f64(double x)
{
    const double a = fabs(x), angle = stni_angle_f64(a > 0x1p1000 ? 0x1p1000 : a, 1.0);
    return copysign(x != x ? x : angle, x);
}

/* As stni_atan2_f32: the angle of the smaller coordinate over the larger, then by symmetry. */
STNI_KERNEL_INLINE double stni_atan2_f64(double y, double x)
{
    const double a = fabs(x), b = fabs(y), small = b < a ? b : a, large = b < a ? a : b;
    double t = small / (large == 0.0 ? 1.0 : large);
    t = small > DBL_MAX ? 1.0 : t;
    double angle = stni_angle_f64(t, 1.0);
    angle = b > a ? 1.5707963267948966 - (angle - 6.123233995736766e-17) : angle;
    angle = copysign(1.0, x) < 0.0 ? 3.1415926535897931 - (angle - 1.2246467991473532e-16) : angle;
    return ((x != x) | (y != y)) ? x + y : copysign(angle, y);
}

/* asin s for 0 <= s <= 1/2, z = s^2. */
STNI_KERNEL_INLINE double stni_asin_near_f64(double s, double z)
{
    double p = 0.032702318464921436;
    STNI_TERM_F64(p, z, -0.021117011324636392);
    STNI_TERM_F64(p, z, 0.021790886740079233);
    STNI_TERM_F64(p, z, 0.0036720711643056028);
    STNI_TERM_F64(p, z, 0.0107893559601125);
    STNI_TERM_F64(p, z, 0.011397285892430362);
    STNI_TERM_F64(p, z, 0.013981019541573927);
    STNI_TERM_F64(p, z, 0.017351595403793555);
    STNI_TERM_F64(p, z, 0.022372215912044881);
    STNI_TERM_F64(p, z, 0.030381942675029354);
    STNI_TERM_F64(p, z, 0.044642857175292143);
    STNI_TERM_F64(p, z, 0.074999999999700903);
    STNI_TERM_F64(p, z, 0.16666666666666763);
    return STNI_FMA_F64(s * z, p, s);
}

/* asin a for a <= 1/2, beyond it half of acos a: asin sqrt((1 - a) / 2), which is NaN beyond 1. */
STNI_KERNEL_INLINE double stni_asin_or_half_acos_f64(double a)
{
    const double half = 0.5 * (1.0 - a), root = sqrt(half);
    return stni_asin_near_f64(a > 0.5 ? root : a, a > 0.5 ? half : a * a);
}

STNI_KERNEL_INLINE double stni_asin_f64(double x)
{
    const double a = fabs(x), angle = stni_asin_or_half_acos_f64(a);
    return copysign(a > 0.5 ? 1.5707963267948966 - (2.0 * angle - 6.123233995736766e-17) : angle, x);
}

STNI_KERNEL_INLINE double stni_acos_f64(double x)
{
    const double a = fabs(x), angle = stni_asin_or_half_acos_f64(a), twice = 2.0 * angle;
    const double beyond = x < 0.0 ? 3.1415926535897931 - (twice - 1.2246467991473532e-16) : twice;
    return a > 0.5 ? beyond : 1.5707963267948966 - (copysign(angle, x) - 6.123233995736766e-17);
}

/* By a power of 2 so that no square overflows or loses digits; an infinite side has an infinite diagonal. */
STNI_KERNEL_INLINE double stni_hypot_f64(double x, double y)
{
    const double a = fabs(x), b = fabs(y), large = a > b ? a : b;
    double down = large > 0x1p500 ? 0x1p-600 : 1.0, up = large > 0x1p500 ? 0x1p600 : 1.0;
    down = large < 0x1p-450 ? 0x1p600 : down;
    up = large < 0x1p-450 ? 0x1p-600 : up;
    const double c = a * down, d = b * down, value = sqrt(STNI_FMA_F64(c, c, d * d)) * up;
    return ((a > DBL_MAX) | (b > DBL_MAX)) ? INFINITY : value;
}

/* Sine, cosine and tangent where |x| <= STNI_NEAR_F64. x = k pi / 2 + r, |r| <= pi / 4, with pi / 2 in four parts, of
 * three of which k times the part is exact. Where x is near a multiple of pi / 2 so are the differences, elsewhere
 * what they round off is added in the end. */
#define STNI_NEAR_F64 524288.0

STNI_KERNEL_INLINE double stni_reduce_near_f64(double x, uint64_t *quadrant)
{
    const double shifted = STNI_FMA_F64(x, 0.63661977236758138, STNI_NEAREST_F64), k = shifted - STNI_NEAREST_F64;
    memcpy(quadrant, &shifted, sizeof shifted);
    const double r = x - k * 0x1.921fb544p+0, second = k * 0x1.0b4611a6p-34, third = k * 0x1.3198a2e0p-69;
    const double r2 = r - second, r3 = r2 - third, rest = ((r - r2) - second) + ((r2 - r3) - third);
    return r3 + STNI_FMA_F64(k, -0x1.b839a252049c1p-104, rest);
}

/* In quadrant 0 the sine of r, in the others by symmetry; of the quadrant the last two bits count. */
STNI_KERNEL_INLINE double stni_sine_f64(double r, uint64_t quadrant)
{
    const double z = r * r;
    double s = 1.5896795552810856e-10;
    STNI_TERM_F64(s, z, -2.5050758113115238e-08);
    STNI_TERM_F64(s, z, 2.7557313691900131e-06);
    STNI_TERM_F64(s, z, -0.00019841269829807737);
    STNI_TERM_F64(s, z, 0.0083333333333224131);
    STNI_TERM_F64(s, z, -0.16666666666666632);
    s = STNI_FMA_F64(s * z, r, r);
    double c = -1.1359647902961221e-11;
    STNI_TERM_F64(c, z, 2.0875723275319916e-09);
    STNI_TERM_F64(c, z, -2.755731435234916e-07);
    STNI_TERM_F64(c, z, 2.4801587289482242e-05);
    STNI_TERM_F64(c, z, -0.0013888888888874125);
    STNI_TERM_F64(c, z, 0.041666666666666602);
    STNI_TERM_F64(c, z, -0.5);
    c = STNI_FMA_F64(c, z, 1.0);
    double value = quadrant & 1u ? c : s;
    return quadrant & 2u ? -value : value;
}

STNI_KERNEL_INLINE double stni_sin_near_f64(double x)
{
    uint64_t quadrant;
    const double r = stni_reduce_near_f64(x, &quadrant);
    return stni_near_0_f64(x, stni_sine_f64(r, quadrant));
}

STNI_KERNEL_INLINE double stni_cos_near_f64(double x)
{
    uint64_t quadrant;
    const double r = stni_reduce_near_f64(x, &quadrant);
    return stni_sine_f64(r, quadrant + 1u);
}

STNI_KERNEL_INLINE double stni_tan_near_f64(double x)
{
    uint64_t quadrant;
    const double r = stni_reduce_near_f64(x, &quadrant);
    return stni_near_0_f64(x, stni_sine_f64(r, quadrant) / stni_sine_f64(r, quadrant + 1u));
}

/* erfc a for 0 <= a: e^(-a^2) / (1 + 2 a) times a polynomial in u = (a - 3) / (a + 3), to 2^-55. What rounding took
 * from a^2 the power makes up for. From 27.3 on it is 0. */
STNI_KERNEL_INLINE double stni_erfc_positive_f64(double a)
{
    a = a > 27.3 ? 27.3 : a;
    const double u = (a - 3.0) / (a + 3.0), square = a * a, rest = STNI_FMA_F64(a, a, -square);
    double p = -3.9484123770264076e-09;
    STNI_TERM_F64(p, u, -7.9018269530654259e-09);
    STNI_TERM_F64(p, u, 3.2408509168719978e-08);
    STNI_TERM_F64(p, u, 8.9897104850013452e-08);
    STNI_TERM_F64(p, u, -1.3106349778716621e-07);
    STNI_TERM_F64(p, u, -6.0224072393238735e-07);
    STNI_TERM_F64(p, u, 3.4965806928015986e-07);
    STNI_TERM_F64(p, u, 3.4618224421057727e-06);
    STNI_TERM_F64(p, u, -7.2838371653162762e-07);
    STNI_TERM_F64(p, u, -2.0095580731361013e-05);
    STNI_TERM_F64(p, u, 4.9485973773632048e-06);
    STNI_TERM_F64(p, u, 0.00012509783084318319);
    STNI_TERM_F64(p, u, -0.00010515963505370247);
    STNI_TERM_F64(p, u, -0.00077983197620233949);
    STNI_TERM_F64(p, u, 0.0018886903393040904);
    STNI_TERM_F64(p, u, 0.0025293917810676686);
    STNI_TERM_F64(p, u, -0.02377051491712872);
    STNI_TERM_F64(p, u, 0.068308027346272088);
    STNI_TERM_F64(p, u, -0.11927366341537483);
    STNI_TERM_F64(p, u, 0.12964515870269136);
    STNI_TERM_F64(p, u, -0.047562294353449504);
    STNI_TERM_F64(p, u, -0.13562110612458056);
    STNI_TERM_F64(p, u, 1.2530080582697296);
    const double value = stni_exp_negative_f64(-square) * (p / STNI_FMA_F64(2.0, a, 1.0));
    return STNI_FMA_F64(-rest, value, value);
}

/* erf x = x + x P(x^2) for |x| < 1/2. */
STNI_KERNEL_INLINE double stni_erf_near_f64(double x)
{
    const double z = STNI_FMA_F64(x, x, 0x1p-70);
    double p = 1.4723218347002227e-06;
    STNI_TERM_F64(p, z, -1.4845584050274768e-05);
    STNI_TERM_F64(p, z, 0.00012053324327039667);
    STNI_TERM_F64(p, z, -0.00085482975247013198);
    STNI_TERM_F64(p, z, 0.0052239773703303787);
    STNI_TERM_F64(p, z, -0.02686617063271609);
    STNI_TERM_F64(p, z, 0.11283791670924814);
    STNI_TERM_F64(p, z, -0.37612638903183465);
    STNI_TERM_F64(p, z, 0.12837916709551256);
    return STNI_FMA_F64(x, p, x);
}

STNI_KERNEL_INLINE double stni_erfc_f64(double x)
{
    const double a = fabs(x), near = 1.0 - stni_erf_near_f64(x), tail = stni_erfc_positive_f64(a);
    const double far = x < 0.0 ? 2.0 - tail : tail;
    return a < 0.5 ? near : far;
}

STNI_KERNEL_INLINE double stni_erf_f64(double x)
{
    const double a = fabs(x), near = stni_erf_near_f64(a), far = 1.0 - stni_erfc_positive_f64(a);
    return copysign(a < 0.5 ? near : far, x);
}

#else

#define STNI_NEAR_F64 DBL_MAX

STNI_KERNEL_INLINE double stni_log_f64(double x) { return log(x); }
STNI_KERNEL_INLINE double stni_log2_f64(double x) { return log2(x); }
STNI_KERNEL_INLINE double stni_log10_f64(double x) { return log10(x); }
STNI_KERNEL_INLINE double stni_log1p_f64(double x) { return log1p(x); }
STNI_KERNEL_INLINE double stni_exp2_f64(double x) { return exp2(x); }
STNI_KERNEL_INLINE double stni_expm1_f64(double x) { return expm1(x); }
STNI_KERNEL_INLINE double stni_sinh_f64(double x) { return sinh(x); }
STNI_KERNEL_INLINE double stni_cosh_f64(double x) { return cosh(x); }
STNI_KERNEL_INLINE double stni_tanh_f64(double x) { return tanh(x); }
STNI_KERNEL_INLINE double stni_asinh_f64(double x) { return asinh(x); }
STNI_KERNEL_INLINE double stni_acosh_f64(double x) { return acosh(x); }
STNI_KERNEL_INLINE double stni_atanh_f64(double x) { return atanh(x); }
STNI_KERNEL_INLINE double stni_atanh_near_f64(double x) { return atanh(x); }
STNI_KERNEL_INLINE double stni_atan_f64(double x) { return atan(x); }
STNI_KERNEL_INLINE double stni_atan2_f64(double y, double x) { return atan2(y, x); }
STNI_KERNEL_INLINE double stni_hypot_f64(double x, double y) { return hypot(x, y); }
STNI_KERNEL_INLINE double stni_asin_f64(double x) { return asin(x); }
STNI_KERNEL_INLINE double stni_acos_f64(double x) { return acos(x); }
STNI_KERNEL_INLINE double stni_erf_f64(double x) { return erf(x); }
STNI_KERNEL_INLINE double stni_erfc_f64(double x) { return erfc(x); }
STNI_KERNEL_INLINE double stni_sin_near_f64(double x) { return sin(x); }
STNI_KERNEL_INLINE double stni_cos_near_f64(double x) { return cos(x); }
STNI_KERNEL_INLINE double stni_tan_near_f64(double x) { return tan(x); }

#endif

/* As stni_logit_f32. */
STNI_KERNEL_INLINE double stni_logit_f64(double x)
{
    const double a = 2.0 * x - 1.0, near = 2.0 * stni_atanh_near_f64(a), far = stni_log_f64(x / (1.0 - x));
    return fabs(a) < 0.5 ? near : far;
}

#endif
