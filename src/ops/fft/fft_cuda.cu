/* Fourier transforms on a CUDA device: by cuFFT, and from the first line that it refuses by kernels of our own.
 *
 * cuFFT takes lines that lie at one distance from each other, and does not scale: where they lie so on both sides it
 * reads and writes them in place, and what is to be scaled is scaled then. Other lines, and those of which it is not
 * to read what is there (reals that become complex lines, halves of lines that are restored, which it may overwrite),
 * go through dense buffers, some of them at a time. */
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/cuda/cufft.h"
#include "ops/fft/fft_lines_cuda.cuh"
#include "ops/fft/fft_own_cuda.h"

namespace
{

enum {
    THREADS = 256,
    MOST_CALLS = 64,
    FEW_CALLS = 4,         /* more of them cost more than going through buffers, where that is by tiles on both sides */
    MOST_BYTES = 256 << 20 /* of buffers */
};

/* Tiles of lines: a thread moves SIDE / ROWS elements of them. */
enum { SIDE = 32, ROWS = THREADS / SIDE, PITCH = SIDE + 1 };

/* What cuFFT is asked for: `calls` times the same number of lines, of which the last call may have fewer. */
struct request {
    stni_cufft_lines lines; /* of a call */
    int64_t calls, last;    /* lines of the last call */
    bool is_direct;
    int64_t call_in, call_out;   /* direct: elements from call to call */
    size_t from_bytes, to_bytes; /* else: buffers of both sides */
};

size_t real_bytes(const stni_fft_args &a)
{
    return a.real == STN_DTYPE_F64 ? sizeof(double) : sizeof(float);
}

stni_cufft_lines lines_of_kind(const stni_fft_args &a)
{
    stni_cufft_lines lines;
    memset(&lines, 0, sizeof lines);
    lines.kind = a.kind == STNI_TRANSFORM_HALVE     ? STNI_CUFFT_HALVE
                 : a.kind == STNI_TRANSFORM_RESTORE ? STNI_CUFFT_RESTORE
                                                    : STNI_CUFFT_COMPLEX;
    lines.real = a.real;
    lines.n = a.n;
    return lines;
}

bool is_above_zero(const stni_cufft_side &side)
{
    return side.step > 0 && side.line > 0;
}

/* cuFFT reads reals in pairs. */
bool is_aligned(const stni_fft_args &a, const request &r)
{
    const uintptr_t size = 2 * real_bytes(a);
    const bool calls_are = a.kind != STNI_TRANSFORM_HALVE || r.calls == 1 || r.call_in % 2 == 0;
    return (uintptr_t)a.in % size == 0 && (uintptr_t)a.out % size == 0 && calls_are;
}

/* In place, lines lie alike on both sides. */
bool is_same_memory(const stni_fft_args &a)
{
    return a.in == a.out;
}

/* Whether lines lie side by side: enough of them to fill half of a tile. */
bool are_side_by_side(const stni_fft_args &a, const int64_t *strides, int64_t step)
{
    return strides[a.ndim - 1] == 1 && step > 1 && a.shape[a.ndim - 1] >= SIDE / 2;
}

/* How many calls for lines where they are are worth it. */
int64_t most_calls(const stni_fft_args &a)
{
    const bool tiles = are_side_by_side(a, a.strides_in, a.step_in) && are_side_by_side(a, a.strides_out, a.step_out);
    return tiles ? FEW_CALLS : MOST_CALLS;
}

/* Whether cuFFT can take the lines where they are. */
bool ask_directly(const stni_fft_args &a, request &r)
{
    operands<2> o = no_dims<2>();
    for (int d = 0; d < a.ndim; d++)
        add_dim(o, a.shape[d], {a.strides_in[d], a.strides_out[d]});
    const int last = o.ndim - 1;
    if (a.kind == STNI_TRANSFORM_RESTORE || a.real_in || o.ndim > 2)
        return false;
    r.is_direct = true;
    r.calls = o.ndim == 2 ? o.shape[0] : 1;
    r.call_in = o.ndim == 2 ? o.stride[0][0] : 0;
    r.call_out = o.ndim == 2 ? o.stride[1][0] : 0;
    r.lines.count = r.last = last < 0 ? 1 : o.shape[last];
    r.lines.in = {a.step_in, last < 0 ? a.n * a.step_in : o.stride[0][last]};
    r.lines.out = {a.step_out, last < 0 ? a.n_out * a.step_out : o.stride[1][last]};
    const bool alike =
        r.lines.in.step == r.lines.out.step && r.lines.in.line == r.lines.out.line && r.call_in == r.call_out;
    return r.calls <= most_calls(a) && is_above_zero(r.lines.in) && is_above_zero(r.lines.out) && is_aligned(a, r) &&
           (alike || !is_same_memory(a));
}

/* By way of buffers in which lines are dense. Complex lines need one. */
void ask_by_buffers(const stni_fft_args &a, request &r)
{
    const int64_t half = a.n / 2 + 1, lines = lines_of(a);
    const bool halves = a.kind == STNI_TRANSFORM_HALVE, restores = a.kind == STNI_TRANSFORM_RESTORE;
    r.is_direct = false;
    r.lines.in = {1, restores ? half : a.n};
    r.lines.out = {1, halves ? half : a.n};
    const size_t from = (size_t)r.lines.in.line * (halves ? 1 : 2) * real_bytes(a),
                 to = halves || restores ? (size_t)r.lines.out.line * (restores ? 1 : 2) * real_bytes(a) : 0;
    const int64_t fit = (int64_t)(MOST_BYTES / (from + to));
    r.lines.count = fit < 1 ? 1 : fit < lines ? fit : lines;
    r.calls = (lines + r.lines.count - 1) / r.lines.count;
    r.last = lines - (r.calls - 1) * r.lines.count;
    r.from_bytes = ((size_t)r.lines.count * from + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
    r.to_bytes = ((size_t)r.lines.count * to + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

/* There are lines. */
request request_of(const stni_fft_args &a)
{
    request r;
    memset(&r, 0, sizeof r);
    r.lines = lines_of_kind(a);
    if (!ask_directly(a, r))
        ask_by_buffers(a, r);
    return r;
}

stni_cufft_lines lines_of_call(const request &r, int64_t call)
{
    stni_cufft_lines lines = r.lines;
    lines.count = call == r.calls - 1 ? r.last : r.lines.count;
    return lines;
}

/* Bytes of buffers and of cuFFT's own scratch. */
stn_status library_bytes(stn_queue *queue, const request &r, size_t *out)
{
    const stni_cufft_lines last = lines_of_call(r, r.calls - 1);
    size_t first = 0, other = 0;
    const stn_status status = stni_cufft_workspace(queue, &r.lines, &first);
    if (status != STN_OK)
        return status;
    if (r.last != r.lines.count && stni_cufft_workspace(queue, &last, &other) != STN_OK)
        return STN_ERR_UNSUPPORTED;
    const size_t all = r.from_bytes + r.to_bytes + (first > other ? first : other);
    *out = all > 0 ? all + WORKSPACE_ALIGNMENT : 0;
    return STN_OK;
}

/* A thread each element of the buffer. */
template <class R>
__global__ void __launch_bounds__(THREADS)
    gather_lines(const __grid_constant__ stni_fft_args a, int64_t first, int64_t count, int64_t length, void *buffer)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, line = i / length;
    if (line < count)
        put_number<R>(a, buffer, i, read_number<R>(a, line_begin(a, a.strides_in, first + line), i % length));
}

/* A thread each element of the result; of lines in place without a buffer. */
template <class R>
__global__ void __launch_bounds__(THREADS)
    store_lines(const __grid_constant__ stni_fft_args a, int64_t first, int64_t count, const void *buffer)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, line = i / a.n_out, k = i % a.n_out;
    if (line >= count)
        return;
    const int64_t begin = line_begin(a, a.strides_out, first + line);
    const number x = buffer ? take_number<R>(a, buffer, i) : take_number<R>(a, a.out, begin + k * a.step_out);
    write_number<R>(a, begin, k, x);
}

/* Lines that lie side by side in memory, each an element from the next, are dense in the buffer: a tile of both goes
 * through shared memory, so that neighbouring threads touch neighbours on either side. */
struct tile_of_lines {
    int64_t line, element; /* the first ones */
    int across, down;      /* of the thread */
};

STNI_DEVICE tile_of_lines tile_of(int64_t length)
{
    const int64_t tiles = (length + SIDE - 1) / SIDE, tile = blockIdx.x;
    return {tile / tiles * SIDE, tile % tiles * SIDE, (int)threadIdx.x % SIDE, (int)threadIdx.x / SIDE};
}

template <class R>
__global__ void __launch_bounds__(THREADS)
    gather_tiles(const __grid_constant__ stni_fft_args a, int64_t first, int64_t count, int64_t length, void *buffer)
{
    STNI_SHARED(number, tile, SIDE * PITCH);
    const tile_of_lines t = tile_of(length);
    if (t.line + t.across < count) {
        const int64_t begin = line_begin(a, a.strides_in, first + t.line + t.across);
        for (int e = t.down; e < SIDE && t.element + e < length; e += ROWS)
            tile[e * PITCH + t.across] = read_number<R>(a, begin, t.element + e);
    }
    __syncthreads();
    for (int l = t.down; l < SIDE && t.line + l < count; l += ROWS)
        if (t.element + t.across < length)
            put_number<R>(a, buffer, (t.line + l) * length + t.element + t.across, tile[t.across * PITCH + l]);
}

template <class R>
__global__ void __launch_bounds__(THREADS)
    store_tiles(const __grid_constant__ stni_fft_args a, int64_t first, int64_t count, const void *buffer)
{
    STNI_SHARED(number, tile, SIDE * PITCH);
    const tile_of_lines t = tile_of(a.n_out);
    for (int l = t.down; l < SIDE && t.line + l < count; l += ROWS)
        if (t.element + t.across < a.n_out)
            tile[t.across * PITCH + l] = take_number<R>(a, buffer, (t.line + l) * a.n_out + t.element + t.across);
    __syncthreads();
    if (t.line + t.across >= count)
        return;
    const int64_t begin = line_begin(a, a.strides_out, first + t.line + t.across);
    for (int e = t.down; e < SIDE && t.element + e < a.n_out; e += ROWS)
        write_number<R>(a, begin, t.element + e, tile[e * PITCH + t.across]);
}

int64_t tiles_of(int64_t count, int64_t length)
{
    return ((count + SIDE - 1) / SIDE) * ((length + SIDE - 1) / SIDE);
}

template <class R>
void launch_gather(const stni_fft_args &a, int64_t first, const stni_cufft_lines &lines, void *buffer,
                   cudaStream_t stream)
{
    const int64_t count = lines.count, length = lines.in.line;
    if (are_side_by_side(a, a.strides_in, a.step_in))
        STNI_LAUNCH(gather_tiles<R>, blocks_for(tiles_of(count, length), 1), THREADS, stream, a, first, count, length,
                    buffer);
    else
        STNI_LAUNCH(gather_lines<R>, blocks_for(count * length, THREADS), THREADS, stream, a, first, count, length,
                    buffer);
}

template <class R>
void launch_store(const stni_fft_args &a, int64_t first, int64_t count, const void *buffer, cudaStream_t stream)
{
    if (count == 0)
        return;
    if (buffer && are_side_by_side(a, a.strides_out, a.step_out))
        STNI_LAUNCH(store_tiles<R>, blocks_for(tiles_of(count, a.n_out), 1), THREADS, stream, a, first, count, buffer);
    else
        STNI_LAUNCH(store_lines<R>, blocks_for(count * a.n_out, THREADS), THREADS, stream, a, first, count, buffer);
}

/* Both return how many lines are done: all, or those before the first call that was refused. */
template <class R> int64_t run_directly(stn_queue *queue, const stni_fft_args &a, const request &r, cudaStream_t stream)
{
    const size_t in_bytes = (a.kind == STNI_TRANSFORM_HALVE ? 1 : 2) * sizeof(R);
    const bool scales = a.scale != 1 || (a.kind == STNI_TRANSFORM_HALVE && a.interior != 1);
    int64_t call = 0;
    for (; call < r.calls; call++) {
        char *in = const_cast<char *>(static_cast<const char *>(a.in)) + call * r.call_in * (int64_t)in_bytes;
        char *out = static_cast<char *>(a.out) + call * r.call_out * (int64_t)(2 * sizeof(R));
        if (stni_cufft_run(queue, &r.lines, sign_of(a) > 0, in, out, aligned(a.workspace)) != STN_OK)
            break;
    }
    if (scales)
        launch_store<R>(a, 0, call * r.lines.count, nullptr, stream);
    return call * r.lines.count;
}

template <class R>
int64_t run_by_buffers(stn_queue *queue, const stni_fft_args &a, const request &r, cudaStream_t stream)
{
    char *from = static_cast<char *>(aligned(a.workspace)), *to = from + r.from_bytes, *scratch = to + r.to_bytes;
    if (r.to_bytes == 0)
        to = from;
    int64_t first = 0;
    for (int64_t call = 0; call < r.calls; call++) {
        const stni_cufft_lines lines = lines_of_call(r, call);
        launch_gather<R>(a, first, lines, from, stream);
        if (stni_cufft_run(queue, &lines, sign_of(a) > 0, from, to, scratch) != STN_OK)
            break;
        launch_store<R>(a, first, lines.count, to, stream);
        first += lines.count;
    }
    return first;
}

template <class R> int64_t run_library(stn_queue *queue, const stni_fft_args &a, const request &r, cudaStream_t stream)
{
    return r.is_direct ? run_directly<R>(queue, a, r, stream) : run_by_buffers<R>(queue, a, r, stream);
}

/* Where cuFFT serves, our own kernels have its workspace, and no more than they need for a line. */
size_t workspace_of_lines(stn_queue *queue, const void *given)
{
    const stni_fft_args &a = *static_cast<const stni_fft_args *>(given);
    size_t bytes = 0;
    if (lines_of(a) == 0)
        return 0;
    if (library_bytes(queue, request_of(a), &bytes) != STN_OK)
        return stni_fft_own_bytes(&a, MOST_BYTES);
    const size_t own = stni_fft_own_bytes(&a, bytes);
    return own > bytes ? own : bytes;
}

stn_status run_lines(stn_queue *queue, const void *given)
{
    const stni_fft_args &a = *static_cast<const stni_fft_args *>(given);
    cudaStream_t stream = static_cast<cudaStream_t>(stni_cuda_stream(queue));
    size_t bytes = MOST_BYTES;
    int64_t done = 0;
    if (lines_of(a) == 0)
        return STN_OK;
    const request r = request_of(a);
    if (library_bytes(queue, r, &bytes) == STN_OK)
        done = a.real == STN_DTYPE_F64 ? run_library<double>(queue, a, r, stream)
                                       : run_library<float>(queue, a, r, stream);
    stni_fft_own_launch(&a, done, bytes, a.workspace, stream);
    return stni_cuda_launched(queue);
}

}

#define ROW(op)                                                                                                        \
    STNI_CUDA_KERNEL_OF_QUEUE(op ".lines", dtype_bit(STN_DTYPE_F32) | dtype_bit(STN_DTYPE_F64) | COMPLEX_DTYPES,       \
                              stni_fft_args, run_lines, workspace_of_lines)

STNI_CUDA_KERNELS(fft) = {ROW("fft_complex"), ROW("fft_halve"), ROW("fft_restore"), STNI_CUDA_KERNELS_END};
