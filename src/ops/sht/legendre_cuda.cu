/* Sums of Legendre functions on a CUDA device, a slab of orders after the other: the table of its functions, columns of
 * the fields turned so that what is summed over lies side by side, and tiles of products, which are stored where they
 * belong. */
#include "core/device/cuda/complex.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "ops/sht/legendre_slab_cuda.cuh"
#include "ops/sht/legendre_tiles_cuda.cuh"

namespace
{

enum { TURN = 32, TURN_ROWS = 8, TURN_THREADS = TURN * TURN_ROWS };

/* A square of a field's orders and of what lies along its columns. */
struct square {
    int64_t field, order, row;
};

STNI_HOST_DEVICE int64_t squares_along(int64_t n)
{
    return (n + TURN - 1) / TURN;
}

STNI_DEVICE square square_of(int64_t block, int64_t orders, int64_t rows)
{
    const int64_t across = squares_along(orders), down = squares_along(rows);
    square q;
    q.order = block % across * TURN;
    q.row = block / across % down * TURN;
    q.field = block / across / down;
    return q;
}

template <class R> STNI_DEVICE R *column_of(const slab &s, int64_t slot, int odd, int64_t field)
{
    return static_cast<R *>(s.columns) + ((slot * 2 + odd) * s.fields + field) * 2 * s.length;
}

/* Columns of latitudes become their even and their odd parts. */
template <class R>
__global__ void __launch_bounds__(TURN_THREADS)
    fold(const __grid_constant__ stni_legendre_args a, const __grid_constant__ slab s, int64_t first, int64_t orders)
{
    STNI_SHARED(R, held, 4 * TURN * (TURN + 1));
    const square q = square_of(blockIdx.x, orders, s.half);
    const int lane = (int)threadIdx.x % TURN;
    const stni_complex<R> *in = static_cast<const stni_complex<R> *>(a.in) + field_begin(a, a.in_batch, q.field);
    for (int i = (int)threadIdx.x / TURN; i < TURN; i += TURN_ROWS) {
        const int64_t k = q.row + i, order = q.order + lane, mirror = a.nlat - 1 - k;
        stni_complex<R> north(0), south(0);
        if (k < s.half && order < orders) {
            north = in[k * a.in_row + (first + order) * a.in_order];
            south = mirror == k ? north : in[mirror * a.in_row + (first + order) * a.in_order];
        }
        R *const to = held + i * (TURN + 1) + lane;
        const int part = TURN * (TURN + 1);
        to[0] = mirror == k ? north.re : north.re + south.re;
        to[part] = mirror == k ? north.im : north.im + south.im;
        to[2 * part] = north.re - south.re;
        to[3 * part] = north.im - south.im;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x / TURN; i < 4 * TURN; i += TURN_ROWS) {
        const int part = i / TURN, slot = i % TURN;
        const R value = held[part * TURN * (TURN + 1) + lane * (TURN + 1) + slot];
        if (q.order + slot < orders && q.row + lane < s.half)
            column_of<R>(s, q.order + slot, part / 2, q.field)[part % 2 * s.length + q.row + lane] = value;
    }
}

/* Columns of degrees become coefficients of even and of odd functions. */
template <class R>
__global__ void __launch_bounds__(TURN_THREADS)
    sort_degrees(const __grid_constant__ stni_legendre_args a, const __grid_constant__ slab s, int64_t first,
                 int64_t orders)
{
    STNI_SHARED(R, held, 2 * TURN * (TURN + 1));
    const square q = square_of(blockIdx.x, orders, a.lmax);
    const int lane = (int)threadIdx.x % TURN, part_size = TURN * (TURN + 1);
    const stni_complex<R> *in = static_cast<const stni_complex<R> *>(a.in) + field_begin(a, a.in_batch, q.field);
    for (int i = (int)threadIdx.x / TURN; i < TURN; i += TURN_ROWS) {
        const int64_t l = q.row + i, order = q.order + lane;
        stni_complex<R> c(0);
        if (l < a.lmax && order < orders)
            c = in[l * a.in_row + (first + order) * a.in_order];
        held[i * (TURN + 1) + lane] = c.re;
        held[part_size + i * (TURN + 1) + lane] = c.im;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x / TURN; i < 2 * TURN; i += TURN_ROWS) {
        const int part = i / TURN, slot = i % TURN;
        const int64_t l = q.row + lane, m = a.m_first + first + q.order + slot;
        if (q.order + slot >= orders || l >= a.lmax || l < m)
            continue;
        R *const to = column_of<R>(s, q.order + slot, stni_legendre_is_odd(&a.of, l, m), q.field);
        to[part * s.length + (l - m) / 2] = held[part * part_size + lane * (TURN + 1) + slot];
    }
}

/* A tile of results: of an order, of latitudes or functions, and of columns. */
struct tile_place {
    int64_t slot, row, column;
    int odd; /* of functions */
};

STNI_HOST_DEVICE int64_t tiles_along(int64_t n)
{
    return (n + SIDE - 1) / SIDE;
}

STNI_DEVICE tile_place tile_of(int64_t block, int64_t rows, int64_t columns, int parities)
{
    const int64_t across = tiles_along(columns), down = tiles_along(rows);
    tile_place t;
    t.column = block % across * SIDE;
    t.row = block / across % down * SIDE;
    t.odd = (int)(block / across / down % parities);
    t.slot = block / across / down / parities;
    return t;
}

template <class R> STNI_DEVICE const R *table_of(const slab &s, int64_t slot, int odd)
{
    return static_cast<const R *>(s.table) + (slot * 2 + odd) * s.rows * s.pitch;
}

STNI_DEVICE int rows_left(int64_t n)
{
    return n < SIDE ? (int)n : (int)SIDE;
}

template <class R> STNI_DEVICE side<R> columns_of(const slab &s, const tile_place &t, int odd)
{
    return {column_of<R>(s, t.slot, odd, 0) + t.column * s.length, s.length, rows_left(2 * s.fields - t.column)};
}

template <class R>
__global__ void __launch_bounds__(tile<R>::THREADS, 2)
    project(const __grid_constant__ stni_legendre_args a, const __grid_constant__ slab s, int64_t first)
{
    STNI_SHARED(pack<R>, left, DEPTH * tile<R>::PACKS);
    STNI_SHARED(pack<R>, right, DEPTH * tile<R>::PACKS);
    const tile_place t = tile_of(blockIdx.x, s.rows, 2 * s.fields, 2);
    const int64_t m = a.m_first + first + t.slot, rows = functions_of(a, m, t.odd);
    const bool is_turned = a.of.part == STNI_LEGENDRE_ZONAL; /* times -i */
    if (t.row >= rows)
        return;
    R sum[OWN_I][tile<R>::OWN_J] = {};
    const side<R> functions = {table_of<R>(s, t.slot, t.odd) + t.row * s.pitch, s.pitch, rows_left(rows - t.row)};
    add_products<true>(left, right, functions, columns_of<R>(s, t, t.odd), (int)s.half, sum);
    const int64_t degree = m + (t.odd != stni_legendre_is_odd(&a.of, m, m));
    STNI_UNROLL
    for (int j = 0; j < tile<R>::OWN_J; j += 2) {
        const int64_t field = t.column / 2 + (own_j<R>() + j) / 2;
        if (field >= s.fields)
            continue;
        stni_complex<R> *const to =
            static_cast<stni_complex<R> *>(a.out) + field_begin(a, a.out_batch, field) + (first + t.slot) * a.out_order;
        STNI_UNROLL
        for (int i = 0; i < OWN_I; i++) {
            const int64_t r = t.row + own_i() + i;
            const stni_complex<R> value(is_turned ? sum[i][j + 1] : sum[i][j], is_turned ? -sum[i][j] : sum[i][j + 1]);
            if (r < rows)
                to[(degree + 2 * r) * a.out_row] = value;
        }
    }
}

/* Times i. */
template <class R> STNI_DEVICE stni_complex<R> turned(stni_complex<R> x, bool is_turned)
{
    return is_turned ? stni_complex<R>(-x.im, x.re) : x;
}

template <class R>
__global__ void __launch_bounds__(tile<R>::THREADS, 2)
    evaluate(const __grid_constant__ stni_legendre_args a, const __grid_constant__ slab s, int64_t first)
{
    STNI_SHARED(pack<R>, left, DEPTH * tile<R>::PACKS);
    STNI_SHARED(pack<R>, right, DEPTH * tile<R>::PACKS);
    const tile_place t = tile_of(blockIdx.x, s.half, 2 * s.fields, 1);
    const int64_t m = a.m_first + first + t.slot;
    const bool is_turned = a.of.part == STNI_LEGENDRE_ZONAL; /* times i */
    R even[OWN_I][tile<R>::OWN_J] = {}, odd[OWN_I][tile<R>::OWN_J] = {};
    const side<R> of_even = {table_of<R>(s, t.slot, 0) + t.row, s.pitch, rows_left(s.half - t.row)};
    const side<R> of_odd = {table_of<R>(s, t.slot, 1) + t.row, s.pitch, rows_left(s.half - t.row)};
    add_products<false>(left, right, of_even, columns_of<R>(s, t, 0), (int)functions_of(a, m, 0), even);
    add_products<false>(left, right, of_odd, columns_of<R>(s, t, 1), (int)functions_of(a, m, 1), odd);
    STNI_UNROLL
    for (int j = 0; j < tile<R>::OWN_J; j += 2) {
        const int64_t field = t.column / 2 + (own_j<R>() + j) / 2;
        if (field >= s.fields)
            continue;
        stni_complex<R> *const to =
            static_cast<stni_complex<R> *>(a.out) + field_begin(a, a.out_batch, field) + (first + t.slot) * a.out_order;
        STNI_UNROLL
        for (int i = 0; i < OWN_I; i++) {
            const int64_t k = t.row + own_i() + i;
            const stni_complex<R> e(even[i][j], even[i][j + 1]), o(odd[i][j], odd[i][j + 1]);
            if (k < s.half) {
                to[(a.nlat - 1 - k) * a.out_row] = turned(e - o, is_turned);
                to[k * a.out_row] = turned(e + o, is_turned); /* on the equator odd functions are 0 */
            }
        }
    }
}

/* Coefficients of degrees below the order. */
template <class R>
__global__ void __launch_bounds__(TABLE_THREADS)
    clear_below(const __grid_constant__ stni_legendre_args a, const __grid_constant__ slab s)
{
    const int64_t i = (int64_t)blockIdx.x * TABLE_THREADS + threadIdx.x;
    const int64_t order = i % a.m_count, l = i / a.m_count % a.lmax, field = i / a.m_count / a.lmax;
    if (field < s.fields && l < a.m_first + order)
        static_cast<stni_complex<R> *>(
            a.out)[field_begin(a, a.out_batch, field) + l * a.out_row + order * a.out_order] = stni_complex<R>(0);
}

template <class R>
void launch_slab(const stni_legendre_args &a, const slab &s, int64_t first, int64_t orders, bool is_synthesis,
                 cudaStream_t stream)
{
    const int64_t across = tiles_along(2 * s.fields), turns = squares_along(orders) * s.fields;
    STNI_LAUNCH(make_table<R>, grid_of((s.pitch + TABLE_THREADS - 1) / TABLE_THREADS * orders), TABLE_THREADS, stream,
                a, s, first);
    if (is_synthesis) {
        STNI_LAUNCH(sort_degrees<R>, grid_of(turns * squares_along(a.lmax)), TURN_THREADS, stream, a, s, first, orders);
        STNI_LAUNCH(evaluate<R>, grid_of(across * tiles_along(s.half) * orders), tile<R>::THREADS, stream, a, s, first);
    } else {
        STNI_LAUNCH(fold<R>, grid_of(turns * squares_along(s.half)), TURN_THREADS, stream, a, s, first, orders);
        STNI_LAUNCH(project<R>, grid_of(across * tiles_along(s.rows) * 2 * orders), tile<R>::THREADS, stream, a, s,
                    first);
    }
}

template <class R> void launch_as(const stni_legendre_args &a, bool is_synthesis, cudaStream_t stream)
{
    const slab s = slab_of<R>(a, is_synthesis);
    STNI_LAUNCH(make_nodes, grid_of(node_blocks(s) + blocks_for(a.m_first + a.m_count + 1, TABLE_THREADS)),
                TABLE_THREADS, stream, a, s);
    if (!is_synthesis)
        STNI_LAUNCH(clear_below<R>, blocks_for(s.fields * a.lmax * a.m_count, TABLE_THREADS), TABLE_THREADS, stream, a,
                    s);
    for (int64_t first = 0; first < a.m_count; first += s.orders) {
        const int64_t left = a.m_count - first;
        launch_slab<R>(a, s, first, left < s.orders ? left : s.orders, is_synthesis, stream);
    }
}

template <bool IS_SYNTHESIS> void launch(const stni_legendre_args &a, cudaStream_t stream)
{
    if (a.dtype == STN_DTYPE_C128)
        launch_as<double>(a, IS_SYNTHESIS, stream);
    else
        launch_as<float>(a, IS_SYNTHESIS, stream);
}

template <bool IS_SYNTHESIS> size_t workspace(stn_queue *, const void *given)
{
    const stni_legendre_args &a = *static_cast<const stni_legendre_args *>(given);
    return a.dtype == STN_DTYPE_C128 ? slab_of<double>(a, IS_SYNTHESIS).bytes : slab_of<float>(a, IS_SYNTHESIS).bytes;
}

} // namespace

#define KERNEL(op, is_synthesis)                                                                                       \
    STNI_CUDA_KERNEL_WITH(op ".sums", COMPLEX_DTYPES, stni_legendre_args, launch<is_synthesis>, workspace<is_synthesis>)

STNI_CUDA_KERNELS(legendre) = {KERNEL("legendre_analysis", false), KERNEL("legendre_synthesis", true),
                               STNI_CUDA_KERNELS_END};
