/* Sums without rounding, for C, C++ and CUDA compilers: a sum is a fixed-point number that has room for every value
 * of its dtype, in digits of 32 bits. Adding to it is adding integers, whose order changes nothing. Source: Kulisch
 * 1971 and 2013, the long accumulator; Collange, Defour, Graillat and Iakymchuk 2015 for digits with room for
 * carries. */
#ifndef STNI_CORE_BOX_EXACT_H
#define STNI_CORE_BOX_EXACT_H

#include "core/base/inline.h"

#include <shardtensor/dtype.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Digit k of a sum stands for digit 2^(32 k) units; a unit is the smallest number above 0. The last digits are room
 * for 2^64 of the largest. Behind them are three counts: of NaN, of infinity, of -infinity. Digits are signed and
 * take 2^30 additions before they must be carried. */
enum {
    STNI_EXACT_DIGITS_F32 = 11, STNI_EXACT_UNIT_F32 = -149,
    STNI_EXACT_DIGITS_F64 = 68, STNI_EXACT_UNIT_F64 = -1074,
    STNI_EXACT_COUNTS = 3,
    STNI_EXACT_BEFORE_CARRY = 1 << 30
};

/* 16-bit floats are added as f32. */
STNI_INLINE int stni_exact_digits(stn_dtype dtype)
{
    return dtype == STN_DTYPE_F64 ? STNI_EXACT_DIGITS_F64 : STNI_EXACT_DIGITS_F32;
}

STNI_INLINE int64_t stni_exact_words(stn_dtype dtype)
{
    return stni_exact_digits(dtype) + STNI_EXACT_COUNTS;
}

/* What a value adds: word[j] to digit at + j. */
struct stni_exact_addend {
    int at;
    int64_t word[3];
};

/* `mantissa` 2^shift units, shift >= 0, mantissa < 2^53. */
STNI_INLINE struct stni_exact_addend stni_exact_shifted(uint64_t mantissa, int shift, int negative)
{
    const int r = shift & 31;
    const uint64_t low = mantissa << r, high = r ? mantissa >> (64 - r) : 0;
    struct stni_exact_addend a = {shift >> 5, {(int64_t)(low & 0xffffffffu), (int64_t)(low >> 32), (int64_t)high}};
    for (int j = 0; negative && j < 3; j++)
        a.word[j] = -a.word[j];
    return a;
}

STNI_INLINE struct stni_exact_addend stni_exact_special(int digits, int is_nan, int negative)
{
    struct stni_exact_addend a = {digits + (is_nan ? 0 : negative ? 2 : 1), {1, 0, 0}};
    return a;
}

STNI_INLINE struct stni_exact_addend stni_exact_addend_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 52 & 0x7ff), negative = (int)(bits >> 63);
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 0x7ff)
        return stni_exact_special(STNI_EXACT_DIGITS_F64, fraction != 0, negative);
    return stni_exact_shifted(exponent ? fraction | UINT64_C(1) << 52 : fraction, exponent ? exponent - 1 : 0,
                              negative);
}

STNI_INLINE struct stni_exact_addend stni_exact_addend_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 23 & 0xff), negative = (int)(bits >> 31);
    const uint32_t fraction = bits & ((1u << 23) - 1);
    if (exponent == 0xff)
        return stni_exact_special(STNI_EXACT_DIGITS_F32, fraction != 0, negative);
    return stni_exact_shifted(exponent ? fraction | 1u << 23 : fraction, exponent ? exponent - 1 : 0, negative);
}

/* Brings all digits but the last to 0 <= digit < 2^32: of one number there is one such form. */
STNI_INLINE void stni_exact_carry(int64_t *digit, int n)
{
    for (int k = 0; k + 1 < n; k++) {
        const int64_t low = digit[k] & 0xffffffff, carry = (digit[k] - low) / ((int64_t)1 << 32);
        digit[k] = low;
        digit[k + 1] += carry;
    }
}

/* The 64 bits from `top` downwards, of digits that are carried and not below 0; *rest is whether any lower bit is
 * set. */
STNI_INLINE uint64_t stni_exact_window(const int64_t *digit, int top, int *rest)
{
    uint64_t bits = 0;
    for (int b = 0; b < 64 && b <= top; b++)
        bits |= (uint64_t)(digit[(top - b) >> 5] >> ((top - b) & 31) & 1) << (63 - b);
    *rest = 0;
    for (int b = top - 64; b >= 0 && !*rest; b--)
        *rest = (int)(digit[b >> 5] >> (b & 31) & 1);
    return bits;
}

STNI_INLINE int stni_exact_top(const int64_t *digit, int n)
{
    for (int b = 32 * n - 1; b >= 0; b--)
        if (digit[b >> 5] >> (b & 31) & 1)
            return b;
    return -1;
}

/* The nearest number of `precision` bits, ties to even; below the smallest normal one there are fewer. Changes the
 * digits. */
STNI_INLINE double stni_exact_rounded(int64_t *digit, int n, int unit, int precision)
{
    int rest;
    stni_exact_carry(digit, n);
    const int negative = digit[n - 1] < 0;
    for (int k = 0; negative && k < n; k++)
        digit[k] = -digit[k];
    stni_exact_carry(digit, n);
    const int top = stni_exact_top(digit, n);
    if (top < 0)
        return 0;
    const int bits = top + 1 < precision ? top + 1 : precision; /* units are the smallest numbers */
    const uint64_t window = stni_exact_window(digit, top, &rest);
    const uint64_t half = UINT64_C(1) << (63 - bits), below = window & (2 * half - 1);
    uint64_t kept = window >> (64 - bits);
    kept += below > half || (below == half && (rest || (kept & 1)));
    const double value = ldexp((double)kept, top + 1 - bits + unit);
    return negative ? -value : value;
}

/* The value of a sum, whose words are changed. */
STNI_INLINE double stni_exact_value(int64_t *sum, stn_dtype dtype)
{
    const int n = stni_exact_digits(dtype);
    const int64_t nans = sum[n], above = sum[n + 1], below = sum[n + 2];
    if (nans || (above && below))
        return NAN;
    if (above || below)
        return above ? INFINITY : -INFINITY;
    return dtype == STN_DTYPE_F64 ? stni_exact_rounded(sum, n, STNI_EXACT_UNIT_F64, 53)
                                  : stni_exact_rounded(sum, n, STNI_EXACT_UNIT_F32, 24);
}

#endif
