/* Our own kernels for convolutions of dense chunks, for every dtype: each element of the result is summed up by itself,
 * after the formula of conv_problem.h. They are what serves where cuDNN does not.
 *
 * Sizes: T taps; C, O channels of x and y in a group. x and y are channels-last, so that neighbouring threads have
 * neighbouring channels. */
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

/* Dims that a problem lacks have one element, and one tap that stands still. */
struct convolution {
    int64_t images, n, groups, c, o; /* c, o: channels in a group */
    int64_t in[DIMS], out[DIMS], kernel[DIMS], stride[DIMS], dilation[DIMS], pad[DIMS];
    int64_t taps, pixels_in, pixels_out;
    int64_t x_step, y_step; /* from image to image, in elements */
    int accumulate;
};

convolution convolution_of(const stni_conv_args &args)
{
    const stni_conv_problem &p = args.problem;
    convolution v;
    memset(&v, 0, sizeof v);
    v.images = args.data.images;
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
    v.x_step = args.data.x_step;
    v.y_step = args.data.y_step;
    v.accumulate = args.data.accumulate;
    return v;
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
template <class S, class V> STNI_DEVICE typename product_types<S>::term dot(const S *a, int64_t a_step, const V *b, int64_t b_step, int64_t n)
{
    typedef typename product_types<S>::term T;
    T sum = zero_of<T>();
    for (int64_t i = 0; i < n; i++)
        sum = multiply_add((T)load(a[i * a_step]), (T)load(b[i * b_step]), sum);
    return sum;
}

/* y: a thread each element. */
template <class S, class V> __global__ void __launch_bounds__(THREADS)
solve_forward(const __grid_constant__ convolution v, const S *x, S *y, const V *weight, const S *bias)
{
    typedef typename product_types<S>::total W;
    const int64_t channels = v.groups * v.o, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t o = i % channels, pixel = i / channels % v.pixels_out, sample = i / channels / v.pixels_out, image = sample / v.n;
    if (image >= v.images)
        return;
    const S *from = x + image * v.x_step + sample % v.n * v.pixels_in * v.groups * v.c + o / v.o * v.c;
    int64_t out[DIMS], tap[DIMS];
    W sum = zero_of<W>();
    places_of(pixel, v.out, out);
    for (int64_t t = 0; t < v.taps; t++) {
        places_of(t, v.kernel, tap);
        const int64_t read = pixel_read(v, out, tap);
        if (read >= 0)
            sum = sum + widen(dot(from + read * v.groups * v.c, 1, weight + o * v.c * v.taps + t, v.taps, v.c), &sum);
    }
    if (bias)
        sum = sum + widen((typename product_types<S>::term)load(bias[o]), &sum);
    S &element = y[image * v.y_step + (sample % v.n * v.pixels_out + pixel) * channels + o];
    store(element, narrow(sum, &element));
}

/* x: a thread each element. */
template <class S, class V> __global__ void __launch_bounds__(THREADS)
solve_grad_input(const __grid_constant__ convolution v, S *x, const S *y, const V *weight, const S *bias)
{
    typedef typename product_types<S>::total W;
    const int64_t channels = v.groups * v.c, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t c = i % channels, pixel = i / channels % v.pixels_in, sample = i / channels / v.pixels_in, image = sample / v.n;
    if (image >= v.images)
        return;
    const int64_t first = c / v.c * v.o; /* channel of y */
    const S *from = y + image * v.y_step + sample % v.n * v.pixels_out * v.groups * v.o + first;
    int64_t in[DIMS], tap[DIMS];
    W sum = zero_of<W>();
    places_of(pixel, v.in, in);
    for (int64_t t = 0; t < v.taps; t++) {
        places_of(t, v.kernel, tap);
        const int64_t reading = pixel_reading(v, in, tap);
        if (reading >= 0)
            sum = sum + widen(dot(from + reading * v.groups * v.o, 1, weight + (first * v.c + c % v.c) * v.taps + t, v.c * v.taps, v.o), &sum);
    }
    if (bias)
        sum = sum + widen((typename product_types<S>::term)load(bias[c]), &sum);
    S &element = x[image * v.x_step + (sample % v.n * v.pixels_in + pixel) * channels + c];
    store(element, narrow(sum, &element));
}

/* weight: a warp each element, whose lanes take every 32nd pixel of y. */
template <class S, class V> __global__ void __launch_bounds__(THREADS)
solve_grad_weight(const __grid_constant__ convolution v, const S *x, const S *y, V *weight)
{
    typedef typename product_types<S>::term T;
    typedef typename product_types<S>::total W;
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP, o = i / (v.taps * v.c), c = i / v.taps % v.c;
    if (o >= v.groups * v.o)
        return;
    int64_t out[DIMS], tap[DIMS];
    W sum = zero_of<W>();
    places_of(i % v.taps, v.kernel, tap);
    for (int64_t k = threadIdx.x % WARP; k < v.images * v.n * v.pixels_out; k += WARP) {
        const int64_t pixel = k % v.pixels_out, sample = k / v.pixels_out % v.n, image = k / v.pixels_out / v.n;
        places_of(pixel, v.out, out);
        const int64_t read = pixel_read(v, out, tap);
        if (read < 0)
            continue;
        const S xs = x[image * v.x_step + (sample * v.pixels_in + read) * v.groups * v.c + o / v.o * v.c + c];
        const S ys = y[image * v.y_step + (sample * v.pixels_out + pixel) * v.groups * v.o + o];
        sum = multiply_add(widen((T)load(xs), &sum), widen((T)load(ys), &sum), sum);
    }
    sum = reduce_warp(sum, [](W a, W b) { return a + b; });
    if (threadIdx.x % WARP != 0)
        return;
    if (v.accumulate)
        sum = sum + widen((T)load(weight[i]), &sum);
    store(weight[i], narrow(sum, &weight[i]));
}

template <class S, class V> void launch_kind(const stni_conv_args &args, cudaStream_t stream)
{
    const convolution v = convolution_of(args);
    const bool forward = args.problem.kind == STNI_CONV_FORWARD;
    S *x = static_cast<S *>(args.data.x), *y = static_cast<S *>(args.data.y);
    V *weight = static_cast<V *>(args.data.weight);
    const S *bias = forward || args.adds_bias ? static_cast<const S *>(args.data.bias) : nullptr;
    const int64_t samples = v.images * v.n;
    const int64_t count = args.problem.kind == STNI_CONV_GRAD_WEIGHT ? v.groups * v.o * v.c * v.taps * WARP
                          : forward ? samples * v.pixels_out * v.groups * v.o : samples * v.pixels_in * v.groups * v.c;
    const unsigned blocks = blocks_for(count, THREADS);
    if (count == 0)
        return;
    switch ((stni_conv_kind)args.problem.kind) {
    case STNI_CONV_FORWARD: STNI_LAUNCH((solve_forward<S, V>), blocks, THREADS, stream, v, x, y, weight, bias); return;
    case STNI_CONV_GRAD_INPUT: STNI_LAUNCH((solve_grad_input<S, V>), blocks, THREADS, stream, v, x, y, weight, bias); return;
    case STNI_CONV_GRAD_WEIGHT: STNI_LAUNCH((solve_grad_weight<S, V>), blocks, THREADS, stream, v, x, y, weight); return;
    }
}

/* The weight of 16-bit floats may be kept in f32. */
void launch_solve(const stni_conv_args &args, cudaStream_t stream)
{
    const stn_dtype dtype = (stn_dtype)args.problem.dtype;
    if (args.problem.weight_dtype == dtype)
        dispatch_floating_and_complex(dtype, [&](auto e) { launch_kind<decltype(e), decltype(e)>(args, stream); });
    else
        dispatch<bf16, f16>(dtype, [&](auto e) { launch_kind<decltype(e), float>(args, stream); });
}

}

#endif
