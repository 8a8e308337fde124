/* The CPU's kernel of factories. */
#include "ops/factory/factory_value.h"

#include "core/base/dtype.h"

#include <string.h>

/* Cut towards 0; what i64 has not is its least, and narrower ones keep the low bits. */
static int64_t whole(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

static void put_f32(void *data, int64_t i, double v) { ((float *)data)[i] = (float)v; }
static void put_f64(void *data, int64_t i, double v) { ((double *)data)[i] = v; }
static void put_bf16(void *data, int64_t i, double v) { ((uint16_t *)data)[i] = stni_f32_to_bf16((float)v); }
static void put_f16(void *data, int64_t i, double v) { ((uint16_t *)data)[i] = stni_f32_to_f16((float)v); }
static void put_i64(void *data, int64_t i, double v) { ((int64_t *)data)[i] = whole(v); }
static void put_i32(void *data, int64_t i, double v) { ((int32_t *)data)[i] = (int32_t)whole(v); }
static void put_u8(void *data, int64_t i, double v) { ((uint8_t *)data)[i] = (uint8_t)whole(v); }
static void put_i8(void *data, int64_t i, double v) { ((int8_t *)data)[i] = (int8_t)whole(v); }
static void put_i16(void *data, int64_t i, double v) { ((int16_t *)data)[i] = (int16_t)whole(v); }
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
    static void (*const puts[STN_DTYPE_COUNT])(void *, int64_t, double) = {
        [STN_DTYPE_F32] = put_f32, [STN_DTYPE_F64] = put_f64, [STN_DTYPE_BF16] = put_bf16, [STN_DTYPE_F16] = put_f16,
        [STN_DTYPE_I64] = put_i64, [STN_DTYPE_I32] = put_i32, [STN_DTYPE_U8] = put_u8, [STN_DTYPE_BOOL] = put_bool,
        [STN_DTYPE_C64] = put_c64, [STN_DTYPE_C128] = put_c128, [STN_DTYPE_I8] = put_i8, [STN_DTYPE_I16] = put_i16};
    const struct stni_factory_args *a = raw;
    struct stni_factory_words words = {0};
    int64_t rows = 1, last = a->dst.ndim - 1, n = last >= 0 ? a->dst.shape[last] : 1,
            step = last >= 0 ? a->dst.strides[last] : 1;
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
            puts[a->dtype](a->dst.data, at + i * step, stni_factory_element(a, &words, place + i));
        if (repeats)
            repeat_first((char *)a->dst.data + (size_t)at * stn_dtype_size(a->dtype), stn_dtype_size(a->dtype),
                         (size_t)n);
    }
    return STN_OK;
}
