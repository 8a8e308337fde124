/* The elements of given places in few long lines, by all blocks of a device: digit by digit as in target_cuda.cuh, but
 * that a line has a block for each of its parts, and counts and targets lie in memory. Ranks that share lines count and
 * narrow in the same way, with sums over ranks between. */
#ifndef STNI_OPS_SORT_TARGETS_CUDA_CUH
#define STNI_OPS_SORT_TARGETS_CUDA_CUH

#include "core/device/cuda/parts.cuh"
#include "ops/sort/target_cuda.cuh"

namespace {

/* A line has so many parts before it is worth several launches a digit; so there are so many of these lines at most. */
enum { TARGETS_PARTS = 4, TARGETS_LINES = PARTS_BLOCKS / TARGETS_PARTS };

/* Some of the lines. */
struct long_lines {
    stni_order order;
    stni_sort_lines lines;
    const void *in;
    int64_t first, count;
    parts part; /* of a line */
};

inline long_lines long_lines_of(const stni_order &order, const stni_sort_lines &lines, const void *in, int64_t first,
                                int64_t count)
{
    return {order, lines, in, first, count, parts_of(lines.n, TARGET_THREADS, count)};
}

/* A block each part of each line. */
inline unsigned long_lines_blocks(const long_lines &g)
{
    return blocks_for(g.count * g.part.count, 1);
}

/* Calls visit(line, i, element) for the elements of this block's part, each on one thread. */
template <class F> STNI_DEVICE void visit_part(const long_lines &g, F visit)
{
    const int64_t line = blockIdx.x / g.part.count, part = blockIdx.x % g.part.count;
    const int64_t end = part_end(g.part, g.lines.n, part);
    const int64_t base = order_line_at(&g.lines, ORDER_IN, g.first + line);
    for (int64_t i = part * g.part.each + threadIdx.x; i < end; i += TARGET_THREADS) {
        line_element e = element_of(g.lines, i);
        e.at += base;
        visit(line, i, e);
    }
}

/* What is counted: elements by the next digit of each line's target. An element's index is its number in the line, or
 * with `of_tensor` that in the tensor. */
struct round_counts {
    struct stni_sort_digits digits;
    int round;
    bool of_tensor;
    const stni_sort_target *targets;
    int64_t *counts;
};

__global__ void __launch_bounds__(TARGET_THREADS)
count_round(const __grid_constant__ long_lines g, const __grid_constant__ round_counts r)
{
    STNI_SHARED(int64_t, counts, ORDER_DIGITS);
    const int64_t line = blockIdx.x / g.part.count;
    const stni_sort_target target = r.targets[line];
    counts[threadIdx.x] = 0;
    __syncthreads();
    visit_part(g, [&](int64_t, int64_t i, const line_element &e) {
        const uint64_t key = key_at(g.order, g.in, e.at);
        const int digit = stni_sort_digit_of(&r.digits, r.round, &target, key, r.of_tensor ? e.index : i);
        if (digit >= 0)
            count_more(&counts[digit], 1);
    });
    __syncthreads();
    if (counts[threadIdx.x] > 0)
        count_more(&r.counts[line * ORDER_DIGITS + threadIdx.x], counts[threadIdx.x]);
}

inline void launch_count_round(const long_lines &g, const round_counts &r, cudaStream_t stream)
{
    cudaMemsetAsync(r.counts, 0, (size_t)g.count * ORDER_DIGITS * sizeof *r.counts, stream);
    if (g.count > 0 && g.lines.n > 0)
        STNI_LAUNCH(count_round, long_lines_blocks(g), TARGET_THREADS, stream, g, r);
}

__global__ void __launch_bounds__(TARGET_THREADS) narrow_targets(const __grid_constant__ stni_sort_narrow_args a)
{
    const int64_t i = (int64_t)blockIdx.x * TARGET_THREADS + threadIdx.x;
    if (i >= a.n_targets)
        return;
    stni_sort_target t = {0, 0, a.nans && a.nans[i] > 0 ? 0 : a.place};
    if (a.round >= 0) {
        t = a.targets[i];
        stni_sort_digit_take(&a.digits, a.round, a.counts + i * ORDER_DIGITS, &t);
    }
    a.targets[i] = t;
}

inline void launch_narrow(const stni_sort_narrow_args &a, cudaStream_t stream)
{
    if (a.n_targets > 0)
        STNI_LAUNCH(narrow_targets, blocks_for(a.n_targets, TARGET_THREADS), TARGET_THREADS, stream, a);
}

__global__ void __launch_bounds__(TARGET_THREADS) count_nans(const __grid_constant__ long_lines g, int64_t *nans)
{
    const uint64_t nan = stni_sort_nan(&g.order);
    int64_t count = 0;
    visit_part(g, [&](int64_t, int64_t, const line_element &e) { count += key_at(g.order, g.in, e.at) == nan; });
    count = reduce_block<TARGET_THREADS>(count, [](int64_t a, int64_t b) { return a + b; });
    if (threadIdx.x == 0 && count > 0)
        count_more(&nans[blockIdx.x / g.part.count], count);
}

inline void launch_count_nans(const long_lines &g, int64_t *nans, cudaStream_t stream)
{
    cudaMemsetAsync(nans, 0, (size_t)g.count * sizeof *nans, stream);
    if (g.count > 0 && g.lines.n > 0)
        STNI_LAUNCH(count_nans, long_lines_blocks(g), TARGET_THREADS, stream, g, nans);
}

/* Memory for some long lines: a target each, counts of digits, and a number that is its user's. */
struct targets_space {
    stni_sort_target *targets;
    int64_t *counts, *numbers;
};

inline bool are_long(const stni_sort_lines &lines, int64_t count)
{
    return parts_of(lines.n, TARGET_THREADS, count).count >= TARGETS_PARTS;
}

inline size_t targets_bytes(int64_t count)
{
    return (size_t)count * (sizeof(stni_sort_target) + (ORDER_DIGITS + 1) * sizeof(int64_t));
}

inline targets_space targets_space_of(void *work, int64_t count)
{
    stni_sort_target *targets = static_cast<stni_sort_target *>(work);
    int64_t *counts = reinterpret_cast<int64_t *>(targets + count);
    return {targets, counts, counts + count * ORDER_DIGITS};
}

/* space.targets: element `place` of each line, by its number in the line; with `nans`, which space.numbers counts, the
 * first of them. */
inline void launch_find_targets(const long_lines &g, int64_t place, bool nans, const targets_space &space,
                                cudaStream_t stream)
{
    struct stni_sort_digits digits = {stni_sort_key_bits(g.order.dtype) / 8, 0};
    for (int64_t left = g.lines.n - 1; left > 0; left >>= 8)
        digits.of_index++;
    stni_sort_narrow_args narrow = {
        digits, -1, g.count, place, space.counts, nans ? space.numbers : nullptr, space.targets};
    launch_narrow(narrow, stream);
    const int rounds = digits.of_key + digits.of_index;
    for (int next = 0; next < rounds; next++) {
        narrow.round = next;
        launch_count_round(g, {digits, next, false, space.targets, space.counts}, stream);
        launch_narrow(narrow, stream);
    }
}

}

#endif
