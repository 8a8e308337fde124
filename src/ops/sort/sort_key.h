/* Keys: numbers of every dtype as whole numbers in the same order. For C, C++ and CUDA compilers.
 *
 * An IEEE number's bits, read as a whole number, grow with its magnitude: with all bits inverted where the number is
 * negative, and only the sign bit inverted where it is not, they grow with the number. The key of -inf is then above 0
 * and that of +inf below all ones, so that both ends are free for NaN. */
#ifndef STNI_OPS_SORT_SORT_KEY_H
#define STNI_OPS_SORT_SORT_KEY_H

#include "ops/sort/sort_kernel.h"

#include <string.h>

struct stni_sort_key_rule {
    uint64_t nan, flip; /* the key of NaN before it is flipped */
};

STNI_KERNEL_INLINE uint64_t stni_sort_key_f32(float v, uint64_t nan)
{
    uint32_t u;
    v = v == 0 ? 0 : v;
    memcpy(&u, &v, sizeof u);
    return v != v ? (uint32_t)nan : u ^ (u >> 31 ? UINT32_MAX : (uint32_t)1 << 31);
}

STNI_KERNEL_INLINE uint64_t stni_sort_key_f64(double v, uint64_t nan)
{
    uint64_t u;
    v = v == 0 ? 0 : v;
    memcpy(&u, &v, sizeof u);
    return v != v ? nan : u ^ (u >> 63 ? UINT64_MAX : (uint64_t)1 << 63);
}

STNI_KERNEL_INLINE uint64_t stni_sort_key_i64(int64_t v, uint64_t nan)
{
    (void)nan;
    return (uint64_t)v ^ (uint64_t)1 << 63;
}

STNI_KERNEL_INLINE uint64_t stni_sort_key_i32(int32_t v, uint64_t nan)
{
    (void)nan;
    return (uint32_t)v ^ (uint32_t)1 << 31;
}

STNI_KERNEL_INLINE uint64_t stni_sort_key_u8(uint8_t v, uint64_t nan)
{
    (void)nan;
    return v;
}

STNI_KERNEL_INLINE uint64_t stni_sort_key_i8(int8_t v, uint64_t nan)
{
    (void)nan;
    return (uint8_t)v ^ 0x80u;
}

/* Bits of a key that can differ: 8, 32 or 64. */
STNI_INLINE int stni_sort_key_bits(stn_dtype dtype)
{
    if (dtype == STN_DTYPE_F64 || dtype == STN_DTYPE_I64)
        return 64;
    return dtype == STN_DTYPE_U8 || dtype == STN_DTYPE_BOOL || dtype == STN_DTYPE_I8 ? 8 : 32;
}

STNI_INLINE struct stni_sort_key_rule stni_sort_rule_of(const struct stni_order *order)
{
    const uint64_t all = UINT64_MAX >> (64 - stni_sort_key_bits(order->dtype));
    const int last = order->nan_first ? order->descending : 1;
    const struct stni_sort_key_rule rule = {last ? all : 0, order->descending ? all : 0};
    return rule;
}

/* The key of NaN. */
STNI_INLINE uint64_t stni_sort_nan(const struct stni_order *order)
{
    const struct stni_sort_key_rule rule = stni_sort_rule_of(order);
    return rule.nan ^ rule.flip;
}

/* The bits behind the digit of a round, in the key or in the index. */
STNI_INLINE int stni_sort_digit_shift(const struct stni_sort_digits *digits, int round)
{
    return 8 * (round < digits->of_key ? digits->of_key - 1 - round : digits->of_key + digits->of_index - 1 - round);
}

/* The digit of an element that begins like the target, else -1. */
STNI_INLINE int stni_sort_digit_of(const struct stni_sort_digits *digits, int round, const struct stni_sort_target *t,
                                   uint64_t key, int64_t index)
{
    const int shift = stni_sort_digit_shift(digits, round), of_index = round >= digits->of_key;
    const uint64_t at = (of_index ? (uint64_t)index : key) >> shift;
    if (of_index ? key != t->key || at >> 8 != t->index : at >> 8 != t->key)
        return -1;
    return (int)(at & 255);
}

/* The target after a round, from how many elements have each of its digits. */
STNI_INLINE void stni_sort_digit_take(const struct stni_sort_digits *digits, int round, const int64_t *counts,
                                      struct stni_sort_target *t)
{
    uint64_t digit = 0;
    for (; digit < ORDER_DIGITS - 1 && t->place >= counts[digit]; digit++)
        t->place -= counts[digit];
    if (round < digits->of_key)
        t->key = t->key << 8 | digit;
    else
        t->index = t->index << 8 | digit;
}

/* Of a value of any type that is computed in. */
#define STNI_SORT_KEY(v, nan) \
    _Generic((v), float: stni_sort_key_f32, double: stni_sort_key_f64, int64_t: stni_sort_key_i64, int32_t: stni_sort_key_i32, \
             int16_t: stni_sort_key_i32, uint8_t: stni_sort_key_u8, int8_t: stni_sort_key_i8)(v, nan)

#endif
