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
    int64_t first, count;     /* lines of the span */
    int64_t elements, length; /* of all these lines and of one */
    int64_t planes;           /* lines of a transform */
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
    m.count = s.count * m.planes;
    m.elements = m.count * m.length;
    m.are_pairs = (uintptr_t)(is_in ? a.in : a.out) % bytes == 0;
    if (is_small_count(m.elements)) {
        m.by_length = divider_of(m.length);
        m.by_planes = divider_of(m.planes);
        m.by_more = divider_of(a.n_more > 1 ? a.more[a.n_more - 1].n : 1);
    }
    return m;
}

/* Whether 32-bit indices serve. */
inline bool is_small(const line_map &m)
{
    return is_small(m.lines) && is_small_count(m.elements);
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

/* What the numbers are multiplied by: most of them, and those that stand for their conjugates too. */
template <class R> struct factors {
    R most, interior;
};

template <class R> STNI_DEVICE factors<R> factors_of(const stni_fft_args &a, stni_transform_kind with_interior)
{
    return {(R)a.scale, (R)(a.kind == with_interior ? a.scale * a.interior : a.scale)};
}

/* Element k of a line of what goes into the transforms, scaled. Of halves that are restored, what stands for its own
 * conjugate is made what cuFFT wants of it. Transforms see no difference: along a line nobody reads the imaginary part
 * there, and with more dims this is the real part of what comes of them. */
template <class R, class I>
STNI_DEVICE pair_of<R> scaled_element(const stni_fft_args &a, const line_map &m, const factors<R> &by, I line, I k)
{
    const int64_t step = (int64_t)k * a.step_in, at = line_at(m, line) + step;
    if (a.real_in || a.kind == STNI_TRANSFORM_HALVE)
        return {static_cast<const R *>(a.in)[at] * by.most, 0};
    const pair_of<R> z = complex_at<R>(a.in, at, m.are_pairs);
    const bool is_inside = is_interior(a, (int64_t)k);
    if (a.kind != STNI_TRANSFORM_RESTORE || is_inside)
        return {z.re * (is_inside ? by.interior : by.most), z.im * (is_inside ? by.interior : by.most)};
    if (a.n_more == 0)
        return {z.re * by.most, 0};
    const pair_of<R> other = complex_at<R>(a.in, line_at(m, opposite_line(a, m, line)) + step, m.are_pairs);
    return {(z.re + other.re) * (by.most / 2), (z.im - other.im) * (by.most / 2)};
}

template <class R> STNI_DEVICE void put_number(const stni_fft_args &a, void *buffer, int64_t i, const pair_of<R> &x)
{
    if (a.kind == STNI_TRANSFORM_HALVE)
        static_cast<R *>(buffer)[i] = x.re;
    else
        static_cast<pair_of<R> *>(buffer)[i] = x;
}

template <class R, class I>
__global__ void __launch_bounds__(THREADS)
    gather_elements(const __grid_constant__ stni_fft_args a, const __grid_constant__ line_map m, void *buffer)
{
    const I first = (I)blockIdx.x * (THREADS * EACH) + threadIdx.x, count = (I)m.elements, length = (I)m.length;
    const factors<R> by = factors_of<R>(a, STNI_TRANSFORM_RESTORE);
    pair_of<R> x[EACH];
    STNI_UNROLL
    for (int e = 0; e < EACH; e++) {
        const I i = first + e * THREADS, line = quotient_in_dim(i, m.length, m.by_length);
        if (i < count)
            x[e] = scaled_element<R>(a, m, by, (I)(line + (I)m.first), (I)(i - line * length));
    }
    STNI_UNROLL
    for (int e = 0; e < EACH; e++)
        if (first + e * THREADS < count)
            put_number<R>(a, buffer, (int64_t)(first + e * THREADS), x[e]);
}

template <class R> STNI_DEVICE pair_of<R> take_number(const stni_fft_args &a, const void *buffer, int64_t i)
{
    if (a.kind == STNI_TRANSFORM_RESTORE)
        return {static_cast<const R *>(buffer)[i], 0};
    return static_cast<const pair_of<R> *>(buffer)[i];
}

/* Element k of a line of the result, scaled. */
template <class R>
STNI_DEVICE void store_scaled(const stni_fft_args &a, int64_t begin, int64_t k, const pair_of<R> &x,
                              const factors<R> &by)
{
    const int64_t at = begin + k * a.step_out;
    const R factor = is_interior(a, k) ? by.interior : by.most;
    if (a.kind == STNI_TRANSFORM_RESTORE)
        static_cast<R *>(a.out)[at] = x.re * factor;
    else
        static_cast<stni_complex<R> *>(a.out)[at] = stni_complex<R>(x.re * factor, x.im * factor);
}

/* Scales what is in a dense buffer, or without one in the result. */
template <class R, class I>
__global__ void __launch_bounds__(THREADS)
    store_elements(const __grid_constant__ stni_fft_args a, const __grid_constant__ line_map m, const void *buffer)
{
    const I first = (I)blockIdx.x * (THREADS * EACH) + threadIdx.x, count = (I)m.elements;
    const factors<R> by = factors_of<R>(a, STNI_TRANSFORM_HALVE);
    pair_of<R> x[EACH];
    int64_t begin[EACH], k[EACH];
    STNI_UNROLL
    for (int e = 0; e < EACH; e++) {
        const I i = first + e * THREADS, line = quotient_in_dim(i, m.length, m.by_length);
        if (i >= count)
            continue;
        begin[e] = line_at(m, (I)(line + (I)m.first));
        k[e] = (int64_t)(i - line * (I)m.length);
        x[e] = buffer ? take_number<R>(a, buffer, (int64_t)i)
                      : complex_at<R>(a.out, begin[e] + k[e] * a.step_out, m.are_pairs);
    }
    STNI_UNROLL
    for (int e = 0; e < EACH; e++)
        if (first + e * THREADS < count)
            store_scaled(a, begin[e], k[e], x[e], by);
}

/* Lines that lie side by side in memory, each an element from the next, are dense in the buffer: a tile of both goes
 * through shared memory, so that neighbouring threads touch neighbours on either side. */
struct tile_of_lines {
    int64_t line, element; /* the first ones, of the map's */
    int across, down;      /* of the thread */
};

STNI_DEVICE tile_of_lines tile_of(const line_map &m)
{
    const unsigned tiles = (unsigned)((m.length + SIDE - 1) / SIDE), tile = blockIdx.x;
    return {(int64_t)(tile / tiles) * SIDE, (int64_t)(tile % tiles) * SIDE, (int)threadIdx.x % SIDE,
            (int)threadIdx.x / SIDE};
}

template <class R, class I>
__global__ void __launch_bounds__(THREADS)
    gather_tiles(const __grid_constant__ stni_fft_args a, const __grid_constant__ line_map m, void *buffer)
{
    STNI_SHARED(pair_of<R>, tile, SIDE * PITCH);
    const tile_of_lines t = tile_of(m);
    const factors<R> by = factors_of<R>(a, STNI_TRANSFORM_RESTORE);
    const int64_t lines = m.count - t.line, elements = m.length - t.element;
    if (t.across < lines)
        for (int e = t.down; e < SIDE && e < elements; e += ROWS)
            tile[e * PITCH + t.across] =
                scaled_element<R>(a, m, by, (I)(m.first + t.line + t.across), (I)(t.element + e));
    __syncthreads();
    if (t.across < elements)
        for (int l = t.down; l < SIDE && l < lines; l += ROWS)
            put_number<R>(a, buffer, (t.line + l) * m.length + t.element + t.across, tile[t.across * PITCH + l]);
}

template <class R, class I>
__global__ void __launch_bounds__(THREADS)
    store_tiles(const __grid_constant__ stni_fft_args a, const __grid_constant__ line_map m, const void *buffer)
{
    STNI_SHARED(pair_of<R>, tile, SIDE * PITCH);
    const tile_of_lines t = tile_of(m);
    const factors<R> by = factors_of<R>(a, STNI_TRANSFORM_HALVE);
    const int64_t lines = m.count - t.line, elements = m.length - t.element;
    if (t.across < elements)
        for (int l = t.down; l < SIDE && l < lines; l += ROWS)
            tile[t.across * PITCH + l] = take_number<R>(a, buffer, (t.line + l) * m.length + t.element + t.across);
    __syncthreads();
    if (t.across >= lines)
        return;
    const int64_t begin = line_at(m, (I)(m.first + t.line + t.across));
    for (int e = t.down; e < SIDE && e < elements; e += ROWS)
        store_scaled(a, begin, t.element + e, tile[e * PITCH + t.across], by);
}

/* Whether lines lie side by side: enough of them to fill half of a tile. */
inline bool are_side_by_side(const stni_fft_args &a, const int64_t *strides, int64_t step)
{
    return a.n_more == 0 && strides[a.ndim - 1] == 1 && step > 1 && a.shape[a.ndim - 1] >= SIDE / 2;
}

inline unsigned tiles_of(const line_map &m)
{
    return blocks_for(((m.count + SIDE - 1) / SIDE) * ((m.length + SIDE - 1) / SIDE), 1);
}

template <class R, class I>
void launch_gather_by(const stni_fft_args &a, const line_map &m, void *buffer, cudaStream_t stream)
{
    if (are_side_by_side(a, a.strides_in, a.step_in))
        STNI_LAUNCH((gather_tiles<R, I>), tiles_of(m), THREADS, stream, a, m, buffer);
    else
        STNI_LAUNCH((gather_elements<R, I>), blocks_for(m.elements, THREADS * EACH), THREADS, stream, a, m, buffer);
}

template <class R, class I>
void launch_store_by(const stni_fft_args &a, const line_map &m, const void *buffer, cudaStream_t stream)
{
    if (buffer && are_side_by_side(a, a.strides_out, a.step_out))
        STNI_LAUNCH((store_tiles<R, I>), tiles_of(m), THREADS, stream, a, m, buffer);
    else
        STNI_LAUNCH((store_elements<R, I>), blocks_for(m.elements, THREADS * EACH), THREADS, stream, a, m, buffer);
}

template <class R> void launch_gather(const stni_fft_args &a, const span &s, void *buffer, cudaStream_t stream)
{
    const line_map m = map_of(a, true, s);
    if (is_small(m))
        launch_gather_by<R, uint32_t>(a, m, buffer, stream);
    else
        launch_gather_by<R, int64_t>(a, m, buffer, stream);
}

/* Without a buffer: what is in the result. */
template <class R> void launch_store(const stni_fft_args &a, const span &s, const void *buffer, cudaStream_t stream)
{
    const line_map m = map_of(a, false, s);
    if (m.elements == 0)
        return;
    if (is_small(m))
        launch_store_by<R, uint32_t>(a, m, buffer, stream);
    else
        launch_store_by<R, int64_t>(a, m, buffer, stream);
}

}

#endif
