/* Elements of a given place on a CUDA device, in lines that are whole and in lines that ranks share. */
#include "core/device/cuda/block.cuh"
#include "ops/sort/targets_cuda.cuh"

namespace {

enum { THREADS = TARGET_THREADS };

/* How many of a line's elements are none, to all threads. */
STNI_DEVICE int64_t count_nans_of(const stni_order &order, const stni_sort_lines &lines, const void *in, int64_t base)
{
    const uint64_t nan = stni_sort_nan(&order);
    int64_t count = 0;
    for (int64_t i = threadIdx.x; i < lines.n; i += THREADS)
        count += key_at(order, in, base + element_of(lines, i).at) == nan;
    return reduce_block_to_all<THREADS>(count, [](int64_t a, int64_t b) { return a + b; });
}

/* Element i of line l becomes its result. */
STNI_DEVICE void store_selected(const stni_sort_select_args &a, int64_t l, int64_t i)
{
    const line_element e = element_of(a.lines, i);
    const int size = size_of(a.order.dtype);
    const uint64_t bits = bits_at(a.in, order_line_at(&a.lines, ORDER_IN, l) + e.at, size);
    put_bits(a.values, order_line_at(&a.lines, ORDER_VALUES, l), size, bits);
    a.indices[order_line_at(&a.lines, ORDER_INDICES, l)] = e.index;
}

/* A block each line. */
__global__ void __launch_bounds__(THREADS) select_element(const __grid_constant__ stni_sort_select_args a)
{
    const int64_t l = blockIdx.x, base = order_line_at(&a.lines, ORDER_IN, l);
    const bool has_nan = a.nans && count_nans_of(a.order, a.lines, a.in, base) > 0;
    const stni_sort_target t = find_target(a.order, a.lines, a.in, base, has_nan ? 0 : a.place);
    if (threadIdx.x == 0)
        store_selected(a, l, (int64_t)t.index);
}

/* A thread each line. */
__global__ void __launch_bounds__(THREADS)
store_targets(const __grid_constant__ stni_sort_select_args a, const stni_sort_target *targets, int64_t lines)
{
    const int64_t l = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (l < lines)
        store_selected(a, l, (int64_t)targets[l].index);
}

void select_in_long_lines(const stni_sort_select_args &a, int64_t lines, cudaStream_t stream)
{
    const long_lines g = long_lines_of(a.order, a.lines, a.in, 0, lines);
    const targets_space space = targets_space_of(a.work, lines);
    if (a.nans)
        launch_count_nans(g, space.numbers, stream);
    launch_find_targets(g, a.place, a.nans != 0, space, stream);
    STNI_LAUNCH(store_targets, blocks_for(lines, THREADS), THREADS, stream, a, space.targets, lines);
}

void launch_select(const stni_sort_select_args &a, cudaStream_t stream)
{
    const int64_t lines = order_line_count(&a.lines);
    if (lines == 0)
        return;
    if (are_long(a.lines, lines))
        select_in_long_lines(a, lines, stream);
    else
        STNI_LAUNCH(select_element, grid_of(lines), THREADS, stream, a);
}

size_t select_workspace(stn_queue *, const void *args)
{
    const stni_sort_select_args &a = *static_cast<const stni_sort_select_args *>(args);
    const int64_t lines = order_line_count(&a.lines);
    return lines > 0 && are_long(a.lines, lines) ? targets_bytes(lines) : 0;
}

/* A dense line in order. */
struct sorted {
    const stni_order &order;
    const void *values;
    const int64_t *indices;
    int64_t n;
};

/* How many come before all whose leading digits are `key`, or whose key it is and the leading digits of the index
 * `index`. */
STNI_DEVICE int64_t count_before(const sorted &s, uint64_t key, int key_shift, uint64_t index, int index_shift)
{
    return count_first(s.n, [&](int64_t i) {
        const uint64_t own = key_at(s.order, s.values, i) >> key_shift;
        return own < key || (own == key && (uint64_t)s.indices[i] >> index_shift < index);
    });
}

/* A block each target of a line in order, a thread each digit. */
__global__ void __launch_bounds__(THREADS) count_sorted(const __grid_constant__ stni_sort_count_args a)
{
    const sorted line = {a.order, a.in, a.sorted_indices, a.lines.n};
    const stni_sort_target t = a.targets[blockIdx.x];
    const int shift = stni_sort_digit_shift(&a.digits, a.round);
    const bool of_index = a.round >= a.digits.of_key;
    int64_t before[2];
    for (int k = 0; k < 2; k++) {
        const uint64_t next = (of_index ? t.index : t.key) * ORDER_DIGITS + threadIdx.x + (unsigned)k;
        if (k > 0 && next == 0)
            before[k] = line.n; /* one past the last key */
        else
            before[k] = of_index ? count_before(line, t.key, 0, next, shift) : count_before(line, next, shift, 0, 0);
    }
    a.counts[blockIdx.x * ORDER_DIGITS + threadIdx.x] = before[1] - before[0];
}

void launch_count(const stni_sort_count_args &a, cudaStream_t stream)
{
    const long_lines g = long_lines_of(a.order, a.lines, a.in, 0, a.n_targets);
    if (a.n_targets == 0)
        return;
    if (a.sorted_indices)
        STNI_LAUNCH(count_sorted, grid_of(a.n_targets), THREADS, stream, a);
    else
        launch_count_round(g, {a.digits, a.round, true, a.targets, a.counts}, stream);
}

void launch_nans(const stni_sort_nans_args &a, cudaStream_t stream)
{
    launch_count_nans(long_lines_of(a.order, a.lines, a.in, 0, order_line_count(&a.lines)), a.nans, stream);
}

/* The thread that comes to the target of its line tells its bits. */
__global__ void __launch_bounds__(THREADS)
    find_bits(const __grid_constant__ long_lines g, const stni_sort_target *targets, uint64_t *bits)
{
    visit_part(g, [&](int64_t line, int64_t, const line_element &e) {
        if (e.index == (int64_t)targets[line].index)
            bits[line] = bits_at(g.in, e.at, size_of(g.order.dtype));
    });
}

void launch_find(const stni_sort_find_args &a, cudaStream_t stream)
{
    const long_lines g = long_lines_of(a.order, a.lines, a.in, 0, order_line_count(&a.lines));
    cudaMemsetAsync(a.bits, 0, (size_t)g.count * sizeof *a.bits, stream);
    if (g.count > 0 && g.lines.n > 0)
        STNI_LAUNCH(find_bits, long_lines_blocks(g), THREADS, stream, g, a.targets, a.bits);
}

__global__ void __launch_bounds__(THREADS) store_found(const __grid_constant__ stni_sort_find_args a, int64_t lines)
{
    const int64_t l = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (l >= lines)
        return;
    put_bits(a.values, order_line_at(&a.lines, ORDER_VALUES, l), size_of(a.order.dtype), a.bits[l]);
    a.indices[order_line_at(&a.lines, ORDER_INDICES, l)] = (int64_t)a.targets[l].index;
}

void launch_store(const stni_sort_find_args &a, cudaStream_t stream)
{
    const int64_t lines = order_line_count(&a.lines);
    if (lines > 0)
        STNI_LAUNCH(store_found, blocks_for(lines, THREADS), THREADS, stream, a, lines);
}

/* Where piece `piece` begins among the elements of this rank. */
STNI_DEVICE int64_t begin_of(const stni_sort_deal_args &a, int64_t piece)
{
    const sorted line = {a.order, a.values, a.indices, a.n};
    if (piece == 0)
        return 0;
    if (piece == a.n_pieces || a.begins[piece] == a.n_all)
        return a.n;
    return count_before(line, a.targets[piece - 1].key, 0, a.targets[piece - 1].index, 0);
}

__global__ void __launch_bounds__(THREADS) deal_line(const __grid_constant__ stni_sort_deal_args a)
{
    const int r = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (r < a.n_pieces)
        a.counts[r] = begin_of(a, a.pieces[r] + 1) - begin_of(a, a.pieces[r]);
}

void launch_deal(const stni_sort_deal_args &a, cudaStream_t stream)
{
    STNI_LAUNCH(deal_line, blocks_for(a.n_pieces, THREADS), THREADS, stream, a);
}

}

STNI_CUDA_KERNELS(select) = {
    STNI_CUDA_KERNEL_WITH("order_select.select", ORDERED_DTYPES, stni_sort_select_args, launch_select,
                          select_workspace),
    STNI_CUDA_KERNEL("order_select.count", ORDERED_DTYPES, stni_sort_count_args, launch_count),
    STNI_CUDA_KERNEL("order_select.narrow", ORDERED_DTYPES, stni_sort_narrow_args, launch_narrow),
    STNI_CUDA_KERNEL("order_select.nans", ORDERED_DTYPES, stni_sort_nans_args, launch_nans),
    STNI_CUDA_KERNEL("order_select.find", ORDERED_DTYPES, stni_sort_find_args, launch_find),
    STNI_CUDA_KERNEL("order_select.store", ORDERED_DTYPES, stni_sort_find_args, launch_store),
    STNI_CUDA_KERNEL("order_sort.count", ORDERED_DTYPES, stni_sort_count_args, launch_count),
    STNI_CUDA_KERNEL("order_sort.narrow", ORDERED_DTYPES, stni_sort_narrow_args, launch_narrow),
    STNI_CUDA_KERNEL("order_sort.deal", ORDERED_DTYPES, stni_sort_deal_args, launch_deal),
    STNI_CUDA_KERNELS_END};
