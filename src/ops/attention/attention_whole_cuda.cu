#include "ops/attention/attention_whole_cuda.h"

#include "core/base/status.h"
#include "core/device/cuda/block.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/attention/attention_place.cuh"
#include "ops/attention/attention_scratch.h"
#include "ops/matmul/matmul_cuda.h"

#include <math.h>

namespace {

enum { THREADS = 128 };

/* Elements of the longest rows that f32 has tiles for; up to one tile's, gradients by tiles are as fast. */
enum { TILED = 128, ONE_TILE = 64 };

/* Bytes of scores at a time, or of one element of the batch; scores from which on products are worth their launches. */
constexpr int64_t MOST_SCORES = 2 * STNI_ATTENTION_SCRATCH, MOST_OF_ELEMENT = (int64_t)4 << 30;
enum { LEAST = 1 << 14, LEAST_BESIDE_TILES = 1 << 18 };

int64_t size_of(const arguments &p)
{
    return p.dtype == STN_DTYPE_F64 ? sizeof(double) : sizeof(float);
}

/* --- parts: all dims of the batch behind `dim`, `most` of that one, one of those before */

struct parts {
    int dim; /* -1: everything is one part */
    int64_t most;
};

int64_t bytes_of_element(const arguments &p, int is_gradient)
{
    return p.l * p.s * size_of(p) * (is_gradient ? 2 : 1);
}

parts parts_of(const arguments &p, int is_gradient)
{
    int64_t bytes = bytes_of_element(p, is_gradient);
    int dim = p.n_batch - 1;
    while (dim >= 0 && bytes * p.batch[dim] <= MOST_SCORES)
        bytes *= p.batch[dim--];
    const int64_t most = MOST_SCORES / bytes;
    return {dim, most > 1 ? most : 1};
}

void move_to(stni_attention_operand &o, int dim, int64_t index, int64_t size)
{
    if (o.data)
        o.data = (char *)o.data + index * o.batch[dim] * size;
}

/* `count` elements of a dim of the batch from `first` on. */
void take(arguments &p, int dim, int64_t first, int64_t count)
{
    const int64_t size = size_of(p), of_mask = p.mask_kind == STNI_ATTENTION_ALLOWS ? 1 : size;
    stni_attention_operand *const operands[] = {&p.query, &p.key, &p.value, &p.out, &p.lse, &p.grad,
                                                &p.grad_query.at, &p.grad_key.at, &p.grad_value.at};
    for (stni_attention_operand *o : operands)
        move_to(*o, dim, first, size);
    move_to(p.mask, dim, first, of_mask);
    p.base += (uint64_t)first * p.count[dim];
    p.batch[dim] = count;
}

/* Calls visit(part) for each part of what is left of dims from `dim` on; ends with the first that fails. */
template <class F> stn_status for_parts(const arguments &p, const parts &q, int dim, F visit)
{
    if (dim > q.dim)
        return visit(p);
    const int64_t most = dim < q.dim ? 1 : q.most;
    for (int64_t first = 0; first < p.batch[dim]; first += most) {
        arguments part = p;
        take(part, dim, first, p.batch[dim] - first < most ? p.batch[dim] - first : most);
        STNI_TRY(for_parts(part, q, dim + 1, visit));
    }
    return STN_OK;
}

/* --- products */

/* Matrices one behind the other. */
stni_attention_operand dense(const arguments &p, void *data, int64_t rows, int64_t cols)
{
    stni_attention_operand o = {};
    int64_t stride = rows * cols;
    o.data = data;
    o.row = cols;
    o.col = 1;
    for (int d = p.n_batch - 1; d >= 0; d--) {
        o.batch[d] = stride;
        stride *= p.batch[d];
    }
    return o;
}

stni_matmul_operand matrix_of(const stni_attention_operand &o)
{
    stni_matmul_operand m = {};
    m.data = o.data;
    m.row = o.row;
    m.col = o.col;
    for (int d = 0; d < STN_MAX_NDIM; d++)
        m.batch[d] = o.batch[d];
    return m;
}

stni_matmul_operand transpose_of(const stni_attention_operand &o)
{
    stni_matmul_operand m = matrix_of(o);
    m.row = o.col;
    m.col = o.row;
    return m;
}

/* c (m, n) = a (m, k) b (k, n). */
stni_matmul_args product(const arguments &p, int64_t m, int64_t n, int64_t k, const stni_matmul_operand &a,
                         const stni_matmul_operand &b, const stni_attention_operand &c)
{
    stni_matmul_args args = {};
    args.dtype = p.dtype;
    args.n_batch = p.n_batch;
    for (int d = 0; d < p.n_batch; d++)
        args.batch[d] = p.batch[d];
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = a;
    args.b = b;
    args.c = matrix_of(c);
    return args;
}

/* Of a part: its scores, which become probabilities; their gradients, which become those of scores; and what its
 * products want. */
struct space {
    stni_attention_operand weights, grads;
    void *rest;
};

space space_of(const arguments &p, int is_gradient)
{
    char *const memory = (char *)aligned(p.workspace);
    int64_t bytes = p.l * p.s * size_of(p);
    for (int d = 0; d < p.n_batch; d++)
        bytes *= p.batch[d];
    return {dense(p, memory, p.l, p.s), dense(p, memory + bytes, p.l, p.s), memory + bytes * (is_gradient ? 2 : 1)};
}

enum { SCORES, OUT, FORWARD_PRODUCTS, GRADS = OUT, GRAD_VALUE, GRAD_KEY, GRAD_QUERY, BACKWARD_PRODUCTS };

stni_matmul_args forward_product(const arguments &p, const space &at, int which)
{
    if (which == SCORES)
        return product(p, p.l, p.s, p.e, matrix_of(p.query), transpose_of(p.key), at.weights);
    return product(p, p.l, p.v, p.s, matrix_of(at.weights), matrix_of(p.value), p.out);
}

stni_matmul_args backward_product(const arguments &p, const space &at, int which)
{
    switch (which) {
    case GRADS: return product(p, p.l, p.s, p.v, matrix_of(p.grad), transpose_of(p.value), at.grads);
    case GRAD_VALUE: return product(p, p.s, p.v, p.l, transpose_of(at.weights), matrix_of(p.grad), p.grad_value.at);
    case GRAD_KEY: return product(p, p.s, p.e, p.l, transpose_of(at.grads), matrix_of(p.query), p.grad_key.at);
    case GRAD_QUERY: return product(p, p.l, p.e, p.s, matrix_of(at.grads), matrix_of(p.key), p.grad_query.at);
    default: return forward_product(p, at, SCORES);
    }
}

/* Each product from `first` on and before `end`. */
stn_status multiply(stn_queue *queue, const arguments &p, const space &at, int is_gradient, int first, int end)
{
    for (int which = first; which < end; which++) {
        stni_matmul_args args = is_gradient ? backward_product(p, at, which) : forward_product(p, at, which);
        args.workspace = at.rest;
        STNI_TRY(stni_matmul_cuda(queue, &args));
    }
    return STN_OK;
}

/* --- scores */

/* The score of query row i and key j, of their product; -infinity where i may not attend to j. */
template <class S> STNI_DEVICE S score_of(const arguments &p, const place &at, int64_t i, int64_t j, S number)
{
    const int64_t mask = at.mask + i * p.mask.row + j * p.mask.col;
    if ((p.is_causal && j > p.row_offset + i) ||
        (p.mask_kind == STNI_ATTENTION_ALLOWS && !((const uint8_t *)p.mask.data)[mask]))
        return -(S)INFINITY;
    return (S)p.scale * number + (p.mask_kind == STNI_ATTENTION_ADDS ? ((const S *)p.mask.data)[mask] : 0);
}

/* The query row of a block, where it is, and its scores. */
template <class S> struct row {
    int64_t i;
    place at;
    S *scores;
};

template <class S> STNI_DEVICE row<S> row_of_block(const arguments &p, S *scores)
{
    int64_t index[STN_MAX_NDIM];
    index_of(p, blockIdx.x / p.l, index);
    return {(int64_t)blockIdx.x % p.l, place_of(p, index), scores + (int64_t)blockIdx.x * p.s};
}

template <class S> STNI_DEVICE S larger(S a, S b)
{
    return b > a ? b : a;
}

/* A block each row: products become probabilities, with dropout's factors, and the row's log-sum-exp is kept. */
template <class S> __global__ void __launch_bounds__(THREADS) weigh(const __grid_constant__ arguments p, S *scores)
{
    const row<S> r = row_of_block(p, scores);
    S largest = -(S)INFINITY;
    double sum = 0;
    for (int64_t j = threadIdx.x; j < p.s; j += THREADS)
        largest = larger(largest, r.scores[j] = score_of(p, r.at, r.i, j, r.scores[j]));
    largest = reduce_block_to_all<THREADS>(largest, [](S a, S b) { return larger(a, b); });
    const S from = largest > -(S)INFINITY ? largest : 0;
    for (int64_t j = threadIdx.x; j < p.s; j += THREADS)
        sum += (double)(r.scores[j] = exp(r.scores[j] - from));
    sum = reduce_block_to_all<THREADS>(sum, [](double a, double b) { return a + b; });
    for (int64_t j = threadIdx.x; j < p.s; j += THREADS)
        r.scores[j] = sum == 0 ? 0 : r.scores[j] * (S)(kept(p, r.at, r.i, j) / sum);
    if (threadIdx.x == 0)
        ((S *)p.lse.data)[r.at.lse + r.i * p.lse.row] = sum == 0 ? (S)INFINITY : (S)((double)largest + log(sum));
}

/* The product of a row of the cotangent with the result's, by all threads of a block. */
template <class S> STNI_DEVICE double mean_of_row(const arguments &p, const row<S> &r)
{
    const S *out = (const S *)p.out.data + r.at.out + r.i * p.out.row;
    const S *grad = (const S *)p.grad.data + r.at.grad + r.i * p.grad.row;
    double sum = 0;
    for (int64_t c = threadIdx.x; c < p.v; c += THREADS)
        sum += (double)grad[c * p.grad.col] * (double)out[c * p.out.col];
    return reduce_block_to_all<THREADS>(sum, [](double a, double b) { return a + b; });
}

/* A block each row: products become probabilities with dropout's factors, and gradients of these those of products. */
template <class S>
__global__ void __launch_bounds__(THREADS) weigh_gradients(const __grid_constant__ arguments p, S *scores, S *grads)
{
    const row<S> r = row_of_block(p, scores);
    const S mean = (S)mean_of_row(p, r), lse = ((const S *)p.lse.data)[r.at.lse + r.i * p.lse.row];
    S *const row_grads = grads + (int64_t)blockIdx.x * p.s;
    for (int64_t j = threadIdx.x; j < p.s; j += THREADS) {
        const S weight = exp(score_of(p, r.at, r.i, j, r.scores[j]) - lse), factor = (S)kept(p, r.at, r.i, j);
        r.scores[j] = weight * factor;
        row_grads[j] = weight * (row_grads[j] * factor - mean) * (S)p.scale;
    }
}

template <class S> void launch_weigh(const arguments &p, const space &at, int is_gradient, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(rows_of_batch(p), 1);
    S *const scores = (S *)at.weights.data, *const grads = (S *)at.grads.data;
    if (is_gradient)
        STNI_LAUNCH(weigh_gradients<S>, blocks, THREADS, stream, p, scores, grads);
    else
        STNI_LAUNCH(weigh<S>, blocks, THREADS, stream, p, scores);
}

stn_status solve(stn_queue *queue, const arguments &p, int is_gradient)
{
    const space at = space_of(p, is_gradient);
    const int before = is_gradient ? GRADS + 1 : SCORES + 1;
    STNI_TRY(multiply(queue, p, at, is_gradient, SCORES, before));
    dispatch<float, double>(p.dtype, [&](auto element) {
        launch_weigh<decltype(element)>(p, at, is_gradient, static_cast<cudaStream_t>(stni_cuda_stream(queue)));
    });
    STNI_TRY(stni_cuda_launched(queue));
    return multiply(queue, p, at, is_gradient, before, is_gradient ? BACKWARD_PRODUCTS : FORWARD_PRODUCTS);
}

/* What the products of a part want behind its scores. */
size_t workspace_of_products(stn_queue *queue, const arguments &p, int is_gradient)
{
    const space at = space_of(p, is_gradient);
    size_t most = 0;
    for (int which = 0; which < (is_gradient ? BACKWARD_PRODUCTS : FORWARD_PRODUCTS); which++) {
        const stni_matmul_args args = is_gradient ? backward_product(p, at, which) : forward_product(p, at, which);
        const size_t bytes = stni_matmul_cuda_workspace(queue, &args);
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool is_shared(const arguments &p, const stni_attention_operand &o)
{
    for (int d = 0; d < p.n_batch; d++)
        if (o.batch[d] == 0 && p.batch[d] > 1)
            return true;
    return false;
}

}

int stni_attention_whole_serves(const struct stni_attention_args *args, int is_gradient)
{
    const arguments &p = *args;
    const int64_t scores = rows_of_batch(p) * p.s;
    const bool has_tiles = p.dtype == STN_DTYPE_F32 && p.e <= TILED && p.v <= TILED;
    if ((p.dtype != STN_DTYPE_F32 && p.dtype != STN_DTYPE_F64) || p.group > 1 || p.e == 0 || p.v == 0 ||
        scores < (has_tiles ? LEAST_BESIDE_TILES : LEAST) || bytes_of_element(p, is_gradient) > MOST_OF_ELEMENT)
        return 0;
    if (has_tiles && (!is_gradient || p.is_causal || (p.e <= ONE_TILE && p.v <= ONE_TILE)))
        return 0;
    return !is_gradient ||
           !(is_shared(p, p.grad_query.at) || is_shared(p, p.grad_key.at) || is_shared(p, p.grad_value.at));
}

size_t stni_attention_whole_workspace(stn_queue *queue, const struct stni_attention_args *args, int is_gradient)
{
    const parts q = parts_of(*args, is_gradient);
    int64_t scores = 0;
    size_t rest = 0;
    for_parts(*args, q, 0, [&](const arguments &p) {
        const int64_t own = rows_of_batch(p) * p.s * size_of(p) * (is_gradient ? 2 : 1);
        const size_t bytes = workspace_of_products(queue, p, is_gradient);
        scores = own > scores ? own : scores;
        rest = bytes > rest ? bytes : rest;
        return STN_OK;
    });
    return WORKSPACE_ALIGNMENT + (size_t)scores + rest;
}

stn_status stni_attention_whole(stn_queue *queue, const struct stni_attention_args *args, int is_gradient)
{
    return for_parts(*args, parts_of(*args, is_gradient), 0,
                     [&](const arguments &p) { return solve(queue, p, is_gradient); });
}
