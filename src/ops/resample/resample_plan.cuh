/* Windows over images on a CUDA device: what the targets of each dim read is written to tables once a launch, and a
 * thread works on one target of several images, for which it looks that up once. Indices have 32 bits.
 *
 * What is too large for this has no plan. Shape and strides alone decide. */
#ifndef STNI_OPS_RESAMPLE_RESAMPLE_PLAN_CUH
#define STNI_OPS_RESAMPLE_RESAMPLE_PLAN_CUH

#include "core/device/cuda/index.cuh"
#include "ops/resample/resample_target.cuh"

namespace {

enum {
    PLAN_THREADS = 256,
    PLAN_IMAGES = 4,       /* that a thread works on at a time */
    PLAN_ROUNDS = 2,       /* how many times, where there are threads enough */
    PLAN_ENOUGH = 1 << 17, /* threads that keep any device busy */
    PLAN_MOST_WEIGHTS = 1 << 20
};

/* What a target reads along a dim: `count` sources from `first` on, counted from the first one that is here. */
struct alignas(8) tap_range {
    int32_t first, count;
};

struct plan_dim {
    divider targets;
    int64_t source_stride, target_stride;
    int64_t tap_stride; /* from a source of a target to its next one */
    tap_range *taps;    /* of each target */
    void *weight;       /* of each target's sources, in the type of sums */
    int64_t each;       /* weights that the table has a target; 1: all its sources have the same or there is one only */
};

/* Images are in two dims, the inner of which is cut into groups; each thread has one. */
struct resample_plan {
    uint32_t count; /* of threads */
    divider width, groups;
    plan_dim dim[STNI_RESAMPLE_DIMS];
    int rounds;
    int64_t images, image_source, image_target; /* of the inner dim */
    int64_t outer_source, outer_target;
};

inline int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Outputs that read one input at most: `apart` of them stand between two neighbours. Those that are clamped to an end
 * of the input stand half an element from it at most. */
inline int64_t most_readers(const stni_resample_dim &d)
{
    const double n_in = (double)d.n_in, n_out = (double)d.n_out;
    double apart = d.factor > n_out / n_in ? d.factor : n_out / n_in;
    if (d.mode == STNI_RESAMPLE_WINDOW)
        return least_of(d.n_out, stni_ceil_div(d.kernel, d.stride));
    if (d.n_in == 1)
        return d.n_out;
    if (d.mode <= STNI_RESAMPLE_NEAREST_EXACT && d.factor == floor(d.factor)) /* nothing is rounded */
        return least_of(d.n_out, d.factor > 0 ? (int64_t)d.factor : stni_ceil_div(d.n_out, d.n_in));
    if (d.align_corners && apart < (n_out - 1) / (n_in - 1))
        apart = (n_out - 1) / (n_in - 1);
    double reads = d.mode == STNI_RESAMPLE_LINEAR ? 3 : d.mode == STNI_RESAMPLE_CUBIC ? 5 : 1;
    if (stni_resample_reach(&d) > 0)
        reads = 2 * stni_resample_reach(&d) * stni_resample_widening(&d) + 1;
    const double most = ceil(reads * apart) + 2;
    return most < n_out ? (int64_t)most : d.n_out;
}

inline int64_t most_terms(const stni_resample_args &a, int d)
{
    return a.transposed ? most_readers(a.dim[d]) : stni_resample_most_reads(&a.dim[d]);
}

/* Whether a target's sources may differ in weight. */
inline bool has_weights(const stni_resample_args &a, int d)
{
    return a.transposed || a.dim[d].mode == STNI_RESAMPLE_LINEAR || a.dim[d].mode == STNI_RESAMPLE_CUBIC ||
           stni_resample_reach(&a.dim[d]) > 0;
}

/* Both dims of images as one where they lie so; the outer one alone where the inner has one element. */
inline int64_t plan_outer(const stni_resample_args &a, resample_plan &p)
{
    const bool merges = a.outer_source[0] == a.n_outer[1] * a.outer_source[1] &&
                        a.outer_target[0] == a.n_outer[1] * a.outer_target[1];
    const int inner = a.n_outer[1] == 1 ? 0 : 1;
    p.images = a.n_outer[inner];
    p.image_source = a.outer_source[inner];
    p.image_target = a.outer_target[inner];
    p.outer_source = a.outer_source[0];
    p.outer_target = a.outer_target[0];
    if (inner == 0)
        return 1;
    if (!merges)
        return a.n_outer[0];
    p.images *= a.n_outer[0];
    return 1;
}

/* Writes all but the tables; returns whether there is a plan. */
inline bool plan_of(const stni_resample_args &a, resample_plan &p)
{
    const int64_t most = STNI_SMALL_COUNT - 1;
    if (count_of_targets(a) <= 0)
        return false;
    memset(&p, 0, sizeof p);
    int64_t count = plan_outer(a, p);
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++) {
        const int64_t n = stni_range_length(a.target[d]);
        if (n > most / count || stni_range_length(a.source[d]) > most)
            return false;
        count *= n;
        p.dim[d].targets = divider_of(n);
        p.dim[d].source_stride = p.dim[d].tap_stride = a.source_stride[d];
        p.dim[d].target_stride = a.target_stride[d];
    }
    if (a.width > most / count || p.images > most / (count * a.width))
        return false;
    count *= a.width;
    p.rounds = p.images / (PLAN_IMAGES * PLAN_ROUNDS) > PLAN_ENOUGH / count ? PLAN_ROUNDS : 1;
    const int64_t groups = stni_ceil_div(p.images, PLAN_IMAGES * p.rounds);
    p.width = divider_of(a.width);
    p.groups = divider_of(groups);
    p.count = (uint32_t)(count * groups);
    return true;
}

/* Puts the tables at `memory`; of weights of so many bytes, or of none. Returns how many bytes they take. */
inline size_t plan_tables(const stni_resample_args &a, resample_plan &p, size_t weight_bytes, void *memory)
{
    size_t bytes = 0;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++) {
        p.dim[d].taps = (tap_range *)((char *)memory + bytes);
        bytes += (size_t)p.dim[d].targets.divisor * sizeof(tap_range);
    }
    for (int d = 0; d < STNI_RESAMPLE_DIMS && weight_bytes > 0; d++) {
        p.dim[d].each = has_weights(a, d) ? most_terms(a, d) : 1;
        p.dim[d].weight = (char *)memory + bytes;
        bytes += ((size_t)p.dim[d].targets.divisor * (size_t)p.dim[d].each * weight_bytes + 7) / 8 * 8;
    }
    return bytes;
}

/* A thread's target, of the first of its images, and what its group has. */
struct planned_target {
    uint32_t place[STNI_RESAMPLE_DIMS]; /* counted from the first target */
    int64_t from, to;                   /* from: of the first source that is here */
    int64_t first, end;                 /* images */
};

STNI_DEVICE uint32_t take_index(uint32_t &rest, const divider &by)
{
    const uint32_t all = rest;
    rest = divide(all, by);
    return all - rest * by.divisor;
}

STNI_DEVICE planned_target planned_target_of(const resample_plan &p, uint32_t index)
{
    planned_target t;
    const uint32_t channel = take_index(index, p.width);
    t.from = t.to = channel;
    STNI_UNROLL
    for (int d = STNI_RESAMPLE_DIMS - 1; d >= 0; d--) {
        t.place[d] = take_index(index, p.dim[d].targets);
        t.to += t.place[d] * p.dim[d].target_stride;
    }
    t.first = (int64_t)take_index(index, p.groups) * (PLAN_IMAGES * p.rounds);
    t.end = t.first + PLAN_IMAGES * p.rounds;
    t.end = t.end < p.images ? t.end : p.images;
    t.from += index * p.outer_source + t.first * p.image_source;
    t.to += index * p.outer_target + t.first * p.image_target;
    return t;
}

/* What the target reads along each dim, and the offset of its first source. */
STNI_DEVICE int64_t find_taps(const resample_plan &p, const planned_target &t, tap_range (&taps)[STNI_RESAMPLE_DIMS])
{
    int64_t from = t.from;
    STNI_UNROLL
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++) {
        taps[d] = p.dim[d].taps[t.place[d]];
        from += taps[d].first * p.dim[d].source_stride;
    }
    return from;
}

/* Which dim element i of the tables, one after the other, is of; it becomes the dim's target. DIMS: of none. */
STNI_DEVICE int dim_of_table(const resample_plan &p, int64_t &i)
{
    int d = 0;
    for (; d < STNI_RESAMPLE_DIMS && i >= p.dim[d].targets.divisor; d++)
        i -= p.dim[d].targets.divisor;
    return d;
}

inline unsigned blocks_for_tables(const resample_plan &p)
{
    int64_t n = 0;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++)
        n += p.dim[d].targets.divisor;
    return blocks_for(n, PLAN_THREADS);
}

}

#endif
