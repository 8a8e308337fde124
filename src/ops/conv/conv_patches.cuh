/* Convolutions, and their gradients by x, whose windows neither overlap nor leave gaps (a kernel as long as its
 * stride), as images are cut into patches, and enlarged: a window of x and the weight give one pixel of y, and the
 * other way round. All of them are one product of matrices, for which a kernel puts windows tap by tap, or takes them
 * from there.
 * cuDNN 9.19 has for f32 without TF32 no engine that is as fast; for the gradients one, with tiles of 32 x 32
 * (conv_turned.cuh). Images are row-major. */
#ifndef STNI_OPS_CONV_CONV_PATCHES_CUH
#define STNI_OPS_CONV_CONV_PATCHES_CUH

#include "core/base/status.h"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "ops/conv/conv_frame.cuh"
#include "ops/conv/conv_kernel.h"
#include "ops/matmul/matmul_cuda.h"

namespace {

enum { PATCH_THREADS = 256 };

/* Forward, windows are copied first: of 4 x 4 taps cuDNN's engines take 0.7 of the time, of 8 x 8 2.3 times as long. */
enum { LEAST_TAPS_FORWARD = 64 };

/* Where x's elements are among the windows: planes (sample, channel) of them. */
struct patches {
    uint32_t count; /* of x's elements */
    int dims;
    divider size[DIMS], stride[DIMS], channels;
    uint32_t tap[DIMS], pixel[DIMS]; /* from one to the next along a dim */
    uint32_t taps, pixels;
};

/* By sizes alone. */
inline bool is_patched(const stni_conv_args &a)
{
    const stni_conv_problem &p = a.problem;
    int64_t count = p.n * p.c, taps = 1;
    bool is = p.kind != STNI_CONV_GRAD_WEIGHT && p.groups == 1 && p.row_major && count > 0 && p.o > 0 &&
              (p.dtype == STN_DTYPE_F32 || p.dtype == STN_DTYPE_F64);
    for (int d = 0; d < p.dims; d++) {
        is = is && p.kernel[d] == p.stride[d] && p.dilation[d] == 1 && p.pad_low[d] == 0 && p.out[d] > 0 &&
             p.in[d] == p.out[d] * p.stride[d];
        count *= p.in[d];
        taps *= p.kernel[d];
    }
    return is && taps > 1 && (p.kind != STNI_CONV_FORWARD || taps >= LEAST_TAPS_FORWARD) && is_small_count(count);
}

inline patches patches_of(const stni_conv_problem &p)
{
    patches to;
    memset(&to, 0, sizeof to);
    to.dims = p.dims;
    to.taps = to.pixels = 1;
    for (int d = p.dims - 1; d >= 0; d--) {
        to.size[d] = divider_of(p.in[d]);
        to.stride[d] = divider_of(p.stride[d]);
        to.tap[d] = to.taps;
        to.pixel[d] = to.pixels;
        to.taps *= (uint32_t)p.kernel[d];
        to.pixels *= (uint32_t)p.out[d];
    }
    to.channels = divider_of(p.c);
    to.count = (uint32_t)(p.n * p.c) * to.taps * to.pixels;
    return to;
}

/* Element i of x. */
struct patch_place {
    int64_t window; /* where it is among the windows, plane by plane, tap by tap */
    uint32_t channel;
};

STNI_DEVICE patch_place place_of_element(const patches &p, uint32_t i)
{
    uint32_t plane = i, tap = 0, pixel = 0;
    for (int d = p.dims - 1; d >= 0; d--) {
        const uint32_t outer = divide(plane, p.size[d]), at = plane - outer * p.size[d].divisor;
        const uint32_t window = divide(at, p.stride[d]);
        tap += (at - window * p.stride[d].divisor) * p.tap[d];
        pixel += window * p.pixel[d];
        plane = outer;
    }
    return {((int64_t)plane * p.taps + tap) * p.pixels + pixel, plane - divide(plane, p.channels) * p.channels.divisor};
}

template <class S> __global__ void __launch_bounds__(PATCH_THREADS)
place_patches(const __grid_constant__ patches p, S *x, const S *windows, const S *bias)
{
    const uint32_t i = blockIdx.x * PATCH_THREADS + threadIdx.x;
    if (i >= p.count)
        return;
    const patch_place at = place_of_element(p, i);
    x[i] = bias ? windows[at.window] + bias[at.channel] : windows[at.window];
}

template <class S> __global__ void __launch_bounds__(PATCH_THREADS)
take_patches(const __grid_constant__ patches p, const S *x, S *windows)
{
    const uint32_t i = blockIdx.x * PATCH_THREADS + threadIdx.x;
    if (i < p.count)
        windows[place_of_element(p, i).window] = x[i];
}

/* To each element of y, `run` of them one behind the other, its channel's number. */
template <class S> __global__ void __launch_bounds__(PATCH_THREADS)
add_channels(int64_t n, int64_t run, int64_t channels, S *y, const S *bias)
{
    const int64_t i = (int64_t)blockIdx.x * PATCH_THREADS + threadIdx.x;
    if (i < n)
        y[i] = y[i] + bias[i / run % channels];
}

/* With the windows (c taps, pixels) of each sample: forward they are a factor, else the result. */
inline stni_matmul_args product_of_patches(const stni_conv_args &a, const patches &p, void *windows)
{
    stni_matmul_args m = {};
    const int64_t rows = a.problem.c * p.taps, o = a.problem.o;
    const bool is_forward = a.problem.kind == STNI_CONV_FORWARD;
    const stni_matmul_operand of_windows = {windows, {rows * p.pixels}, p.pixels, 1};
    const stni_matmul_operand y = {a.data.y, {o * p.pixels}, p.pixels, 1};
    m.dtype = (stn_dtype)a.problem.dtype;
    m.n_batch = 1;
    m.batch[0] = a.problem.n;
    m.m = is_forward ? o : rows;
    m.n = p.pixels;
    m.k = is_forward ? rows : o;
    m.a = {a.data.weight, {0}, is_forward ? rows : 1, is_forward ? 1 : rows};
    m.b = is_forward ? of_windows : y;
    m.c = is_forward ? y : of_windows;
    return m;
}

inline size_t bytes_of_patches(const stni_conv_args &a, const patches &p)
{
    return aligned_bytes((size_t)p.count * (size_t)element_bytes(a.problem.dtype));
}

inline size_t workspace_of_patches(stn_queue *queue, const stni_conv_args &a)
{
    const patches p = patches_of(a.problem);
    const stni_matmul_args m = product_of_patches(a, p, nullptr);
    return WORKSPACE_ALIGNMENT + bytes_of_patches(a, p) + stni_matmul_cuda_workspace(queue, &m);
}

template <class S>
stn_status run_patches_of(stn_queue *queue, const stni_conv_args &a, const S *bias, cudaStream_t stream)
{
    const patches p = patches_of(a.problem);
    S *const windows = static_cast<S *>(aligned(a.workspace)), *const x = static_cast<S *>(a.data.x);
    const unsigned blocks = blocks_for(p.count, PATCH_THREADS);
    const bool is_forward = a.problem.kind == STNI_CONV_FORWARD;
    const int64_t of_y = a.problem.n * a.problem.o * p.pixels;
    stni_matmul_args m = product_of_patches(a, p, windows);
    m.workspace = reinterpret_cast<char *>(windows) + bytes_of_patches(a, p);
    if (is_forward)
        STNI_LAUNCH(take_patches<S>, blocks, PATCH_THREADS, stream, p, static_cast<const S *>(x), windows);
    STNI_TRY(stni_matmul_cuda(queue, &m));
    if (!is_forward)
        STNI_LAUNCH(place_patches<S>, blocks, PATCH_THREADS, stream, p, x, static_cast<const S *>(windows), bias);
    else if (bias)
        STNI_LAUNCH(add_channels<S>, blocks_for(of_y, PATCH_THREADS), PATCH_THREADS, stream, of_y, (int64_t)p.pixels,
                    a.problem.o, static_cast<S *>(a.data.y), bias);
    return stni_cuda_launched(queue);
}

/* `bias`: of each channel of the result, which is added; NULL: none. */
inline stn_status run_patches(stn_queue *queue, const stni_conv_args &a, const void *bias, cudaStream_t stream)
{
    stn_status status = STN_OK;
    dispatch<float, double>((stn_dtype)a.problem.dtype, [&](auto element) {
        status = run_patches_of(queue, a, static_cast<const decltype(element) *>(bias), stream);
    });
    return status;
}

}

#endif
