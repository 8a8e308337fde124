/* Filling pieces of tensors with random numbers: the last dim runs through blocks of four words, the others only say where. */
#include "core/box/rng.h"

#include "core/base/dtype.h"

#include <assert.h>

typedef void (*put_fn)(void *at, const uint32_t *words);

static void put_f32(void *at, float value)
{
    memcpy(at, &value, sizeof value);
}

static void put_f64(void *at, double value)
{
    memcpy(at, &value, sizeof value);
}

static void put_16(void *at, uint16_t value)
{
    memcpy(at, &value, sizeof value);
}

static void uniform_f32(void *at, const uint32_t *words) { put_f32(at, stni_rng_uniform(words[0], 24)); }
static void uniform_f64(void *at, const uint32_t *words) { put_f64(at, stni_rng_uniform64(words[0], words[1])); }
static void uniform_bf16(void *at, const uint32_t *words) { put_16(at, stni_f32_to_bf16(stni_rng_uniform(words[0], 8))); }
static void uniform_f16(void *at, const uint32_t *words) { put_16(at, stni_f32_to_f16(stni_rng_uniform(words[0], 11))); }
static void normal_f32(void *at, const uint32_t *words) { put_f32(at, stni_rng_normal(words[0])); }
static void normal_f64(void *at, const uint32_t *words) { put_f64(at, stni_rng_normal64(words[0], words[1])); }
static void normal_bf16(void *at, const uint32_t *words) { put_16(at, stni_f32_to_bf16(stni_rng_normal(words[0]))); }
static void normal_f16(void *at, const uint32_t *words) { put_16(at, stni_f32_to_f16(stni_rng_normal(words[0]))); }

static const put_fn puts_by_kind[2][4] = {
    [STNI_RNG_UNIFORM] = {[STN_DTYPE_F32] = uniform_f32, [STN_DTYPE_F64] = uniform_f64, [STN_DTYPE_BF16] = uniform_bf16,
                          [STN_DTYPE_F16] = uniform_f16},
    [STNI_RNG_NORMAL] = {[STN_DTYPE_F32] = normal_f32, [STN_DTYPE_F64] = normal_f64, [STN_DTYPE_BF16] = normal_bf16,
                         [STN_DTYPE_F16] = normal_f16},
};

/* `n` elements whose global indices begin at `index`; `step` bytes apart. */
static void fill_run(const struct stni_rng_fill *fill, put_fn put, char *at, int64_t step, uint64_t index, int64_t n)
{
    int words = fill->dtype == STN_DTYPE_F64 ? 2 : 1;
    uint64_t per_block = (uint64_t)(4 / words);
    for (int64_t i = 0; i < n;) {
        struct stni_philox block = stni_rng_block(fill->seed, fill->stream, (index + (uint64_t)i) / per_block);
        for (uint64_t lane = (index + (uint64_t)i) % per_block; lane < per_block && i < n; lane++, i++)
            put(at + i * step, block.v + lane * (uint64_t)words);
    }
}

void stni_rng_fill_now(const stn_box *dst, const struct stni_rng_fill *fill)
{
    assert(stni_dtype_is_floating(fill->dtype));
    int64_t size = (int64_t)stn_dtype_size(fill->dtype), rows = 1, last = dst->ndim - 1;
    int64_t n = dst->ndim > 0 ? dst->shape[last] : 1, step = dst->ndim > 0 ? dst->strides[last] * size : size;
    put_fn put = puts_by_kind[fill->kind][fill->dtype];
    for (int64_t d = 0; d < last; d++)
        rows *= dst->shape[d];
    for (int64_t row = 0; row < rows && n > 0; row++) {
        int64_t rest = row, offset = 0, place = dst->ndim > 0 ? fill->offset[last] : 0, below = dst->ndim > 0 ? fill->global_shape[last] : 1;
        for (int64_t d = last - 1; d >= 0; d--) {
            int64_t i = rest % dst->shape[d];
            rest /= dst->shape[d];
            offset += i * dst->strides[d];
            place += (fill->offset[d] + i) * below;
            below *= fill->global_shape[d];
        }
        fill_run(fill, put, (char *)dst->data + offset * size, step, (uint64_t)place, n);
    }
}
