/* Lines in order on a CUDA device: all of a line, its first elements, and runs that are in order merged.
 *
 * Lines that fit a block are sorted by one kernel (rows_cuda.cuh), or the few elements that are wanted of one are found
 * (top_rows_cuda.cuh). Of other short lines, and where many elements are wanted, all entries are sorted. Else, unless
 * but one is wanted, the last of those that are is found, and what comes before it is collected and sorted. */
#include "core/device/cuda/radix.cuh"
#include "ops/sort/targets_cuda.cuh"
#include "ops/sort/top_rows_cuda.cuh"

namespace {

enum { THREADS = 256 };

/* Some of the lines: n_entries entries of each, of which k become the result. */
struct job {
    stni_order order;
    stni_sort_lines lines;
    int64_t first_line, n_lines, n_entries, k;
    const void *in;
    void *values;
    int64_t *indices;
    stni_sort_pair *pairs; /* not NULL: instead of values and indices */
};

template <class K, class P>
__global__ void __launch_bounds__(THREADS) list_elements(const __grid_constant__ job j, sort_entry<K, P> *entries)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, line = i / j.lines.n, place = i % j.lines.n;
    if (line >= j.n_lines)
        return;
    const int64_t at = order_line_at(&j.lines, ORDER_IN, j.first_line + line) + element_of(j.lines, place).at;
    const sort_entry<K, P> e = {(K)key_at(j.order, j.in, at), (P)place};
    entries[i] = e;
}

template <class K, class P> STNI_DEVICE sort_entry<K, P> first_of(const sort_entry<K, P> &a, const sort_entry<K, P> &b)
{
    return comes_before(b, a) ? b : a;
}

/* Of the entries of a block's threads the one that comes first. */
template <class K, class P> STNI_DEVICE void store_first(sort_entry<K, P> first, sort_entry<K, P> *to)
{
    first = reduce_block<THREADS>(first, first_of<K, P>);
    if (threadIdx.x == 0)
        *to = first;
}

/* Of each part of each line. */
template <class K, class P>
__global__ void __launch_bounds__(THREADS) list_one(const __grid_constant__ long_lines g, sort_entry<K, P> *entries)
{
    sort_entry<K, P> first = {(K)~(K)0, (P)~(P)0};
    visit_part(g, [&](int64_t, int64_t i, const line_element &e) {
        first = first_of(first, sort_entry<K, P>{(K)key_at(g.order, g.in, e.at), (P)i});
    });
    store_first(first, &entries[blockIdx.x]);
}

/* A block each line: of those of its parts. */
template <class K, class P>
__global__ void __launch_bounds__(THREADS)
    join_ones(const sort_entry<K, P> *of_parts, int64_t n, sort_entry<K, P> *entries)
{
    sort_entry<K, P> first = {(K)~(K)0, (P)~(P)0};
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        first = first_of(first, of_parts[blockIdx.x * n + i]);
    store_first(first, &entries[blockIdx.x]);
}

/* A block each line: those that come no later than element k - 1, in whichever order. */
template <class K, class P>
__global__ void __launch_bounds__(TARGET_THREADS) list_first(const __grid_constant__ job j, sort_entry<K, P> *entries)
{
    STNI_SHARED(unsigned, listed, 1);
    const int64_t base = order_line_at(&j.lines, ORDER_IN, j.first_line + blockIdx.x);
    const stni_sort_target last = find_target(j.order, j.lines, j.in, base, j.n_entries - 1);
    if (threadIdx.x == 0)
        listed[0] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < j.lines.n; i += TARGET_THREADS) {
        const uint64_t key = key_at(j.order, j.in, base + element_of(j.lines, i).at);
        if (key < last.key || (key == last.key && (uint64_t)i <= last.index)) {
            const sort_entry<K, P> e = {(K)key, (P)i};
            entries[blockIdx.x * j.n_entries + atomicAdd(&listed[0], 1u)] = e;
        }
    }
}

/* The same of long lines, whose targets are known: `listed` counts what is there. */
template <class K, class P> __global__ void __launch_bounds__(TARGET_THREADS)
list_long(const __grid_constant__ long_lines g, const stni_sort_target *targets, int64_t *listed, int64_t n_entries,
          sort_entry<K, P> *entries)
{
    const stni_sort_target last = targets[blockIdx.x / g.part.count];
    visit_part(g, [&](int64_t line, int64_t i, const line_element &e) {
        const uint64_t key = key_at(g.order, g.in, e.at);
        if (key > last.key || (key == last.key && (uint64_t)i > last.index))
            return;
        const int64_t to = (int64_t)atomicAdd(reinterpret_cast<unsigned long long *>(&listed[line]), 1ull);
        entries[line * n_entries + to] = sort_entry<K, P>{(K)key, (P)i};
    });
}

template <class K, class P>
__global__ void __launch_bounds__(THREADS) store_sorted(const __grid_constant__ job j, const sort_entry<K, P> *entries)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, line = i / j.k, k = i % j.k, l = j.first_line + line;
    const int size = size_of(j.order.dtype);
    if (line >= j.n_lines)
        return;
    if (k >= j.n_entries) { /* of pairs alone */
        const stni_sort_pair none = {0, -1};
        j.pairs[i] = none;
        return;
    }
    const line_element e = element_of(j.lines, (int64_t)entries[line * j.n_entries + k].place);
    const uint64_t bits = bits_at(j.in, order_line_at(&j.lines, ORDER_IN, l) + e.at, size);
    if (j.pairs) {
        const stni_sort_pair pair = {bits, e.index};
        j.pairs[i] = pair;
        return;
    }
    put_bits(j.values, order_line_at(&j.lines, ORDER_VALUES, l) + k * j.lines.step[ORDER_VALUES], size, bits);
    j.indices[order_line_at(&j.lines, ORDER_INDICES, l) + k * j.lines.step[ORDER_INDICES]] = e.index;
}

/* Where the lines begin, all of them; false where there are none, or too many, or they have too many dims. */
bool find_line_offsets(const stni_sort_lines &l, row_offsets<ORDER_TENSORS> &to)
{
    operands<ORDER_TENSORS> lines = no_dims<ORDER_TENSORS>();
    for (int d = 0; d < l.ndim; d++)
        add_dim(lines, l.shape[d], {l.strides[ORDER_IN][d], l.strides[ORDER_VALUES][d], l.strides[ORDER_INDICES][d]});
    return lines.count > 0 && find_row_offsets(lines, to);
}

/* Whether rows_cuda.cuh serves such lines, of which k elements are wanted. */
bool fits_rows(const stni_order &order, const stni_sort_lines &lines, int64_t k)
{
    row_offsets<ORDER_TENSORS> offsets;
    if (lines.n_along > 1 || (lines.n_along == 1 && lines.along_index[0] > INT32_MAX))
        return false;
    return lines.n <= most_of_row(size_of(order.dtype)) && k <= lines.n && find_line_offsets(lines, offsets);
}

/* One alone is found by less than sorting. */
bool takes_all(const stni_order &order, const stni_sort_lines &lines, int64_t k)
{
    return lines.n <= SORT_SHORT || k > SORT_SHORT || (k > 1 && fits_rows(order, lines, k));
}

bool is_of_rows(const job &j)
{
    return j.n_entries == j.lines.n && fits_rows(j.order, j.lines, j.k);
}

sort_rows rows_of(const job &j)
{
    const stni_sort_lines &l = j.lines;
    sort_rows s = {{}, j.first_line, j.n_lines, (int)l.n, (int)j.k, size_of(j.order.dtype), {},
                   l.first, l.n_along > 0 ? (int32_t)l.along_index[0] : 0, j.in, j.values, j.indices, j.pairs};
    find_line_offsets(l, s.lines);
    s.step[ORDER_IN] = l.n_along > 0 ? l.along_in[0] : 0;
    s.step[ORDER_VALUES] = l.step[ORDER_VALUES];
    s.step[ORDER_INDICES] = l.step[ORDER_INDICES];
    return s;
}

/* The first entry of each line; `work` is for those of parts. */
template <class K, class P>
void launch_one(const long_lines &g, sort_entry<K, P> *entries, void *work, cudaStream_t stream)
{
    sort_entry<K, P> *of_parts = g.part.count > 1 ? static_cast<sort_entry<K, P> *>(work) : entries;
    STNI_LAUNCH((list_one<K, P>), long_lines_blocks(g), THREADS, stream, g, of_parts);
    if (g.part.count > 1)
        STNI_LAUNCH((join_ones<K, P>), grid_of(g.count), THREADS, stream, of_parts, g.part.count, entries);
}

/* Those up to entry number n - 1 of each line; `work` is for the targets of long ones. */
template <class K, class P> void launch_first(const job &j, sort_entry<K, P> *entries, void *work, cudaStream_t stream)
{
    if (!are_long(j.lines, j.n_lines)) {
        STNI_LAUNCH((list_first<K, P>), grid_of(j.n_lines), TARGET_THREADS, stream, j, entries);
        return;
    }
    const long_lines g = long_lines_of(j.order, j.lines, j.in, j.first_line, j.n_lines);
    const targets_space space = targets_space_of(work, j.n_lines);
    launch_find_targets(g, j.n_entries - 1, false, space, stream);
    cudaMemsetAsync(space.numbers, 0, (size_t)j.n_lines * sizeof *space.numbers, stream);
    STNI_LAUNCH((list_long<K, P>), long_lines_blocks(g), TARGET_THREADS, stream, g, space.targets, space.numbers,
                j.n_entries, entries);
}

/* What the two want of `work`, before the space in which entries are sorted: lines that have parts are few. */
size_t first_bytes(const job &j)
{
    if (j.n_entries == j.lines.n)
        return 0;
    return j.n_entries == 1 ? PARTS_BLOCKS * sizeof(sort_entry<uint64_t, uint64_t>) : targets_bytes(TARGETS_LINES);
}

/* j: of all lines and all entries. */
template <class K, class P> void run_job(job j, void *work, cudaStream_t stream)
{
    const int64_t end = j.first_line + j.n_lines, at_once = sort_lines_at_once<K, P>(j.n_entries, j.n_lines);
    const bool all = j.n_entries == j.lines.n;
    job some = j;
    for (; some.first_line < end; some.first_line += at_once) {
        some.n_lines = end - some.first_line < at_once ? end - some.first_line : at_once;
        const sort_space<K, P> space =
            sort_space_of<K, P>(static_cast<char *>(work) + first_bytes(j), j.n_entries, at_once);
        if (all)
            STNI_LAUNCH((list_elements<K, P>), blocks_for(some.n_lines * j.lines.n, THREADS), THREADS, stream, some,
                        space.entries);
        else if (j.n_entries == 1)
            launch_one(long_lines_of(j.order, j.lines, j.in, some.first_line, some.n_lines), space.entries, work,
                       stream);
        else
            launch_first(some, space.entries, work, stream);
        const sort_entry<K, P> *sorted =
            sort_entries(space, j.n_entries, some.n_lines, stni_sort_key_bits(j.order.dtype), stream);
        STNI_LAUNCH((store_sorted<K, P>), blocks_for(some.n_lines * j.k, THREADS), THREADS, stream, some, sorted);
        some.pairs = some.pairs ? some.pairs + some.n_lines * j.k : nullptr;
    }
}

bool is_small(const stni_order &order, int64_t n)
{
    return stni_sort_key_bits(order.dtype) <= 32 && n < 2 * STNI_SMALL_COUNT - 1;
}

size_t bytes_of(const job &j)
{
    if (j.n_entries == 0 || j.n_lines == 0 || is_of_rows(j))
        return 1;
    if (is_small(j.order, j.lines.n))
        return first_bytes(j) + sort_bytes<uint32_t, uint32_t>(
                                    j.n_entries, sort_lines_at_once<uint32_t, uint32_t>(j.n_entries, j.n_lines));
    return first_bytes(j) +
           sort_bytes<uint64_t, uint64_t>(j.n_entries, sort_lines_at_once<uint64_t, uint64_t>(j.n_entries, j.n_lines));
}

__global__ void __launch_bounds__(THREADS) store_none(stni_sort_pair *pairs, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const stni_sort_pair none = {0, -1};
    if (i < n)
        pairs[i] = none;
}

template <class K> void launch_in_rows(const sort_rows &s, const stni_order &order, cudaStream_t stream)
{
    if (are_top_rows(s))
        launch_top_rows<K>(s, order, stream);
    else
        launch_rows<K>(s, order, stream);
}

void launch_job(const job &j, void *work, cudaStream_t stream)
{
    if (j.n_lines == 0 || j.k == 0)
        return;
    if (j.n_entries == 0) {
        if (j.pairs)
            STNI_LAUNCH(store_none, blocks_for(j.n_lines * j.k, THREADS), THREADS, stream, j.pairs, j.n_lines * j.k);
        return;
    }
    if (is_of_rows(j) && size_of(j.order.dtype) <= 4)
        launch_in_rows<uint32_t>(rows_of(j), j.order, stream);
    else if (is_of_rows(j))
        launch_in_rows<uint64_t>(rows_of(j), j.order, stream);
    else if (is_small(j.order, j.lines.n))
        run_job<uint32_t, uint32_t>(j, work, stream);
    else
        run_job<uint64_t, uint64_t>(j, work, stream);
}

job sort_job(const stni_sort_sort_args &a)
{
    return {a.order, a.lines, 0, order_line_count(&a.lines), a.lines.n, a.lines.n, a.in, a.values, a.indices, nullptr};
}

job top_job(const stni_sort_top_args &a)
{
    const int64_t n = takes_all(a.order, a.lines, a.k) ? a.lines.n : a.k;
    return {a.order, a.lines, a.first_line, a.n_lines, n, a.k, a.in, a.values, a.indices, a.pairs};
}

void launch_sort(const stni_sort_sort_args &a, cudaStream_t stream)
{
    launch_job(sort_job(a), a.work, stream);
}

void launch_top(const stni_sort_top_args &a, cudaStream_t stream)
{
    launch_job(top_job(a), a.work, stream);
}

size_t sort_workspace(stn_queue *, const void *args)
{
    return bytes_of(sort_job(*static_cast<const stni_sort_sort_args *>(args)));
}

/* An op asks once and may launch for fewer lines each time. */
size_t top_workspace(stn_queue *, const void *args)
{
    return bytes_of(top_job(*static_cast<const stni_sort_top_args *>(args)));
}

/* Candidates of a line that come before one. Those of a part are in order, and behind them those that are none. */
STNI_DEVICE int64_t candidates_before(const stni_sort_merge_args &a, const stni_sort_pair *part, uint64_t key,
                                      int64_t index)
{
    return count_first(a.k, [&](int64_t i) {
        if (part[i].index < 0)
            return false;
        const uint64_t own = key_at(a.order, &part[i].bits, 0);
        return own < key || (own == key && part[i].index < index);
    });
}

/* A thread each candidate: its place is how many come before it. */
__global__ void __launch_bounds__(THREADS) merge_candidates(const __grid_constant__ stni_sort_merge_args a)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, line = at / a.k % a.n_lines,
                  l = a.first_line + line;
    int64_t place = 0;
    if (at >= a.n_parts * a.n_lines * a.k || a.pairs[at].index < 0)
        return;
    const stni_sort_pair pair = a.pairs[at];
    const uint64_t key = key_at(a.order, &a.pairs[at].bits, 0);
    for (int part = 0; part < a.n_parts && place < a.k_out; part++)
        place += candidates_before(a, a.pairs + (part * a.n_lines + line) * a.k, key, pair.index);
    if (place >= a.k_out)
        return;
    put_bits(a.values, order_line_at(&a.lines, ORDER_VALUES, l) + place * a.lines.step[ORDER_VALUES],
             size_of(a.order.dtype), pair.bits);
    a.indices[order_line_at(&a.lines, ORDER_INDICES, l) + place * a.lines.step[ORDER_INDICES]] = pair.index;
}

void launch_merge(const stni_sort_merge_args &a, cudaStream_t stream)
{
    const int64_t n = a.n_parts * a.n_lines * a.k;
    if (n > 0)
        STNI_LAUNCH(merge_candidates, blocks_for(n, THREADS), THREADS, stream, a);
}

/* Where the run of each piece lies. */
__global__ void __launch_bounds__(THREADS) begin_runs(const __grid_constant__ stni_sort_runs_args a)
{
    const int piece = (int)(blockIdx.x * THREADS + threadIdx.x);
    stni_sort_run run = {0, 0, 0, piece};
    if (piece >= a.n_pieces)
        return;
    for (int r = 0; r < a.n_pieces; r++) {
        run.at += a.pieces[r] < piece ? a.counts[r] : 0;
        run.end += a.pieces[r] <= piece ? a.counts[r] : 0;
    }
    a.runs[piece] = run;
}

/* A thread each element: its place is how many of its run and of the others come before it; of equals those of
 * earlier pieces do. */
__global__ void __launch_bounds__(THREADS) merge_runs(const __grid_constant__ stni_sort_runs_args a)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int size = size_of(a.order.dtype);
    int64_t place = 0;
    if (i >= a.n)
        return;
    const uint64_t key = key_at(a.order, a.in, i);
    for (int piece = 0; piece < a.n_pieces; piece++) {
        const int64_t begin = a.runs[piece].at, end = a.runs[piece].end;
        if (i >= begin && i < end)
            place += i - begin;
        else
            place += count_first(end - begin, [&](int64_t k) {
                const uint64_t own = key_at(a.order, a.in, begin + k);
                return own < key || (own == key && begin < i);
            });
    }
    put_bits(a.values, place, size, bits_at(a.in, i, size));
    a.indices[place] = a.in_indices[i];
}

void launch_runs(const stni_sort_runs_args &a, cudaStream_t stream)
{
    if (a.n == 0)
        return;
    STNI_LAUNCH(begin_runs, blocks_for(a.n_pieces, THREADS), THREADS, stream, a);
    STNI_LAUNCH(merge_runs, blocks_for(a.n, THREADS), THREADS, stream, a);
}

}

STNI_CUDA_KERNELS(sort) = {{sizeof(stn_kernel), "order_sort.sort", "cuda", ORDERED_DTYPES, sizeof(stni_sort_sort_args),
                            launch_row<stni_sort_sort_args, launch_sort>, sort_workspace},
                           {sizeof(stn_kernel), "order_top.top", "cuda", ORDERED_DTYPES, sizeof(stni_sort_top_args),
                            launch_row<stni_sort_top_args, launch_top>, top_workspace},
                           STNI_CUDA_KERNEL("order_top.merge", ORDERED_DTYPES, stni_sort_merge_args, launch_merge),
                           STNI_CUDA_KERNEL("order_sort.runs", ORDERED_DTYPES, stni_sort_runs_args, launch_runs),
                           STNI_CUDA_KERNELS_END};
