/* The CPU's kernel of factories. */
#include "ops/factory/factory_kernel.h"

#include "core/base/dtype.h"
#include "core/box/rng.h"

#include <string.h>

/* The block of four words that was drawn last. */
struct words {
    uint64_t number;
    int drawn;
    struct stni_philox block;
};

/* The word that belongs to element `place`, or with `wide` the two: as stni_rng_fill_now deals them. */
static const uint32_t *draw(const struct stni_factory_args *a, struct words *w, int64_t place, unsigned wide)
{
    const uint64_t number = (uint64_t)place >> (2 - wide);
    if (!w->drawn || w->number != number) {
        w->block = stni_rng_block(a->seed, a->stream, number);
        w->number = number;
        w->drawn = 1;
    }
    return w->block.v + (((unsigned)place & (wide ? 1u : 3u)) << wide);
}

static double constant(const struct stni_factory_args *a, struct words *w, int64_t place)
{
    (void)w, (void)place;
    return a->a;
}

static double ramp(const struct stni_factory_args *a, struct words *w, int64_t place)
{
    (void)w;
    return a->a + a->b * (double)place;
}

/* From both ends, so that both are exact. */
static double line(const struct stni_factory_args *a, struct words *w, int64_t place)
{
    const int64_t last = a->shape[0] - 1;
    const double step = last > 0 ? (a->b - a->a) / (double)last : 0;
    (void)w;
    return 2 * place <= last ? a->a + step * (double)place : a->b - step * (double)(last - place);
}

static double diagonal(const struct stni_factory_args *a, struct words *w, int64_t place)
{
    (void)w;
    return place / a->shape[1] == place % a->shape[1];
}

/* As many bits as the dtype has, so that none rounds to 1. */
static double uniform(const struct stni_factory_args *a, struct words *w, int64_t place)
{
    const int bits = a->dtype == STN_DTYPE_BF16 ? 8 : a->dtype == STN_DTYPE_F16 ? 11 : 24;
    const uint32_t *v = draw(a, w, place, a->dtype == STN_DTYPE_F64);
    const double u = a->dtype == STN_DTYPE_F64 ? stni_rng_uniform64(v[0], v[1]) : (double)stni_rng_uniform(v[0], bits);
    return a->a + (a->b - a->a) * u;
}

static double normal(const struct stni_factory_args *a, struct words *w, int64_t place)
{
    const uint32_t *v = draw(a, w, place, a->dtype == STN_DTYPE_F64);
    return a->a + a->b * (a->dtype == STN_DTYPE_F64 ? stni_rng_normal64(v[0], v[1]) : (double)stni_rng_normal(v[0]));
}

/* The quantile of a uniform number between those of the ends. */
static double truncated(const struct stni_factory_args *a, struct words *w, int64_t place)
{
    const uint32_t *v = draw(a, w, place, a->dtype == STN_DTYPE_F64);
    const double u = a->dtype == STN_DTYPE_F64 ? stni_rng_uniform64(v[0], v[1]) + 0x1p-54 : ((double)v[0] + 0.5) * 0x1p-32;
    const double p = a->c + (a->d - a->c) * u;
    const double x = a->a + a->b * stni_rng_normal_quantile(p < 0x1p-60 ? 0x1p-60 : p > 1 - 0x1p-53 ? 1 - 0x1p-53 : p);
    return x < a->low ? a->low : x > a->high ? a->high : x;
}

/* The upper half of the product of 64 random bits and the number of choices. */
static double integer(const struct stni_factory_args *a, struct words *w, int64_t place)
{
    const uint32_t *v = draw(a, w, place, 1);
    const uint64_t bits = (uint64_t)v[1] << 32 | v[0], n = (uint64_t)(a->b - a->a);
    return a->a + (double)(uint64_t)((unsigned __int128)bits * n >> 64);
}

static void put_f32(void *data, int64_t i, double v) { ((float *)data)[i] = (float)v; }
static void put_f64(void *data, int64_t i, double v) { ((double *)data)[i] = v; }
static void put_bf16(void *data, int64_t i, double v) { ((uint16_t *)data)[i] = stni_f32_to_bf16((float)v); }
static void put_f16(void *data, int64_t i, double v) { ((uint16_t *)data)[i] = stni_f32_to_f16((float)v); }
static void put_i64(void *data, int64_t i, double v) { ((int64_t *)data)[i] = (int64_t)v; }
static void put_i32(void *data, int64_t i, double v) { ((int32_t *)data)[i] = (int32_t)v; }
static void put_u8(void *data, int64_t i, double v) { ((uint8_t *)data)[i] = (uint8_t)(int64_t)v; }
static void put_bool(void *data, int64_t i, double v) { ((uint8_t *)data)[i] = v != 0; }
static void put_c64(void *data, int64_t i, double v) { ((float _Complex *)data)[i] = (float)v; }
static void put_c128(void *data, int64_t i, double v) { ((double _Complex *)data)[i] = v; }

/* Doubles what is there until the row is full: a constant at the speed of memory. */
static void repeat_first(char *row, size_t element, size_t n)
{
    for (size_t done = 1; done < n; done *= 2)
        memcpy(row + done * element, row, (done < n - done ? done : n - done) * element);
}

stn_status stni_factory_cpu(stn_queue *queue, const void *raw)
{
    static double (*const values[STNI_FACTORY_VALUES])(const struct stni_factory_args *, struct words *, int64_t) = {
        [STNI_FACTORY_CONSTANT] = constant, [STNI_FACTORY_RAMP] = ramp,     [STNI_FACTORY_LINE] = line,
        [STNI_FACTORY_DIAGONAL] = diagonal, [STNI_FACTORY_UNIFORM] = uniform, [STNI_FACTORY_NORMAL] = normal,
        [STNI_FACTORY_TRUNCATED] = truncated, [STNI_FACTORY_INTEGER] = integer};
    static void (*const puts[STN_DTYPE_COUNT])(void *, int64_t, double) = {
        [STN_DTYPE_F32] = put_f32, [STN_DTYPE_F64] = put_f64, [STN_DTYPE_BF16] = put_bf16, [STN_DTYPE_F16] = put_f16,
        [STN_DTYPE_I64] = put_i64, [STN_DTYPE_I32] = put_i32, [STN_DTYPE_U8] = put_u8, [STN_DTYPE_BOOL] = put_bool,
        [STN_DTYPE_C64] = put_c64, [STN_DTYPE_C128] = put_c128};
    const struct stni_factory_args *a = raw;
    struct words words = {0};
    int64_t rows = 1, last = a->dst.ndim - 1, n = last >= 0 ? a->dst.shape[last] : 1, step = last >= 0 ? a->dst.strides[last] : 1;
    (void)queue;
    for (int64_t d = 0; d < last; d++)
        rows *= a->dst.shape[d];
    for (int64_t row = 0; row < rows; row++) {
        int64_t rest = row, at = 0, place = last >= 0 ? a->offset[last] : 0, below = last >= 0 ? a->shape[last] : 1;
        for (int64_t d = last - 1; d >= 0; d--) {
            int64_t i = rest % a->dst.shape[d];
            rest /= a->dst.shape[d];
            at += i * a->dst.strides[d];
            place += (a->offset[d] + i) * below;
            below *= a->shape[d];
        }
        const int repeats = a->value == STNI_FACTORY_CONSTANT && step == 1;
        for (int64_t i = 0; i < (repeats && n > 0 ? 1 : n); i++)
            puts[a->dtype](a->dst.data, at + i * step, values[a->value](a, &words, place + i));
        if (repeats)
            repeat_first((char *)a->dst.data + (size_t)at * stn_dtype_size(a->dtype), stn_dtype_size(a->dtype), (size_t)n);
    }
    return STN_OK;
}
