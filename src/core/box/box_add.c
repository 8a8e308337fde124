/* dst += src where several elements of src may go to one of dst. */
#include "core/box/box_add.h"

#include "core/base/dtype.h"

struct stni_box_repeats stni_box_take_repeats(stn_box *dst, stn_box *src)
{
    struct stni_box_repeats r = {.count = 1};
    for (int d = 0; d < dst->ndim; d++) {
        if (dst->strides[d] != 0 || dst->shape[d] == 1)
            continue;
        r.shape[r.ndim] = dst->shape[d];
        r.strides[r.ndim++] = src->strides[d];
        r.count *= dst->shape[d];
        dst->shape[d] = src->shape[d] = 1;
    }
    return r;
}

int64_t stni_box_repeat_at(const struct stni_box_repeats *r, int64_t i)
{
    int64_t at = 0;
    for (int d = r->ndim - 1; d >= 0; i /= r->shape[d--])
        at += i % r->shape[d] * r->strides[d];
    return at;
}

static float widened(uint16_t half, stn_dtype dtype)
{
    return dtype == STN_DTYPE_BF16 ? stni_bf16_to_f32(half) : stni_f16_to_f32(half);
}

static uint16_t narrowed(float value, stn_dtype dtype)
{
    return dtype == STN_DTYPE_BF16 ? stni_f32_to_bf16(value) : stni_f32_to_f16(value);
}

/* A line of 16-bit floats, in pieces whose sums are kept in f32. */
static void add_line(int64_t n, uint16_t *dst, int64_t dst_step, const uint16_t *src, int64_t src_step,
                     const struct stni_box_repeats *r, stn_dtype dtype)
{
    enum { PIECE = 256 };
    float sum[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t some = n - at < PIECE ? n - at : PIECE;
        for (int64_t i = 0; i < some; i++)
            sum[i] = widened(dst[(at + i) * dst_step], dtype);
        for (int64_t k = 0; k < r->count; k++) {
            const uint16_t *from = src + at * src_step + stni_box_repeat_at(r, k);
            for (int64_t i = 0; i < some; i++)
                sum[i] += widened(from[i * src_step], dtype);
        }
        for (int64_t i = 0; i < some; i++)
            dst[(at + i) * dst_step] = narrowed(sum[i], dtype);
    }
}

/* Dims from `d` on but `line`. */
static void add_lines(const stn_box *dst, const stn_box *src, int d, int line, int64_t to, int64_t from,
                      const struct stni_box_repeats *r, stn_dtype dtype)
{
    d += d == line;
    if (d >= dst->ndim) {
        add_line(dst->shape[line], (uint16_t *)dst->data + to, dst->strides[line], (const uint16_t *)src->data + from,
                 src->strides[line], r, dtype);
        return;
    }
    for (int64_t i = 0; i < dst->shape[d]; i++)
        add_lines(dst, src, d + 1, line, to + i * dst->strides[d], from + i * src->strides[d], r, dtype);
}

/* The longest of the dims whose elements lie side by side, or else of all. */
static int line_of(const stn_box *dst)
{
    int line = 0;
    for (int d = 1; d < dst->ndim; d++) {
        const int is_dense = dst->strides[d] == 1, was_dense = dst->strides[line] == 1;
        if (is_dense > was_dense || (is_dense == was_dense && dst->shape[d] > dst->shape[line]))
            line = d;
    }
    return line;
}

void stni_box_add_now(enum stni_isa isa, const stn_box *dst, const stn_box *src, stn_dtype dtype)
{
    stn_box to = *dst, from = *src;
    const struct stni_box_repeats r = stni_box_take_repeats(&to, &from);
    if (r.count > 1 && (dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16)) {
        add_lines(&to, &from, 0, line_of(&to), 0, 0, &r, dtype);
        return;
    }
    for (int64_t i = 0; i < r.count; i++) {
        from.data = (char *)src->data + stni_box_repeat_at(&r, i) * (int64_t)stn_dtype_size(dtype);
        const stn_box addends[] = {to, from};
        stni_box_reduce_now(isa, 1, &to, 2, addends, dtype, STN_SUM);
    }
}
