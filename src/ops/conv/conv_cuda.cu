/* Convolutions of dense chunks on a CUDA device: by cuDNN where it serves, else by our own kernels. Some are products
 * of matrices (conv_patches.cuh). */
#include "core/device/cuda/box_add.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/conv/conv_frame.cuh"
#include "ops/conv/conv_kernel.h"
#include "ops/conv/conv_own.cuh"
#include "ops/conv/conv_patches.cuh"
#include "ops/conv/conv_turned.cuh"
#include "ops/cuda/cudnn.h"

namespace {

/* By cuDNN, which adds its result to what is there where there is a bias: that is written first, so that the sum is
 * rounded once. */

bool is_empty(const convolution &v)
{
    return v.n == 0 || v.groups == 0 || v.c == 0 || v.o == 0 || v.taps == 0 || v.pixels_in == 0 || v.pixels_out == 0;
}

bool has_bias(const stni_conv_args &args)
{
    return args.data.bias &&
           (args.problem.kind == STNI_CONV_FORWARD || (args.problem.kind == STNI_CONV_GRAD_INPUT && args.adds_bias));
}

/* The problem as cuDNN is asked for it; false for dtypes that are none of its, where what it is given is not aligned,
 * and for windows that are wider than anything that it may have been tried with. */
bool library_conv(stn_queue *queue, const stni_conv_args &args, stni_cudnn_conv *out)
{
    const stn_dtype dtype = (stn_dtype)args.problem.dtype;
    const uint64_t bits =
        (uint64_t)(uintptr_t)args.data.x | (uint64_t)(uintptr_t)args.data.y | (uint64_t)(uintptr_t)args.data.weight;
    memset(out, 0, sizeof *out);
    out->problem = args.problem;
    out->problem.has_bias = 0;
    out->adds = has_bias(args);
    out->allow_tf32 = dtype == STN_DTYPE_F32 && stni_cuda_host()->queue_allows_tf32(queue);
    return (FLOATING_DTYPES & dtype_bit(dtype)) != 0 && bits % STNI_CUDNN_ALIGNMENT == 0 &&
           !stni_conv_reaches_far(&args.problem);
}

/* Whether cuDNN has a plan for a problem. */
bool has_plan(stn_queue *queue, const stni_conv_args &args, stni_cudnn_conv *conv, size_t *bytes)
{
    return library_conv(queue, args, conv) && stni_cudnn_conv_workspace(queue, conv, bytes) == STN_OK;
}

/* Whether cuDNN has a plan for a gradient by x as a convolution, and bytes of workspace. With TF32 the engines for
 * gradients have tensor cores, too. */
bool has_turned_plan(stn_queue *queue, const turned &t, stni_cudnn_conv *conv, size_t *bytes)
{
    size_t scratch = 0;
    if (t.bytes == 0 || !has_plan(queue, t.args, conv, &scratch) || conv->allow_tf32)
        return false;
    *bytes = t.bytes + scratch;
    return true;
}

/* Whether cuDNN solves a problem in its frame, and bytes of workspace behind that. To elements of x that the frame
 * lacks a bias would have to be added too. */
bool is_served(stn_queue *queue, const stni_conv_args &args, const framed &f, size_t *bytes)
{
    stni_cudnn_conv conv;
    const bool lacks_biased =
        args.problem.kind == STNI_CONV_GRAD_INPUT && has_bias(args) && exceeds_frame(args.problem);
    return !lacks_biased && !is_empty(convolution_of(f.args)) &&
           (has_turned_plan(queue, turned_of(f.args), &conv, bytes) || has_plan(queue, f.args, &conv, bytes));
}

size_t workspace_of_solve(stn_queue *queue, const void *given)
{
    stni_conv_args args = *static_cast<const stni_conv_args *>(given);
    args.workspace = nullptr;
    if (is_patched(args))
        return workspace_of_patches(queue, args);
    const framed f = framed_of(args);
    size_t bytes = 0;
    if (!is_served(queue, args, f, &bytes))
        return 0;
    bytes += f.bytes;
    return bytes > 0 ? bytes + WORKSPACE_ALIGNMENT : 0;
}

/* Writes a channel's number to each of its elements, `run` of them one behind the other. */
template <class S> __global__ void __launch_bounds__(THREADS)
spread_bias(int64_t n, int64_t run, int64_t channels, S *dst, const S *bias)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        dst[i] = bias[i / run % channels];
}

template <class S> void launch_bias(const stni_conv_args &args, cudaStream_t stream)
{
    const convolution v = convolution_of(args);
    const bool forward = args.problem.kind == STNI_CONV_FORWARD;
    const int64_t channels = v.groups * (forward ? v.o : v.c), pixels = forward ? v.pixels_out : v.pixels_in;
    const int64_t n = v.n * pixels * channels;
    S *dst = static_cast<S *>(forward ? args.data.y : args.data.x);
    STNI_LAUNCH(spread_bias<S>, blocks_for(n, THREADS), THREADS, stream, n, v.row_major ? pixels : 1, channels, dst,
                static_cast<const S *>(args.data.bias));
}

stn_status run_whole(stn_queue *queue, const stni_conv_args &args, const stni_cudnn_conv &conv, cudaStream_t stream)
{
    if (has_bias(args))
        dispatch_floating((stn_dtype)args.problem.dtype, [&](auto e) { launch_bias<decltype(e)>(args, stream); });
    return stni_cudnn_conv_run(queue, &conv, args.data.x, args.data.weight, args.data.y, aligned(args.workspace));
}

/* False where it is refused; a refused run has put nothing on the stream that matters. */
bool run_library(stn_queue *queue, const stni_conv_args &args, cudaStream_t stream)
{
    stni_cudnn_conv conv;
    size_t bytes = 0;
    if (is_empty(convolution_of(args)))
        return false;
    const turned t = turned_of(args);
    if (has_turned_plan(queue, t, &conv, &bytes)) {
        launch_turn(args, t, stream);
        return run_whole(queue, t.args, conv, stream) == STN_OK;
    }
    return has_plan(queue, args, &conv, &bytes) && run_whole(queue, args, conv, stream) == STN_OK;
}

/* What is refused is solved by our own kernel. */
void solve(stn_queue *queue, const stni_conv_args &args, cudaStream_t stream)
{
    if (!run_library(queue, args, stream))
        launch_solve(args, stream);
}

void solve_in_frame(stn_queue *queue, const stni_conv_args &args, const framed &f, cudaStream_t stream)
{
    const bool gives_x = args.problem.kind == STNI_CONV_GRAD_INPUT;
    if (!gives_x)
        launch_into_frame(args, f, stream);
    solve(queue, f.args, stream);
    if (gives_x)
        launch_out_of_frame(args, f, stream);
}

stn_status run_solve(stn_queue *queue, const void *given)
{
    const stni_conv_args &args = *static_cast<const stni_conv_args *>(given);
    const framed f = framed_of(args);
    cudaStream_t stream = static_cast<cudaStream_t>(stni_cuda_stream(queue));
    size_t bytes = 0;
    if (is_patched(args))
        return run_patches(queue, args, has_bias(args) ? args.data.bias : nullptr, stream);
    if (f.bytes > 0 && is_served(queue, args, f, &bytes))
        solve_in_frame(queue, args, f, stream);
    else
        solve(queue, args, stream);
    return stni_cuda_launched(queue);
}

void launch_add(const stni_conv_add_args &args, cudaStream_t stream)
{
    launch_box_add(args.dst, args.src, args.dtype, stream);
}

template <class S> __global__ void __launch_bounds__(THREADS) round_elements(int64_t n, S *dst, const float *src)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        store(dst[i], src[i]);
}

void launch_narrow(const stni_conv_narrow_args &args, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(args.n, THREADS);
    if (args.n == 0)
        return;
    if (args.dtype == STN_DTYPE_BF16)
        STNI_LAUNCH(round_elements<bf16>, blocks, THREADS, stream, args.n, static_cast<bf16 *>(args.dst), args.src);
    else
        STNI_LAUNCH(round_elements<f16>, blocks, THREADS, stream, args.n, static_cast<f16 *>(args.dst), args.src);
}

}

#define ROWS(op)                                                                                                          \
    STNI_CUDA_KERNEL_OF_QUEUE(op ".solve", STNI_CONV_DTYPES, stni_conv_args, run_solve, workspace_of_solve),               \
    STNI_CUDA_KERNEL(op ".add", STNI_CONV_DTYPES, stni_conv_add_args, launch_add),                                         \
    STNI_CUDA_KERNEL(op ".narrow", STNI_CONV_NARROW_DTYPES, stni_conv_narrow_args, launch_narrow)

STNI_CUDA_KERNELS(conv) = {
    ROWS("conv1d"),
    ROWS("conv2d"),
    ROWS("conv3d"),
    ROWS("conv_transpose1d"),
    ROWS("conv_transpose2d"),
    ROWS("conv_transpose3d"),
    ROWS("conv1d_grad_input"),
    ROWS("conv2d_grad_input"),
    ROWS("conv3d_grad_input"),
    ROWS("conv1d_grad_weight"),
    ROWS("conv2d_grad_weight"),
    ROWS("conv3d_grad_weight"),
    STNI_CUDA_KERNELS_END
};
