/* Reductions over runs of elements that are dense in memory and begin anywhere, which are read in packs.
 *
 * Packs are counted from the beginning of each run, whatever its address: thread t of the `rows` threads of a result
 * takes packs t, t + rows and so on, and their elements one after another. So the order depends on the shape alone,
 * and an address that allows no packs says only how one is read: from the two units of memory in which it lies. */
#ifndef STNI_OPS_REDUCE_REDUCE_RUNS_CUH
#define STNI_OPS_REDUCE_REDUCE_RUNS_CUH

#include "core/device/cuda/block.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/packs.cuh"
#include "ops/reduce/reduction.cuh"

namespace {

enum {
    PACKS_AT_ONCE = 2,
    WHOLE_AT_ONCE = 4, /* where each is a unit of memory */
    PACKS_OF_THREAD = 8, /* where a run has many: what a thread does once is as much as it does for several packs */
    FEW_PACKS = 4, /* that a run has at least */
    FEW_PACKS_OF_SEVERAL = 32,
    MOST_PACKS = 1 << 30,
    FEW_THREADS = 8 /* so many packs side by side are a line of a cache: a result that has them gets so many threads */
};

/* Each pair of these is a kernel, so that there are those that are wanted often: sums and norms, the least and the
 * greatest number, and what is asked of truths. Not of i8 and i16, which share a kernel, and not where a few elements
 * read one by one are as many bytes. */
constexpr bool has_runs(int op, stn_dtype dtype)
{
    const uint32_t bit = dtype == STN_DTYPE_COUNT ? 0 : dtype_bit(dtype);
    const uint32_t wide = dtype_bit(STN_DTYPE_F64) | dtype_bit(STN_DTYPE_I64), floating = FLOATING_DTYPES & ~wide;
    const uint32_t integers = dtype_bit(STN_DTYPE_I32) | dtype_bit(STN_DTYPE_U8) | dtype_bit(STN_DTYPE_BOOL);
    switch (op) {
    case STNI_REDUCTION_sum: return bit & (floating | integers | wide);
    case STNI_REDUCTION_squares: return bit & floating;
    case STNI_REDUCTION_amax:
    case STNI_REDUCTION_amin: return bit & (floating | integers);
    case STNI_REDUCTION_nonzero:
    case STNI_REDUCTION_any:
    case STNI_REDUCTION_all: return bit & (dtype_bit(STN_DTYPE_U8) | dtype_bit(STN_DTYPE_BOOL));
    default: return false;
    }
}

/* An element that changes nothing. */
template <int OP, class S> STNI_DEVICE S neutral()
{
    S element;
    store(element, converted<typename computed<S>::type>(start_of<OP, S, typename accumulator<OP, S>::type>()));
    return element;
}

/* A run in memory, divided into units of 16 bytes at addresses that are multiples of 16: those from `first` to `end`
 * lie in it whole; its first byte is `past` bytes after the beginning of unit 0. */
struct run_units {
    const unit16 *data;
    unsigned past;
    int first, end;
};

template <class S> STNI_DEVICE run_units units_of(const S *from, int64_t length)
{
    const unsigned past = (unsigned)((uintptr_t)from % 16);
    const int64_t bytes = past + length * (int64_t)sizeof(S);
    const char *const unit = reinterpret_cast<const char *>(from) - past; /* no integer, so that it is global memory */
    return {reinterpret_cast<const unit16 *>(unit), past, past > 0, (int)(bytes / 16)};
}

/* What stands for the units that are not whole: unit 0, unit `end` and the one behind it, with neutral elements outside
 * of the run. The threads of a result share the work. */
enum { EDGES = 3 };

template <int OP, class S>
STNI_DEVICE void fill_edges(const run_units &units, const S *from, int64_t length, int row, int rows, unit16 *edges)
{
    enum { SIZE = pack<S>::SIZE };
    const uintptr_t begin = (uintptr_t)from, end = (uintptr_t)(from + length);
    for (int k = row; k < EDGES * SIZE; k += rows) {
        const int unit = k < SIZE ? 0 : units.end + k / SIZE - 1;
        const S *const at = reinterpret_cast<const S *>(units.data + unit) + k % SIZE;
        reinterpret_cast<S *>(edges)[k] = (uintptr_t)at >= begin && (uintptr_t)at < end ? *at : neutral<OP, S>();
    }
}

STNI_DEVICE unit16 unit_at(const run_units &units, const unit16 *edges, int i)
{
    if (i >= units.first && i < units.end)
        return units.data[i];
    return edges[i < units.first ? 0 : i == units.end ? 1 : 2];
}

/* The 16 bytes `past` bytes after the beginning of `low`, which `high` follows. */
STNI_DEVICE unit16 bytes_past(const unit16 &low, const unit16 &high, unsigned past)
{
    const unsigned bits = past % 8 * 8;
    const uint64_t a = past < 8 ? low.low : low.high, b = past < 8 ? low.high : high.low;
    const uint64_t c = past < 8 ? high.low : high.high;
    return {a >> bits | b << 1 << (63 - bits), b >> bits | c << 1 << (63 - bits)};
}

/* Packs i, i + step and so on, those before `end`. */
STNI_DEVICE void read_packs(const run_units &units, const unit16 *edges, int i, int step, int end,
                            unit16 (&in)[PACKS_AT_ONCE])
{
    unit16 high[PACKS_AT_ONCE];
    STNI_UNROLL
    for (int u = 0; u < PACKS_AT_ONCE; u++)
        if (i + u * step < end)
            in[u] = unit_at(units, edges, i + u * step);
    if (units.past == 0)
        return;
    STNI_UNROLL
    for (int u = 0; u < PACKS_AT_ONCE; u++)
        if (i + u * step < end)
            high[u] = unit_at(units, edges, i + u * step + 1);
    STNI_UNROLL
    for (int u = 0; u < PACKS_AT_ONCE; u++)
        if (i + u * step < end)
            in[u] = bytes_past(in[u], high[u], units.past);
}

template <int OP, class S, class A> STNI_DEVICE A joined_pack(A p, const unit16 &in)
{
    pack<S> elements;
    typename computed<S>::type v[pack<S>::SIZE];
    memcpy(&elements, &in, sizeof elements);
    load_pack(elements, v);
    STNI_UNROLL
    for (int k = 0; k < pack<S>::SIZE; k++)
        p = joined<OP>(p, element_of<OP, A>(v[k]));
    return p;
}

/* p joined with packs i, i + step and so on of a run, those before `end`. */
template <int OP, class S, class A>
STNI_DEVICE A joined_packs(const run_units &units, const unit16 *edges, int i, int step, int end, A p)
{
    const int whole = units.past > 0 ? 0 : units.end < end ? units.end : end;
    for (; i + (WHOLE_AT_ONCE - 1) * step < whole; i += WHOLE_AT_ONCE * step) {
        unit16 in[WHOLE_AT_ONCE];
        STNI_UNROLL
        for (int u = 0; u < WHOLE_AT_ONCE; u++)
            in[u] = units.data[i + u * step];
        STNI_UNROLL
        for (int u = 0; u < WHOLE_AT_ONCE; u++)
            p = joined_pack<OP, S>(p, in[u]);
    }
    for (; i < end; i += PACKS_AT_ONCE * step) {
        unit16 in[PACKS_AT_ONCE];
        read_packs(units, edges, i, step, end, in);
        STNI_UNROLL
        for (int u = 0; u < PACKS_AT_ONCE; u++)
            if (i + u * step < end)
                p = joined_pack<OP, S>(p, in[u]);
    }
    return p;
}

/* The first of the `rows` neighbouring threads of a result gets what they found. All threads of the block call it. */
template <int OP, class A> STNI_DEVICE A joined_threads(A p, int rows)
{
    STNI_SHARED(A, of_warp, THREADS / WARP);
    const int thread = (int)threadIdx.x;
    for (int by = (rows < WARP ? rows : (int)WARP) / 2; by > 0; by /= 2)
        p = joined<OP>(p, value_below(p, (unsigned)by));
    if (rows <= WARP)
        return p;
    if (thread % WARP == 0)
        of_warp[thread / WARP] = p;
    __syncthreads();
    if ((thread & (rows - 1)) == 0)
        for (int w = 1; w < rows / WARP; w++)
            p = joined<OP>(p, of_warp[thread / WARP + w]);
    return p;
}

/* A part of a run of so many results as a block has groups of `rows` threads. Left to itself, the compiler
 * spills a register for a fifth block. */
template <int OP, class S>
__global__ void __launch_bounds__(THREADS, 4) reduce_runs(const __grid_constant__ reduction g)
{
    typedef typename accumulator<OP, S>::type A;
    STNI_SHARED(unit16, edges, EDGES * THREADS / FEW_PACKS);
    const int row = (int)threadIdx.x & (g.rows - 1), group = (int)threadIdx.x >> g.run.log_rows;
    const int64_t result = (int64_t)blockIdx.x * (THREADS >> g.run.log_rows) + group;
    const uint32_t which = divide(blockIdx.y, g.run.parts);
    const int first = (int)(blockIdx.y - which * g.run.parts.divisor) * g.run.each;
    int64_t at[SIDES] = {0, 0}, before[1];
    run_units units = {};
    if (result < g.kept.count) {
        any_offsets_of(g.kept, result, at);
        any_offsets_of(g.run.outer, which, before);
        const S *const from = static_cast<const S *>(g.in) + at[IN] + before[0];
        units = units_of(from, g.run.length);
        if (units.past > 0 || g.run.length % pack<S>::SIZE != 0)
            fill_edges<OP>(units, from, g.run.length, row, g.rows, edges + EDGES * group);
    }
    __syncthreads();
    A p = start_of<OP, S, A>();
    if (result < g.kept.count) {
        const int end = g.run.packs - first < g.run.each ? g.run.packs : first + g.run.each;
        p = joined_packs<OP, S>(units, edges + EDGES * group, first + row, g.rows, end, p);
    }
    p = joined_threads<OP>(p, g.rows);
    if (row == 0 && result < g.kept.count)
        put<OP, S>(g, blockIdx.y, result, at, p);
}

/* In packs of `size` elements. None where the innermost dim has gaps or few elements, where there are more runs than a
 * result should have parts, and where 32 bits do not count a run's packs. */
inline runs runs_of(const operands<1> &reduced, int64_t size)
{
    const int last = reduced.ndim - 1;
    runs run = {};
    if (last < 0 || reduced.count == 0 || reduced.stride[0][last] != 1)
        return run;
    const int64_t length = reduced.shape[last], least = last > 0 ? FEW_PACKS_OF_SEVERAL : FEW_PACKS;
    if (length < least * size || length / size >= MOST_PACKS || reduced.count / length > PARTS_BLOCKS)
        return run;
    run.outer = no_dims<1>();
    for (int d = 0; d < last; d++)
        add_dim(run.outer, reduced.shape[d], {reduced.stride[0][d]});
    end_dims(run.outer);
    run.length = length;
    run.packs = (int)((length + size - 1) / size);
    return run;
}

/* As many threads as leave each a few packs of a run, and parts of it that do; a part is of one run. */
inline void end_runs(reduction &g)
{
    const int64_t packs = g.run.packs, runs = g.run.outer.count;
    int rows = FEW_PACKS;
    while (rows < THREADS && (rows < FEW_THREADS ? rows < packs : rows * PACKS_OF_THREAD < packs))
        rows *= 2;
    const int64_t blocks = runs * blocks_for(g.kept.count, THREADS / rows);
    const parts of_run = parts_of(packs, rows * PACKS_OF_THREAD / PARTS_PER_THREAD, blocks);
    g.rows = rows;
    g.run.each = (int)of_run.each;
    g.run.parts = divider_of(of_run.count);
    while (1 << g.run.log_rows < rows)
        g.run.log_rows++;
    g.part.count = runs * of_run.count;
}

}

#endif
