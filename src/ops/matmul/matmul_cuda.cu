/* C (batch…, m, n) = A (batch…, m, k) B (batch…, k, n) on a CUDA device, for every dtype and any strides: by cuBLASLt
 * for floats of which it takes the strides, else, and where it refuses, by a kernel of our own.
 *
 * A block computes a TILE x TILE tile of one product of the batch: TERMS columns of A and rows of B at a time are
 * brought to shared memory in the type of terms, and each thread adds up PER x PER elements of C in registers. Sums
 * of f32 leave their chain for one of f64 every CHAIN terms, so that long ones err as the CPU's do. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/products.cuh"
#include "ops/cuda/cublaslt.h"
#include "ops/matmul/matmul_cuda.h"

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
template <class S, class T>
STNI_DEVICE void fetch_tile(T *tile, const S *from, int64_t first_across, int64_t across, int64_t across_stride,
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

template <class S>
__global__ void __launch_bounds__(THREADS) multiply_tiles(const __grid_constant__ multiplication p, S *__restrict__ c,
                                                          const S *__restrict__ a, const S *__restrict__ b)
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

/* By cuBLASLt. Long sums of f32 are added up in spans of terms, so that they err less than one chain. */
enum { SPAN = 1 << 14, MOST_CALLS = 64 };

/* Whether a factor's rows, or its columns, are dense lines; how far apart, where there is more than one. */
bool has_lines(int64_t rows, int64_t cols, int64_t row, int64_t col, int32_t *by_columns, int64_t *line)
{
    const bool dense_rows = (col == 1 || cols == 1) && (row >= cols || rows == 1);
    const bool dense_columns = (row == 1 || rows == 1) && (col >= rows || cols == 1);
    *by_columns = !dense_rows;
    if (dense_rows)
        *line = rows == 1 ? cols : row;
    else
        *line = cols == 1 ? rows : col;
    return dense_rows || dense_columns;
}

/* What divides all addresses of the operands: an operand of few bytes is no better aligned than its neighbours. */
int64_t alignment_of(const stni_matmul_args &args, const multiplication &p, int64_t size)
{
    const void *const data[OPERANDS] = {args.a.data, args.b.data, args.c.data};
    uint64_t bits = WORKSPACE_ALIGNMENT;
    for (int i = 0; i < OPERANDS; i++) {
        bits |= (uint64_t)(uintptr_t)data[i];
        for (int d = 0; d < p.batch.ndim; d++)
            bits |= (uint64_t)(p.batch.stride[i][d] * size);
    }
    return (int64_t)(bits & -bits);
}

/* The products of the innermost dim of the batch, and how many such calls there are; false where strides or dtype
 * are none of the library's. */
bool library_product(stn_queue *queue, const stni_matmul_args &args, const multiplication &p,
                     stni_cublaslt_product *out, int64_t *calls)
{
    stni_cublaslt_product q;
    memset(&q, 0, sizeof q);
    const int last = p.batch.ndim - 1;
    int32_t by_columns = 0;
    q.dtype = args.dtype;
    q.batch = last < 0 ? 1 : p.batch.shape[last];
    q.m = p.m;
    q.n = p.n;
    q.k = p.k;
    const bool suits = has_lines(p.m, p.k, p.row[A], p.col[A], &q.a_by_columns, &q.a_line) &&
                       has_lines(p.k, p.n, p.row[B], p.col[B], &q.b_by_columns, &q.b_line) &&
                       has_lines(p.m, p.n, p.row[C], p.col[C], &by_columns, &q.c_line) && !by_columns;
    q.a_batch = last < 0 ? 0 : p.batch.stride[A][last];
    q.b_batch = last < 0 ? 0 : p.batch.stride[B][last];
    q.c_batch = last < 0 ? 0 : p.batch.stride[C][last];
    q.alignment = alignment_of(args, p, args.dtype == STN_DTYPE_F64 ? 8 : args.dtype == STN_DTYPE_F32 ? 4 : 2);
    q.allow_tf32 = args.dtype == STN_DTYPE_F32 && stni_cuda_host()->queue_allows_tf32(queue);
    *calls = p.batch.count / q.batch;
    *out = q;
    return suits && (FLOATING_DTYPES & dtype_bit(args.dtype)) && *calls <= MOST_CALLS;
}

bool is_empty(const stni_matmul_args &args, const multiplication &p)
{
    return p.batch.count == 0 || args.m == 0 || args.n == 0 || args.k == 0;
}

/* The part of a product that adds up its terms from `first` on, and the number of them. */
stni_cublaslt_product span_of(const stni_cublaslt_product &whole, int64_t first)
{
    stni_cublaslt_product span = whole;
    const int64_t left = whole.k - first;
    span.k = left;
    if (whole.dtype == STN_DTYPE_F32 && left > SPAN)
        span.k = SPAN;
    span.adds = first > 0;
    return span;
}

/* Whether the library has a plan for each span, and what the one that wants most of it wants of workspace. */
bool has_plans(stn_queue *queue, const stni_cublaslt_product &whole, size_t *most)
{
    size_t bytes = 0;
    *most = 0;
    for (int64_t k = 0, terms; k < whole.k; k += terms) {
        const stni_cublaslt_product span = span_of(whole, k);
        if (stni_cublaslt_workspace(queue, &span, &bytes) != STN_OK)
            return false;
        *most = bytes > *most ? bytes : *most;
        terms = span.k;
    }
    return true;
}

/* Asked span by span, as the workspace was: of spans of which one is refused none is begun, since none was given a
 * workspace. STN_ERR_UNSUPPORTED: C is to be written by our own kernel, all of it. */
stn_status run_library(stn_queue *queue, const stni_matmul_args &args, const multiplication &p)
{
    stni_cublaslt_product whole;
    operands<OPERANDS> outer = p.batch;
    int64_t calls = 0, at[OPERANDS];
    size_t most;
    if (!library_product(queue, args, p, &whole, &calls) ||
        (span_of(whole, 0).k < whole.k && !has_plans(queue, whole, &most)))
        return STN_ERR_UNSUPPORTED;
    outer.ndim = outer.ndim > 0 ? outer.ndim - 1 : 0;
    const int64_t size = args.dtype == STN_DTYPE_F64 ? 8 : args.dtype == STN_DTYPE_F32 ? 4 : 2;
    for (int64_t call = 0; call < calls; call++) {
        offsets_of(outer, call, at);
        for (int64_t k = 0, terms; k < whole.k; k += terms) {
            const stni_cublaslt_product span = span_of(whole, k);
            const char *a = static_cast<const char *>(args.a.data) + (at[A] + k * p.col[A]) * size;
            const char *b = static_cast<const char *>(args.b.data) + (at[B] + k * p.row[B]) * size;
            char *c = static_cast<char *>(args.c.data) + at[C] * size;
            const stn_status status = stni_cublaslt_multiply(queue, &span, a, b, c, aligned(args.workspace));
            if (status != STN_OK)
                return status;
            terms = span.k;
        }
    }
    return STN_OK;
}

constexpr uint32_t MATMUL_DTYPES =
    FLOATING_DTYPES | COMPLEX_DTYPES | dtype_bit(STN_DTYPE_I64) | dtype_bit(STN_DTYPE_I32);

}

size_t stni_matmul_cuda_workspace(stn_queue *queue, const void *given)
{
    const stni_matmul_args &args = *static_cast<const stni_matmul_args *>(given);
    const multiplication p = multiplication_of(args);
    stni_cublaslt_product whole;
    int64_t calls = 0;
    size_t most = 0;
    if (is_empty(args, p) || !library_product(queue, args, p, &whole, &calls) || !has_plans(queue, whole, &most))
        return 0;
    return most > 0 ? most + WORKSPACE_ALIGNMENT : 0;
}

stn_status stni_matmul_cuda(stn_queue *queue, const void *given)
{
    const stni_matmul_args &args = *static_cast<const stni_matmul_args *>(given);
    const multiplication p = multiplication_of(args);
    if (is_empty(args, p) || run_library(queue, args, p) != STN_OK)
        launch_matmul(args, static_cast<cudaStream_t>(stni_cuda_stream(queue)));
    return stni_cuda_launched(queue);
}

#define ROW(slot) \
    STNI_CUDA_KERNEL_OF_QUEUE(slot, MATMUL_DTYPES, stni_matmul_args, stni_matmul_cuda, stni_matmul_cuda_workspace)

STNI_CUDA_KERNELS(matmul) = {
    ROW("matmul.product"),
    ROW("linear.product"),
    ROW("addmm.product"),
    ROW("baddbmm.product"),
    ROW("contract.product"),
    STNI_CUDA_KERNELS_END
};
