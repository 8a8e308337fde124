/* Entries in order of their keys, of many lines at once: those of short lines by comparisons in shared memory
 * (Batcher's bitonic sorter), of longer ones by the digits of their keys, the last one first (Knuth, TAOCP 3, section
 * 5.2.5). Entries with one key keep the order of their places, and places grow along a line: so the result is the same
 * in every run.
 *
 *     sort_space<K, P> space = sort_space_of<K, P>(work, n, lines);     work has sort_bytes<K, P>(n, lines) bytes
 *     …a kernel writes the entries of line l to space.entries + l n…
 *     const sort_entry<K, P> *sorted = sort_entries(space, n, lines, bits, stream);
 *
 * K is uint32_t or uint64_t, of which the lower `bits` bits count; P, uint32_t or uint64_t, holds every place. */
#ifndef STNI_CORE_DEVICE_CUDA_RADIX_CUH
#define STNI_CORE_DEVICE_CUDA_RADIX_CUH

#include "core/device/cuda/block.cuh"
#include "core/device/cuda/index.cuh"

namespace {

template <class K, class P> struct sort_entry {
    K key;
    P place;
};

enum { SORT_THREADS = 256, SORT_DIGITS = 256, SORT_TILE = 16 * SORT_THREADS, SORT_SHORT = 1024 };

/* What comes of entries by one digit: counts[(line * SORT_DIGITS + digit) * tiles + tile], and of each digit in its
 * line. */
template <class K, class P> struct sort_space {
    sort_entry<K, P> *entries, *others;
    P *counts, *totals;
};

inline int64_t sort_tiles(int64_t n)
{
    return (n + SORT_TILE - 1) / SORT_TILE;
}

template <class K, class P> size_t sort_bytes(int64_t n, int64_t lines)
{
    const int64_t entries = n * lines * (int64_t)sizeof(sort_entry<K, P>),
                  counts = lines * SORT_DIGITS * (sort_tiles(n) + 1) * (int64_t)sizeof(P);
    return (size_t)(n <= SORT_SHORT ? entries : 2 * entries + counts);
}

template <class K, class P> sort_space<K, P> sort_space_of(void *work, int64_t n, int64_t lines)
{
    sort_space<K, P> space = {static_cast<sort_entry<K, P> *>(work), nullptr, nullptr, nullptr};
    if (n <= SORT_SHORT)
        return space;
    space.others = space.entries + n * lines;
    space.counts = reinterpret_cast<P *>(space.others + n * lines);
    space.totals = space.counts + lines * SORT_DIGITS * sort_tiles(n);
    return space;
}

template <class K, class P> STNI_DEVICE bool comes_before(const sort_entry<K, P> &a, const sort_entry<K, P> &b)
{
    return a.key < b.key || (a.key == b.key && a.place < b.place);
}

/* `size`: a power of two, at least n. What is missing from it comes last. */
template <class K, class P>
__global__ void __launch_bounds__(SORT_THREADS) sort_short(sort_entry<K, P> *entries, int n, int size)
{
    typedef sort_entry<K, P> entry;
    STNI_SHARED(entry, e, SORT_SHORT);
    entry *line = entries + (int64_t)blockIdx.x * n;
    for (int i = (int)threadIdx.x; i < size; i += (int)blockDim.x)
        e[i] = i < n ? line[i] : entry{(K)~(K)0, (P)~(P)0};
    for (int run = 2; run <= size; run *= 2)
        for (int apart = run / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (int i = (int)threadIdx.x; i < size / 2; i += (int)blockDim.x) {
                const int low = i / apart * 2 * apart + i % apart, high = low + apart;
                const entry a = e[low], b = e[high];
                if (comes_before(b, a) == ((low & run) == 0)) {
                    e[low] = b;
                    e[high] = a;
                }
            }
        }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        line[i] = e[i];
}

/* The sum of the values of the threads before this one, of the first THREADS threads of a block; *total: of all. All
 * threads call it, and the others get no sum before; it ends with a barrier. */
template <int THREADS = SORT_THREADS, class T> STNI_DEVICE T sum_before(T value, T *total)
{
    STNI_SHARED(T, of_warp, THREADS / WARP);
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    T sum = value, before = 0, all = 0;
    for (int by = 1; by < WARP; by *= 2) {
        const T left = __shfl_up_sync(WHOLE_WARP, sum, by);
        sum += lane >= by ? left : 0;
    }
    if (lane == WARP - 1 && warp < THREADS / WARP)
        of_warp[warp] = sum;
    __syncthreads();
    for (int w = 0; w < THREADS / WARP; w++) {
        before += w < warp ? of_warp[w] : 0;
        all += of_warp[w];
    }
    __syncthreads();
    *total = all;
    return before + sum - value;
}

template <class K, class P> STNI_DEVICE int digit_at(const sort_entry<K, P> &e, int shift)
{
    return (int)(e.key >> shift & (SORT_DIGITS - 1));
}

template <class K, class P> __global__ void __launch_bounds__(SORT_THREADS)
count_digits(const sort_entry<K, P> *entries, P *counts, int64_t n, int64_t tiles, int shift)
{
    STNI_SHARED(unsigned, of_digit, SORT_DIGITS);
    const int64_t line = blockIdx.x / tiles, tile = blockIdx.x % tiles,
                  end = n < (tile + 1) * SORT_TILE ? n : (tile + 1) * SORT_TILE;
    of_digit[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = tile * SORT_TILE + threadIdx.x; i < end; i += SORT_THREADS)
        atomicAdd(&of_digit[digit_at(entries[line * n + i], shift)], 1u);
    __syncthreads();
    counts[(line * SORT_DIGITS + threadIdx.x) * tiles + tile] = (P)of_digit[threadIdx.x];
}

/* A block each line and digit: counts become those of the tiles before. */
template <class P> __global__ void __launch_bounds__(SORT_THREADS) sum_digits(P *counts, P *totals, int64_t tiles)
{
    P *of_tile = counts + blockIdx.x * tiles;
    P before = 0, chunk;
    for (int64_t first = 0; first < tiles; first += SORT_THREADS) {
        const int64_t i = first + threadIdx.x;
        const P sum = sum_before(i < tiles ? of_tile[i] : (P)0, &chunk);
        if (i < tiles)
            of_tile[i] = before + sum;
        before += chunk;
    }
    if (threadIdx.x == 0)
        totals[blockIdx.x] = before;
}

/* Lanes of the warp that have the same digit; none for a lane without an entry. */
STNI_DEVICE unsigned lanes_with(int digit, bool is_there)
{
    unsigned lanes = __ballot_sync(WHOLE_WARP, is_there);
    for (int bit = 1; bit < SORT_DIGITS; bit *= 2) {
        const unsigned set = __ballot_sync(WHOLE_WARP, digit & bit);
        lanes &= digit & bit ? set : ~set;
    }
    return is_there ? lanes : 0;
}

/* A block each tile: its entries go where those of their digit are, SORT_THREADS at a time so that they keep their
 * order. */
template <class K, class P>
__global__ void __launch_bounds__(SORT_THREADS)
    deal_digits(const sort_entry<K, P> *from, sort_entry<K, P> *to, const P *counts, const P *totals, int64_t n,
                int64_t tiles, int shift)
{
    enum { WARPS = SORT_THREADS / WARP };
    STNI_SHARED(P, begin, SORT_DIGITS);
    STNI_SHARED(unsigned, of_warp, WARPS * SORT_DIGITS);
    const int64_t line = blockIdx.x / tiles, tile = blockIdx.x % tiles,
                  end = n < (tile + 1) * SORT_TILE ? n : (tile + 1) * SORT_TILE;
    const int me = (int)threadIdx.x, lane = me % WARP, warp = me / WARP;
    P all;
    begin[me] = sum_before(totals[line * SORT_DIGITS + me], &all) + counts[(line * SORT_DIGITS + me) * tiles + tile];
    for (int64_t first = tile * SORT_TILE; first < end; first += SORT_THREADS) {
        const bool is_there = first + me < end;
        const sort_entry<K, P> e = is_there ? from[line * n + first + me] : sort_entry<K, P>{0, 0};
        const int digit = digit_at(e, shift);
        for (int w = 0; w < WARPS; w++)
            of_warp[w * SORT_DIGITS + me] = 0;
        __syncthreads();
        const unsigned lanes = lanes_with(digit, is_there), before = lanes & ((1u << lane) - 1);
        if (is_there && before == 0)
            of_warp[warp * SORT_DIGITS + digit] = (unsigned)__popc(lanes);
        __syncthreads();
        unsigned sum = 0;
        for (int w = 0; w < WARPS; w++) {
            const unsigned count = of_warp[w * SORT_DIGITS + me];
            of_warp[w * SORT_DIGITS + me] = sum;
            sum += count;
        }
        __syncthreads();
        if (is_there)
            to[line * n + (int64_t)begin[digit] + of_warp[warp * SORT_DIGITS + digit] + __popc(before)] = e;
        __syncthreads();
        begin[me] += (P)sum;
    }
}

template <class K, class P>
const sort_entry<K, P> *sort_long(const sort_space<K, P> &space, int64_t n, int64_t lines, int bits,
                                  cudaStream_t stream)
{
    const int64_t tiles = sort_tiles(n);
    const unsigned blocks = (unsigned)(lines * tiles);
    sort_entry<K, P> *from = space.entries, *to = space.others;
    for (int shift = 0; shift < bits; shift += 8) {
        STNI_LAUNCH((count_digits<K, P>), blocks, SORT_THREADS, stream, from, space.counts, n, tiles, shift);
        STNI_LAUNCH(sum_digits<P>, (unsigned)(lines * SORT_DIGITS), SORT_THREADS, stream, space.counts, space.totals,
                    tiles);
        STNI_LAUNCH((deal_digits<K, P>), blocks, SORT_THREADS, stream, from, to, space.counts, space.totals, n, tiles,
                    shift);
        sort_entry<K, P> *held = from;
        from = to;
        to = held;
    }
    return from;
}

/* Returns where they are in order, which is in the space. */
template <class K, class P>
const sort_entry<K, P> *sort_entries(const sort_space<K, P> &space, int64_t n, int64_t lines, int bits,
                                     cudaStream_t stream)
{
    int size = 2;
    if (n > SORT_SHORT)
        return sort_long(space, n, lines, bits, stream);
    while (size < n)
        size *= 2;
    const int threads = size / 2 < WARP ? (int)WARP : size / 2 > SORT_THREADS ? (int)SORT_THREADS : size / 2;
    STNI_LAUNCH((sort_short<K, P>), (unsigned)lines, threads, stream, space.entries, (int)n, size);
    return space.entries;
}

/* Lines of n that are sorted together, so that their entries take no more than 256 MiB unless those of one line do. */
template <class K, class P> int64_t sort_lines_at_once(int64_t n, int64_t lines)
{
    const int64_t work = 256 << 20, fit = work / (int64_t)sort_bytes<K, P>(n, 1), most = 1 << 20;
    const int64_t some = fit < 1 ? 1 : fit > most ? most : fit;
    return some < lines ? some : lines;
}

/* Bits of the numbers 0 … most. */
inline int bits_of(uint64_t most)
{
    int bits = 1;
    while (bits < 64 && most >> bits)
        bits++;
    return bits;
}

}

#endif
