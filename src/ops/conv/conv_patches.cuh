/* Gradients by x where windows neither overlap nor leave gaps (a kernel as long as its stride), which is how images are
 * enlarged: each window of x is the product of the weight and one pixel of y. All of them are one product of matrices,
 * whose result lies tap by tap, and is put in place by a kernel. cuDNN 9.19 has for these gradients of f32 without TF32
 * one engine, with tiles of 32 x 32 (conv_turned.cuh). Images are row-major. */
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

/* Where x's elements come from: planes (sample, channel) of windows. */
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
    bool is = p.kind == STNI_CONV_GRAD_INPUT && p.groups == 1 && p.row_major && count > 0 && p.o > 0 &&
              (p.dtype == STN_DTYPE_F32 || p.dtype == STN_DTYPE_F64);
    for (int d = 0; d < p.dims; d++) {
        is = is && p.kernel[d] == p.stride[d] && p.dilation[d] == 1 && p.pad_low[d] == 0 && p.out[d] > 0 &&
             p.in[d] == p.out[d] * p.stride[d];
        count *= p.in[d];
        taps *= p.kernel[d];
    }
    return is && taps > 1 && count < INT32_MAX;
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

/* `from`: plane by plane, tap by tap. */
template <class S> __global__ void __launch_bounds__(PATCH_THREADS)
place_patches(const __grid_constant__ patches p, S *x, const S *from, const S *bias)
{
    const uint32_t i = blockIdx.x * PATCH_THREADS + threadIdx.x;
    uint32_t plane = i, tap = 0, pixel = 0;
    if (i >= p.count)
        return;
    for (int d = p.dims - 1; d >= 0; d--) {
        const uint32_t outer = divide(plane, p.size[d]), at = plane - outer * p.size[d].divisor;
        const uint32_t window = divide(at, p.stride[d]);
        tap += (at - window * p.stride[d].divisor) * p.tap[d];
        pixel += window * p.pixel[d];
        plane = outer;
    }
    const S value = from[((int64_t)plane * p.taps + tap) * p.pixels + pixel];
    x[i] = bias ? value + bias[plane - divide(plane, p.channels) * p.channels.divisor] : value;
}

/* The windows, of which `to` has room for all: (c taps, o) times (o, pixels) for each sample. */
inline stni_matmul_args product_of_patches(const stni_conv_args &a, const patches &p, void *to)
{
    stni_matmul_args m = {};
    const int64_t rows = a.problem.c * p.taps;
    m.dtype = (stn_dtype)a.problem.dtype;
    m.n_batch = 1;
    m.batch[0] = a.problem.n;
    m.m = rows;
    m.n = p.pixels;
    m.k = a.problem.o;
    m.a = {a.data.weight, {0}, 1, rows};
    m.b = {a.data.y, {a.problem.o * p.pixels}, p.pixels, 1};
    m.c = {to, {rows * p.pixels}, p.pixels, 1};
    return m;
}

inline size_t bytes_of_patches(const stni_conv_args &a, const patches &p)
{
    const size_t bytes = (size_t)p.count * (size_t)element_bytes(a.problem.dtype);
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

inline size_t workspace_of_patches(stn_queue *queue, const stni_conv_args &a)
{
    const patches p = patches_of(a.problem);
    const stni_matmul_args m = product_of_patches(a, p, nullptr);
    return WORKSPACE_ALIGNMENT + bytes_of_patches(a, p) + stni_matmul_cuda_workspace(queue, &m);
}

/* `bias`: of each channel of x, which is added; NULL: none. */
inline stn_status run_patches(stn_queue *queue, const stni_conv_args &a, const void *bias, cudaStream_t stream)
{
    const patches p = patches_of(a.problem);
    void *const windows = aligned(a.workspace);
    stni_matmul_args m = product_of_patches(a, p, windows);
    m.workspace = static_cast<char *>(windows) + bytes_of_patches(a, p);
    STNI_TRY(stni_matmul_cuda(queue, &m));
    dispatch<float, double>((stn_dtype)a.problem.dtype, [&](auto element) {
        typedef decltype(element) S;
        STNI_LAUNCH(place_patches<S>, blocks_for(p.count, PATCH_THREADS), PATCH_THREADS, stream, p,
                    static_cast<S *>(a.data.x), static_cast<const S *>(windows), static_cast<const S *>(bias));
    });
    return stni_cuda_launched(queue);
}

}

#endif
