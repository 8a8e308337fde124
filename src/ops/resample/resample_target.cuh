/* The targets of stni_resample_args, one by one: which one an index is, and where it lies. */
#ifndef STNI_OPS_RESAMPLE_RESAMPLE_TARGET_CUH
#define STNI_OPS_RESAMPLE_RESAMPLE_TARGET_CUH

#include "core/device/cuda/grid.h"
#include "ops/resample/resample_kernel.h"

namespace {

/* Its place along each dim by global index, its element of `to`, and the element of `from` with which its sources
 * begin. */
struct resample_target {
    int64_t place[STNI_RESAMPLE_DIMS], to, from;
};

inline int64_t count_of_targets(const stni_resample_args &a)
{
    int64_t count = a.width;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++)
        count *= stni_range_length(a.target[d]);
    for (int d = 0; d < STNI_RESAMPLE_OUTER; d++)
        count *= a.n_outer[d];
    return count;
}

/* 0 <= i < count_of_targets(a); neighbours are neighbouring channels. */
STNI_DEVICE resample_target target_of(const stni_resample_args &a, int64_t i)
{
    const int64_t channel = i % a.width;
    resample_target t = {{}, channel, channel};
    i /= a.width;
    for (int d = STNI_RESAMPLE_DIMS - 1; d >= 0; d--) {
        const int64_t n = stni_range_length(a.target[d]);
        t.place[d] = a.target[d].begin + i % n;
        t.to += i % n * a.target_stride[d];
        i /= n;
    }
    for (int d = STNI_RESAMPLE_OUTER - 1; d >= 0; d--) {
        t.from += i % a.n_outer[d] * a.outer_source[d];
        t.to += i % a.n_outer[d] * a.outer_target[d];
        i /= a.n_outer[d];
    }
    return t;
}

}

#endif
