/* 16-bit floats by their definition (IEEE 754-2019, 3.4), slowly: fields of sign, exponent and fraction. */
#include "number.h"

#include <math.h>
#include <string.h>

struct half {
    int fraction, bias; /* bits; of the exponent */
};

static const struct half halves[STN_DTYPE_COUNT] = {[STN_DTYPE_BF16] = {7, 127}, [STN_DTYPE_F16] = {10, 15}};

static double half_value(const struct half *h, uint16_t bits)
{
    const int exponent = (bits & 0x7fff) >> h->fraction, fraction = bits & ((1 << h->fraction) - 1);
    double x;
    if (exponent == 2 * h->bias + 1)
        x = fraction ? NAN : HUGE_VAL;
    else if (exponent == 0)
        x = ldexp(fraction, 1 - h->bias - h->fraction);
    else
        x = ldexp(fraction + (1 << h->fraction), exponent - h->bias - h->fraction);
    return bits >> 15 ? -x : x;
}

/* The magnitudes of a sign follow each other as their bits do, so that rounding up a fraction of ones carries into
 * the exponent. */
static uint16_t half_bits(const struct half *h, double x)
{
    const unsigned sign = signbit(x) ? 0x8000 : 0, infinity = (unsigned)(2 * h->bias + 1) << h->fraction;
    unsigned bits;
    if (isnan(x))
        bits = infinity | 1u << (h->fraction - 1);
    else if (isinf(x) || fabs(x) >= ldexp(2, h->bias))
        bits = infinity;
    else if (fabs(x) < ldexp(1, 1 - h->bias))
        bits = (unsigned)nearbyint(ldexp(fabs(x), h->bias - 1 + h->fraction));
    else {
        const int e = ilogb(x);
        bits = (unsigned)(e + h->bias - 1) << h->fraction;
        bits += (unsigned)nearbyint(ldexp(fabs(x), h->fraction - e));
    }
    return (uint16_t)(sign | bits);
}

int number_parts(stn_dtype dtype)
{
    return !stn_dtype_is_differentiable(dtype) ? 0 : dtype == STN_DTYPE_C64 || dtype == STN_DTYPE_C128 ? 2 : 1;
}

double number_at(stn_dtype dtype, const void *data, int64_t i)
{
    uint16_t bits;
    if (dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_C64)
        return ((const float *)data)[i];
    if (dtype == STN_DTYPE_F64 || dtype == STN_DTYPE_C128)
        return ((const double *)data)[i];
    memcpy(&bits, (const char *)data + 2 * i, sizeof bits);
    return half_value(&halves[dtype], bits);
}

void number_put(stn_dtype dtype, void *data, int64_t i, double x)
{
    if (dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_C64) {
        ((float *)data)[i] = (float)x;
    } else if (dtype == STN_DTYPE_F64 || dtype == STN_DTYPE_C128) {
        ((double *)data)[i] = x;
    } else {
        const uint16_t bits = half_bits(&halves[dtype], x);
        memcpy((char *)data + 2 * i, &bits, sizeof bits);
    }
}

double number_round(stn_dtype dtype, double x)
{
    double stored[2];
    number_put(dtype, stored, 0, x);
    return number_at(dtype, stored, 0);
}
