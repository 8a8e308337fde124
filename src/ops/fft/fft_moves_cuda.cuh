/* Lines on their way to dense buffers that cuFFT transforms, from there to the result, and in the result to what is
 * scaled there: an element a thread, or tiles where lines lie side by side. */
#ifndef STNI_OPS_FFT_FFT_MOVES_CUDA_CUH
#define STNI_OPS_FFT_FFT_MOVES_CUDA_CUH

#include "core/device/cuda/index.cuh"
#include "ops/fft/fft_lines_cuda.cuh"

namespace
{

/* EACH: elements that a thread moves, so that as many reads are on their way at once. */
enum { THREADS = 256, EACH = 4 };

/* Tiles of lines: a thread moves SIDE / ROWS elements of them. */
enum { SIDE = 32, ROWS = THREADS / SIDE, PITCH = SIDE + 1 };

/* What cuFFT counts: lines, or with more dims what is transformed together. */
struct span {
    int64_t first, count;
};

/* One side of the lines of a span, a transform's own beside each other: where they begin, and which one an element of
 * a dense buffer is of. */
struct line_map {
    operands<1> lines;
    int64_t first, elements, length; /* the first line; elements of all lines and of one */
    int64_t planes;                  /* lines of a transform */
    divider by_length, by_planes, by_more;
    bool are_pairs; /* complex numbers lie where both parts may be read at once */
};

template <class R> struct alignas(2 * sizeof(R)) pair_of {
    R re, im;
};

/* Lines of a transform. */
STNI_HOST_DEVICE int64_t planes_of(const stni_fft_args &a)
{
    int64_t planes = 1;
    for (int d = 0; d < a.n_more; d++)
        planes *= a.more[d].n;
    return planes;
}

inline line_map map_of(const stni_fft_args &a, bool is_in, const span &s)
{
    const uintptr_t bytes = a.real == STN_DTYPE_F64 ? 2 * sizeof(double) : 2 * sizeof(float);
    line_map m;
    memset(&m, 0, sizeof m);
    m.lines = no_dims<1>();
    for (int d = 0; d < a.ndim; d++)
        add_dim(m.lines, a.shape[d], {is_in ? a.strides_in[d] : a.strides_out[d]});
    for (int d = 0; d < a.n_more; d++)
        add_dim(m.lines, a.more[d].n, {is_in ? a.more[d].step_in : a.more[d].step_out});
    end_dims(m.lines);
    m.planes = planes_of(a);
    m.length = !is_in ? a.n_out : a.kind == STNI_TRANSFORM_RESTORE ? a.n / 2 + 1 : a.n;
    m.first = s.first * m.planes;
    m.elements = s.count * m.planes * m.length;
    m.are_pairs = (uintptr_t)(is_in ? a.in : a.out) % bytes == 0;
    if (m.elements >> SMALL_COUNT_BITS == 0) {
        m.by_length = divider_of(m.length);
        m.by_planes = divider_of(m.planes);
        m.by_more = divider_of(a.n_more > 1 ? a.more[a.n_more - 1].n : 1);
    }
    return m;
}

/* Whether 32-bit indices serve. */
inline bool is_small(const line_map &m)
{
    return is_small(m.lines) && m.elements >> SMALL_COUNT_BITS == 0;
}

template <class I> STNI_DEVICE int64_t line_at(const line_map &m, I line)
{
    int64_t at[1];
    offsets_of(m.lines, line, at);
    return at[0];
}

STNI_HOST_DEVICE int64_t opposite(int64_t k, int64_t n)
{
    return k == 0 ? 0 : n - k;
}

/* Of the same transform, the line that stands for the conjugates of this one, as index n - k does for k. */
template <class I> STNI_DEVICE I opposite_line(const stni_fft_args &a, const line_map &m, I line)
{
    const int64_t inner = a.more[a.n_more - 1].n;
    const I begin = quotient_in_dim(line, m.planes, m.by_planes) * (I)m.planes, here = line - begin;
    const I outer = a.n_more > 1 ? quotient_in_dim(here, inner, m.by_more) : 0;
    const int64_t k = opposite((int64_t)(here - outer * (I)inner), inner);
    return begin + (I)((a.n_more > 1 ? opposite((int64_t)outer, a.more[0].n) * inner : 0) + k);
}

template <class R> STNI_DEVICE pair_of<R> complex_at(const void *data, int64_t at, bool are_pairs)
{
    if (are_pairs)
        return static_cast<const pair_of<R> *>(data)[at];
    const R *parts = static_cast<const R *>(data) + 2 * at;
    return {parts[0], parts[1]};
}

/* Element i of what goes into the transforms, scaled. Of halves that are restored, what stands for its own conjugate
 * is made what cuFFT wants of it. Transforms see no difference: along a line nobody reads the imaginary part there,
 * and with more dims this is the real part of what comes of them. */
template <class R, class I>
STNI_DEVICE pair_of<R> scaled_element(const stni_fft_args &a, const line_map &m, R scale, R interior, I i)
{
    const I line = quotient_in_dim(i, m.length, m.by_length) + (I)m.first, k = i - (line - (I)m.first) * (I)m.length;
    const int64_t step = (int64_t)k * a.step_in, at = line_at(m, line) + step;
    if (a.real_in || a.kind == STNI_TRANSFORM_HALVE)
        return {static_cast<const R *>(a.in)[at] * scale, 0};
    pair_of<R> z = complex_at<R>(a.in, at, m.are_pairs);
    if (a.kind != STNI_TRANSFORM_RESTORE)
        return {z.re * scale, z.im * scale};
    if (is_interior(a, (int64_t)k))
        return {z.re * interior, z.im * interior};
    if (a.n_more == 0)
        return {z.re * scale, 0};
    const pair_of<R> other = complex_at<R>(a.in, line_at(m, opposite_line(a, m, line)) + step, m.are_pairs);
    return {(z.re + other.re) * (scale / 2), (z.im - other.im) * (scale / 2)};
}

template <class R, class I>
__global__ void __launch_bounds__(THREADS)
    gather_elements(const __grid_constant__ stni_fft_args a, const __grid_constant__ line_map m, void *buffer)
{
    const I first = (I)blockIdx.x * (THREADS * EACH) + threadIdx.x, count = (I)m.elements;
    const R scale = (R)a.scale, interior = (R)(a.scale * a.interior);
    pair_of<R> x[EACH];
    for (int e = 0; e < EACH; e++)
        if (first + e * THREADS < count)
            x[e] = scaled_element<R>(a, m, scale, interior, (I)(first + e * THREADS));
    for (int e = 0; e < EACH; e++) {
        const I i = first + e * THREADS;
        if (i < count && a.kind == STNI_TRANSFORM_HALVE)
            static_cast<R *>(buffer)[i] = x[e].re;
        else if (i < count)
            static_cast<pair_of<R> *>(buffer)[i] = x[e];
    }
}

/* Scales what is in a dense buffer, or without one in the result. */
template <class R, class I>
__global__ void __launch_bounds__(THREADS)
    store_elements(const __grid_constant__ stni_fft_args a, const __grid_constant__ line_map m, const void *buffer)
{
    const I first = (I)blockIdx.x * (THREADS * EACH) + threadIdx.x, count = (I)m.elements;
    const bool are_real = a.kind == STNI_TRANSFORM_RESTORE;
    const R scale = (R)a.scale, interior = a.kind == STNI_TRANSFORM_HALVE ? (R)(a.scale * a.interior) : (R)a.scale;
    for (int e = 0; e < EACH; e++) {
        const I i = first + e * THREADS;
        if (i >= count)
            return;
        const I line = quotient_in_dim(i, m.length, m.by_length), k = i - line * (I)m.length;
        const int64_t at = line_at(m, line + (I)m.first) + (int64_t)k * a.step_out;
        const R factor = is_interior(a, (int64_t)k) ? interior : scale;
        if (are_real) {
            static_cast<R *>(a.out)[at] = static_cast<const R *>(buffer)[i] * factor;
            continue;
        }
        const pair_of<R> z =
            buffer ? static_cast<const pair_of<R> *>(buffer)[i] : complex_at<R>(a.out, at, m.are_pairs);
        static_cast<stni_complex<R> *>(a.out)[at] = stni_complex<R>(z.re * factor, z.im * factor);
    }
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
    gather_tiles(const __grid_constant__ stni_fft_args a, const __grid_constant__ span s, int64_t length, void *buffer)
{
    STNI_SHARED(number, tile, SIDE * PITCH);
    const tile_of_lines t = tile_of(length);
    if (t.line + t.across < s.count) {
        const int64_t begin = line_begin(a, a.strides_in, s.first + t.line + t.across);
        for (int e = t.down; e < SIDE && t.element + e < length; e += ROWS)
            tile[e * PITCH + t.across] = a.scale * read_number<R>(a, begin, t.element + e);
    }
    __syncthreads();
    for (int l = t.down; l < SIDE && t.line + l < s.count; l += ROWS)
        if (t.element + t.across < length)
            put_number<R>(a, buffer, (t.line + l) * length + t.element + t.across, tile[t.across * PITCH + l]);
}

template <class R>
__global__ void __launch_bounds__(THREADS)
    store_tiles(const __grid_constant__ stni_fft_args a, const __grid_constant__ span s, const void *buffer)
{
    STNI_SHARED(number, tile, SIDE * PITCH);
    const tile_of_lines t = tile_of(a.n_out);
    for (int l = t.down; l < SIDE && t.line + l < s.count; l += ROWS)
        if (t.element + t.across < a.n_out)
            tile[t.across * PITCH + l] = take_number<R>(a, buffer, (t.line + l) * a.n_out + t.element + t.across);
    __syncthreads();
    if (t.line + t.across >= s.count)
        return;
    const int64_t begin = line_begin(a, a.strides_out, s.first + t.line + t.across);
    for (int e = t.down; e < SIDE && t.element + e < a.n_out; e += ROWS)
        write_number<R>(a, begin, t.element + e, tile[e * PITCH + t.across]);
}

/* Whether lines lie side by side: enough of them to fill half of a tile. */
inline bool are_side_by_side(const stni_fft_args &a, const int64_t *strides, int64_t step)
{
    return a.n_more == 0 && strides[a.ndim - 1] == 1 && step > 1 && a.shape[a.ndim - 1] >= SIDE / 2;
}

inline unsigned tiles_of(int64_t count, int64_t length)
{
    return blocks_for(((count + SIDE - 1) / SIDE) * ((length + SIDE - 1) / SIDE), 1);
}

template <class R> void launch_gather(const stni_fft_args &a, const span &s, void *buffer, cudaStream_t stream)
{
    const line_map m = map_of(a, true, s);
    const unsigned blocks = blocks_for(m.elements, THREADS * EACH);
    if (are_side_by_side(a, a.strides_in, a.step_in))
        STNI_LAUNCH(gather_tiles<R>, tiles_of(s.count, m.length), THREADS, stream, a, s, m.length, buffer);
    else if (is_small(m))
        STNI_LAUNCH((gather_elements<R, uint32_t>), blocks, THREADS, stream, a, m, buffer);
    else
        STNI_LAUNCH((gather_elements<R, int64_t>), blocks, THREADS, stream, a, m, buffer);
}

/* Without a buffer: what is in the result. */
template <class R> void launch_store(const stni_fft_args &a, const span &s, const void *buffer, cudaStream_t stream)
{
    const line_map m = map_of(a, false, s);
    const unsigned blocks = blocks_for(m.elements, THREADS * EACH);
    if (m.elements == 0)
        return;
    if (buffer && are_side_by_side(a, a.strides_out, a.step_out))
        STNI_LAUNCH(store_tiles<R>, tiles_of(s.count, a.n_out), THREADS, stream, a, s, buffer);
    else if (is_small(m))
        STNI_LAUNCH((store_elements<R, uint32_t>), blocks, THREADS, stream, a, m, buffer);
    else
        STNI_LAUNCH((store_elements<R, int64_t>), blocks, THREADS, stream, a, m, buffer);
}

}

#endif
