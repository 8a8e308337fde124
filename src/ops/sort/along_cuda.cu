/* On a CUDA device: elements at their indices' places along a dim, and back; elements for other ranks side by side;
 * places of values in a sequence; histograms. */
#include "core/device/cuda/block.cuh"
#include "core/device/cuda/convert.cuh"
#include "core/device/cuda/parts.cuh"
#include "core/device/cuda/radix.cuh"
#include "core/device/cuda/value.cuh"
#include "ops/common/bad_value.h"
#include "ops/sort/order_cuda.cuh"

#include <math.h>

namespace {

enum { THREADS = 256, PER_THREAD = 64, FEW_BINS = 1024 };

/* A thread each index. `takes`: from the whole to the part, zeros where the element is on another rank. */
template <class W>
__global__ void __launch_bounds__(THREADS)
    move_along(const __grid_constant__ stni_sort_along_args a, int64_t n, int takes)
{
    const stni_sort_lines &lines = a.lines;
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x, l = t / a.k, i = t % a.k;
    if (t >= n)
        return;
    const int64_t at = a.indices[order_line_at(&lines, ORDER_INDICES, l) + i * lines.step[ORDER_INDICES]] - lines.first;
    const bool here = at >= 0 && at < lines.n;
    W *whole = static_cast<W *>(a.whole) + order_line_at(&lines, ORDER_IN, l) + (here ? at * lines.along_in[0] : 0);
    W *part = static_cast<W *>(a.part) + order_line_at(&lines, ORDER_VALUES, l) + i * lines.step[ORDER_VALUES];
    if (takes)
        *part = here ? *whole : W();
    else if (here)
        *whole = *part;
}

void launch_move(const stni_sort_along_args &a, int takes, cudaStream_t stream)
{
    const int64_t n = order_line_count(&a.lines) * a.k;
    if (n > 0)
        dispatch_unit(a.size, [&](auto unit) {
            STNI_LAUNCH(move_along<decltype(unit)>, blocks_for(n, THREADS), THREADS, stream, a, n, takes);
        });
}

void launch_place(const stni_sort_along_args &a, cudaStream_t stream)
{
    if (a.whole_bytes > 0)
        cudaMemsetAsync(a.whole, 0, a.whole_bytes, stream);
    launch_move(a, 0, stream);
}

void launch_take(const stni_sort_along_args &a, cudaStream_t stream)
{
    launch_move(a, 1, stream);
}

/* The piece in which an index lies: the last one that begins at or before it. */
STNI_DEVICE int piece_of(const stni_sort_pack_args &a, int64_t index)
{
    return (int)count_first(a.n_pieces - 1, [&](int64_t piece) { return a.begins[piece + 1] <= index; });
}

STNI_DEVICE int64_t index_of(const stni_sort_pack_args &a, int64_t i)
{
    return a.indices[i * a.indices_step];
}

/* Elements of a tile, which a block counts and packs. */
enum { PACK_TILE = 16 * THREADS };

STNI_HOST_DEVICE int64_t pack_tiles(const stni_sort_pack_args &a)
{
    return (a.n + PACK_TILE - 1) / PACK_TILE;
}

STNI_DEVICE int64_t end_of_tile(const stni_sort_pack_args &a)
{
    const int64_t end = (int64_t)(blockIdx.x + 1) * PACK_TILE;
    return end < a.n ? end : a.n;
}

/* Of a piece and this block's tile: how many of its indices lie in the piece, then where the next of them goes. */
STNI_DEVICE int64_t &cell_of(const stni_sort_pack_args &a, int piece)
{
    return a.work[piece * pack_tiles(a) + blockIdx.x];
}

__global__ void __launch_bounds__(THREADS) count_pieces(const __grid_constant__ stni_sort_pack_args a)
{
    for (int64_t i = (int64_t)blockIdx.x * PACK_TILE + threadIdx.x; i < end_of_tile(a); i += THREADS)
        count_more(&cell_of(a, piece_of(a, index_of(a, i))), 1);
}

/* One block: work becomes where what a tile has of a piece begins, counts what each rank gets. */
__global__ void __launch_bounds__(THREADS) begin_pieces(const __grid_constant__ stni_sort_pack_args a)
{
    const int64_t tiles = pack_tiles(a), cells = a.n_pieces * tiles;
    int64_t before = 0, all;
    for (int64_t first = 0; first < cells; first += THREADS) {
        const int64_t cell = first + threadIdx.x;
        const int64_t sum = sum_before<THREADS>(cell < cells ? a.work[cell] : (int64_t)0, &all);
        if (cell < cells)
            a.work[cell] = before + sum;
        before += all;
    }
    __syncthreads();
    for (int r = (int)threadIdx.x; r < a.n_pieces; r += THREADS) {
        const int64_t cell = a.pieces[r] * tiles, next = cell + tiles;
        a.counts[r] = tiles == 0 ? 0 : (next < cells ? a.work[next] : a.n) - a.work[cell];
    }
}

/* A block each tile, THREADS elements at a time, so that those of a piece keep their order. */
template <class W> __global__ void __launch_bounds__(THREADS) pack_pieces(const __grid_constant__ stni_sort_pack_args a)
{
    STNI_SHARED(int, piece, THREADS);
    const int me = (int)threadIdx.x;
    const int64_t end = end_of_tile(a);
    for (int64_t first = (int64_t)blockIdx.x * PACK_TILE; first < end; first += THREADS) {
        const int64_t i = first + me;
        int before = 0, after = 0;
        int64_t begin = 0;
        piece[me] = i < end ? piece_of(a, index_of(a, i)) : -1;
        __syncthreads();
        for (int k = 0; k < THREADS; k++) {
            before += k < me && piece[k] == piece[me];
            after += k > me && piece[k] == piece[me];
        }
        if (i < end)
            begin = cell_of(a, piece[me]);
        __syncthreads();
        if (i >= end)
            continue;
        if (a.packed)
            static_cast<W *>(a.packed)[begin + before] = static_cast<const W *>(a.grad)[i * a.grad_step];
        if (a.packed_indices)
            a.packed_indices[begin + before] = index_of(a, i);
        if (after == 0)
            cell_of(a, piece[me]) = begin + before + 1;
    }
}

size_t pack_workspace(stn_queue *, const void *args)
{
    const stni_sort_pack_args &a = *static_cast<const stni_sort_pack_args *>(args);
    return (size_t)(a.n_pieces * pack_tiles(a)) * sizeof *a.work;
}

void launch_pack(const stni_sort_pack_args &a, cudaStream_t stream)
{
    const int64_t tiles = pack_tiles(a);
    if (tiles > 0) {
        cudaMemsetAsync(a.work, 0, pack_workspace(nullptr, &a), stream);
        STNI_LAUNCH(count_pieces, grid_of(tiles), THREADS, stream, a);
    }
    STNI_LAUNCH(begin_pieces, 1, THREADS, stream, a);
    if (tiles > 0)
        dispatch_unit(a.size,
                      [&](auto unit) { STNI_LAUNCH(pack_pieces<decltype(unit)>, grid_of(tiles), THREADS, stream, a); });
}

/* A thread each value. */
__global__ void __launch_bounds__(THREADS) search_values(const __grid_constant__ stni_sort_search_args a, int64_t n)
{
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x, l = t / a.lines.n;
    if (t >= n)
        return;
    const line_element e = element_of(a.lines, t % a.lines.n);
    const uint64_t bits = a.bits;
    const uint64_t key = a.values ? key_at(a.order, a.values, order_line_at(&a.lines, ORDER_VALUES, l) + e.at)
                                  : key_at(a.order, &bits, 0);
    const int64_t begin = order_line_at(&a.lines, ORDER_IN, l),
                  to = order_line_at(&a.lines, ORDER_INDICES, l) + e.index;
    const int64_t place = count_first(a.n, [&](int64_t i) {
        const uint64_t own = key_at(a.order, a.sequence, begin + i * a.step);
        return own < key || (own == key && a.right);
    });
    write_element(a.out, a.out_dtype, to, place);
}

void launch_search(const stni_sort_search_args &a, cudaStream_t stream)
{
    const int64_t n = order_line_count(&a.lines) * a.lines.n;
    if (n > 0)
        STNI_LAUNCH(search_values, blocks_for(n, THREADS), THREADS, stream, a, n);
}

STNI_DEVICE double number_at(const stni_sort_histogram_args &a, int64_t i)
{
    return read_element<double>(a.in, a.dtype, element_of(a.lines, i).at);
}

/* NaN stays. */
STNI_DEVICE double greater_of(double a, double b)
{
    return b > a || b != b ? b : a;
}

/* NaN stays, and it does not matter in which order threads raise a number. */
STNI_DEVICE void raise(double *number, double to)
{
    unsigned long long *bits = reinterpret_cast<unsigned long long *>(number), found = *bits, wanted;
    for (;;) {
        double now;
        memcpy(&now, &found, sizeof now);
        now = greater_of(now, to);
        memcpy(&wanted, &now, sizeof now);
        const unsigned long long before = atomicCAS(bits, found, wanted);
        if (before == found)
            return;
        found = before;
    }
}

__global__ void begin_range(double *range)
{
    range[threadIdx.x] = -(double)INFINITY;
}

/* A block each part. */
__global__ void __launch_bounds__(THREADS) find_range(const __grid_constant__ stni_sort_histogram_args a, parts part)
{
    double low = -(double)INFINITY, high = -(double)INFINITY;
    const int64_t end = part_end(part, a.lines.n, blockIdx.x);
    for (int64_t i = blockIdx.x * part.each + threadIdx.x; i < end; i += THREADS) {
        const double x = number_at(a, i);
        low = greater_of(low, -x);
        high = greater_of(high, x);
    }
    low = reduce_block<THREADS>(low, greater_of);
    high = reduce_block<THREADS>(high, greater_of);
    if (threadIdx.x == 0) {
        raise(&a.range[0], low);
        raise(&a.range[1], high);
    }
}

void launch_range(const stni_sort_histogram_args &a, cudaStream_t stream)
{
    const parts part = parts_of(a.lines.n, THREADS, 1);
    STNI_LAUNCH(begin_range, 1, 2, stream, a.range);
    STNI_LAUNCH(find_range, grid_of(part.count), THREADS, stream, a, part);
}

/* Few bins are counted by each block apart first. */
__global__ void __launch_bounds__(THREADS)
    count_bins(const __grid_constant__ stni_sort_histogram_args a, stn_value_record *record)
{
    STNI_SHARED(int64_t, of_block, FEW_BINS);
    const int64_t first = (int64_t)blockIdx.x * THREADS * PER_THREAD, end = first + THREADS * PER_THREAD;
    const int64_t few = a.bins <= FEW_BINS ? a.bins : 0;
    int64_t *counts = few ? of_block : a.counts;
    double ends[2];
    stni_sort_histogram_ends(&a, &ends[0], &ends[1]);
    if (!(fabs(ends[0]) < (double)INFINITY && fabs(ends[1]) < (double)INFINITY)) {
        int64_t numbers[2];
        memcpy(numbers, ends, sizeof numbers);
        if (first + threadIdx.x == 0)
            report_value(record, a.op, STNI_BAD_RANGE, 2, numbers);
        return;
    }
    for (int64_t k = threadIdx.x; k < few; k += THREADS)
        of_block[k] = 0;
    __syncthreads();
    for (int64_t i = first + threadIdx.x; i < end && i < a.lines.n; i += THREADS) {
        const int64_t bin = stni_sort_histogram_bin(number_at(a, i), ends[0], ends[1], a.bins);
        if (bin >= 0)
            count_more(&counts[bin], 1);
    }
    __syncthreads();
    for (int64_t k = threadIdx.x; k < few; k += THREADS)
        if (of_block[k] > 0)
            count_more(&a.counts[k], of_block[k]);
}

void launch_bins(const stni_sort_histogram_args &a, stn_value_record *record, cudaStream_t stream)
{
    cudaMemsetAsync(a.counts, 0, (size_t)a.bins * sizeof *a.counts, stream);
    STNI_LAUNCH(count_bins, blocks_for(a.lines.n, THREADS * PER_THREAD), THREADS, stream, a, record);
}

__global__ void __launch_bounds__(THREADS) store_bins(const __grid_constant__ stni_sort_histogram_args a)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < a.bins)
        write_element(a.out, a.dtype, i, a.counts[i]);
}

void launch_store(const stni_sort_histogram_args &a, cudaStream_t stream)
{
    STNI_LAUNCH(store_bins, blocks_for(a.bins, THREADS), THREADS, stream, a);
}

constexpr uint32_t NUMBERS = FLOATING_DTYPES | (INTEGER_DTYPES & ~NARROW_DTYPES);

}

STNI_CUDA_KERNELS(along) = {
    STNI_CUDA_KERNEL("order_place.move", ALL_DTYPES, stni_sort_along_args, launch_place),
    STNI_CUDA_KERNEL("order_take.move", ALL_DTYPES, stni_sort_along_args, launch_take),
    STNI_CUDA_KERNEL("sort_backward.place", ALL_DTYPES, stni_sort_along_args, launch_place),
    STNI_CUDA_KERNEL_WITH("sort_backward.pack", ALL_DTYPES, stni_sort_pack_args, launch_pack, pack_workspace),
    STNI_CUDA_KERNEL("order_search.search", ORDERED_DTYPES, stni_sort_search_args, launch_search),
    STNI_CUDA_KERNEL("histc.range", NUMBERS, stni_sort_histogram_args, launch_range),
    STNI_CUDA_REPORTING_KERNEL("histc.count", NUMBERS, stni_sort_histogram_args, launch_bins),
    STNI_CUDA_KERNEL("histc.store", NUMBERS, stni_sort_histogram_args, launch_store),
    STNI_CUDA_KERNELS_END
};
