/* Strided copies of boxes, one or many at a time, and filling, on a CUDA device.
 *
 * As on the CPU (box.c), the dims are sorted by the destination's strides and merged, so that neighbouring threads
 * write neighbouring elements. Where the innermost run is dense in both boxes it is copied in the widest units that
 * sizes, strides and addresses allow; where these are less than packs, long rows are copied as box_rows.cuh says.
 * Where another dim is dense in the source the two are transposed (box_transpose.cuh).
 *
 * A list of copies is one grid, whose blocks are dealt to the copies in their order. Grids of their own have those
 * that are transposed element by element, those that are larger than 32-bit indices reach, and large ones that
 * box_rows.cuh serves. */
#include "core/box/box_rows.cuh"
#include "core/box/box_sides.cuh"
#include "core/box/box_transpose.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/kernel.cuh"

namespace {

enum { THREADS = 256, PER_THREAD = 4, UNITS = THREADS * PER_THREAD, MOST_BLOCKS = 1 << 30 };
enum { LARGE_PIECE = 1 << 20 /* bytes */ };

/* A thread copies PER_THREAD units: all are read before one is written. Strides in units. */
template <class W, class I> __global__ void __launch_bounds__(THREADS)
copy_units(const __grid_constant__ sides s, W *__restrict__ dst, const W *__restrict__ src)
{
    W value[PER_THREAD];
    int64_t to[PER_THREAD];
    const int64_t first = (int64_t)blockIdx.x * THREADS * PER_THREAD + threadIdx.x;
    for (int k = 0; k < PER_THREAD; k++) {
        const int64_t i = first + k * THREADS;
        if (i < s.count) {
            int64_t at[SIDES];
            offsets_of(s, (I)i, at);
            value[k] = src[at[SRC]];
            to[k] = at[DST];
        }
    }
    for (int k = 0; k < PER_THREAD; k++)
        if (first + k * THREADS < s.count)
            dst[to[k]] = value[k];
}

/* The dims of a copy by falling strides of the destination, merged; strides in bytes. */
sides merged_sides(const stn_box_copy_args &a)
{
    int order[STN_MAX_BOX_NDIM];
    const int64_t bytes = (int64_t)a.element_size;
    order_by_strides(a.dst, order);
    sides s = no_dims<SIDES>();
    for (int i = 0; i < a.dst.ndim; i++) {
        const int d = order[i];
        add_dim(s, a.dst.shape[d], {a.dst.strides[d] * bytes, a.src.strides[d] * bytes});
    }
    return s;
}

/* A copy whose dims are merged; strides in bytes. */
struct copy {
    sides bytes;
    void *dst;
    const void *src;
    int64_t element; /* bytes */
};

/* The widest unit in which the innermost run, if it is dense on both sides, can be copied; else an element. Bytes. */
int64_t unit_of(const copy &c)
{
    const sides &s = c.bytes;
    const int last = s.ndim - 1;
    if (last < 0 || s.stride[DST][last] != c.element || s.stride[SRC][last] != c.element)
        return c.element;
    uint64_t bits = (uint64_t)(uintptr_t)c.dst | (uint64_t)(uintptr_t)c.src | (uint64_t)(s.shape[last] * c.element) |
                    sizeof(unit16);
    for (int d = 0; d < last; d++)
        bits |= (uint64_t)s.stride[DST][d] | (uint64_t)s.stride[SRC][d];
    return (int64_t)(bits & (0 - bits));
}

/* The same copy in units of `unit` bytes, which makes the innermost run shorter where it is more than an element. */
sides in_units(const sides &bytes, int64_t element, int64_t unit)
{
    sides s = no_dims<SIDES>();
    for (int d = 0; d < bytes.ndim; d++) {
        if (unit > element && d == bytes.ndim - 1)
            add_dim(s, bytes.shape[d] * element / unit, {1, 1});
        else
            add_dim(s, bytes.shape[d], {bytes.stride[DST][d] / unit, bytes.stride[SRC][d] / unit});
    }
    end_dims(s);
    return s;
}

template <class W> void launch_in(const copy &c, const sides &s, cudaStream_t stream)
{
    W *dst = static_cast<W *>(c.dst);
    const W *src = static_cast<const W *>(c.src);
    const int row_dim = transposed_dim(s);
    const unsigned blocks = blocks_for(s.count, UNITS);
    if (row_dim >= 0)
        return launch_transpose(s, row_dim, dst, src, stream);
    if constexpr (sizeof(W) < sizeof(unit16)) {
        if (is_of_rows(s, sizeof(W), dst))
            return launch_rows(s, dst, src, stream);
    }
    if (is_small(s))
        STNI_LAUNCH((copy_units<W, uint32_t>), blocks, THREADS, stream, s, dst, src);
    else
        STNI_LAUNCH((copy_units<W, int64_t>), blocks, THREADS, stream, s, dst, src);
}

void launch_alone(const copy &c, cudaStream_t stream)
{
    const int64_t unit = unit_of(c);
    const sides s = in_units(c.bytes, c.element, unit);
    dispatch_unit((size_t)unit, [&](auto w) { launch_in<decltype(w)>(c, s, stream); });
}

void launch_copy(const stn_box_copy_args &a, cudaStream_t stream)
{
    const copy c = {merged_sides(a), a.dst.data, a.src.data, (int64_t)a.element_size};
    if (c.bytes.count > 0)
        launch_alone(c, stream);
}

enum { TILES = 0 /* for a unit: what is transposed in packs of elements */ };

/* One copy of a list, in its units, and its dims, outermost first. Behind those of planes come their rows and
 * columns. */
struct piece {
    void *dst;
    const void *src;
    uint32_t count;
    uint16_t first_dim;
    uint8_t ndim, unit; /* bytes */
};

struct piece_dim {
    int64_t stride[SIDES];
    divider by; /* what indices are divided by: the size, or of planes the tiles */
    uint32_t size;
};

struct list {
    int16_t n, has_tiles;
    unsigned begin[STN_BOX_COPIES + 1]; /* each copy's first block, and all blocks */
    piece copies[STN_BOX_COPIES];
    piece_dim dims[STN_BOX_COPIES_DIMS];
};

static_assert(sizeof(list) <= STN_MAX_KERNEL_ARGS, "arguments of a kernel");
static_assert((int)THREADS == (int)TILE_THREADS, "tiles and other pieces in one grid");

STNI_DEVICE void piece_offsets(const piece &p, const piece_dim *dims, uint32_t index, int64_t (&at)[SIDES])
{
    at[DST] = at[SRC] = 0;
    for (int d = p.ndim - 1; d >= 0; d--) {
        const uint32_t rest = d > 0 ? divide(index, dims[d].by) : 0, here = index - rest * dims[d].by.divisor;
        at[DST] += here * dims[d].stride[DST];
        at[SRC] += here * dims[d].stride[SRC];
        index = rest;
    }
}

template <class W> STNI_DEVICE void copy_piece(const piece &p, const piece_dim *dims, int64_t first)
{
    W value[PER_THREAD];
    int64_t to[PER_THREAD];
    STNI_UNROLL
    for (int k = 0; k < PER_THREAD; k++) {
        const int64_t i = first + k * THREADS;
        if (i < p.count) {
            int64_t at[SIDES];
            piece_offsets(p, dims, (uint32_t)i, at);
            value[k] = static_cast<const W *>(p.src)[at[SRC]];
            to[k] = at[DST];
        }
    }
    STNI_UNROLL
    for (int k = 0; k < PER_THREAD; k++)
        if (first + k * THREADS < p.count)
            static_cast<W *>(p.dst)[to[k]] = value[k];
}

STNI_DEVICE void copy_any_piece(const piece &p, const piece_dim *dims, unsigned block)
{
    const int64_t first = (int64_t)block * UNITS + threadIdx.x;
    switch (p.unit) {
    case 1: return copy_piece<uint8_t>(p, dims, first);
    case 2: return copy_piece<uint16_t>(p, dims, first);
    case 4: return copy_piece<uint32_t>(p, dims, first);
    case 8: return copy_piece<uint64_t>(p, dims, first);
    default: return copy_piece<unit16>(p, dims, first);
    }
}

__global__ void __launch_bounds__(THREADS) copy_list(const __grid_constant__ list l)
{
    const int which = piece_of_block(l.begin, l.n, blockIdx.x);
    const piece &p = l.copies[which];
    copy_any_piece(p, l.dims + p.first_dim, blockIdx.x - l.begin[which]);
}

/* The same for lists of which some are transposed; their elements are W. */
template <class W> __global__ void __launch_bounds__(THREADS) copy_tile_list(const __grid_constant__ list l)
{
    typedef pack_tile<W> T;
    STNI_SHARED(typename T::words, shared, T::SIZE);
    const int which = piece_of_block(l.begin, l.n, blockIdx.x);
    const unsigned block = blockIdx.x - l.begin[which];
    const piece &p = l.copies[which];
    const piece_dim *dims = l.dims + p.first_dim;
    if (p.unit != TILES)
        return copy_any_piece(p, dims, block);
    const piece_dim &rows = dims[p.ndim], &cols = dims[p.ndim + 1];
    tile_place t;
    piece_offsets(p, dims, find_tile(block, rows.by, cols.by, T::ROWS, T::COLS, t), t.at);
    const plane_lines lines = {rows.size, cols.size, rows.stride[DST], cols.stride[SRC]};
    transpose_tile(lines, t, static_cast<W *>(p.dst), static_cast<const W *>(p.src), shared);
}

/* Copy i of the arguments, whose dims begin at `dim`. */
copy copy_at(const stn_box_copies_args &a, int i, int dim)
{
    const int64_t bytes = (int64_t)a.element_size;
    copy c = {no_dims<SIDES>(), a.box[i].dst, a.box[i].src, bytes};
    for (int d = dim; d < dim + a.box[i].ndim; d++)
        add_dim(c.bytes, a.shape[d], {a.dst_stride[d] * bytes, a.src_stride[d] * bytes});
    return c;
}

/* Whether a copy of a list is worth a grid of its own, in which its rows are copied in packs. */
bool are_large_rows(const copy &c, const sides &s, int64_t unit)
{
    return s.count * unit >= LARGE_PIECE && is_of_rows(s, unit, c.dst);
}

/* A list in the making. */
struct lister {
    list l;
    int n_dims;
};

void add_dims(lister &to, const sides &s)
{
    for (int d = 0; d < s.ndim; d++)
        to.l.dims[to.n_dims++] = {{s.stride[DST][d], s.stride[SRC][d]}, s.by[d], s.by[d].divisor};
}

/* The next of the list's copies, whose dims are added behind it; false where the grid would be too large. */
bool add_copy(lister &to, const copy &c, const sides &s, int64_t unit, unsigned blocks)
{
    list &l = to.l;
    const unsigned begin = l.begin[l.n];
    if (begin + blocks > MOST_BLOCKS)
        return false;
    l.copies[l.n++] = {c.dst, c.src, (uint32_t)s.count, (uint16_t)to.n_dims, (uint8_t)s.ndim, (uint8_t)unit};
    l.begin[l.n] = begin + blocks;
    add_dims(to, s);
    return true;
}

bool add_tiles(lister &to, const copy &c, planes &p)
{
    const unsigned blocks = dispatch_unit((size_t)c.element, [&](auto w) {
        typedef pack_tile<decltype(w)> T;
        return cut_to_tiles(p, T::ROWS, T::COLS);
    });
    if (!add_copy(to, c, p.outer, TILES, blocks))
        return false;
    to.l.has_tiles = 1;
    to.l.dims[to.n_dims++] = {{p.lines.dst_row, 1}, p.down, (uint32_t)p.lines.rows};
    to.l.dims[to.n_dims++] = {{1, p.lines.src_col}, p.across, (uint32_t)p.lines.cols};
    return true;
}

/* Whether it was added. */
bool add_piece(lister &to, const copy &c)
{
    const int64_t unit = unit_of(c);
    const sides s = in_units(c.bytes, c.element, unit);
    const int row_dim = transposed_dim(s);
    if (!is_small(s) || are_large_rows(c, s, unit))
        return false;
    if (row_dim < 0)
        return add_copy(to, c, s, unit, blocks_for(s.count, UNITS));
    planes p = planes_of(s, row_dim);
    return unit == c.element && has_pack_lines(p, unit, (uintptr_t)c.dst | (uintptr_t)c.src) && add_tiles(to, c, p);
}

void launch_list(const list &l, size_t element, cudaStream_t stream)
{
    const unsigned blocks = l.begin[l.n];
    if (l.n == 0)
        return;
    if (!l.has_tiles) {
        STNI_LAUNCH(copy_list, blocks, THREADS, stream, l);
        return;
    }
    dispatch_unit(element, [&](auto w) { STNI_LAUNCH(copy_tile_list<decltype(w)>, blocks, THREADS, stream, l); });
}

void launch_copies(const stn_box_copies_args &a, cudaStream_t stream)
{
    lister to;
    int dim = 0;
    to.n_dims = to.l.n = to.l.has_tiles = 0;
    to.l.begin[0] = 0;
    for (int i = 0; i < a.n; dim += (int)a.box[i++].ndim) {
        const copy c = copy_at(a, i, dim);
        if (c.bytes.count > 0 && (a.n == 1 || !add_piece(to, c)))
            launch_alone(c, stream);
    }
    launch_list(to.l, a.element_size, stream);
}

template <class W> __global__ void __launch_bounds__(THREADS) fill_units(int64_t count, W *dst, W value)
{
    const int64_t first = (int64_t)blockIdx.x * THREADS * PER_THREAD + threadIdx.x;
    for (int k = 0; k < PER_THREAD; k++)
        if (first + k * THREADS < count)
            dst[first + k * THREADS] = value;
}

template <class W> void launch_fill_in(const stn_fill_args &a, cudaStream_t stream)
{
    unsigned char bytes[sizeof(W)];
    W value;
    for (size_t i = 0; i < sizeof(W); i++)
        bytes[i] = a.element[i % a.element_size];
    memcpy(&value, bytes, sizeof value);
    const int64_t count = a.count * (int64_t)a.element_size / (int64_t)sizeof(W);
    STNI_LAUNCH(fill_units<W>, blocks_for(count, THREADS * PER_THREAD), THREADS, stream, count,
                static_cast<W *>(a.data), value);
}

void launch_fill(const stn_fill_args &a, cudaStream_t stream)
{
    const uint64_t bits = (uint64_t)(uintptr_t)a.data | (uint64_t)a.count * a.element_size | sizeof(unit16);
    if (a.count == 0)
        return;
    dispatch_unit((size_t)(bits & (0 - bits)), [&](auto unit) { launch_fill_in<decltype(unit)>(a, stream); });
}

}

STNI_CUDA_KERNELS(box) = {
    STNI_CUDA_KERNEL("core.box_copy", ALL_DTYPES, stn_box_copy_args, launch_copy),
    STNI_CUDA_KERNEL("core.box_copies", ALL_DTYPES, stn_box_copies_args, launch_copies),
    STNI_CUDA_KERNEL("core.fill", ALL_DTYPES, stn_fill_args, launch_fill),
    STNI_CUDA_KERNELS_END
};
