/* Convolutions whose pads differ, as cuDNN can be asked for them: without pads in the dims where it is so, on a copy of
 * x that has these as zeros, or from which x is taken where it is the result. Where a pad is less than zero the copy
 * lacks elements at that end, which no tap reads. */
#ifndef STNI_OPS_CONV_CONV_FRAME_CUH
#define STNI_OPS_CONV_CONV_FRAME_CUH

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "ops/conv/conv_kernel.h"
#include "ops/cuda/cudnn.h"

namespace {

enum { FRAME_THREADS = 256, DIMS = STNI_CONV_MAX_DIMS };

/* Place along each dim of an index into dims of these sizes. */
STNI_DEVICE void places_of(int64_t index, const int64_t (&size)[DIMS], int64_t (&at)[DIMS])
{
    for (int d = DIMS - 1; d >= 0; d--) {
        at[d] = index % size[d];
        index /= size[d];
    }
}

/* x or its copy: pixels of `units` units, samples one behind the other. A sample is all channels of one, or where they
 * are row-major one channel of it. */
struct frame_side {
    int64_t size[DIMS], pixels;
    int64_t begin[DIMS]; /* place of the first pixel, counted from that of the other side */
};

struct frame_copy {
    frame_side to, from;
    int64_t samples, units;
};

/* The pixel of `from` that is at a pixel of `to`; -1: there is none. */
STNI_DEVICE int64_t pixel_across(const frame_copy &c, int64_t pixel)
{
    int64_t at[DIMS], result = 0;
    places_of(pixel, c.to.size, at);
    for (int d = 0; d < DIMS; d++) {
        const int64_t place = at[d] + c.to.begin[d];
        if (place < 0 || place >= c.from.size[d])
            return -1;
        result = result * c.from.size[d] + place;
    }
    return result;
}

template <class W> __global__ void __launch_bounds__(FRAME_THREADS)
copy_frame(const __grid_constant__ frame_copy c, W *to, const W *from)
{
    const int64_t i = (int64_t)blockIdx.x * FRAME_THREADS + threadIdx.x;
    const int64_t unit = i % c.units, pixel = i / c.units % c.to.pixels, sample = i / c.units / c.to.pixels;
    if (sample >= c.samples)
        return;
    const int64_t across = pixel_across(c, pixel);
    W value = W();
    if (across >= 0)
        value = from[(sample * c.from.pixels + across) * c.units + unit];
    to[(sample * c.to.pixels + pixel) * c.units + unit] = value;
}

/* Bytes of an element of a dtype that cuDNN has. */
inline int64_t element_bytes(int32_t dtype)
{
    return dtype == STN_DTYPE_F64 ? 8 : dtype == STN_DTYPE_F32 ? 4 : 2;
}

/* A problem in its frame. Without one, `args` are those given and bytes is 0. */
struct framed {
    stni_conv_args args;
    size_t bytes; /* of the copy, which begins the workspace */
};

/* Whether x has elements that its frame lacks. */
inline bool exceeds_frame(const stni_conv_problem &p)
{
    for (int d = 0; d < p.dims; d++)
        if (!stni_cudnn_pads_agree(&p, d) && (p.pad_low[d] < 0 || p.pad_high[d] < 0))
            return true;
    return false;
}

/* Where the workspace is not there yet, addresses are as if it began at 0. */
inline framed framed_of(const stni_conv_args &given)
{
    framed f = {given, 0};
    stni_conv_problem &p = f.args.problem;
    int64_t elements = p.n * p.c;
    if (stni_conv_reaches_far(&p) || !stni_cudnn_frame(&p))
        return f;
    for (int d = 0; d < p.dims; d++)
        elements *= p.in[d];
    const int64_t bytes = elements * element_bytes(p.dtype);
    f.bytes = aligned_bytes((size_t)bytes);
    f.args.data.x = aligned(given.workspace);
    f.args.workspace = static_cast<char *>(f.args.data.x) + f.bytes;
    return f;
}

inline frame_side side_of(const stni_conv_args &a)
{
    frame_side s;
    memset(&s, 0, sizeof s);
    s.pixels = 1;
    for (int d = 0; d < DIMS; d++)
        s.pixels *= s.size[d] = d < a.problem.dims ? a.problem.in[d] : 1;
    return s;
}

/* Between x and the copy, in the widest units that addresses and sizes allow. */
inline void launch_frame(const stni_conv_args &to, const stni_conv_args &from, const int64_t (&begin)[DIMS],
                         cudaStream_t stream)
{
    const stni_conv_problem &p = to.problem;
    const int64_t size = element_bytes(p.dtype);
    const int64_t samples = p.row_major ? p.n * p.c : p.n, elements = p.row_major ? 1 : p.c; /* of a pixel */
    const uint64_t bits = (uint64_t)(uintptr_t)to.data.x | (uint64_t)(uintptr_t)from.data.x |
                          (uint64_t)(elements * size) | sizeof(unit16);
    const int64_t unit = (int64_t)(bits & (0 - bits)), per_unit = unit > size ? unit / size : 1;
    frame_copy c = {side_of(to), side_of(from), samples, elements / per_unit};
    memcpy(c.to.begin, begin, sizeof begin);
    dispatch_unit((size_t)(unit > size ? unit : size), [&](auto w) {
        typedef decltype(w) W;
        STNI_LAUNCH(copy_frame<W>, blocks_for(c.samples * c.to.pixels * c.units, FRAME_THREADS), FRAME_THREADS, stream,
                    c, static_cast<W *>(to.data.x), static_cast<const W *>(from.data.x));
    });
}

/* Where `inner` begins, counted from the frame's first pixel. */
inline void frame_begin(const stni_conv_args &inner, int sign, int64_t (&begin)[DIMS])
{
    for (int d = 0; d < DIMS; d++)
        begin[d] =
            d < inner.problem.dims && !stni_cudnn_pads_agree(&inner.problem, d) ? sign * inner.problem.pad_low[d] : 0;
}

inline void launch_into_frame(const stni_conv_args &inner, const framed &f, cudaStream_t stream)
{
    int64_t begin[DIMS];
    frame_begin(inner, -1, begin);
    launch_frame(f.args, inner, begin, stream);
}

inline void launch_out_of_frame(const stni_conv_args &inner, const framed &f, cudaStream_t stream)
{
    int64_t begin[DIMS];
    frame_begin(inner, 1, begin);
    launch_frame(inner, f.args, begin, stream);
}

}

#endif
