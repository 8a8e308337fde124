/* Legendre functions on a CUDA device: some orders at a time, a slab, as many as the workspace has tables and columns
 * for. What lies where in it, and the kernels that make nodes and tables. */
#ifndef STNI_OPS_SHT_LEGENDRE_SLAB_CUDA_CUH
#define STNI_OPS_SHT_LEGENDRE_SLAB_CUDA_CUH

#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/sht/legendre_functions.h"

/* Bytes of a slab's tables and columns, if those of one order are not more. */
#ifndef STNI_LEGENDRE_SCRATCH
#define STNI_LEGENDRE_SCRATCH ((int64_t)128 << 20)
#endif

namespace
{

enum { TABLE_THREADS = 128, SLAB_ROUND = 32 };

/* A table has a row for each function, at the latitudes of half the grid: rows of even functions, then of odd ones, for
 * each order. Columns are those that the sums read: even and odd parts of fields along latitudes, or coefficients of
 * even and of odd functions; the real one of a field, then the imaginary one. */
struct slab {
    int64_t half, pitch, rows;              /* latitudes; numbers of a row; rows of even functions, and of odd ones */
    int64_t fields, length;                 /* of a column */
    int64_t orders;                         /* at once */
    double *cosine, *sine, *weight, *first; /* first: c(m) for orders 0 to m_first + m_count */
    void *table, *columns;
    size_t bytes;
};

inline void *take(slab &s, char *workspace, size_t bytes)
{
    char *at = workspace + s.bytes;
    s.bytes += aligned_bytes(bytes);
    return at;
}

template <class R> slab slab_of(const stni_legendre_args &a, bool is_synthesis)
{
    slab s;
    char *workspace = static_cast<char *>(a.workspace);
    memset(&s, 0, sizeof s);
    s.half = (a.nlat + 1) / 2;
    s.pitch = (s.half + SLAB_ROUND - 1) / SLAB_ROUND * SLAB_ROUND;
    s.rows = a.lmax / 2 + 1;
    s.fields = 1;
    for (int d = 0; d < a.n_batch; d++)
        s.fields *= a.batch[d];
    s.length = is_synthesis ? s.rows : s.pitch;
    const int64_t table = 2 * s.rows * s.pitch, columns = 4 * s.fields * s.length;
    const int64_t most = STNI_LEGENDRE_SCRATCH / ((table + columns) * (int64_t)sizeof(R));
    s.orders = most < 1 ? 1 : most < a.m_count ? most : a.m_count;
    const size_t nodes = (size_t)s.half * sizeof(double);
    s.cosine = static_cast<double *>(take(s, workspace, nodes));
    s.sine = static_cast<double *>(take(s, workspace, nodes));
    s.weight = static_cast<double *>(take(s, workspace, nodes));
    s.first = static_cast<double *>(take(s, workspace, (size_t)(a.m_first + a.m_count + 1) * sizeof(double)));
    s.table = take(s, workspace, (size_t)(s.orders * table) * sizeof(R));
    s.columns = take(s, workspace, (size_t)(s.orders * columns) * sizeof(R));
    return s;
}

/* How many even, or odd, functions an order has. */
STNI_HOST_DEVICE int64_t functions_of(const stni_legendre_args &a, int64_t m, int odd)
{
    const int64_t all = a.lmax > m ? a.lmax - m : 0;
    return odd == stni_legendre_is_odd(&a.of, m, m) ? (all + 1) / 2 : all / 2;
}

/* Where a field begins. */
STNI_DEVICE int64_t field_begin(const stni_legendre_args &a, const int64_t *strides, int64_t field)
{
    int64_t at = 0;
    STNI_KEEP_LOOP
    for (int d = a.n_batch - 1; d >= 0; d--) {
        at += field % a.batch[d] * strides[d];
        field /= a.batch[d];
    }
    return at;
}

STNI_HOST_DEVICE int64_t node_blocks(const slab &s)
{
    return (s.half + TABLE_THREADS - 1) / TABLE_THREADS;
}

/* Blocks of nodes, then those of c(m): each thread goes through loops of many divisions, the two side by side. */
__global__ void __launch_bounds__(TABLE_THREADS)
    make_nodes(const __grid_constant__ stni_legendre_args a, const __grid_constant__ slab s)
{
    const int64_t i = (int64_t)blockIdx.x * TABLE_THREADS + threadIdx.x, m0 = node_blocks(s) * TABLE_THREADS;
    if (i < s.half) {
        stni_quadrature_nodes node;
        stni_quadrature_nodes_of(a.of.grid, a.nlat, i, &node, 1);
        s.cosine[i] = node.cosine[0];
        s.sine[i] = node.sine[0];
        s.weight[i] = node.weight[0];
    }
    if (i >= m0 && i - m0 <= a.m_first + a.m_count) {
        double c = stni_legendre_first();
        for (int64_t m = 1; m <= i - m0; m++)
            c *= stni_legendre_step(m);
        s.first[i - m0] = c;
    }
}

/* The recurrence at one latitude. */
struct climb {
    double here, below;
    int scale;
};

STNI_DEVICE void next_degree(climb &c, double a, double b, double cosine)
{
    const double next = a * cosine * c.here - b * c.below;
    c.below = c.here;
    c.here = next;
    if (c.scale < 0 && fabs(next) >= STNI_LEGENDRE_LARGE) {
        c.below /= STNI_LEGENDRE_STEP;
        c.here /= STNI_LEGENDRE_STEP;
        c.scale++;
    }
}

/* A block has some latitudes of an order. What depends on the degree alone its threads work out together. */
template <class R>
__global__ void __launch_bounds__(TABLE_THREADS)
    make_table(const __grid_constant__ stni_legendre_args a, const __grid_constant__ slab s, int64_t first)
{
    STNI_SHARED(double, step_a, TABLE_THREADS);
    STNI_SHARED(double, step_b, TABLE_THREADS);
    STNI_SHARED(double, row_here, TABLE_THREADS);
    STNI_SHARED(double, row_below, TABLE_THREADS);
    const int64_t blocks = (s.pitch + TABLE_THREADS - 1) / TABLE_THREADS, slot = blockIdx.x / blocks;
    const int64_t k = blockIdx.x % blocks * TABLE_THREADS + threadIdx.x, m = a.m_first + first + slot;
    const int64_t order = stni_legendre_order(&a.of, m);
    const bool is_there = k < s.half;
    const double cosine = is_there ? s.cosine[k] : 0, sine = is_there ? s.sine[k] : 0;
    const double weight = is_there && a.of.weighted ? s.weight[k] : 1;
    const stni_scaled begin = stni_scaled_power(sine, stni_legendre_exponent(&a.of, order));
    climb c = {s.first[order] * begin.value, 0, begin.scale};
    R *const table = static_cast<R *>(s.table) + slot * 2 * s.rows * s.pitch + k;
    for (int64_t l0 = m; l0 < a.lmax; l0 += TABLE_THREADS) {
        const int64_t mine = l0 + threadIdx.x;
        const stni_legendre_row row = stni_legendre_row_of(&a.of, mine, m);
        __syncthreads();
        step_a[threadIdx.x] = mine > order ? stni_legendre_a((double)mine, (double)order) : 0;
        step_b[threadIdx.x] = mine > order + 1 ? stni_legendre_b((double)mine, (double)order) : 0;
        row_here[threadIdx.x] = row.here;
        row_below[threadIdx.x] = row.below;
        __syncthreads();
        for (int i = 0; i < TABLE_THREADS && l0 + i < a.lmax; i++) {
            const int64_t l = l0 + i;
            if (l > order)
                next_degree(c, step_a[i], step_b[i], cosine);
            const stni_legendre_row at = {row_here[i], row_below[i]};
            const bool has_value = is_there && c.scale == 0 && l >= order;
            const double value = stni_legendre_value(&a.of, at, m, cosine, sine, c.here, c.below);
            const int odd = stni_legendre_is_odd(&a.of, l, m);
            if (k < s.pitch)
                table[(odd * s.rows + (l - m) / 2) * s.pitch] = (R)(has_value ? weight * value : 0);
        }
    }
}

} // namespace

#endif
