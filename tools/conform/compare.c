/* Bounds by dtype. Sums in double: tensors of cases are small, and nothing expected is subnormal there. */
#include "compare.h"

#include "number.h"

#include <math.h>
#include <stdio.h>

/* Those of f32 are the conformance format's: 168 and 1,680 times the error of one rounding, 2^-24. f64 has 9,000 and
 * 90,000 times 2^-53. With 16 bits arithmetic is in f32, but every tensor between two ops is rounded, and every
 * rank's part of a pending sum, which may be larger than the sum: 8 and 16 roundings of 2^-8 (bf16) and 2^-11 (f16).
 * A single number has no others beside it among which that evens out. */
static const struct bound {
    double norm, max, norm_of_one;
} bounds[STN_DTYPE_COUNT] = {
    [STN_DTYPE_F32] = {1e-5, 1e-4, 1e-5},       [STN_DTYPE_C64] = {1e-5, 1e-4, 1e-5},
    [STN_DTYPE_F64] = {1e-12, 1e-11, 1e-12},    [STN_DTYPE_C128] = {1e-12, 1e-11, 1e-12},
    [STN_DTYPE_BF16] = {0x1p-5, 0x1p-4, 0x1p-4}, [STN_DTYPE_F16] = {0x1p-8, 0x1p-7, 0x1p-7},
};

static int64_t i64_at(const void *data, int64_t i) { return ((const int64_t *)data)[i]; }
static int64_t i32_at(const void *data, int64_t i) { return ((const int32_t *)data)[i]; }
static int64_t i8_at(const void *data, int64_t i) { return ((const int8_t *)data)[i]; }
static int64_t i16_at(const void *data, int64_t i) { return ((const int16_t *)data)[i]; }
static int64_t u8_at(const void *data, int64_t i) { return ((const uint8_t *)data)[i]; }

static int64_t (*const whole_at[STN_DTYPE_COUNT])(const void *data, int64_t i) = {
    [STN_DTYPE_I64] = i64_at, [STN_DTYPE_I32] = i32_at, [STN_DTYPE_U8] = u8_at, [STN_DTYPE_BOOL] = u8_at,
    [STN_DTYPE_I8] = i8_at,   [STN_DTYPE_I16] = i16_at};

static void differs(struct comparison *c, int64_t at)
{
    if (c->differing++ == 0)
        c->worst_at = at;
}

static void compare_real(struct comparison *c, int64_t at, double expected, double got)
{
    if (!isfinite(expected) || !isfinite(got)) {
        if (!(isnan(expected) && isnan(got)) && expected != got)
            differs(c, at);
        return;
    }
    double diff = fabs(got - expected);
    c->diff_norm += diff * diff;
    c->expected_norm += expected * expected;
    c->max_expected = fmax(c->max_expected, fabs(expected));
    if (diff > c->max_diff) {
        c->max_diff = diff;
        if (c->differing == 0)
            c->worst_at = at;
    }
}

struct comparison compare(stn_dtype dtype, int64_t numel, const void *expected, const void *got)
{
    struct comparison c = {.dtype = dtype, .exact = whole_at[dtype] != NULL, .is_one = numel == 1};
    const int parts = number_parts(dtype);
    c.known = c.exact || parts > 0;
    for (int64_t i = 0; i < numel * (c.exact ? 1 : parts); i++) {
        if (!c.exact)
            compare_real(&c, i / parts, number_at(dtype, expected, i), number_at(dtype, got, i));
        else if (whole_at[dtype](expected, i) != whole_at[dtype](got, i))
            differs(&c, i);
    }
    c.diff_norm = sqrt(c.diff_norm);
    c.expected_norm = sqrt(c.expected_norm);
    return c;
}

int comparison_holds(const struct comparison *c, char *reason, size_t size)
{
    if (!c->known) {
        snprintf(reason, size, "its dtype cannot be compared");
        return 0;
    }
    if (c->differing > 0) {
        snprintf(reason, size, "%lld elements differ, first element %lld", (long long)c->differing,
                 (long long)c->worst_at);
        return 0;
    }
    const struct bound *bound = &bounds[c->dtype];
    if (c->diff_norm <= (c->is_one ? bound->norm_of_one : bound->norm) * c->expected_norm &&
        c->max_diff <= bound->max * c->max_expected)
        return 1;
    snprintf(reason, size, "norm of difference %.3g of %.3g, largest %.3g of %.3g at element %lld", c->diff_norm,
             c->expected_norm, c->max_diff, c->max_expected, (long long)c->worst_at);
    return 0;
}

double comparison_error(const struct comparison *c)
{
    if (c->diff_norm == 0)
        return c->differing > 0 ? HUGE_VAL : 0;
    return c->expected_norm > 0 ? c->diff_norm / c->expected_norm : HUGE_VAL;
}
