/* Our own kernels for convolutions of dense chunks, for every dtype: each element of the result is summed up by itself,
 * after the formula of conv_problem.h. They are what serves where cuDNN does not.
 *
 * Sizes: T taps; C, O channels of x and y in a group. Neighbouring threads have neighbouring elements of the result:
 * channels where it is channels-last, pixels where it is row-major. */
#ifndef STNI_OPS_CONV_CONV_OWN_CUH
#define STNI_OPS_CONV_CONV_OWN_CUH

#include "core/device/cuda/block.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/products.cuh"
#include "ops/conv/conv_frame.cuh"
#include "ops/conv/conv_kernel.h"

namespace {

enum { THREADS = 128 };

/* How x or y lies: elements from pixel to pixel and from channel to channel of a sample. */
struct layout {
    int64_t pixel, channel;
};

/* Dims that a problem lacks have one element, and one tap that stands still. */
struct convolution {
    int64_t n, groups, c, o; /* c, o: channels in a group */
    int64_t in[DIMS], out[DIMS], kernel[DIMS], stride[DIMS], dilation[DIMS], pad[DIMS];
    int64_t taps, pixels_in, pixels_out;
    layout x, y;
    int row_major;
};

layout layout_of(int row_major, int64_t channels, int64_t pixels)
{
    return row_major ? layout{1, pixels} : layout{channels, 1};
}

convolution convolution_of(const stni_conv_args &args)
{
    const stni_conv_problem &p = args.problem;
    convolution v;
    memset(&v, 0, sizeof v);
    v.n = p.n;
    v.groups = p.groups;
    v.c = p.c / p.groups;
    v.o = p.o / p.groups;
    v.taps = v.pixels_in = v.pixels_out = 1;
    for (int d = 0; d < DIMS; d++) {
        const bool has = d < p.dims;
        v.taps *= v.kernel[d] = has ? p.kernel[d] : 1;
        v.pixels_in *= v.in[d] = has ? p.in[d] : 1;
        v.pixels_out *= v.out[d] = has ? p.out[d] : 1;
        v.stride[d] = has ? p.stride[d] : 1;
        v.dilation[d] = has ? p.dilation[d] : 1;
        v.pad[d] = has ? p.pad_low[d] : 0;
    }
    v.row_major = p.row_major;
    v.x = layout_of(p.row_major, p.c, v.pixels_in);
    v.y = layout_of(p.row_major, p.o, v.pixels_out);
    return v;
}

/* Which element of x or y a thread has; the thread's number counts them in memory order. */
struct place {
    int64_t sample, pixel, channel;
};

STNI_DEVICE place place_of(int64_t i, int row_major, int64_t pixels, int64_t channels)
{
    if (row_major)
        return {i / pixels / channels, i % pixels, i / pixels % channels};
    return {i / channels / pixels, i / channels % pixels, i % channels};
}

/* The pixel of x that a tap reads for a pixel of y; -1: one outside, which is 0. */
STNI_DEVICE int64_t pixel_read(const convolution &v, const int64_t (&out)[DIMS], const int64_t (&tap)[DIMS])
{
    int64_t pixel = 0;
    for (int d = 0; d < DIMS; d++) {
        const int64_t at = out[d] * v.stride[d] - v.pad[d] + tap[d] * v.dilation[d];
        if (at < 0 || at >= v.in[d])
            return -1;
        pixel = pixel * v.in[d] + at;
    }
    return pixel;
}

/* The pixel of y for which a tap reads a pixel of x; -1: there is none. */
STNI_DEVICE int64_t pixel_reading(const convolution &v, const int64_t (&in)[DIMS], const int64_t (&tap)[DIMS])
{
    int64_t pixel = 0;
    for (int d = 0; d < DIMS; d++) {
        const int64_t from = in[d] + v.pad[d] - tap[d] * v.dilation[d], at = from / v.stride[d];
        if (from < 0 || from % v.stride[d] != 0 || at >= v.out[d])
            return -1;
        pixel = pixel * v.out[d] + at;
    }
    return pixel;
}

/* The sum of a[i a_step] b[i b_step]: one chain. */
template <class S>
STNI_DEVICE typename product_types<S>::term dot(const S *a, int64_t a_step, const S *b, int64_t b_step, int64_t n)
{
    typedef typename product_types<S>::term T;
    T sum = zero_of<T>();
    for (int64_t i = 0; i < n; i++)
        sum = multiply_add((T)load(a[i * a_step]), (T)load(b[i * b_step]), sum);
    return sum;
}

/* The sum of a thread's element, and the bias of its channel if there is one. */
template <class S, class W>
STNI_DEVICE void store_element(S *sample, const layout &l, const place &p, const S *bias, W sum)
{
    if (bias)
        sum = sum + widen((typename product_types<S>::term)load(bias[p.channel]), &sum);
    S &element = sample[p.pixel * l.pixel + p.channel * l.channel];
    store(element, narrow(sum, &element));
}

/* y: a thread each element. */
template <class S> __global__ void __launch_bounds__(THREADS)
solve_forward(const __grid_constant__ convolution v, const S *x, S *y, const S *weight, const S *bias)
{
    typedef typename product_types<S>::total W;
    const int64_t channels = v.groups * v.o, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const place p = place_of(i, v.row_major, v.pixels_out, channels);
    if (p.sample >= v.n)
        return;
    const int64_t first = p.channel / v.o * v.c; /* channel of x */
    const S *from = x + p.sample * v.pixels_in * v.groups * v.c + first * v.x.channel;
    const S *factors = weight + p.channel * v.c * v.taps;
    int64_t out[DIMS], tap[DIMS];
    W sum = zero_of<W>();
    places_of(p.pixel, v.out, out);
    for (int64_t t = 0; t < v.taps; t++) {
        places_of(t, v.kernel, tap);
        const int64_t read = pixel_read(v, out, tap);
        if (read >= 0)
            sum = sum + widen(dot(from + read * v.x.pixel, v.x.channel, factors + t, v.taps, v.c), &sum);
    }
    store_element(y + p.sample * v.pixels_out * channels, v.y, p, bias, sum);
}

/* x: a thread each element. */
template <class S> __global__ void __launch_bounds__(THREADS)
solve_grad_input(const __grid_constant__ convolution v, S *x, const S *y, const S *weight, const S *bias)
{
    typedef typename product_types<S>::total W;
    const int64_t channels = v.groups * v.c, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const place p = place_of(i, v.row_major, v.pixels_in, channels);
    if (p.sample >= v.n)
        return;
    const int64_t first = p.channel / v.c * v.o; /* channel of y */
    const S *from = y + p.sample * v.pixels_out * v.groups * v.o + first * v.y.channel;
    const S *factors = weight + (first * v.c + p.channel % v.c) * v.taps;
    int64_t in[DIMS], tap[DIMS];
    W sum = zero_of<W>();
    places_of(p.pixel, v.in, in);
    for (int64_t t = 0; t < v.taps; t++) {
        places_of(t, v.kernel, tap);
        const int64_t reading = pixel_reading(v, in, tap);
        if (reading >= 0)
            sum = sum + widen(dot(from + reading * v.y.pixel, v.y.channel, factors + t, v.c * v.taps, v.o), &sum);
    }
    store_element(x + p.sample * v.pixels_in * channels, v.x, p, bias, sum);
}

/* weight: a warp each element, whose lanes take every 32nd pixel of y. */
template <class S> __global__ void __launch_bounds__(THREADS)
solve_grad_weight(const __grid_constant__ convolution v, const S *x, const S *y, S *weight)
{
    typedef typename product_types<S>::term T;
    typedef typename product_types<S>::total W;
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP, o = i / (v.taps * v.c),
                  c = i / v.taps % v.c;
    if (o >= v.groups * v.o)
        return;
    int64_t out[DIMS], tap[DIMS];
    W sum = zero_of<W>();
    places_of(i % v.taps, v.kernel, tap);
    for (int64_t k = threadIdx.x % WARP; k < v.n * v.pixels_out; k += WARP) {
        const int64_t pixel = k % v.pixels_out, sample = k / v.pixels_out;
        places_of(pixel, v.out, out);
        const int64_t read = pixel_read(v, out, tap);
        if (read < 0)
            continue;
        const int64_t x_at = sample * v.pixels_in * v.groups * v.c + read * v.x.pixel;
        const int64_t y_at = sample * v.pixels_out * v.groups * v.o + pixel * v.y.pixel;
        const S xs = x[x_at + (o / v.o * v.c + c) * v.x.channel], ys = y[y_at + o * v.y.channel];
        sum = multiply_add(widen((T)load(xs), &sum), widen((T)load(ys), &sum), sum);
    }
    sum = reduce_warp(sum, [](W a, W b) { return a + b; });
    if (threadIdx.x % WARP != 0)
        return;
    store(weight[i], narrow(sum, &weight[i]));
}

template <class S> void launch_kind(const stni_conv_args &args, cudaStream_t stream)
{
    const convolution v = convolution_of(args);
    const bool forward = args.problem.kind == STNI_CONV_FORWARD;
    S *x = static_cast<S *>(args.data.x), *y = static_cast<S *>(args.data.y);
    S *weight = static_cast<S *>(args.data.weight);
    const S *bias = forward || args.adds_bias ? static_cast<const S *>(args.data.bias) : nullptr;
    const int64_t count = args.problem.kind == STNI_CONV_GRAD_WEIGHT ? v.groups * v.o * v.c * v.taps * WARP
                          : forward ? v.n * v.pixels_out * v.groups * v.o : v.n * v.pixels_in * v.groups * v.c;
    const unsigned blocks = blocks_for(count, THREADS);
    if (count == 0)
        return;
    switch ((stni_conv_kind)args.problem.kind) {
    case STNI_CONV_FORWARD: STNI_LAUNCH(solve_forward<S>, blocks, THREADS, stream, v, x, y, weight, bias); return;
    case STNI_CONV_GRAD_INPUT: STNI_LAUNCH(solve_grad_input<S>, blocks, THREADS, stream, v, x, y, weight, bias); return;
    case STNI_CONV_GRAD_WEIGHT: STNI_LAUNCH(solve_grad_weight<S>, blocks, THREADS, stream, v, x, y, weight); return;
    }
}

void launch_solve(const stni_conv_args &args, cudaStream_t stream)
{
    dispatch_floating_and_complex((stn_dtype)args.problem.dtype,
                                  [&](auto e) { launch_kind<decltype(e)>(args, stream); });
}

}

#endif
