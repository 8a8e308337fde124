/* Distances between rows on a CUDA device: tiles of SIDE x SIDE pairs, SIDE elements of their rows at a time.
 * Differences are taken in the type of arithmetic, sums in f64.
 *
 * Of many rows there are larger tiles, of which a thread has several pairs (cdist_pairs.cuh), or of a gradient several
 * elements (cdist_sums.cuh). Their sums are in f64 from tile to tile. */
#include "core/device/cuda/kernel.cuh"
#include "ops/distance/cdist_pairs.cuh"
#include "ops/distance/cdist_sums.cuh"

#include <math.h>

namespace {

enum { SIDE = 16, THREADS = 128 };

/* What a difference adds to the sum. NaN stays. */
STNI_DEVICE double add_difference(metric m, double p, double sum, double difference)
{
    const double d = fabs(difference);
    switch (m) {
    case STNI_CDIST_ZERO: return sum + (d != d ? d : d != 0);
    case STNI_CDIST_ONE: return sum + d;
    case STNI_CDIST_TWO: return sum + d * d;
    case STNI_CDIST_LARGEST: return d > sum || d != d ? d : sum;
    default: return sum + pow(d, p);
    }
}

STNI_DEVICE double distance_of(metric m, double p, double sum)
{
    return m == STNI_CDIST_TWO ? sqrt(sum) : m == STNI_CDIST_OTHER ? pow(sum, 1 / p) : sum;
}

/* The cotangent, by what all differences of a pair are multiplied with. */
STNI_DEVICE double weight_of(metric m, double p, double grad, double distance)
{
    if (distance == 0)
        return 0;
    return m == STNI_CDIST_TWO ? grad / distance : m == STNI_CDIST_OTHER ? grad / pow(distance, p - 1) : grad;
}

/* The derivative of a pair's distance in an element, times the cotangent. Each of several largest differences gets
 * the whole, as PyTorch gives it. */
template <class S>
STNI_DEVICE double derivative(metric m, double p, typename computed<S>::type difference, double weight, double distance)
{
    typedef typename computed<S>::type A;
    const double toward = difference > 0 ? weight : difference < 0 ? -weight : (double)difference; /* 0 or NaN */
    S rounded;
    switch (m) {
    case STNI_CDIST_ZERO: return 0;
    case STNI_CDIST_ONE: return toward;
    case STNI_CDIST_TWO: return (double)difference * weight;
    case STNI_CDIST_LARGEST:
        store(rounded, difference < 0 ? -difference : difference);
        return (double)(A)load(rounded) == distance || difference != difference ? toward : 0;
    default: return difference == 0 ? 0 : pow(fabs((double)difference), p - 1) * toward;
    }
}

template <class S> __global__ void __launch_bounds__(SIDE *SIDE)
distance_tiles(const __grid_constant__ distances v, S *out, const S *x1, const S *x2, int64_t tiles1, int64_t tiles2)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(A, left, SIDE * SIDE);
    STNI_SHARED(A, right, SIDE *(SIDE + 1));
    const int64_t block = blockIdx.x, first1 = block / tiles2 % tiles1 * SIDE, first2 = block % tiles2 * SIDE;
    const int i = (int)threadIdx.x / SIDE, j = (int)threadIdx.x % SIDE;
    int64_t at[OPERANDS];
    offsets_of(v.own, block / tiles2 / tiles1, at);
    double sum = 0;
    for (int64_t k = 0; k < v.n; k += SIDE) {
        const bool has = k + j < v.n;
        left[i * SIDE + j] =
            has && first1 + i < v.rows1 ? load(x1[at[X1] + (first1 + i) * v.row[X1] + (k + j) * v.col[X1]]) : A(0);
        right[i * (SIDE + 1) + j] =
            has && first2 + i < v.rows2 ? load(x2[at[X2] + (first2 + i) * v.row[X2] + (k + j) * v.col[X2]]) : A(0);
        __syncthreads();
        for (int l = 0; l < SIDE && k + l < v.n; l++)
            sum = add_difference(v.m, v.p, sum, (double)(left[i * SIDE + l] - right[j * (SIDE + 1) + l]));
        __syncthreads();
    }
    if (first1 + i < v.rows1 && first2 + j < v.rows2)
        store(out[at[DISTANCE] + (first1 + i) * v.row[DISTANCE] + (first2 + j) * v.col[DISTANCE]],
              (A)distance_of(v.m, v.p, sum));
}

/* x1's gradient: a thread each element. `anew`: of elements that are there and are not finite. */
template <class S> __global__ void __launch_bounds__(THREADS)
sum_gradient(const __grid_constant__ distances v, S *grad1, const S *x1, const S *x2, const S *distance, const S *grad,
             bool anew)
{
    typedef typename computed<S>::type A;
    const int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x, k = index % v.n, i = index / v.n % v.rows1;
    const int64_t batch = index / v.n / v.rows1;
    int64_t at[OPERANDS], of_sum[OPERANDS];
    if (batch >= v.own.count)
        return;
    offsets_of(v.own, batch, at);
    S &to = grad1[at[GRAD1] + i * v.row[GRAD1] + k * v.col[GRAD1]];
    if (anew && is_finite(load(to)))
        return;
    double sum = 0;
    for (int64_t b = 0; b < v.summed.count; b++) {
        offsets_of(v.summed, b, of_sum);
        const A x = load(x1[at[X1] + of_sum[X1] + i * v.row[X1] + k * v.col[X1]]);
        for (int64_t j = 0; j < v.rows2; j++) {
            const A y = load(x2[at[X2] + of_sum[X2] + j * v.row[X2] + k * v.col[X2]]);
            const double d =
                (double)load(distance[at[DISTANCE] + of_sum[DISTANCE] + i * v.row[DISTANCE] + j * v.col[DISTANCE]]);
            const double g = (double)load(grad[at[GRAD] + of_sum[GRAD] + i * v.row[GRAD] + j * v.col[GRAD]]);
            sum += derivative<S>(v.m, v.p, x - y, weight_of(v.m, v.p, g, d), d);
        }
    }
    store(to, (A)sum);
}

/* `exchanged`: of x2's gradient, which is x1's with the sides exchanged. */
distances distances_of(const stni_cdist_args &a, bool exchanged, bool backward)
{
    const stni_cdist_operand *const operand[OPERANDS] = {exchanged ? &a.x2 : &a.x1, exchanged ? &a.x1 : &a.x2,
                                                         &a.distance, &a.grad, exchanged ? &a.grad2 : &a.grad1};
    distances v;
    v.own = v.summed = no_dims<OPERANDS>();
    for (int d = 0; d < a.n_batch; d++) {
        const bool sums = backward && a.batch[d] != 1 && operand[GRAD1]->batch[d] == 0;
        add_dim(sums ? v.summed : v.own, a.batch[d],
                {operand[X1]->batch[d], operand[X2]->batch[d], a.distance.batch[d], a.grad.batch[d],
                 operand[GRAD1]->batch[d]});
    }
    end_dims(v.own);
    end_dims(v.summed);
    v.m = stni_cdist_metric(a.p);
    v.p = a.p;
    v.rows1 = exchanged ? a.rows2 : a.rows1;
    v.rows2 = exchanged ? a.rows1 : a.rows2;
    v.n = a.m;
    for (int k = 0; k < OPERANDS; k++) {
        const bool transposed = exchanged && (k == DISTANCE || k == GRAD);
        v.row[k] = transposed ? operand[k]->col : operand[k]->row;
        v.col[k] = transposed ? operand[k]->row : operand[k]->col;
    }
    return v;
}

template <class S> void launch_forward_of(const stni_cdist_args &a, cudaStream_t stream)
{
    const distances v = distances_of(a, false, false);
    const int64_t tiles1 = (v.rows1 + SIDE - 1) / SIDE, tiles2 = (v.rows2 + SIDE - 1) / SIDE,
                  blocks = v.own.count * tiles1 * tiles2;
    const S *x1 = static_cast<const S *>(a.x1.data), *x2 = static_cast<const S *>(a.x2.data);
    S *out = static_cast<S *>(a.distance.data);
    const int64_t pair_tiles = pair_tiles_of<typename computed<S>::type>(v);
    if (pair_tiles > 0)
        STNI_LAUNCH(distance_pairs<S>, grid_of(pair_tiles), PAIRS_THREADS, stream, v, out, x1, x2);
    else if (blocks > 0)
        STNI_LAUNCH(distance_tiles<S>, blocks_for(blocks, 1), SIDE * SIDE, stream, v, out, x1, x2, tiles1, tiles2);
}

template <class S> void launch_side(const stni_cdist_args &a, bool exchanged, cudaStream_t stream)
{
    const distances v = distances_of(a, exchanged, true);
    const int64_t count = v.own.count * v.rows1 * v.n;
    const S *x1 = static_cast<const S *>(exchanged ? a.x2.data : a.x1.data),
            *x2 = static_cast<const S *>(exchanged ? a.x1.data : a.x2.data);
    const S *distance = static_cast<const S *>(a.distance.data), *grad = static_cast<const S *>(a.grad.data);
    S *out = static_cast<S *>(exchanged ? a.grad2.data : a.grad1.data);
    const int64_t tiles = sums_of(v);
    if (!out || count == 0)
        return;
    if (tiles > 0)
        STNI_LAUNCH(sum_gradient_tiles<S>, grid_of(tiles), SUMS_THREADS, stream, v, out, x1, x2, distance, grad);
    if (tiles == 0 || loses_range<typename computed<S>::type>(v.m))
        STNI_LAUNCH(sum_gradient<S>, blocks_for(count, THREADS), THREADS, stream, v, out, x1, x2, distance, grad,
                    tiles > 0);
}

template <class S> void launch_backward_of(const stni_cdist_args &a, cudaStream_t stream)
{
    launch_side<S>(a, false, stream);
    launch_side<S>(a, true, stream);
}

void launch_forward(const stni_cdist_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_forward_of<decltype(element)>(a, stream); });
}

void launch_backward(const stni_cdist_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_backward_of<decltype(element)>(a, stream); });
}

}

STNI_CUDA_KERNELS(cdist) = {
    STNI_CUDA_KERNEL("cdist.forward", STNI_CDIST_DTYPES, stni_cdist_args, launch_forward),
    STNI_CUDA_KERNEL("cdist_backward.forward", STNI_CDIST_DTYPES, stni_cdist_args, launch_backward),
    STNI_CUDA_KERNELS_END
};
