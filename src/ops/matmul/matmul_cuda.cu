/* C (batch…, m, n) = A (batch…, m, k) B (batch…, k, n) on a CUDA device, for every dtype and any strides.
 *
 * A block computes a TILE x TILE tile of one product of the batch: TERMS columns of A and rows of B at a time are brought to shared memory in the
 * type of terms, and each thread adds up PER x PER elements of C in registers. Sums of f32 leave their chain for one of f64 every CHAIN
 * terms, so that long ones err as the CPU's do. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/products.cuh"
#include "ops/matmul/matmul_kernel.h"

namespace {

enum { TILE = 64, TERMS = 16, PER = 4, SIDE = TILE / PER, THREADS = SIDE * SIDE, CHAIN = 512, PADDED = TILE + 1 };

enum { A, B, C, OPERANDS };

struct multiplication {
    operands<OPERANDS> batch;
    int64_t m, n, k;
    int64_t row[OPERANDS], col[OPERANDS]; /* strides, in elements */
    int64_t tiles_down, tiles_across;
};

/* Brings a tile of a factor to shared memory, `across` being the index along m or n and `along` the one along k; zeros
 * where it has no elements. Threads that are neighbours read neighbours in memory: along k where that is the dim with
 * the smaller stride. */
template <class S, class T> STNI_DEVICE void fetch_tile(T *tile, const S *from, int64_t first_across, int64_t across, int64_t across_stride,
                                                        int64_t first_along, int64_t along, int64_t along_stride)
{
    const bool runs_along = along_stride < across_stride;
    for (int i = (int)threadIdx.x; i < TILE * TERMS; i += THREADS) {
        const int t = runs_along ? i % TERMS : i / TILE, r = runs_along ? i / TERMS : i % TILE;
        const int64_t k = first_along + t, at = first_across + r;
        const bool is_inside = k < along && at < across;
        tile[t * PADDED + r] = is_inside ? (T)load(from[at * across_stride + k * along_stride]) : zero_of<T>();
    }
}

template <class T> STNI_DEVICE void add_terms(const T *a, const T *b, int down, int across, T (&sum)[PER][PER])
{
    for (int t = 0; t < TERMS; t++) {
        T left[PER], right[PER];
        for (int i = 0; i < PER; i++) {
            left[i] = a[t * PADDED + down + i * SIDE];
            right[i] = b[t * PADDED + across + i * SIDE];
        }
        for (int i = 0; i < PER; i++)
            for (int j = 0; j < PER; j++)
                sum[i][j] = multiply_add(left[i], right[j], sum[i][j]);
    }
}

/* Moves what the chains have added up to the totals. */
template <class W, class T> STNI_DEVICE void end_chains(T (&sum)[PER][PER], W (&total)[PER][PER])
{
    for (int i = 0; i < PER; i++)
        for (int j = 0; j < PER; j++) {
            total[i][j] = total[i][j] + widen(sum[i][j], &total[i][j]);
            sum[i][j] = zero_of<T>();
        }
}

template <class S> __global__ void __launch_bounds__(THREADS)
multiply_tiles(const __grid_constant__ multiplication p, S *__restrict__ c, const S *__restrict__ a, const S *__restrict__ b)
{
    typedef typename product_types<S>::term T;
    typedef typename product_types<S>::total W;
    STNI_SHARED(T, left, TERMS * PADDED);
    STNI_SHARED(T, right, TERMS * PADDED);
    const int64_t block = blockIdx.x, tile = block % (p.tiles_down * p.tiles_across);
    const int64_t row = tile / p.tiles_across * TILE, col = tile % p.tiles_across * TILE;
    const int down = (int)threadIdx.x / SIDE, across = (int)threadIdx.x % SIDE;
    int64_t at[OPERANDS];
    offsets_of(p.batch, block / (p.tiles_down * p.tiles_across), at);
    T sum[PER][PER];
    W total[PER][PER];
    for (int i = 0; i < PER; i++)
        for (int j = 0; j < PER; j++) {
            sum[i][j] = zero_of<T>();
            total[i][j] = zero_of<W>();
        }
    for (int64_t k = 0; k < p.k; k += TERMS) {
        fetch_tile(left, a + at[A], row, p.m, p.row[A], k, p.k, p.col[A]);
        fetch_tile(right, b + at[B], col, p.n, p.col[B], k, p.k, p.row[B]);
        __syncthreads();
        add_terms(left, right, down, across, sum);
        __syncthreads();
        if ((k + TERMS) % CHAIN == 0)
            end_chains(sum, total);
    }
    end_chains(sum, total);
    for (int i = 0; i < PER; i++)
        for (int j = 0; j < PER; j++) {
            const int64_t m = row + down + i * SIDE, n = col + across + j * SIDE;
            if (m < p.m && n < p.n) {
                S &element = c[at[C] + m * p.row[C] + n * p.col[C]];
                store(element, narrow(total[i][j], &element));
            }
        }
}

multiplication multiplication_of(const stni_matmul_args &args)
{
    const stni_matmul_operand *const operand[OPERANDS] = {&args.a, &args.b, &args.c};
    multiplication p;
    p.batch = no_dims<OPERANDS>();
    for (int d = 0; d < args.n_batch; d++)
        add_dim(p.batch, args.batch[d], {args.a.batch[d], args.b.batch[d], args.c.batch[d]});
    end_dims(p.batch);
    p.m = args.m;
    p.n = args.n;
    p.k = args.k;
    for (int i = 0; i < OPERANDS; i++) {
        p.row[i] = operand[i]->row;
        p.col[i] = operand[i]->col;
    }
    p.tiles_down = (p.m + TILE - 1) / TILE;
    p.tiles_across = (p.n + TILE - 1) / TILE;
    return p;
}

template <class S> void launch_of(const stni_matmul_args &args, cudaStream_t stream)
{
    const multiplication p = multiplication_of(args);
    const int64_t blocks = p.batch.count * p.tiles_down * p.tiles_across;
    if (blocks == 0)
        return;
    S *c = static_cast<S *>(args.c.data);
    const S *a = static_cast<const S *>(args.a.data), *b = static_cast<const S *>(args.b.data);
    STNI_LAUNCH(multiply_tiles<S>, blocks_for(blocks, 1), THREADS, stream, p, c, a, b);
}

void launch_matmul(const stni_matmul_args &args, cudaStream_t stream)
{
    const auto launch = [&](auto element) { launch_of<decltype(element)>(args, stream); };
    dispatch_floating_and_complex(args.dtype, launch);
    dispatch<int64_t, int32_t>(args.dtype, launch);
}

constexpr uint32_t MATMUL_DTYPES = FLOATING_DTYPES | COMPLEX_DTYPES | dtype_bit(STN_DTYPE_I64) | dtype_bit(STN_DTYPE_I32);

}

STNI_CUDA_KERNELS(matmul) = {
    STNI_CUDA_KERNEL("matmul.product", MATMUL_DTYPES, stni_matmul_args, launch_matmul),
    STNI_CUDA_KERNEL("linear.product", MATMUL_DTYPES, stni_matmul_args, launch_matmul),
    STNI_CUDA_KERNEL("addmm.product", MATMUL_DTYPES, stni_matmul_args, launch_matmul),
    STNI_CUDA_KERNEL("baddbmm.product", MATMUL_DTYPES, stni_matmul_args, launch_matmul),
    STNI_CUDA_KERNEL("contract.product", MATMUL_DTYPES, stni_matmul_args, launch_matmul),
    STNI_CUDA_KERNELS_END
};
