/* Gradients by x of stride 1 as convolutions: of y with the weight turned round, input and output channels exchanged,
 *
 *     x[n, p, c] = sum over taps t and channels o of y[n, p - low + t * dilation, o] weight[o, c, taps - 1 - t],
 *
 * where low = (kernel - 1) * dilation - pad_low. cuDNN 9.19 has for gradients of f32 by x one engine that keeps to the
 * library's numbers, with tiles of 32 x 32, and for values several, with tiles of up to 256 x 64, which are nearly
 * twice as fast; of f64 its only one for gradients is the plainest that it has. */
#ifndef STNI_OPS_CONV_CONV_TURNED_CUH
#define STNI_OPS_CONV_CONV_TURNED_CUH

#include "core/device/cuda/dispatch.cuh"
#include "ops/conv/conv_frame.cuh"
#include "ops/conv/conv_kernel.h"

namespace {

enum { TURN_THREADS = 256 };

/* Bytes of the turned weight is 0 where a problem stays as it is. */
struct turned {
    stni_conv_args args;
    size_t bytes; /* of the turned weight, which begins the workspace */
};

/* Whether the formula serves: pads agree, and none reaches beyond what a window reads. Groups would be turned each by
 * itself; whether that pays was not seen. */
inline bool can_turn(const stni_conv_problem &p)
{
    bool can =
        p.kind == STNI_CONV_GRAD_INPUT && p.groups == 1 && (p.dtype == STN_DTYPE_F32 || p.dtype == STN_DTYPE_F64);
    for (int d = 0; d < p.dims; d++)
        can = can && p.stride[d] == 1 && p.pad_low[d] == p.pad_high[d] && p.pad_low[d] >= 0 &&
              p.pad_low[d] <= (p.kernel[d] - 1) * p.dilation[d];
    return can;
}

inline int64_t taps_of(const stni_conv_problem &p)
{
    int64_t taps = 1;
    for (int d = 0; d < p.dims; d++)
        taps *= p.kernel[d];
    return taps;
}

/* Where the workspace is not there yet, addresses are as if it began at 0. */
inline turned turned_of(const stni_conv_args &given)
{
    turned t = {given, 0};
    stni_conv_problem &p = t.args.problem;
    const stni_conv_problem &from = given.problem;
    if (!can_turn(from))
        return t;
    p.kind = STNI_CONV_FORWARD;
    p.c = from.o, p.o = from.c;
    for (int d = 0; d < p.dims; d++) {
        p.in[d] = from.out[d], p.out[d] = from.in[d];
        p.pad_low[d] = p.pad_high[d] = (p.kernel[d] - 1) * p.dilation[d] - from.pad_low[d];
    }
    const int64_t bytes = p.c * p.o * taps_of(p) * element_bytes(p.dtype);
    t.bytes = aligned_bytes((size_t)bytes);
    stni_conv_data &data = t.args.data;
    data.x = given.data.y, data.y = given.data.x;
    data.bias = given.adds_bias ? given.data.bias : nullptr;
    data.weight = aligned(given.workspace);
    t.args.workspace = static_cast<char *>(data.weight) + t.bytes;
    return t;
}

/* to (C, O, T) from (O, C, T), taps in reverse order. */
template <class S> __global__ void __launch_bounds__(TURN_THREADS)
turn_weight(int64_t c, int64_t o, int64_t taps, S *to, const S *from)
{
    const int64_t i = (int64_t)blockIdx.x * TURN_THREADS + threadIdx.x;
    if (i < c * o * taps)
        to[i] = from[(i / taps % o * c + i / taps / o) * taps + (taps - 1 - i % taps)];
}

inline void launch_turn(const stni_conv_args &given, const turned &t, cudaStream_t stream)
{
    const stni_conv_problem &p = given.problem;
    const int64_t taps = taps_of(p);
    dispatch<float, double>((stn_dtype)p.dtype, [&](auto e) {
        typedef decltype(e) S;
        STNI_LAUNCH(turn_weight<S>, blocks_for(p.c * p.o * taps, TURN_THREADS), TURN_THREADS, stream, p.c, p.o, taps,
                    static_cast<S *>(t.args.data.weight), static_cast<const S *>(given.data.weight));
    });
}

}

#endif
