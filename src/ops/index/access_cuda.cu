/* Indexed access on a CUDA device.
 *
 * Reading: a thread a few values (read_by_index.cuh); of lines of values that one index names together, a thread a few
 * units of up to 16 bytes. Writing values: the indices are sorted by the element of the table that they name, where
 * they keep the order of their positions; a thread then joins all values of one element, in that order, so that
 * results are the same in every run, and the CPU's. */
#include "core/box/box_convert_cuda.h"
#include "core/device/cuda/convert.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/radix.cuh"
#include "ops/index/lines.cuh"
#include "ops/index/read_by_index.cuh"
#include "ops/index/write_in_order.cuh"

namespace {

enum { THREADS = 256 };
constexpr uint32_t INDEX_DTYPES = dtype_bit(STN_DTYPE_I64) | dtype_bit(STN_DTYPE_I32);

enum { READS = 4 /* of a thread, units of a line */ };

/* `a` has the positions of whole lines, and counts in units of W. */
template <class W> __global__ void __launch_bounds__(LINE_THREADS)
read_lines(const __grid_constant__ access a, const __grid_constant__ lines l)
{
    int64_t line, first, at[SIDES];
    find_line(l, line, first);
    if (line >= l.count)
        return;
    find(a.positions, line, at);
    const int64_t from = locate(a, line * l.length, at);
    const W *source = static_cast<const W *>(a.at.table) + (from < 0 ? 0 : from);
    W *values = static_cast<W *>(a.at.values) + at[VALUE], held[READS];
    STNI_UNROLL
    for (int e = 0; e < READS; e++) {
        const int64_t k = first + e * l.team;
        held[e] = from >= 0 && k < l.length ? source[k] : W();
    }
    STNI_UNROLL
    for (int e = 0; e < READS; e++)
        if (first + e * l.team < l.length)
            values[first + e * l.team] = held[e];
}

/* Whether a grid is long enough for the lines; it is but for sizes that no device holds. */
bool launch_read_lines(stni_access at, size_t size, stn_value_record *record, cudaStream_t stream)
{
    const int n = elements_of_unit(at, size);
    count_in_units(at, n);
    const int64_t length = at.shape[at.ndim - 1];
    access a = access_of(at, ALL, record);
    a.positions = no_dims<SIDES>();
    for (int d = 0; d + 1 < at.ndim; d++)
        add_dim(a.positions, at.shape[d], {at.index_strides[d], at.value_strides[d], at.table_strides[d]});
    end_dims(a.positions);
    const lines l = lines_of(a.positions.count, length, READS);
    const int64_t blocks = line_blocks(l);
    if (blocks > INT32_MAX)
        return false;
    dispatch_unit(size * (size_t)n, [&](auto unit) {
        if (blocks > 0)
            STNI_LAUNCH(read_lines<decltype(unit)>, grid_of(blocks), LINE_THREADS, stream, a, l);
    });
    return true;
}

void launch_read(const stni_access_read_args &args, stn_value_record *record, cudaStream_t stream)
{
    stni_access at = args.at;
    while (join_last_dims(at))
        continue;
    if (has_lines(at) && launch_read_lines(at, args.element_size, record, stream))
        return;
    const access a = access_of(args.at, ALL, record);
    dispatch_unit(args.element_size, [&](auto unit) { launch_read_of<decltype(unit)>(a, stream); });
}

__global__ void __launch_bounds__(THREADS) find_keys(const __grid_constant__ access a, int64_t *keys)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[SIDES];
    if (i >= a.positions.count)
        return;
    find(a.positions, i, at);
    keys[at[VALUE]] = locate(a, i, at);
}

void launch_keys(const stni_access_keys_args &args, stn_value_record *record, cudaStream_t stream)
{
    const access a = access_of(args.at, ALL, record);
    if (a.positions.count > 0)
        STNI_LAUNCH(find_keys, blocks_for(a.positions.count, THREADS), THREADS, stream, a, args.keys);
}

/* One value for all: in whichever order. */
template <class A> __global__ void __launch_bounds__(THREADS) write_constant(const __grid_constant__ access a, A value)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[SIDES];
    if (i >= a.positions.count)
        return;
    find(a.positions, i, at);
    const int64_t to = locate(a, i, at);
    if (to >= 0)
        static_cast<A *>(a.at.table)[to] = value;
}

typedef sort_entry<uint64_t, uint64_t> entry;

/* Which element of the table the rows name, without their dims of slices; `nowhere`, above all others: none that is
 * here. */
__global__ void __launch_bounds__(THREADS) list_rows(const __grid_constant__ access a, entry *entries, uint64_t nowhere)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[SIDES], position = 0, rest = i, step = 1;
    if (i >= a.positions.count)
        return;
    find(a.positions, i, at);
    for (int d = a.at.ndim - 1; d >= 0; d--) { /* among all positions, the first of its slice, for the report */
        const bool is_slice = a.at.index_strides[d] == 0 && a.at.table_strides[d] != 0;
        position += is_slice ? 0 : rest % a.at.shape[d] * step;
        rest = is_slice ? rest : rest / a.at.shape[d];
        step *= a.at.shape[d];
    }
    const int64_t to = locate(a, position, at);
    const entry e = {to < 0 ? nowhere : (uint64_t)to, (uint64_t)i};
    entries[i] = e;
}

struct writing {
    operands<SIDES> rows, parts; /* parts: of a slice, without its last dim */
    lines shares;                /* a line each row and part, of the elements of the slices' last dim */
    int64_t value_step, table_step;
    const entry *entries;
    uint64_t nowhere;
    void *table;
    const void *values;
    stni_access_mode mode;
};

template <class A, int SIDE> constexpr int runs_each = SIDE > 1 ? 2 : line_each<A>;

/* The first of the rows that name one element joins the values of all, of those that set it the last one: a thread
 * a few runs of its slice. Lines and steps count in runs. */
template <class S, int SIDE> __global__ void __launch_bounds__(LINE_THREADS, 3)
write_rows(const __grid_constant__ writing w, typename computed<S>::type scale)
{
    typedef typename computed<S>::type A;
    enum { EACH = runs_each<A, SIDE> };
    int64_t line, first, in_row[SIDES], in_slice[SIDES];
    find_line(w.shares, line, first);
    if (line >= w.shares.count)
        return;
    const int64_t row = w.parts.count == 1 ? line : line / w.parts.count;
    const int64_t beside = w.mode == STNI_ACCESS_SET ? row + 1 : row - 1; /* the one that may come first */
    const bool has_beside = beside >= 0 && beside < w.rows.count;
    const uint64_t key = w.entries[row].key, key_beside = w.entries[has_beside ? beside : row].key;
    if (key == w.nowhere || (has_beside && key_beside == key))
        return;
    find(w.parts, line - row * w.parts.count, in_slice);
    A *elements = static_cast<A *>(w.table) + (int64_t)key + in_slice[TABLE] + first * w.table_step;
    const S *values = static_cast<const S *>(w.values) + in_slice[VALUE] + first * w.value_step;
    const int64_t left = w.shares.length - first, table_step = w.table_step * w.shares.team;
    const int64_t value_step = w.value_step * w.shares.team;
    side_by_side<A, SIDE> sum[EACH] = {};
    STNI_UNROLL
    for (int e = 0; e < EACH; e++)
        if (e * w.shares.team < left)
            sum[e] = *reinterpret_cast<const side_by_side<A, SIDE> *>(elements + e * table_step);
    for (int64_t r = row; r < w.rows.count && w.entries[r].key == key; r++) {
        find(w.rows, (int64_t)w.entries[r].place, in_row);
        side_by_side<S, SIDE> in[EACH];
        STNI_UNROLL
        for (int e = 0; e < EACH; e++)
            if (e * w.shares.team < left)
                in[e] = *reinterpret_cast<const side_by_side<S, SIDE> *>(values + in_row[VALUE] + e * value_step);
        STNI_UNROLL
        for (int e = 0; e < EACH; e++)
            STNI_UNROLL
            for (int k = 0; k < SIDE; k++)
                if (e * w.shares.team < left)
                    sum[e].v[k] = arithmetic<A>::join(w.mode, sum[e].v[k], load(in[e].v[k]), scale);
    }
    STNI_UNROLL
    for (int e = 0; e < EACH; e++)
        if (e * w.shares.team < left)
            *reinterpret_cast<side_by_side<A, SIDE> *>(elements + e * table_step) = sum[e];
}

/* For `each` runs of `side` elements a thread. */
writing writing_of(const stni_access_write_args &args, const operands<SIDES> &rows, const entry *sorted,
                   uint64_t nowhere, int side, int each)
{
    const operands<SIDES> slices = positions_of(args.at, SLICES);
    writing w = {rows, no_dims<SIDES>(), {}, 0, 0, sorted, nowhere, args.at.table, args.at.values, args.mode};
    const int last = slices.ndim - 1;
    for (int d = 0; d < last; d++)
        add_dim(w.parts, slices.shape[d], {0, slices.stride[VALUE][d], slices.stride[TABLE][d]});
    end_dims(w.parts);
    w.value_step = last < 0 ? 0 : slices.stride[VALUE][last] * side;
    w.table_step = last < 0 ? 0 : slices.stride[TABLE][last] * side;
    w.shares = lines_of(rows.count * w.parts.count, last < 0 ? 1 : slices.shape[last] / side, each);
    return w;
}

template <class S, int SIDE>
void launch_rows(const stni_access_write_args &args, const operands<SIDES> &rows, const entry *sorted, uint64_t nowhere,
                 cudaStream_t stream)
{
    typedef typename computed<S>::type A;
    const writing w = writing_of(args, rows, sorted, nowhere, SIDE, runs_each<A, SIDE>);
    STNI_LAUNCH((write_rows<S, SIDE>), blocks_for(line_blocks(w.shares), 1), LINE_THREADS, stream, w,
                arithmetic<A>::scale(args.scale));
}

/* Of floats as many elements at once as 16 bytes of the table have, where slices lie so. */
template <class S>
void launch_rows_of(const stni_access_write_args &args, const operands<SIDES> &rows, const entry *sorted,
                    uint64_t nowhere, cudaStream_t stream)
{
    if constexpr (is_same<typename computed<S>::type, float>) {
        enum { SIDE = 16 / sizeof(float) };
        if (has_lines(args.at) && elements_of_unit(args.at, sizeof(float)) == SIDE)
            return launch_rows<S, SIDE>(args, rows, sorted, nowhere, stream);
    }
    launch_rows<S, 1>(args, rows, sorted, nowhere, stream);
}

/* One above every offset in the table. */
uint64_t nowhere_of(const stni_access &a)
{
    int64_t most = a.base;
    for (int d = 0; d < a.ndim; d++)
        most += is_slice_dim(a, d) || a.shape[d] == 0 ? 0 : (a.shape[d] - 1) * a.table_strides[d];
    for (int k = 0; k < a.n_keys; k++)
        most += a.key_shape[k] > 0 ? (a.key_shape[k] - 1) * a.key_strides[k] : 0;
    return (uint64_t)most + 1;
}

template <class S>
void launch_write_of(const stni_access_write_args &args, stn_value_record *record, cudaStream_t stream)
{
    typedef typename computed<S>::type A;
    const access all = access_of(args.at, ALL, record), rows = access_of(args.at, ROWS, record);
    const uint64_t nowhere = nowhere_of(args.at);
    if (all.positions.count == 0)
        return;
    if (!args.at.values)
        return STNI_LAUNCH(write_constant<A>, blocks_for(all.positions.count, THREADS), THREADS, stream, all,
                           arithmetic<A>::constant(args));
    const auto space = sort_space_of<uint64_t, uint64_t>(args.work, rows.positions.count, 1);
    STNI_LAUNCH(list_rows, blocks_for(rows.positions.count, THREADS), THREADS, stream, rows, space.entries, nowhere);
    const entry *sorted = sort_entries(space, rows.positions.count, 1, bits_of(nowhere), stream);
    launch_rows_of<S>(args, rows.positions, sorted, nowhere, stream);
}

size_t write_workspace(stn_queue *, const void *args)
{
    const stni_access_write_args &a = *static_cast<const stni_access_write_args *>(args);
    ordering unused;
    if ((ORDERED_DTYPES & dtype_bit(a.dtype)) && is_ordered(a, unused))
        return 0;
    return a.at.values ? sort_bytes<uint64_t, uint64_t>(positions_of(a.at, ROWS).count, 1) : 0;
}

void launch_write(const stni_access_write_args &given, stn_value_record *record, cudaStream_t stream)
{
    stni_access_write_args args = given;
    if (args.dtype == STN_DTYPE_BOOL)
        stni_access_for_bool(&args);
    ordering o;
    if ((ORDERED_DTYPES & dtype_bit(args.dtype)) && is_ordered(args, o))
        return dispatch<float, bf16, f16>(args.dtype, [&](auto element) {
            launch_in_order<decltype(element)>(args, o, record, stream);
        });
    dispatch_all(args.dtype, [&](auto element) { launch_write_of<decltype(element)>(args, record, stream); });
}

/* Tables of 16-bit floats in f32, in which is computed, wherever their elements lie. */
struct conversion {
    operands<2> boxes;
    void *dst;
    const void *src;
    stn_dtype to, from;
};

__global__ void __launch_bounds__(THREADS) convert_box(const __grid_constant__ conversion c)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[2];
    if (i >= c.boxes.count)
        return;
    if (is_small(c.boxes))
        offsets_of(c.boxes, (uint32_t)i, at);
    else
        offsets_of(c.boxes, i, at);
    write_element(c.dst, c.to, at[0], read_element<float>(c.src, c.from, at[1]));
}

void launch_convert(const stni_access_convert_args &a, cudaStream_t stream)
{
    int order[STN_MAX_BOX_NDIM];
    if (stni_box_convert_launch(a.dst, a.to, a.src, a.from, stream))
        return;
    conversion c = {no_dims<2>(), a.dst.data, a.src.data, a.to, a.from};
    order_by_strides(a.dst, order);
    for (int i = 0; i < a.dst.ndim; i++)
        add_dim(c.boxes, a.dst.shape[order[i]], {a.dst.strides[order[i]], a.src.strides[order[i]]});
    end_dims(c.boxes);
    if (c.boxes.count > 0)
        STNI_LAUNCH(convert_box, blocks_for(c.boxes.count, THREADS), THREADS, stream, c);
}

}

STNI_CUDA_KERNELS(access) = {
    STNI_CUDA_REPORTING_KERNEL("index_read.keys", INDEX_DTYPES, stni_access_keys_args, launch_keys),
    STNI_CUDA_REPORTING_KERNEL("index_read.read", ALL_DTYPES, stni_access_read_args, launch_read),
    STNI_CUDA_REPORTING_KERNEL("index_write.keys", INDEX_DTYPES, stni_access_keys_args, launch_keys),
    {sizeof(stn_kernel), "index_write.write", "cuda", ALL_DTYPES, sizeof(stni_access_write_args),
     launch_reporting_row<stni_access_write_args, launch_write>, write_workspace},
    STNI_CUDA_KERNEL("index_write.convert", dtype_bit(STN_DTYPE_F32), stni_access_convert_args, launch_convert),
    STNI_CUDA_REPORTING_KERNEL("one_hot_of.write", dtype_bit(STN_DTYPE_I64), stni_access_write_args, launch_write),
    STNI_CUDA_KERNELS_END
};
