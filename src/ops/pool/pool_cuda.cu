/* Max pools, what goes by their indices, and the adjoint of unfold, on a CUDA device. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/pool/max_kernel.h"
#include "ops/pool/pick_kernel.h"
#include "ops/pool/unfold.h"
#include "ops/resample/resample_target.cuh"

#include <math.h>

namespace {

enum { THREADS = 128 };

/* Max pools: a thread each target. Of equal elements the first in row-major order is the maximum, of NaNs the last. */

/* The least value of the argument's type. */
STNI_DEVICE float least_like(float)
{
    return -INFINITY;
}

STNI_DEVICE double least_like(double)
{
    return -INFINITY;
}

STNI_DEVICE int64_t least_like(int64_t)
{
    return INT64_MIN;
}

STNI_DEVICE int32_t least_like(int32_t)
{
    return INT32_MIN;
}

STNI_DEVICE uint8_t least_like(uint8_t)
{
    return 0;
}

template <class S> STNI_DEVICE typename computed<S>::type find_largest(const stni_resample_args &a, const S *from,
                                                                      const struct stni_resample_taps (&taps)[STNI_RESAMPLE_DIMS], int64_t *place)
{
    typename computed<S>::type best = least_like(typename computed<S>::type(0));
    *place = -1;
    for (int64_t k = 0; k < taps[0].n * taps[1].n * taps[2].n; k++) {
        const int64_t tap[] = {k / taps[2].n / taps[1].n, k / taps[2].n % taps[1].n, k % taps[2].n};
        int64_t at = 0, within = 0;
        for (int d = 0; d < STNI_RESAMPLE_DIMS; d++) {
            const int64_t source = taps[d].first + tap[d] * a.dim[d].dilation;
            at += (source - a.source[d].begin) * a.source_stride[d];
            within = within * a.dim[d].n_in + source;
        }
        const typename computed<S>::type value = load(from[at]);
        if (k == 0 || value > best || value != value) {
            best = value;
            *place = within;
        }
    }
    return best;
}

template <class S> __global__ void __launch_bounds__(THREADS) pool_maxima(const __grid_constant__ stni_resample_args a, int64_t count, int64_t *index)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    const resample_target target = target_of(a, i);
    struct stni_resample_taps taps[STNI_RESAMPLE_DIMS];
    int64_t place;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++)
        taps[d] = stni_resample_taps(&a.dim[d], target.place[d]);
    store(((S *)a.to)[target.to], find_largest(a, (const S *)a.from + target.from, taps, &place));
    if (index)
        index[target.to] = place;
}

template <class S> void launch_max_of(const stni_max_args &args, cudaStream_t stream)
{
    const int64_t count = count_of_targets(args.at);
    if (count > 0)
        STNI_LAUNCH(pool_maxima<S>, blocks_for(count, THREADS), THREADS, stream, args.at, count, args.index);
}

void launch_max(const stni_max_args &args, cudaStream_t stream)
{
    const auto launch = [&](auto element) { launch_max_of<decltype(element)>(args, stream); };
    dispatch_floating(args.at.dtype, launch);
    dispatch_integer(args.at.dtype, launch);
}

/* Adding and picking by indices: a block each plane of a field, whose places no other block touches. */

/* Offset in the field of a place in the whole input; -1: it is not there. */
STNI_DEVICE int64_t offset_of_place(const stni_pick_args &a, int64_t place)
{
    if (place < 0)
        return -1;
    const int64_t at[] = {place / a.n_in[2] / a.n_in[1], place / a.n_in[2] % a.n_in[1], place % a.n_in[2]};
    int64_t offset = 0;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++) {
        if (at[d] < a.field_range[d].begin || at[d] >= a.field_range[d].end)
            return -1;
        offset += (at[d] - a.field_range[d].begin) * a.field_stride[d];
    }
    return offset;
}

STNI_DEVICE int64_t offset_in(const int64_t (&size)[STNI_RESAMPLE_DIMS], const int64_t (&stride)[STNI_RESAMPLE_DIMS], int64_t i)
{
    return i / size[2] / size[1] * stride[0] + i / size[2] % size[1] * stride[1] + i % size[2] * stride[2];
}

/* THREADS values at a time: of those with one place the first adds all up, in their order, so that sums have the same bits in every run. */
template <class S> STNI_DEVICE void add_values(const stni_pick_args &a, S *field, const S *values, const int64_t *index, int64_t n)
{
    STNI_SHARED(int64_t, place, THREADS);
    STNI_SHARED(typename computed<S>::type, value, THREADS);
    const int me = (int)threadIdx.x;
    for (int64_t first = 0; first < n; first += THREADS) {
        const int64_t i = first + me;
        place[me] = i < n ? offset_of_place(a, index[offset_in(a.n_values, a.index_stride, i)]) : -1;
        value[me] = i < n ? load(values[offset_in(a.n_values, a.value_stride, i)]) : 0;
        __syncthreads();
        bool is_first = place[me] >= 0;
        for (int k = 0; k < me && is_first; k++)
            is_first = place[k] != place[me];
        if (is_first) {
            S sum = field[place[me]];
            for (int k = me; k < THREADS; k++)
                if (place[k] == place[me])
                    store(sum, load(sum) + value[k]);
            field[place[me]] = sum;
        }
        __syncthreads();
    }
}

template <class S> __global__ void __launch_bounds__(THREADS) pick_plane(const __grid_constant__ stni_pick_args a)
{
    const int64_t lanes = a.n_outer[2], lane = blockIdx.x % lanes, rest = blockIdx.x / lanes;
    const int64_t i = rest / a.n_outer[1], j = rest % a.n_outer[1];
    const int64_t size[] = {stni_range_length(a.field_range[0]), stni_range_length(a.field_range[1]), stni_range_length(a.field_range[2])};
    const int64_t n_field = size[0] * size[1] * size[2], n = a.n_values[0] * a.n_values[1] * a.n_values[2];
    S *field = (S *)a.field + i * a.outer_field[0] + j * a.outer_field[1] + lane;
    S *values = (S *)a.values + i * a.outer_value[0] + j * a.outer_value[1] + lane;
    const int64_t *index = a.index + i * a.outer_index[0] + j * a.outer_index[1] + lane;
    if (a.adds) {
        for (int64_t k = threadIdx.x; k < n_field; k += THREADS)
            store(field[offset_in({size[0], size[1], size[2]}, a.field_stride, k)], 0);
        __syncthreads();
        add_values(a, field, values, index, n);
        return;
    }
    for (int64_t k = threadIdx.x; k < n; k += THREADS) {
        const int64_t from = offset_of_place(a, index[offset_in(a.n_values, a.index_stride, k)]);
        store(values[offset_in(a.n_values, a.value_stride, k)], from >= 0 ? load(field[from]) : 0);
    }
}

template <class S> void launch_pick_of(const stni_pick_args &a, cudaStream_t stream)
{
    const int64_t planes = a.n_outer[0] * a.n_outer[1] * a.n_outer[2];
    if (planes > 0)
        STNI_LAUNCH(pick_plane<S>, blocks_for(planes, 1), THREADS, stream, a);
}

void launch_pick(const stni_pick_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_pick_of<decltype(element)>(a, stream); });
}

/* The adjoint of unfold: a thread each element, which adds up its places in windows. */
template <class S> __global__ void __launch_bounds__(THREADS) sum_windows(const __grid_constant__ stni_unfold_args a, int64_t count)
{
    const struct stni_unfold &u = a.unfold;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    const int64_t lane = i % a.lanes, n = stni_range_length(a.target), at = i / a.lanes % n, element = a.target.begin + at;
    int64_t to = lane * a.to_lane + at * a.to_stride, from = lane * a.from_lane;
    i /= a.lanes * n;
    for (int d = a.n_outer - 1; d >= 0; d--) {
        to += i % a.outer[d] * a.to_outer[d];
        from += i % a.outer[d] * a.from_outer[d];
        i /= a.outer[d];
    }
    const int64_t first = stni_ceil_div(element - (u.size - 1) * u.dilation, u.step), last = stni_floor_div(element, u.step);
    typename computed<S>::type sum = 0;
    for (int64_t w = first > a.windows.begin ? first : a.windows.begin; w <= last && w < a.windows.end; w++) {
        const int64_t apart = element - w * u.step, tap = apart / u.dilation - a.first_tap;
        if (apart % u.dilation == 0 && tap >= 0 && tap < a.n_taps)
            sum = sum + load(((const S *)a.from)[from + (w - a.windows.begin) * a.window_stride + tap * a.tap_stride]);
    }
    store(((S *)a.to)[to], sum);
}

template <class S> void launch_windows_of(const stni_unfold_args &a, cudaStream_t stream)
{
    int64_t count = a.lanes * stni_range_length(a.target);
    for (int d = 0; d < a.n_outer; d++)
        count *= a.outer[d];
    if (count > 0)
        STNI_LAUNCH(sum_windows<S>, blocks_for(count, THREADS), THREADS, stream, a, count);
}

void launch_windows(const stni_unfold_args &a, cudaStream_t stream)
{
    dispatch_floating_and_complex(a.dtype, [&](auto element) { launch_windows_of<decltype(element)>(a, stream); });
}

}

STNI_CUDA_KERNELS(pool) = {
    STNI_CUDA_KERNEL("max_pool.forward", STNI_MAX_DTYPES, stni_max_args, launch_max),
    STNI_CUDA_KERNEL("max_pool_backward.forward", STNI_RESAMPLE_DTYPES, stni_pick_args, launch_pick),
    STNI_CUDA_KERNEL("max_pool_pick.forward", STNI_RESAMPLE_DTYPES, stni_pick_args, launch_pick),
    STNI_CUDA_KERNEL("unfold_backward.forward", FLOATING_DTYPES | COMPLEX_DTYPES, stni_unfold_args, launch_windows),
    STNI_CUDA_KERNELS_END
};
