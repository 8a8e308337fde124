/* Max pools, what goes by their indices, and the adjoint of unfold, on a CUDA device. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/turns.cuh"
#include "ops/pool/global_max_kernel.h"
#include "ops/pool/max_kernel.h"
#include "ops/pool/pick_kernel.h"
#include "ops/pool/unfold.h"
#include "ops/resample/resample_plan.cuh"

#include <math.h>

namespace {

enum { THREADS = 128 };

/* Max pools: a thread each target, with a plan of resample_plan.cuh of several images. Of equal elements the first in
 * row-major order is the maximum, of NaNs the last. */

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

template <class S>
STNI_DEVICE typename computed<S>::type find_largest(const stni_resample_args &a, const S *from,
                                                    const struct stni_resample_taps (&taps)[STNI_RESAMPLE_DIMS],
                                                    int64_t *place)
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

template <class S>
__global__ void __launch_bounds__(THREADS)
    pool_maxima(const __grid_constant__ stni_resample_args a, int64_t count, int64_t *index)
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

/* From a place in the whole input to the next one along each dim, and to that of the next tap; the place of the first
 * source that is here. */
struct place_steps {
    int32_t next[STNI_RESAMPLE_DIMS], tap[STNI_RESAMPLE_DIMS], first;
};

/* Whether places have 32 bits. */
inline bool place_steps_of(const stni_resample_args &a, place_steps &s)
{
    int64_t next = 1;
    s.first = 0;
    for (int d = STNI_RESAMPLE_DIMS - 1; d >= 0; d--) {
        if (a.dim[d].n_in > (STNI_SMALL_COUNT - 1) / next)
            return false;
        s.next[d] = (int32_t)next;
        s.tap[d] = (int32_t)(next * least_of(a.dim[d].dilation, a.dim[d].n_in));
        s.first += (int32_t)(next * a.source[d].begin);
        next *= a.dim[d].n_in;
    }
    return true;
}

/* With tables at work; 0 bytes: there is no plan. */
inline size_t plan_maxima(const stni_resample_args &a, resample_plan &p, place_steps &s)
{
    if (!plan_of(a, p) || !place_steps_of(a, s))
        return 0;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++)
        p.dim[d].tap_stride = a.source_stride[d] * a.dim[d].dilation;
    return plan_tables(a, p, 0, a.work);
}

size_t max_workspace(stn_queue *, const void *args)
{
    resample_plan p;
    place_steps s;
    return plan_maxima(static_cast<const stni_max_args *>(args)->at, p, s);
}

__global__ void __launch_bounds__(PLAN_THREADS)
    write_taps(const __grid_constant__ stni_resample_args a, const __grid_constant__ resample_plan p)
{
    int64_t i = (int64_t)blockIdx.x * PLAN_THREADS + threadIdx.x;
    const int d = dim_of_table(p, i);
    if (d == STNI_RESAMPLE_DIMS)
        return;
    const struct stni_resample_taps taps = stni_resample_taps(&a.dim[d], a.target[d].begin + i);
    p.dim[d].taps[i] = {(int32_t)(taps.n > 0 ? taps.first - a.source[d].begin : 0), (int32_t)taps.n};
}

/* The maxima so far of several images, and where they were met; -1: nowhere. */
template <class C> struct image_maxima {
    C best[PLAN_IMAGES];
    int32_t place[PLAN_IMAGES];
};

template <class C> STNI_DEVICE void begin_maxima(image_maxima<C> &m)
{
    STNI_UNROLL
    for (int i = 0; i < PLAN_IMAGES; i++) {
        m.best[i] = least_like(C(0));
        m.place[i] = -1;
    }
}

/* A row of what a target reads: `count` sources of each image, the first one of which is at `place`. */
template <class S, class C>
STNI_DEVICE void meet_row(image_maxima<C> &m, const S *from, int64_t apart, const int64_t (&image)[PLAN_IMAGES],
                          int count, int32_t place, int32_t step)
{
    STNI_KEEP_LOOP
    for (int k = 0; k < count; k++) {
        C value[PLAN_IMAGES];
        STNI_UNROLL
        for (int i = 0; i < PLAN_IMAGES; i++)
            value[i] = load(from[image[i]]);
        STNI_UNROLL
        for (int i = 0; i < PLAN_IMAGES; i++) {
            const bool is_larger = value[i] > m.best[i] || value[i] != value[i] || m.place[i] < 0;
            m.best[i] = is_larger ? value[i] : m.best[i];
            m.place[i] = is_larger ? place : m.place[i];
        }
        from += apart;
        place += step;
    }
}

template <class S>
__global__ void __launch_bounds__(PLAN_THREADS)
    pool_images(const __grid_constant__ resample_plan p, const __grid_constant__ place_steps s, const S *from, S *to,
                int64_t *index)
{
    const uint32_t i = blockIdx.x * PLAN_THREADS + threadIdx.x;
    if (i >= p.count)
        return;
    const planned_target t = planned_target_of(p, i);
    tap_range taps[STNI_RESAMPLE_DIMS];
    from += find_taps(p, t, taps);
    const int32_t place = s.first + taps[0].first * s.next[0] + taps[1].first * s.next[1] + taps[2].first * s.next[2];
    int64_t at = t.to;
    STNI_KEEP_LOOP
    for (int64_t first = t.first; first < t.end; first += PLAN_IMAGES) {
        int64_t image[PLAN_IMAGES];
        image_maxima<typename computed<S>::type> m;
        begin_maxima(m);
        STNI_UNROLL
        for (int k = 0; k < PLAN_IMAGES; k++)
            image[k] = first + k < t.end ? k * p.image_source : 0;
        STNI_KEEP_LOOP
        for (int z = 0; z < taps[0].count; z++)
            STNI_KEEP_LOOP
            for (int y = 0; y < taps[1].count; y++)
                meet_row(m, from + z * p.dim[0].tap_stride + y * p.dim[1].tap_stride, p.dim[2].tap_stride, image,
                         taps[2].count, place + z * s.tap[0] + y * s.tap[1], s.tap[2]);
        STNI_UNROLL
        for (int k = 0; k < PLAN_IMAGES; k++) {
            if (first + k >= t.end)
                continue;
            store(to[at + k * p.image_target], m.best[k]);
            if (index)
                index[at + k * p.image_target] = m.place[k];
        }
        from += PLAN_IMAGES * p.image_source;
        at += PLAN_IMAGES * p.image_target;
    }
}

template <class S> void launch_max_of(const stni_max_args &args, cudaStream_t stream)
{
    const stni_resample_args &a = args.at;
    const int64_t count = count_of_targets(a);
    resample_plan p;
    place_steps s;
    if (plan_maxima(a, p, s) > 0) {
        STNI_LAUNCH(write_taps, blocks_for_tables(p), PLAN_THREADS, stream, a, p);
        STNI_LAUNCH(pool_images<S>, blocks_for(p.count, PLAN_THREADS), PLAN_THREADS, stream, p, s, (const S *)a.from,
                    (S *)a.to, args.index);
    } else if (count > 0)
        STNI_LAUNCH(pool_maxima<S>, blocks_for(count, THREADS), THREADS, stream, a, count, args.index);
}

void launch_max(const stni_max_args &args, cudaStream_t stream)
{
    const auto launch = [&](auto element) { launch_max_of<decltype(element)>(args, stream); };
    dispatch_floating(args.at.dtype, launch);
    dispatch_integer(args.at.dtype, launch);
}

/* Among ranks' maxima: a thread each window. */

/* Whether part `at` goes before part `best`. */
template <class S> STNI_DEVICE bool is_greater(const stni_global_max_args &a, int64_t at, int64_t best)
{
    const typename computed<S>::type v = load(((const S *)a.values)[at]), b = load(((const S *)a.values)[best]);
    const int64_t place = a.places[at], before = a.places[best];
    if (place < 0 || before < 0)
        return place >= 0;
    return v != v ? b == b || place > before : v > b || (v == b && place < before);
}

template <class S>
__global__ void __launch_bounds__(THREADS) choose_maxima(const __grid_constant__ stni_global_max_args a)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.count)
        return;
    int64_t best = i;
    for (int64_t part = 1; part < a.n_parts; part++)
        if (is_greater<S>(a, part * a.count + i, best))
            best = part * a.count + i;
    ((S *)a.to)[i] = ((const S *)a.values)[best];
    if (a.index)
        a.index[i] = a.places[best];
}

void launch_choose(const stni_global_max_args &args, cudaStream_t stream)
{
    const auto launch = [&](auto element) {
        STNI_LAUNCH(choose_maxima<decltype(element)>, blocks_for(args.count, THREADS), THREADS, stream, args);
    };
    dispatch_floating(args.dtype, launch);
    dispatch_integer(args.dtype, launch);
}

/* Adding and picking by indices: a block each plane of a field, whose places no other block touches. */

enum { PICK_THREADS = 256, PICK_FEW = 128 };

/* From the index of an element of a box to its place along each dim. */
struct pick_box {
    int64_t size[STNI_RESAMPLE_DIMS], count;
    divider by[STNI_RESAMPLE_DIMS]; /* where is_small_count */
};

inline pick_box pick_box_of(const int64_t (&size)[STNI_RESAMPLE_DIMS])
{
    pick_box box = {{size[0], size[1], size[2]}, size[0] * size[1] * size[2], {}};
    for (int d = 0; d < STNI_RESAMPLE_DIMS && box.count > 0; d++)
        if (is_small_count(box.count))
            box.by[d] = divider_of(size[d]);
    return box;
}

struct pick_boxes {
    pick_box input, values, field;
    bool is_dense; /* the field: its elements follow each other */
};

inline pick_boxes pick_boxes_of(const stni_pick_args &a)
{
    const int64_t field[] = {stni_range_length(a.field_range[0]), stni_range_length(a.field_range[1]),
                             stni_range_length(a.field_range[2])};
    pick_boxes b = {pick_box_of(a.n_in), pick_box_of(a.n_values), pick_box_of(field), false};
    b.is_dense = a.field_stride[2] == 1 && (a.field_stride[1] == field[2] || field[1] == 1) &&
                 (a.field_stride[0] == field[1] * field[2] || field[0] == 1);
    return b;
}

STNI_DEVICE void split_index(const pick_box &box, int64_t i, int64_t (&at)[STNI_RESAMPLE_DIMS])
{
    if (is_small_count(box.count)) {
        const uint32_t row = divide((uint32_t)i, box.by[2]), plane = divide(row, box.by[1]);
        at[2] = (uint32_t)i - row * box.by[2].divisor;
        at[1] = row - plane * box.by[1].divisor;
        at[0] = plane;
        return;
    }
    at[2] = i % box.size[2];
    at[1] = i / box.size[2] % box.size[1];
    at[0] = i / box.size[2] / box.size[1];
}

/* Offset in the field of a place in the whole input; -1: it is not there. */
STNI_DEVICE int64_t offset_of_place(const stni_pick_args &a, const pick_box &input, int64_t place)
{
    int64_t at[STNI_RESAMPLE_DIMS], offset = 0;
    if (place < 0)
        return -1;
    split_index(input, place, at);
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++) {
        if (at[d] < a.field_range[d].begin || at[d] >= a.field_range[d].end)
            return -1;
        offset += (at[d] - a.field_range[d].begin) * a.field_stride[d];
    }
    return offset;
}

STNI_DEVICE int64_t offset_in(const pick_box &box, const int64_t (&stride)[STNI_RESAMPLE_DIMS], int64_t i)
{
    int64_t at[STNI_RESAMPLE_DIMS];
    split_index(box, i, at);
    return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2];
}

/* What many threads that wait have for one place. */
template <class S>
STNI_DEVICE void add_crowd(S *field, int64_t my_place, bool waits, typename computed<S>::type my_value)
{
    STNI_SHARED(int64_t, place, PICK_THREADS);
    STNI_SHARED(typename computed<S>::type, value, PICK_THREADS);
    const int me = (int)threadIdx.x, threads = (int)blockDim.x;
    place[me] = waits ? my_place : -1;
    value[me] = my_value;
    __syncthreads();
    if (is_first_of_place(place)) {
        S sum = field[my_place];
        for (int k = me; k < threads; k++)
            if (place[k] == my_place)
                store(sum, load(sum) + value[k]);
        field[my_place] = sum;
    }
    __syncthreads();
}

/* As many values at a time as there are threads: those with one place are added in their order, so that sums have the
 * same bits in every run. */
template <class S>
STNI_DEVICE void add_values(const stni_pick_args &a, const pick_boxes &b, const turns &t, S *field, const S *values,
                            const int64_t *index)
{
    const int threads = (int)blockDim.x;
    for (int64_t first = 0; first < b.values.count; first += threads) {
        const int64_t i = first + threadIdx.x;
        const bool is_there = i < b.values.count;
        const int64_t place =
            is_there ? offset_of_place(a, b.input, index[offset_in(b.values, a.index_stride, i)]) : -1;
        const typename computed<S>::type value = is_there ? load(values[offset_in(b.values, a.value_stride, i)]) : 0;
        const unsigned slot = slot_of_place(place);
        bool waits = place >= 0, more = true;
        STNI_KEEP_LOOP
        for (int turn = 0; more && turn < MOST_TURNS; turn++) {
            const bool mine = begin_turn(t, slot, waits);
            if (mine)
                store(field[place], load(field[place]) + value);
            waits = waits && !mine;
            more = end_turn(t, slot, mine, waits);
        }
        if (more)
            add_crowd(field, place, waits, value);
    }
}

template <class S>
__global__ void __launch_bounds__(PICK_THREADS)
    pick_plane(const __grid_constant__ stni_pick_args a, const __grid_constant__ pick_boxes b)
{
    STNI_SHARED(unsigned, slots, TURN_SLOTS);
    STNI_SHARED(unsigned, waiting, 1);
    const turns t = {slots, waiting};
    const int64_t lanes = a.n_outer[2], lane = blockIdx.x % lanes, rest = blockIdx.x / lanes;
    const int64_t i = rest / a.n_outer[1], j = rest % a.n_outer[1];
    S *field = (S *)a.field + i * a.outer_field[0] + j * a.outer_field[1] + lane;
    S *values = (S *)a.values + i * a.outer_value[0] + j * a.outer_value[1] + lane;
    const int64_t *index = a.index + i * a.outer_index[0] + j * a.outer_index[1] + lane;
    if (a.adds) {
        for (int64_t k = threadIdx.x; k < b.field.count; k += blockDim.x)
            store(field[b.is_dense ? k : offset_in(b.field, a.field_stride, k)], 0);
        init_turns(t, (int)blockDim.x);
        add_values(a, b, t, field, values, index);
        return;
    }
    for (int64_t k = threadIdx.x; k < b.values.count; k += blockDim.x) {
        const int64_t from = offset_of_place(a, b.input, index[offset_in(b.values, a.index_stride, k)]);
        store(values[offset_in(b.values, a.value_stride, k)], from >= 0 ? load(field[from]) : 0);
    }
}

template <class S> void launch_pick_of(const stni_pick_args &a, cudaStream_t stream)
{
    const int64_t planes = a.n_outer[0] * a.n_outer[1] * a.n_outer[2];
    const pick_boxes b = pick_boxes_of(a);
    const int threads = b.values.count > PICK_FEW ? (int)PICK_THREADS : (int)PICK_FEW;
    if (planes > 0)
        STNI_LAUNCH(pick_plane<S>, blocks_for(planes, 1), threads, stream, a, b);
}

void launch_pick(const stni_pick_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_pick_of<decltype(element)>(a, stream); });
}

/* The adjoint of unfold: a thread each element, which adds up its places in windows. */
template <class S>
__global__ void __launch_bounds__(THREADS) sum_windows(const __grid_constant__ stni_unfold_args a, int64_t count)
{
    const struct stni_unfold &u = a.unfold;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    const int64_t lane = i % a.lanes, n = stni_range_length(a.target), at = i / a.lanes % n,
                  element = a.target.begin + at;
    int64_t to = lane * a.to_lane + at * a.to_stride, from = lane * a.from_lane;
    i /= a.lanes * n;
    for (int d = a.n_outer - 1; d >= 0; d--) {
        to += i % a.outer[d] * a.to_outer[d];
        from += i % a.outer[d] * a.from_outer[d];
        i /= a.outer[d];
    }
    const int64_t first = stni_ceil_div(element - (u.size - 1) * u.dilation, u.step),
                  last = stni_floor_div(element, u.step);
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
    STNI_CUDA_KERNEL_WITH("max_pool.forward", STNI_MAX_DTYPES, stni_max_args, launch_max, max_workspace),
    STNI_CUDA_KERNEL_WITH("global_max_pool.pool", STNI_MAX_DTYPES, stni_max_args, launch_max, max_workspace),
    STNI_CUDA_KERNEL("global_max_pool.choose", STNI_MAX_DTYPES, stni_global_max_args, launch_choose),
    STNI_CUDA_KERNEL("max_pool_keep.forward", STNI_RESAMPLE_DTYPES, stni_pick_args, launch_pick),
    STNI_CUDA_KERNEL("max_pool_backward.forward", STNI_RESAMPLE_DTYPES, stni_pick_args, launch_pick),
    STNI_CUDA_KERNEL("max_pool_pick.forward", STNI_RESAMPLE_DTYPES, stni_pick_args, launch_pick),
    STNI_CUDA_KERNEL("unfold_backward.forward", FLOATING_DTYPES | COMPLEX_DTYPES, stni_unfold_args, launch_windows),
    STNI_CUDA_KERNELS_END
};
