/* Convolutions of dense chunks on a CUDA device: by cuDNN where it serves, else by our own kernels. */
#include "core/device/cuda/box_add.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/conv/conv_frame.cuh"
#include "ops/conv/conv_kernel.h"
#include "ops/conv/conv_own.cuh"
#include "ops/conv/conv_turned.cuh"
#include "ops/cuda/cudnn.h"

namespace {

/* By cuDNN, which adds its result to what is there where there is a bias: that is written first, so that the sum is
 * rounded once. */

bool is_empty(const convolution &v)
{
    return v.images * v.n * v.groups * v.c * v.o * v.taps * v.pixels_in * v.pixels_out == 0;
}

bool has_bias(const stni_conv_args &args)
{
    return args.data.bias && (args.problem.kind == STNI_CONV_FORWARD || (args.problem.kind == STNI_CONV_GRAD_INPUT && args.adds_bias));
}

/* The problem as cuDNN is asked for it; false for dtypes that are none of its, and where what it is given is not
 * aligned. */
bool library_conv(stn_queue *queue, const stni_conv_args &args, stni_cudnn_conv *out)
{
    const stn_dtype dtype = (stn_dtype)args.problem.dtype;
    const uint64_t size = (uint64_t)element_bytes(args.problem.dtype);
    uint64_t bits = (uint64_t)(uintptr_t)args.data.x | (uint64_t)(uintptr_t)args.data.y | (uint64_t)(uintptr_t)args.data.weight;
    memset(out, 0, sizeof *out);
    out->problem = args.problem;
    out->problem.has_bias = 0;
    out->images = args.data.images;
    if (out->images > 1) {
        out->x_step = args.data.x_step;
        out->y_step = args.data.y_step;
        bits |= (uint64_t)out->x_step * size | (uint64_t)out->y_step * size;
    }
    out->adds = args.problem.kind == STNI_CONV_GRAD_WEIGHT ? args.data.accumulate != 0 : has_bias(args);
    out->allow_tf32 = dtype == STN_DTYPE_F32 && stni_cuda_host()->queue_allows_tf32(queue);
    return (FLOATING_DTYPES & dtype_bit(dtype)) != 0 && bits % STNI_CUDNN_ALIGNMENT == 0;
}

/* Whether cuDNN has a plan for a problem whose tensors all have one dtype. */
bool has_plan(stn_queue *queue, const stni_conv_args &args, stni_cudnn_conv *conv, size_t *bytes)
{
    return args.problem.weight_dtype == args.problem.dtype && library_conv(queue, args, conv) &&
           stni_cudnn_workspace(queue, conv, bytes) == STN_OK;
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

/* Gradients of 16-bit weights in f32: the engine that cuDNN has for these is six times slower than one of f32, so that
 * it is given f32 copies of the factors, a span of samples after the other. */
enum { MOST_BYTES = 256 << 20 /* of copies */ };

struct spans {
    stni_conv_args args;        /* each sample an image */
    int64_t x, y;               /* elements of a sample */
    int64_t most;               /* samples of a span; 0: there are no spans */
    size_t x_bytes, scratch_at; /* in the workspace: x, y, scratch */
};

size_t padded(size_t bytes)
{
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

spans spans_of(const stni_conv_args &args)
{
    const convolution v = convolution_of(args);
    spans s = {args, v.pixels_in * v.groups * v.c, v.pixels_out * v.groups * v.o, 0, 0, 0};
    if (args.problem.weight_dtype == args.problem.dtype || (v.images > 1 && v.n > 1))
        return s;
    s.args.problem.n = 1;
    s.args.data.images = v.images * v.n;
    s.args.data.x_step = v.images > 1 ? v.x.image : s.x;
    s.args.data.y_step = v.images > 1 ? v.y.image : s.y;
    const int64_t fit = (int64_t)(MOST_BYTES / sizeof(float)) / (s.x + s.y);
    s.most = fit < s.args.data.images ? fit : s.args.data.images;
    s.x_bytes = padded((size_t)(s.most * s.x) * sizeof(float));
    s.scratch_at = s.x_bytes + padded((size_t)(s.most * s.y) * sizeof(float));
    return s;
}

/* The samples from `first` on; what is before them is in the weight. */
stni_conv_args rest_of(const spans &s, int64_t first)
{
    stni_conv_args rest = s.args;
    rest.data.images -= first;
    rest.data.x = static_cast<uint16_t *>(rest.data.x) + first * rest.data.x_step;
    rest.data.y = static_cast<uint16_t *>(rest.data.y) + first * rest.data.y_step;
    rest.data.accumulate |= first > 0;
    return rest;
}

/* A span's problem. TF32 has all bits of the factors, so that it takes nothing from them. */
stni_cudnn_conv span_conv(const spans &s, int64_t first)
{
    const int64_t left = s.args.data.images - first;
    stni_cudnn_conv conv;
    memset(&conv, 0, sizeof conv);
    conv.problem = s.args.problem;
    conv.problem.dtype = STN_DTYPE_F32;
    conv.problem.n = left < s.most ? left : s.most;
    conv.images = 1;
    conv.adds = s.args.data.accumulate || first > 0;
    conv.allow_tf32 = 1;
    return conv;
}

/* Whether cuDNN has a plan for every span, and bytes of workspace. */
bool has_span_plans(stn_queue *queue, const spans &s, size_t *bytes)
{
    size_t most = 0, scratch = 0;
    if ((uintptr_t)s.args.data.weight % STNI_CUDNN_ALIGNMENT != 0)
        return false;
    for (int64_t first = 0; s.most > 0 && first < s.args.data.images; first += s.most) {
        const stni_cudnn_conv conv = span_conv(s, first);
        if (stni_cudnn_workspace(queue, &conv, &scratch) != STN_OK)
            return false;
        most = scratch > most ? scratch : most;
    }
    *bytes = s.scratch_at + most;
    return s.most > 0;
}

/* Whether cuDNN solves a problem in its frame, and bytes of workspace behind that. To elements of x that the frame
 * lacks a bias would have to be added too. */
bool is_served(stn_queue *queue, const stni_conv_args &args, const framed &f, size_t *bytes)
{
    stni_cudnn_conv conv;
    const bool lacks_biased = args.problem.kind == STNI_CONV_GRAD_INPUT && has_bias(args) && exceeds_frame(args.problem);
    return !lacks_biased && !is_empty(convolution_of(f.args)) &&
           (has_turned_plan(queue, turned_of(f.args), &conv, bytes) || has_plan(queue, f.args, &conv, bytes) ||
            has_span_plans(queue, spans_of(f.args), bytes));
}

size_t workspace_of_solve(stn_queue *queue, const void *given)
{
    stni_conv_args args = *static_cast<const stni_conv_args *>(given);
    args.workspace = nullptr;
    const framed f = framed_of(args);
    size_t bytes = 0;
    if (!is_served(queue, args, f, &bytes))
        return 0;
    bytes += f.bytes;
    return bytes > 0 ? bytes + WORKSPACE_ALIGNMENT : 0;
}

/* Writes a channel's number to each of its elements: `block` elements in an image, `step` from one image to the next,
 * `run` of a channel one behind the other. */
template <class S> __global__ void __launch_bounds__(THREADS)
spread_bias(int64_t images, int64_t block, int64_t step, int64_t run, int64_t channels, S *dst, const S *bias)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < images * block)
        dst[i / block * step + i % block] = bias[i / run % channels];
}

template <class S> void launch_bias(const stni_conv_args &args, cudaStream_t stream)
{
    const convolution v = convolution_of(args);
    const bool forward = args.problem.kind == STNI_CONV_FORWARD;
    const int64_t channels = v.groups * (forward ? v.o : v.c), pixels = forward ? v.pixels_out : v.pixels_in;
    const int64_t block = v.n * pixels * channels;
    S *dst = static_cast<S *>(forward ? args.data.y : args.data.x);
    STNI_LAUNCH(spread_bias<S>, blocks_for(v.images * block, THREADS), THREADS, stream, v.images, block,
                forward ? v.y.image : v.x.image, v.row_major ? pixels : 1, channels, dst,
                static_cast<const S *>(args.data.bias));
}

stn_status run_whole(stn_queue *queue, const stni_conv_args &args, const stni_cudnn_conv &conv, cudaStream_t stream)
{
    if (has_bias(args))
        dispatch_floating((stn_dtype)args.problem.dtype, [&](auto e) { launch_bias<decltype(e)>(args, stream); });
    return stni_cudnn_run(queue, &conv, args.data.x, args.data.weight, args.data.y, aligned(args.workspace));
}

/* Samples of `size` elements, `step` from one to the next, each thread's a grid apart. */
template <class S> __global__ void __launch_bounds__(THREADS)
widen_samples(int64_t n, int64_t size, int64_t step, float *dst, const S *src)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n * size; i += (int64_t)gridDim.x * THREADS)
        dst[i] = load(src[i / size * step + i % size]);
}

template <class S>
void launch_widen(int64_t n, int64_t size, int64_t step, void *dst, const void *src, cudaStream_t stream)
{
    enum : unsigned { MOST_BLOCKS = 4096 };
    const unsigned wanted = blocks_for(n * size, THREADS), blocks = wanted < MOST_BLOCKS ? wanted : MOST_BLOCKS;
    STNI_LAUNCH(widen_samples<S>, blocks, THREADS, stream, n, size, step, static_cast<float *>(dst),
                static_cast<const S *>(src));
}

/* Returns how many samples are done: all, or those before the first span that was refused. */
int64_t run_spans(stn_queue *queue, const spans &s, cudaStream_t stream)
{
    char *x = static_cast<char *>(aligned(s.args.workspace)), *y = x + s.x_bytes, *scratch = x + s.scratch_at;
    int64_t first = 0;
    for (; first < s.args.data.images; first += s.most) {
        const stni_cudnn_conv conv = span_conv(s, first);
        const stni_conv_data data = rest_of(s, first).data;
        dispatch<bf16, f16>((stn_dtype)s.args.problem.dtype, [&](auto e) {
            launch_widen<decltype(e)>(conv.problem.n, s.x, data.x_step, x, data.x, stream);
            launch_widen<decltype(e)>(conv.problem.n, s.y, data.y_step, y, data.y, stream);
        });
        if (stni_cudnn_run(queue, &conv, x, data.weight, y, scratch) != STN_OK)
            return first;
    }
    return s.args.data.images;
}

/* True where all is done; else `rest`, the problem at first, is what is left of it. A refused run has put nothing on
 * the stream, so that our own kernel adds to a weight that it has not touched. */
bool run_library(stn_queue *queue, stni_conv_args &rest, cudaStream_t stream)
{
    stni_cudnn_conv conv;
    size_t bytes = 0;
    if (is_empty(convolution_of(rest)))
        return false;
    const turned t = turned_of(rest);
    if (has_turned_plan(queue, t, &conv, &bytes)) {
        launch_turn(rest, t, stream);
        return run_whole(queue, t.args, conv, stream) == STN_OK;
    }
    if (has_plan(queue, rest, &conv, &bytes))
        return run_whole(queue, rest, conv, stream) == STN_OK;
    const spans s = spans_of(rest);
    if (!has_span_plans(queue, s, &bytes))
        return false;
    rest = rest_of(s, run_spans(queue, s, stream));
    return rest.data.images == 0;
}

/* What is refused is solved by our own kernel. */
void solve(stn_queue *queue, stni_conv_args rest, cudaStream_t stream)
{
    if (!run_library(queue, rest, stream))
        launch_solve(rest, stream);
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
