/* Planning of routed rows on a CUDA device: the rows are sorted with the positions that name them; each distinct one
 * gets its number among them, and from that its place in the list of the rank that has it. */
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/radix.cuh"
#include "ops/exchange/row_router_kernel.h"

namespace {

enum { THREADS = SORT_THREADS };
typedef sort_entry<uint64_t, uint64_t> entry;

/* Rows that cannot be come last, as n_rows. */
__global__ void __launch_bounds__(THREADS) list_rows(const __grid_constant__ stni_rows_plan_args a, entry *entries)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    const int64_t row = a.rows[i];
    const entry e = {(uint64_t)(row < 0 || row >= a.n_rows ? a.n_rows : row), (uint64_t)i};
    entries[i] = e;
}

/* The sorted rows, and what comes of them. */
struct plan {
    const entry *sorted;
    int64_t *distinct;  /* in order, behind them as many as there are none: n_rows */
    int64_t *number;    /* of the distinct row of a sorted one */
    int64_t *before;    /* distinct rows of the tiles before; n tiles at most */
    int64_t tiles;
};

STNI_DEVICE bool is_first(const stni_rows_plan_args &a, const plan &p, int64_t k)
{
    return k < a.n && p.sorted[k].key < (uint64_t)a.n_rows && (k == 0 || p.sorted[k].key != p.sorted[k - 1].key);
}

__global__ void __launch_bounds__(THREADS)
    count_distinct(const __grid_constant__ stni_rows_plan_args a, const __grid_constant__ plan p)
{
    const int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t all;
    sum_before((int64_t)is_first(a, p, k), &all);
    if (threadIdx.x == 0)
        p.before[blockIdx.x] = all;
    if (k < a.n)
        p.distinct[k] = a.n_rows;
}

/* One block. */
__global__ void __launch_bounds__(THREADS) sum_tiles(const __grid_constant__ plan p)
{
    int64_t before = 0, all;
    for (int64_t first = 0; first < p.tiles; first += THREADS) {
        const int64_t tile = first + threadIdx.x;
        const int64_t sum = sum_before(tile < p.tiles ? p.before[tile] : (int64_t)0, &all);
        if (tile < p.tiles)
            p.before[tile] = before + sum;
        before += all;
    }
}

__global__ void __launch_bounds__(THREADS)
    number_rows(const __grid_constant__ stni_rows_plan_args a, const __grid_constant__ plan p)
{
    const int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const bool first = is_first(a, p, k);
    int64_t all;
    const int64_t number = p.before[blockIdx.x] + sum_before((int64_t)first, &all) + first - 1;
    if (k < a.n)
        p.number[k] = number;
    if (first)
        p.distinct[number] = (int64_t)p.sorted[k].key;
}

/* How many of the distinct rows are below `row`. */
STNI_DEVICE int64_t count_below(const stni_rows_plan_args &a, const plan &p, int64_t row)
{
    int64_t low = 0;
    for (int64_t n = a.n; n > 0;) {
        const int64_t half = n / 2;
        const bool is_below = p.distinct[low + half] < row;
        low += is_below ? half + 1 : 0;
        n = is_below ? n - half - 1 : half;
    }
    return low;
}

/* Of the rank's rows, which are none where it has none. */
STNI_DEVICE int64_t count_of_rank(const stni_rows_plan_args &a, const plan &p, int r)
{
    const int64_t count = count_below(a, p, a.ranges[a.n_ranks + r]) - count_below(a, p, a.ranges[r]);
    return count > 0 ? count : 0;
}

/* One block. */
__global__ void __launch_bounds__(THREADS)
    count_ranks(const __grid_constant__ stni_rows_plan_args a, const __grid_constant__ plan p)
{
    for (int r = (int)threadIdx.x; r < a.n_ranks; r += THREADS)
        a.counts[r] = count_of_rank(a, p, r);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    int64_t all = 0;
    for (int r = 0; r < a.n_ranks; r++)
        all += a.counts[r];
    a.counts[a.n_ranks] = all;
}

__global__ void __launch_bounds__(THREADS)
    place_rows(const __grid_constant__ stni_rows_plan_args a, const __grid_constant__ plan p)
{
    const int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (k >= a.n)
        return;
    const int64_t row = (int64_t)p.sorted[k].key;
    int64_t place = -1, before = 0;
    for (int r = 0; r < a.n_ranks && row < a.n_rows; r++) {
        if (row >= a.ranges[r] && row < a.ranges[a.n_ranks + r])
            place = before + p.number[k] - count_below(a, p, a.ranges[r]);
        before += a.counts[r];
    }
    a.slot[p.sorted[k].place] = place;
    if (place >= 0 && is_first(a, p, k))
        a.unique[place] = row;
}

/* `work` has room for the entries twice. Of many rows the counts of digits lie in `unique`, which is not written until
 * the end: they are fewer bytes. */
void launch_plan(const stni_rows_plan_args &a, cudaStream_t stream)
{
    const int64_t n = a.n;
    sort_space<uint64_t, uint64_t> space = {reinterpret_cast<entry *>(a.work), reinterpret_cast<entry *>(a.work) + n,
                                            reinterpret_cast<uint64_t *>(a.unique), nullptr};
    const unsigned blocks = blocks_for(n, THREADS);
    plan p = {nullptr, nullptr, nullptr, a.slot, blocks};
    if (n > SORT_SHORT)
        space.totals = space.counts + SORT_DIGITS * sort_tiles(n);
    if (n > 0) {
        STNI_LAUNCH(list_rows, blocks, THREADS, stream, a, space.entries);
        p.sorted = sort_entries(space, n, 1, bits_of((uint64_t)a.n_rows), stream);
    }
    p.distinct = p.sorted == space.entries ? a.work + 2 * n : a.work;
    p.number = p.distinct + n;
    if (n > 0) {
        STNI_LAUNCH(count_distinct, blocks, THREADS, stream, a, p);
        STNI_LAUNCH(sum_tiles, 1, THREADS, stream, p);
        STNI_LAUNCH(number_rows, blocks, THREADS, stream, a, p);
    }
    STNI_LAUNCH(count_ranks, 1, THREADS, stream, a, p);
    if (n > 0)
        STNI_LAUNCH(place_rows, blocks, THREADS, stream, a, p);
}

}

STNI_CUDA_KERNELS(row_router) = {
    STNI_CUDA_KERNEL("index_read.plan", dtype_bit(STN_DTYPE_I64), stni_rows_plan_args, launch_plan),
    STNI_CUDA_KERNEL("index_write.plan", dtype_bit(STN_DTYPE_I64), stni_rows_plan_args, launch_plan),
    STNI_CUDA_KERNELS_END
};
