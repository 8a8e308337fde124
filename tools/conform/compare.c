/* The bounds of the conformance format. Sums in double: tensors of cases are small, and nothing expected is subnormal there. */
#include "compare.h"

#include <math.h>
#include <stdio.h>

static const double NORM_BOUND = 1e-5, MAX_BOUND = 1e-4;

static double f32_at(const void *data, int64_t i) { return ((const float *)data)[i]; }
static double f64_at(const void *data, int64_t i) { return ((const double *)data)[i]; }
static int64_t i64_at(const void *data, int64_t i) { return ((const int64_t *)data)[i]; }
static int64_t i32_at(const void *data, int64_t i) { return ((const int32_t *)data)[i]; }
static int64_t u8_at(const void *data, int64_t i) { return ((const uint8_t *)data)[i]; }

static const struct reader {
    int parts; /* numbers per element */
    double (*real)(const void *data, int64_t i);
    int64_t (*whole)(const void *data, int64_t i);
} readers[STN_DTYPE_COUNT] = {
    [STN_DTYPE_F32] = {1, f32_at, NULL},  [STN_DTYPE_F64] = {1, f64_at, NULL},  [STN_DTYPE_C64] = {2, f32_at, NULL},
    [STN_DTYPE_C128] = {2, f64_at, NULL}, [STN_DTYPE_I64] = {1, NULL, i64_at},  [STN_DTYPE_I32] = {1, NULL, i32_at},
    [STN_DTYPE_U8] = {1, NULL, u8_at},    [STN_DTYPE_BOOL] = {1, NULL, u8_at},
};

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
    struct comparison c = {0};
    const struct reader *reader = &readers[dtype];
    c.known = reader->parts > 0;
    c.exact = reader->whole != NULL;
    for (int64_t i = 0; i < numel * reader->parts; i++) {
        if (c.exact) {
            if (reader->whole(expected, i) != reader->whole(got, i))
                differs(&c, i);
        } else {
            compare_real(&c, i / reader->parts, reader->real(expected, i), reader->real(got, i));
        }
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
        snprintf(reason, size, "%lld elements differ, first element %lld", (long long)c->differing, (long long)c->worst_at);
        return 0;
    }
    if (c->diff_norm <= NORM_BOUND * c->expected_norm && c->max_diff <= MAX_BOUND * c->max_expected)
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
