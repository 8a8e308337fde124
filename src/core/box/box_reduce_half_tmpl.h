/* One way of combining for one 16-bit float. Included once per dtype and op, with NAME(x), LOAD and STORE of 16
 * elements (box_half.h), and OP on vectors.
 *
 * Elements are converted, combined and converted back in registers: separate passes for the conversions would take
 * longer than the memory accesses. */
#ifndef NAME /* read alone */
#include "core/box/box_half.h"
#define LOAD load_bf16
#define STORE store_bf16
#define NAME(x) x##_sum_bf16
#define OP vector_sum
#endif

static inline struct wide NAME(both)(struct wide x, struct wide y)
{
    return (struct wide){OP(x.a, y.a), OP(x.b, y.b)};
}

/* A division by 1 is left out where the loop is compiled for it. */
static inline struct wide NAME(ratio)(struct wide x, float divisor)
{
    return divisor == 1 ? x : (struct wide){x.a / divisor, x.b / divisor};
}

static void NAME(first)(void *acc, const void *a, const void *b, int64_t n)
{
    float *to = acc;
    const uint16_t *x = a, *y = b;
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        wide_put(to + i, NAME(both)(LOAD(x + i), LOAD(y + i)));
    if (i < n) {
        struct tail u = tail_of(x + i, n - i), v = tail_of(y + i, n - i);
        wide_put(to + i, NAME(both)(LOAD(u.v), LOAD(v.v)));
    }
}

static void NAME(next)(void *acc, const void *b, int64_t n)
{
    float *to = acc;
    const uint16_t *y = b;
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        wide_put(to + i, NAME(both)(wide_get(to + i), LOAD(y + i)));
    if (i < n) {
        struct tail v = tail_of(y + i, n - i);
        wide_put(to + i, NAME(both)(wide_get(to + i), LOAD(v.v)));
    }
}

static inline void NAME(last_by)(uint16_t *to, const float *from, const uint16_t *y, int64_t n, float divisor)
{
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        STORE(to + i, NAME(ratio)(NAME(both)(wide_get(from + i), LOAD(y + i)), divisor));
    if (i < n) {
        struct tail v = tail_of(y + i, n - i);
        STORE(v.v, NAME(ratio)(NAME(both)(wide_get(from + i), LOAD(v.v)), divisor));
        memcpy(to + i, v.v, (size_t)(n - i) * sizeof *to);
    }
}

static inline void NAME(pair_by)(uint16_t *to, const uint16_t *x, const uint16_t *y, int64_t n, float divisor)
{
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        STORE(to + i, NAME(ratio)(NAME(both)(LOAD(x + i), LOAD(y + i)), divisor));
    if (i < n) {
        struct tail u = tail_of(x + i, n - i), v = tail_of(y + i, n - i);
        STORE(u.v, NAME(ratio)(NAME(both)(LOAD(u.v), LOAD(v.v)), divisor));
        memcpy(to + i, u.v, (size_t)(n - i) * sizeof *to);
    }
}

static void NAME(last)(void *out, const void *acc, const void *b, int64_t n, int64_t divisor)
{
    if (divisor == 1)
        NAME(last_by)(out, acc, b, n, 1);
    else
        NAME(last_by)(out, acc, b, n, (float)divisor);
}

static void NAME(pair)(void *out, const void *a, const void *b, int64_t n, int64_t divisor)
{
    if (divisor == 1)
        NAME(pair_by)(out, a, b, n, 1);
    else
        NAME(pair_by)(out, a, b, n, (float)divisor);
}

#undef NAME
#undef OP
