/* What cuFFT is asked for: how lines lie on both sides, and whether it reads and writes them there. */
#ifndef STNI_OPS_FFT_FFT_REQUEST_CUDA_CUH
#define STNI_OPS_FFT_FFT_REQUEST_CUDA_CUH

#include "core/device/cuda/kernel.cuh"
#include "ops/cuda/cufft.h"
#include "ops/fft/fft_moves_cuda.cuh"

namespace
{

enum {
    MOST_CALLS = 64,
    FEW_CALLS = 4,         /* more of them cost more than going through buffers, where that is by tiles on both sides */
    MOST_BYTES = 256 << 20 /* of buffers */
};

/* `calls` times the same number of transforms, of which the last call may have fewer. A side is where the tensor is,
 * or a dense buffer. */
struct request {
    stni_cufft_lines lines;      /* of a call */
    int64_t calls, last;         /* transforms of the last call */
    bool gathers, stores;        /* what is read, what is written are buffers' */
    int64_t call_in, call_out;   /* else: elements from call to call */
    size_t from_bytes, to_bytes; /* of these buffers; a complex transform in one buffer needs no other */
};

inline size_t real_bytes(const stni_fft_args &a)
{
    return a.real == STN_DTYPE_F64 ? sizeof(double) : sizeof(float);
}

/* Elements along the main dim. */
inline int64_t length_of(const stni_fft_args &a, bool is_in)
{
    const stni_transform_kind half = is_in ? STNI_TRANSFORM_RESTORE : STNI_TRANSFORM_HALVE;
    return a.kind == half ? a.n / 2 + 1 : a.n;
}

inline size_t element_bytes(const stni_fft_args &a, bool is_in)
{
    const stni_transform_kind real = is_in ? STNI_TRANSFORM_HALVE : STNI_TRANSFORM_RESTORE;
    return (a.kind == real ? 1 : 2) * real_bytes(a);
}

inline stni_cufft_lines lines_of_kind(const stni_fft_args &a)
{
    stni_cufft_lines lines;
    memset(&lines, 0, sizeof lines);
    lines.kind = a.kind == STNI_TRANSFORM_HALVE     ? STNI_CUFFT_HALVE
                 : a.kind == STNI_TRANSFORM_RESTORE ? STNI_CUFFT_RESTORE
                                                    : STNI_CUFFT_COMPLEX;
    lines.real = a.real;
    lines.dims = a.n_more + 1;
    for (int d = 0; d < a.n_more; d++)
        lines.n[d] = a.more[d].n;
    lines.n[a.n_more] = a.n;
    return lines;
}

/* A side where each transform is dense. */
inline stni_cufft_side dense_side(const stni_fft_args &a, bool is_in)
{
    stni_cufft_side side = {1, length_of(a, is_in), {0}};
    for (int d = 0; d < a.n_more; d++) {
        side.enclosing[d] = a.more[d].n;
        side.line *= a.more[d].n;
    }
    side.enclosing[a.n_more] = length_of(a, is_in);
    return side;
}

/* The side that the tensor is, but for the distance of transforms. Whether it is one: the dims lie inside each
 * other. */
inline bool set_tensor_side(const stni_fft_args &a, bool is_in, stni_cufft_side &side)
{
    side = dense_side(a, is_in);
    side.step = is_in ? a.step_in : a.step_out;
    int64_t inner = side.step;
    for (int d = a.n_more - 1; d >= 0; d--) {
        const int64_t step = is_in ? a.more[d].step_in : a.more[d].step_out, length = side.enclosing[d + 1];
        if (inner < 1 || step % inner != 0 || step / inner < length)
            return false;
        side.enclosing[d + 1] = step / inner;
        inner = step;
    }
    return side.step > 0;
}

/* cuFFT reads and writes reals in pairs. */
inline bool is_aligned(const stni_fft_args &a, const request &r, bool is_in)
{
    const stni_transform_kind real = is_in ? STNI_TRANSFORM_HALVE : STNI_TRANSFORM_RESTORE;
    const bool calls_are = a.kind != real || r.calls == 1 || (is_in ? r.call_in : r.call_out) % 2 == 0;
    return (uintptr_t)(is_in ? a.in : a.out) % (2 * real_bytes(a)) == 0 && calls_are;
}

/* How many calls for lines where they are are worth it. */
inline int64_t most_calls(const stni_fft_args &a)
{
    const bool tiles = are_side_by_side(a, a.strides_in, a.step_in) && are_side_by_side(a, a.strides_out, a.step_out);
    return a.n_more > 0 ? 1 : tiles ? FEW_CALLS : MOST_CALLS;
}

/* In place, lines lie alike on both sides. */
inline bool may_share(const stni_fft_args &a, const request &r)
{
    const stni_cufft_side &in = r.lines.in, &out = r.lines.out;
    const bool alike = in.step == out.step && in.line == out.line && r.call_in == r.call_out &&
                       memcmp(in.enclosing, out.enclosing, sizeof in.enclosing) == 0;
    return alike || a.in != a.out;
}

/* Where cuFFT can take lines where they are on both sides. It may overwrite halves that it restores, and does not
 * read reals as complex numbers. */
inline bool ask_directly(const stni_fft_args &a, request &r)
{
    operands<2> o = no_dims<2>();
    for (int d = 0; d < a.ndim; d++)
        add_dim(o, a.shape[d], {a.strides_in[d], a.strides_out[d]});
    const int last = o.ndim - 1;
    if (a.kind == STNI_TRANSFORM_RESTORE || a.real_in || o.ndim > 2 || !set_tensor_side(a, true, r.lines.in) ||
        !set_tensor_side(a, false, r.lines.out))
        return false;
    r.gathers = r.stores = false;
    r.calls = o.ndim == 2 ? o.shape[0] : 1;
    r.call_in = o.ndim == 2 ? o.stride[0][0] : 0;
    r.call_out = o.ndim == 2 ? o.stride[1][0] : 0;
    r.lines.count = r.last = last < 0 ? 1 : o.shape[last];
    if (last >= 0) {
        r.lines.in.line = o.stride[0][last];
        r.lines.out.line = o.stride[1][last];
    }
    return r.calls <= most_calls(a) && r.lines.in.line > 0 && r.lines.out.line > 0 && is_aligned(a, r, true) &&
           is_aligned(a, r, false) && may_share(a, r);
}

/* As many transforms a call as buffers hold; `in` and `out` are set. Calls of reals begin at pairs. */
inline void split_calls(const stni_fft_args &a, request &r)
{
    const int64_t all = lines_of(a);
    const size_t from = (size_t)dense_side(a, true).line * element_bytes(a, true),
                 to = r.stores && r.lines.kind != STNI_CUFFT_COMPLEX
                          ? (size_t)r.lines.out.line * element_bytes(a, false)
                          : 0;
    const int64_t fit = (int64_t)(MOST_BYTES / (from + to));
    r.lines.count = fit < 1 ? 1 : fit < all ? fit : all;
    if (r.lines.count < all && r.lines.count > 1)
        r.lines.count -= r.lines.count % 2;
    r.calls = (all + r.lines.count - 1) / r.lines.count;
    r.last = all - (r.calls - 1) * r.lines.count;
    r.call_out = r.lines.count * r.lines.out.line;
    r.from_bytes = aligned_bytes((size_t)r.lines.count * from);
    r.to_bytes = aligned_bytes((size_t)r.lines.count * to);
}

/* From a buffer to where the result is. */
inline bool ask_from_buffer(const stni_fft_args &a, request &r)
{
    operands<1> o = no_dims<1>();
    for (int d = 0; d < a.ndim; d++)
        add_dim(o, a.shape[d], {a.strides_out[d]});
    if (o.ndim > 1 || !set_tensor_side(a, false, r.lines.out))
        return false;
    r.gathers = true;
    r.stores = false;
    r.lines.in = dense_side(a, true);
    if (o.ndim == 1)
        r.lines.out.line = o.stride[0][0];
    if (r.lines.out.line < 1)
        return false;
    split_calls(a, r);
    return is_aligned(a, r, false);
}

inline void ask_by_buffers(const stni_fft_args &a, request &r)
{
    r.gathers = r.stores = true;
    r.lines.in = dense_side(a, true);
    r.lines.out = dense_side(a, false);
    split_calls(a, r);
}

/* There are lines. False where more dims are better transformed one after the other: cuFFT does not take them at once,
 * or neighbours along the main dim are apart, so that tiles serve lines that lie side by side. */
inline bool request_of(const stni_fft_args &a, request &r)
{
    memset(&r, 0, sizeof r);
    r.lines = lines_of_kind(a);
    if (a.n_more > 0 && (a.step_in != 1 || a.step_out != 1))
        return false;
    if (ask_directly(a, r) || ask_from_buffer(a, r))
        return true;
    if (a.n_more == 0)
        ask_by_buffers(a, r);
    return a.n_more == 0;
}

inline stni_cufft_lines lines_of_call(const request &r, int64_t call)
{
    stni_cufft_lines lines = r.lines;
    lines.count = call == r.calls - 1 ? r.last : r.lines.count;
    return lines;
}

/* Bytes of cuFFT's own scratch, which is behind the buffers. */
inline stn_status scratch_bytes(stn_queue *queue, const request &r, size_t *out)
{
    const stni_cufft_lines last = lines_of_call(r, r.calls - 1);
    size_t first = 0, other = 0;
    const stn_status status = stni_cufft_workspace(queue, &r.lines, &first);
    if (status != STN_OK)
        return status;
    if (r.last != r.lines.count && stni_cufft_workspace(queue, &last, &other) != STN_OK)
        return STN_ERR_UNSUPPORTED;
    *out = first > other ? first : other;
    return STN_OK;
}

}

#endif
