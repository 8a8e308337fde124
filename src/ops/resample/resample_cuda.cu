/* Resampling and average pools on a CUDA device. With a plan of resample_plan.cuh a thread sums up one
 * target of several images; without one, one target, in f64. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/resample/resample_plan.cuh"

namespace {

enum { THREADS = 128 };

STNI_DEVICE_CALLED stni_range sources_of(const stni_resample_args &a, int d, int64_t target)
{
    return stni_resample_sources(&a.dim[d], a.transposed, target);
}

/* What the weights of a target's sources are divided by: of the adjoint each has a total of its own. */
STNI_DEVICE_CALLED double total_of(const stni_resample_args &a, int d, int64_t target)
{
    return a.transposed ? 1 : stni_resample_total(&a.dim[d], target);
}

/* The weight of a source in a target. */
STNI_DEVICE_CALLED double weight_of(const stni_resample_args &a, int d, int64_t target, int64_t source, double total)
{
    return a.transposed ? stni_resample_part(&a.dim[d], source, target) / stni_resample_total(&a.dim[d], source)
                        : stni_resample_part(&a.dim[d], target, source) / total;
}

template <class S>
STNI_DEVICE double sum_row(const stni_resample_args &a, const S *from, stni_range sources, int64_t target, double total)
{
    double sum = 0;
    for (int64_t s = sources.begin; s < sources.end; s++)
        sum += weight_of(a, 2, target, s, total) * (double)load(from[(s - a.source[2].begin) * a.source_stride[2]]);
    return sum;
}

template <class S>
STNI_DEVICE double sum_target(const stni_resample_args &a, const S *from, const int64_t (&target)[STNI_RESAMPLE_DIMS])
{
    const stni_range planes = sources_of(a, 0, target[0]);
    const stni_range rows = sources_of(a, 1, target[1]);
    const stni_range elements = sources_of(a, 2, target[2]);
    const double of_planes = total_of(a, 0, target[0]), of_rows = total_of(a, 1, target[1]),
                 of_elements = total_of(a, 2, target[2]);
    double sum = 0;
    for (int64_t z = planes.begin; z < planes.end; z++) {
        const S *plane = from + (z - a.source[0].begin) * a.source_stride[0];
        double of_plane = 0;
        for (int64_t y = rows.begin; y < rows.end; y++) {
            const S *row = plane + (y - a.source[1].begin) * a.source_stride[1];
            of_plane += weight_of(a, 1, target[1], y, of_rows) * sum_row(a, row, elements, target[2], of_elements);
        }
        sum += weight_of(a, 0, target[0], z, of_planes) * of_plane;
    }
    return sum;
}

template <class S>
__global__ void __launch_bounds__(THREADS) resample(const __grid_constant__ stni_resample_args a, int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    const resample_target target = target_of(a, i);
    S &element = ((S *)a.to)[target.to];
    store(element, (typename computed<S>::type)sum_target(a, (const S *)a.from + target.from, target.place));
}

template <class S> void launch_targets(const stni_resample_args &a, cudaStream_t stream)
{
    const int64_t count = count_of_targets(a);
    if (count > 0)
        STNI_LAUNCH(resample<S>, blocks_for(count, THREADS), THREADS, stream, a, count);
}

/* With tables at a.work; 0 bytes: there is no plan. */
inline size_t plan_sums(const stni_resample_args &a, resample_plan &p)
{
    if (!plan_of(a, p))
        return 0;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++)
        if (has_weights(a, d) && most_terms(a, d) > PLAN_MOST_WEIGHTS / stni_range_length(a.target[d]))
            return 0;
    return plan_tables(a, p, a.dtype == STN_DTYPE_F64 ? sizeof(double) : sizeof(float), a.work);
}

size_t resample_workspace(stn_queue *, const void *args)
{
    resample_plan p;
    return plan_sums(*static_cast<const stni_resample_args *>(args), p);
}

template <class A>
__global__ void __launch_bounds__(PLAN_THREADS)
    write_tables(const __grid_constant__ stni_resample_args a, const __grid_constant__ resample_plan p)
{
    int64_t i = (int64_t)blockIdx.x * PLAN_THREADS + threadIdx.x;
    const int d = dim_of_table(p, i);
    if (d == STNI_RESAMPLE_DIMS)
        return;
    const int64_t target = a.target[d].begin + i;
    const stni_range sources = sources_of(a, d, target);
    const int64_t count = sources.end > sources.begin ? sources.end - sources.begin : 0;
    p.dim[d].taps[i] = {(int32_t)(count > 0 ? sources.begin - a.source[d].begin : 0), (int32_t)count};
    const double total = total_of(a, d, target);
    A *weight = (A *)p.dim[d].weight + i * p.dim[d].each;
    for (int64_t k = 0; k < count && k < p.dim[d].each; k++)
        weight[k] = (A)weight_of(a, d, target, sources.begin + k, total);
}

/* The weights of the thread's target along dim d, and the distance from one to the next. */
template <class A> struct weights {
    const A *first;
    int step;
};

template <class A> STNI_DEVICE weights<A> find_weights(const resample_plan &p, const planned_target &t, int d)
{
    const int each = (int)p.dim[d].each;
    return {(const A *)p.dim[d].weight + (int64_t)t.place[d] * each, each > 1};
}

/* At most so many weights, which stay in registers; 0 where there is none. */
template <class A, int TERMS> STNI_DEVICE void load_weights(const weights<A> &from, int count, A (&to)[TERMS])
{
    STNI_UNROLL
    for (int k = 0; k < TERMS; k++)
        to[k] = k < count ? from.first[k * from.step] : 0;
}

/* Elements of several images that are read together; of images that there are not, the first one's. */
typedef int64_t image_offsets[PLAN_IMAGES];

/* What at most TERMS sources along the last two dims, and one along the first, are weighted with. */
template <class A, int TERMS> struct few_terms {
    int rows, elements;
    A plane[1], row[TERMS], element[TERMS];
};

template <class A, int TERMS>
STNI_DEVICE few_terms<A, TERMS> find_terms(const resample_plan &p, const planned_target &t,
                                           const tap_range (&taps)[STNI_RESAMPLE_DIMS])
{
    few_terms<A, TERMS> terms;
    terms.rows = taps[0].count > 0 ? taps[1].count : 0;
    terms.elements = taps[2].count;
    load_weights(find_weights<A>(p, t, 0), taps[0].count, terms.plane);
    load_weights(find_weights<A>(p, t, 1), taps[1].count, terms.row);
    load_weights(find_weights<A>(p, t, 2), taps[2].count, terms.element);
    return terms;
}

/* The sum of one row; a source that there is not adds nothing, not even a zero. */
template <class A, int TERMS> STNI_DEVICE A sum_few_elements(const few_terms<A, TERMS> &terms, const A (&value)[TERMS])
{
    A sum = terms.element[0] * value[0];
    STNI_UNROLL
    for (int k = 1; k < TERMS; k++)
        sum = k < terms.elements ? sum + terms.element[k] * value[k] : sum;
    return sum;
}

/* All are read before any is added. */
template <class S, class A, int TERMS>
STNI_DEVICE void sum_few(const resample_plan &p, const few_terms<A, TERMS> &terms, const S *from,
                         const image_offsets &image, A (&sum)[PLAN_IMAGES])
{
    A value[PLAN_IMAGES][TERMS][TERMS];
    STNI_UNROLL
    for (int j = 0; j < TERMS; j++)
        STNI_UNROLL
        for (int k = 0; k < TERMS; k++) {
            const S *at = from + j * p.dim[1].tap_stride + k * p.dim[2].tap_stride;
            const bool is_there = j < terms.rows && k < terms.elements;
            STNI_UNROLL
            for (int i = 0; i < PLAN_IMAGES; i++)
                value[i][j][k] = is_there ? (A)load(at[image[i]]) : 0;
        }
    STNI_UNROLL
    for (int i = 0; i < PLAN_IMAGES; i++) {
        A rows = terms.row[0] * sum_few_elements(terms, value[i][0]);
        STNI_UNROLL
        for (int j = 1; j < TERMS; j++)
            rows = j < terms.rows ? rows + terms.row[j] * sum_few_elements(terms, value[i][j]) : rows;
        sum[i] = terms.plane[0] * rows;
    }
}

/* Sources of a row that are added in the type of arithmetic, one after the other, as on the CPU; all else is added
 * in f64. */
enum { RUN = 32 };

template <class A>
STNI_DEVICE void add_weighted(double (&sum)[PLAN_IMAGES], A weight, const double (&value)[PLAN_IMAGES])
{
    STNI_UNROLL
    for (int i = 0; i < PLAN_IMAGES; i++)
        sum[i] += (double)weight * value[i];
}

template <class S, class A>
STNI_DEVICE void add_run(const S *from, int64_t apart, const A *weight, int step, int count, const image_offsets &image,
                         double (&sum)[PLAN_IMAGES])
{
    A run[PLAN_IMAGES] = {};
    STNI_KEEP_LOOP
    for (int k = 0; k < count; k++) {
        STNI_UNROLL
        for (int i = 0; i < PLAN_IMAGES; i++)
            run[i] += *weight * (A)load(from[image[i]]);
        from += apart;
        weight += step;
    }
    STNI_UNROLL
    for (int i = 0; i < PLAN_IMAGES; i++)
        sum[i] += (double)run[i];
}

template <class S, class A>
STNI_DEVICE void add_row(const S *from, int64_t apart, const weights<A> &weight, int count, const image_offsets &image,
                         double (&sum)[PLAN_IMAGES])
{
    STNI_KEEP_LOOP
    for (int k = 0; k < count; k += RUN)
        add_run(from + k * apart, apart, weight.first + k * weight.step, weight.step, count - k < RUN ? count - k : RUN,
                image, sum);
}

/* Any number of terms. */
template <class S, class A>
STNI_DEVICE void sum_many(const resample_plan &p, const planned_target &t, const tap_range (&taps)[STNI_RESAMPLE_DIMS],
                          const S *from, const image_offsets &image, double (&sum)[PLAN_IMAGES])
{
    const weights<A> planes = find_weights<A>(p, t, 0), rows = find_weights<A>(p, t, 1),
                     elements = find_weights<A>(p, t, 2);
    STNI_KEEP_LOOP
    for (int z = 0; z < taps[0].count; z++) {
        double plane[PLAN_IMAGES] = {};
        STNI_KEEP_LOOP
        for (int y = 0; y < taps[1].count; y++) {
            double row[PLAN_IMAGES] = {};
            add_row(from + z * p.dim[0].tap_stride + y * p.dim[1].tap_stride, p.dim[2].tap_stride, elements,
                    taps[2].count, image, row);
            add_weighted(plane, rows.first[y * rows.step], row);
        }
        add_weighted(sum, planes.first[z * planes.step], plane);
    }
}

/* TERMS 0: any number. */
template <class A, int TERMS> struct sum_type {
    typedef A type;
};
template <class A> struct sum_type<A, 0> {
    typedef double type;
};

template <class S, int TERMS>
__global__ void __launch_bounds__(PLAN_THREADS)
    resample_images(const __grid_constant__ resample_plan p, const S *from, S *to)
{
    typedef typename computed<S>::type A;
    const uint32_t index = blockIdx.x * PLAN_THREADS + threadIdx.x;
    if (index >= p.count)
        return;
    const planned_target t = planned_target_of(p, index);
    tap_range taps[STNI_RESAMPLE_DIMS];
    few_terms<A, TERMS ? TERMS : 1> terms;
    from += find_taps(p, t, taps);
    to += t.to;
    if constexpr (TERMS > 0)
        terms = find_terms<A, TERMS>(p, t, taps);
    for (int64_t first = t.first; first < t.end; first += PLAN_IMAGES) {
        image_offsets image;
        typename sum_type<A, TERMS>::type sum[PLAN_IMAGES] = {};
        STNI_UNROLL
        for (int i = 0; i < PLAN_IMAGES; i++)
            image[i] = first + i < t.end ? i * p.image_source : 0;
        if constexpr (TERMS > 0)
            sum_few(p, terms, from, image, sum);
        else
            sum_many<S, A>(p, t, taps, from, image, sum);
        STNI_UNROLL
        for (int i = 0; i < PLAN_IMAGES; i++)
            if (first + i < t.end)
                store(to[i * p.image_target], (A)sum[i]);
        from += PLAN_IMAGES * p.image_source;
        to += PLAN_IMAGES * p.image_target;
    }
}

template <class S> void launch_images(const stni_resample_args &a, const resample_plan &p, cudaStream_t stream)
{
    const int64_t row = most_terms(a, 1), element = most_terms(a, 2), most = row > element ? row : element;
    const unsigned blocks = blocks_for(p.count, PLAN_THREADS);
    const S *from = (const S *)a.from;
    S *to = (S *)a.to;
    STNI_LAUNCH(write_tables<typename computed<S>::type>, blocks_for_tables(p), PLAN_THREADS, stream, a, p);
    if (most_terms(a, 0) == 1 && most == 1)
        STNI_LAUNCH((resample_images<S, 1>), blocks, PLAN_THREADS, stream, p, from, to);
    else if (most_terms(a, 0) == 1 && most == 2)
        STNI_LAUNCH((resample_images<S, 2>), blocks, PLAN_THREADS, stream, p, from, to);
    else
        STNI_LAUNCH((resample_images<S, 0>), blocks, PLAN_THREADS, stream, p, from, to);
}

template <class S> void launch_resample_of(const stni_resample_args &a, cudaStream_t stream)
{
    resample_plan p;
    if (plan_sums(a, p) > 0)
        launch_images<S>(a, p, stream);
    else
        launch_targets<S>(a, stream);
}

void launch_resample(const stni_resample_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_resample_of<decltype(element)>(a, stream); });
}

}

#define ROW(op) \
    STNI_CUDA_KERNEL_WITH(op ".forward", STNI_RESAMPLE_DTYPES, stni_resample_args, launch_resample, resample_workspace)

STNI_CUDA_KERNELS(resample) = {
    ROW("interpolate"),
    ROW("interpolate_backward"),
    ROW("avg_pool1d"),
    ROW("avg_pool2d"),
    ROW("avg_pool3d"),
    ROW("adaptive_avg_pool"),
    ROW("avg_pool_backward"),
    STNI_CUDA_KERNELS_END
};
