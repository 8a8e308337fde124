/* What a point of a grid reads, on a CUDA device. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_POINT_CUH
#define STNI_OPS_RESAMPLE_SAMPLE_POINT_CUH

#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/index.cuh"
#include "ops/resample/sample_kernel.h"

namespace {

struct sampled_point {
    int64_t at[STNI_SAMPLE_DIMS];
    stni_sample_taps taps[STNI_SAMPLE_DIMS];
    int n_taps;
};

template <class S> STNI_DEVICE void find_point(const stni_sample_args &a, int64_t batch, int64_t i, sampled_point &p)
{
    double coordinate[STNI_SAMPLE_DIMS] = {0};
    stni_sample_point(&a, i, p.at);
    const S *grid = (const S *)a.grid.data + batch * a.grid.batch + stni_sample_offset(&a.grid, p.at);
    for (int d = 0; d < a.dims; d++)
        coordinate[d] = (double)load(grid[d * a.grid.channel]);
    p.n_taps = stni_sample_taps_of(&a, coordinate, p.taps);
}

/* The number of the element that read k of the point finds, among those that are here; -1: none. */
STNI_DEVICE int64_t element_of_read(const stni_sample_args &a, const sampled_point &p, int k)
{
    int tap[STNI_SAMPLE_DIMS];
    int64_t at[STNI_SAMPLE_DIMS];
    stni_sample_split(&a, k, p.n_taps, tap);
    if (!stni_sample_locate(&a, p.taps, tap, at))
        return -1;
    return (at[0] * stni_range_length(a.own[1]) + at[1]) * stni_range_length(a.own[2]) + at[2];
}

STNI_DEVICE double weight_of_read(const stni_sample_args &a, const sampled_point &p, int k)
{
    int tap[STNI_SAMPLE_DIMS];
    stni_sample_split(&a, k, p.n_taps, tap);
    return p.taps[0].weight[tap[0]] * p.taps[1].weight[tap[1]] * p.taps[2].weight[tap[2]];
}

inline int64_t points_of(const stni_sample_args &a)
{
    return a.n_points[0] * a.n_points[1] * a.n_points[2];
}

/* Elements of a channel that are here. */
inline int64_t elements_of(const stni_sample_args &a)
{
    return stni_range_length(a.own[0]) * stni_range_length(a.own[1]) * stni_range_length(a.own[2]);
}

/* The dims of a field's points or elements, merged where they lie so. */
inline operands<1> places_of(const stni_sample_field &f, const int64_t (&shape)[STNI_SAMPLE_DIMS])
{
    operands<1> o = no_dims<1>();
    for (int d = 0; d < STNI_SAMPLE_DIMS; d++)
        add_dim(o, shape[d], {f.dim[d]});
    end_dims(o);
    return o;
}

/* So much memory copies may take, in bytes, unless those of one batch entry do not fit. */
constexpr int64_t SPAN_BYTES = 256 << 20;

STNI_HOST_DEVICE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Channels as a copy has them, in elements: whole vectors. */
inline int64_t padded_channels(const stni_sample_args &a, int64_t vector)
{
    return stni_ceil_div(a.n_channels, vector) * vector;
}

/* A copy of the input by rows pays where points read it at least once, and rows fill the 32 bytes that a read
 * fetches. Of an empty chunk there is nothing to copy. */
inline bool pays_by_rows(const stni_sample_args &a, int64_t vector, int64_t size)
{
    const int64_t elements = elements_of(a), reads = points_of(a) * stni_sample_n_reads(&a);
    return elements > 0 && a.n_channels * size >= 32 && elements <= reads && is_small_count(elements) &&
           elements * padded_channels(a, vector) * size <= SPAN_BYTES / 2;
}

inline operands<1> elements_in(const stni_sample_args &a, const stni_sample_field &f)
{
    const int64_t shape[STNI_SAMPLE_DIMS] = {stni_range_length(a.own[0]), stni_range_length(a.own[1]),
                                             stni_range_length(a.own[2])};
    return places_of(f, shape);
}

}

#endif
