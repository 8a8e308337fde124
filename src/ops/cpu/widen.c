#include "ops/cpu/widen.h"

#include "core/base/dtype.h"

static void convert_line(int64_t n, void *to, stn_dtype to_dtype, int64_t to_step, const void *from,
                         stn_dtype from_dtype, int64_t from_step)
{
    const float *f = from;
    const uint16_t *h = from;
    float *wide = to;
    uint16_t *narrow = to;
    if (from_dtype == STN_DTYPE_BF16)
        for (int64_t i = 0; i < n; i++)
            wide[i * to_step] = stni_bf16_to_f32(h[i * from_step]);
    else if (from_dtype == STN_DTYPE_F16)
        for (int64_t i = 0; i < n; i++)
            wide[i * to_step] = stni_f16_to_f32(h[i * from_step]);
    else if (to_dtype == STN_DTYPE_BF16)
        for (int64_t i = 0; i < n; i++)
            narrow[i * to_step] = stni_f32_to_bf16(f[i * from_step]);
    else
        for (int64_t i = 0; i < n; i++)
            narrow[i * to_step] = stni_f32_to_f16(f[i * from_step]);
}

/* Dims from `d` on. The last one is the line; boxes put their fastest dim there. */
static void convert(const stn_box *dst, stn_dtype to, const stn_box *src, stn_dtype from, int d, char *to_data,
                    const char *from_data)
{
    if (d == dst->ndim - 1) {
        convert_line(dst->shape[d], to_data, to, dst->strides[d], from_data, from, src->strides[d]);
        return;
    }
    int64_t to_step = dst->strides[d] * (int64_t)stn_dtype_size(to),
            from_step = src->strides[d] * (int64_t)stn_dtype_size(from);
    for (int64_t i = 0; i < dst->shape[d]; i++)
        convert(dst, to, src, from, d + 1, to_data + i * to_step, from_data + i * from_step);
}

void stni_convert_box_now(const stn_box *dst, stn_dtype to, const stn_box *src, stn_dtype from)
{
    if (dst->ndim == 0)
        convert_line(1, dst->data, to, 0, src->data, from, 0);
    else
        convert(dst, to, src, from, 0, dst->data, src->data);
}
