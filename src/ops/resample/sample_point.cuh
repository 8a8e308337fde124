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

inline operands<1> elements_in(const stni_sample_args &a, const stni_sample_field &f)
{
    const int64_t shape[STNI_SAMPLE_DIMS] = {stni_range_length(a.own[0]), stni_range_length(a.own[1]),
                                             stni_range_length(a.own[2])};
    return places_of(f, shape);
}

}

#endif
