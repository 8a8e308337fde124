/* Keys: numbers of every dtype as whole numbers in the same order.
 *
 * An IEEE number's bits, read as a whole number, grow with its magnitude: with all bits inverted where the number is negative, and only the sign bit
 * inverted where it is not, they grow with the number. The key of -inf is then above 0 and that of +inf below all ones, so that both ends are free
 * for NaN. */
#include "ops/sort/sort_line.h"

#include <string.h>

struct key_rule {
    uint64_t nan, flip; /* the key of NaN before it is flipped */
};

static inline uint64_t key_f32(float v, uint64_t nan)
{
    uint32_t u;
    v = v == 0 ? 0 : v;
    memcpy(&u, &v, sizeof u);
    return v != v ? (uint32_t)nan : u ^ (u >> 31 ? UINT32_MAX : (uint32_t)1 << 31);
}

static inline uint64_t key_f64(double v, uint64_t nan)
{
    uint64_t u;
    v = v == 0 ? 0 : v;
    memcpy(&u, &v, sizeof u);
    return v != v ? nan : u ^ (u >> 63 ? UINT64_MAX : (uint64_t)1 << 63);
}

static inline uint64_t key_i64(int64_t v, uint64_t nan)
{
    (void)nan;
    return (uint64_t)v ^ (uint64_t)1 << 63;
}

static inline uint64_t key_i32(int32_t v, uint64_t nan)
{
    (void)nan;
    return (uint32_t)v ^ (uint32_t)1 << 31;
}

static inline uint64_t key_u8(uint8_t v, uint64_t nan)
{
    (void)nan;
    return v;
}

#define KEY(v, nan) _Generic((v), float: key_f32, double: key_f64, int64_t: key_i64, int32_t: key_i32, uint8_t: key_u8)(v, nan)
#define TEMPLATE "ops/sort/sort_keys_tmpl.h"
#include "core/box/each_float.h"
#include "core/box/each_integer.h"

int stni_sort_key_bits(stn_dtype dtype)
{
    const size_t size = stn_dtype_size(dtype);
    return size == 8 ? 64 : size == 1 ? 8 : 32;
}

static struct key_rule rule_of(const struct stni_order *order)
{
    const uint64_t all = UINT64_MAX >> (64 - stni_sort_key_bits(order->dtype));
    const int last = order->nan_first ? order->descending : 1;
    return (struct key_rule){last ? all : 0, order->descending ? all : 0};
}

uint64_t stni_sort_nan(const struct stni_order *order)
{
    struct key_rule rule = rule_of(order);
    return rule.nan ^ rule.flip;
}

void stni_sort_keys(const struct stni_order *order, const void *x, int64_t stride, int64_t n, uint64_t *out)
{
    static void (*const by_dtype[STN_DTYPE_COUNT])(const struct key_rule *, const void *, int64_t, int64_t, uint64_t *) = {
        [STN_DTYPE_F32] = keys_f32, [STN_DTYPE_F64] = keys_f64, [STN_DTYPE_BF16] = keys_bf16, [STN_DTYPE_F16] = keys_f16,
        [STN_DTYPE_I64] = keys_i64, [STN_DTYPE_I32] = keys_i32, [STN_DTYPE_U8] = keys_u8,     [STN_DTYPE_BOOL] = keys_u8,
    };
    const struct key_rule rule = rule_of(order);
    by_dtype[order->dtype](&rule, x, stride, n, out);
}
