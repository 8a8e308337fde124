/* Bilinear sampling of planes, with zeros or the border outside, by loops over many points at a time: the element
 * before each point, and the part of a step beyond it. For the CPU's kernels; positions are those of
 * stni_sample_read. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_PLANE_H
#define STNI_OPS_RESAMPLE_SAMPLE_PLANE_H

#include "core/base/inline.h"
#include "ops/resample/sample_kernel.h"

enum {
    /* Points that are sampled at a time: enough that a channel's plane is read again while it is in the cache; and
     * those of a row that are placed at a time. */
    STNI_PLANE_POINTS = 512,
    STNI_PLANE_RUN = 64
};
_Static_assert((int)STNI_PLANE_RUN <= (int)STNI_SAMPLE_BLOCK, "a run fits a block");

/* Whether a sampling is one of these. */
static inline int stni_sample_is_plane(const struct stni_sample_args *a)
{
    return a->dims == 2 && a->rule.mode == STNI_SAMPLE_BILINEAR && a->rule.padding != STNI_SAMPLE_REFLECTION &&
           a->n_in[1] < INT32_MAX - 2 && a->n_in[2] < INT32_MAX - 2;
}

/* Positions along one dim of n elements: the element before each, the part of a step beyond it, and, unless `scale`
 * is NULL, the derivative of the position. What lies outside, and NaN, is placed where no element is. */
static inline __attribute__((always_inline)) void stni_plane_place(const struct stni_sample_rule *rule, int64_t n,
                                                                   int count, const double *restrict at,
                                                                   int32_t *restrict first, double *restrict beyond,
                                                                   double *restrict scale)
{
    const double size = (double)n, last = size - 1;
    const int corners = rule->align_corners, border = rule->padding == STNI_SAMPLE_BORDER;
    for (int i = 0; i < count; i++) {
        double x = corners ? (at[i] + 1) / 2 * last : ((at[i] + 1) * size - 1) / 2;
        if (scale)
            scale[i] = border && (x <= 0 || x >= last) ? 0 : 0.5 * (corners ? last : size);
        x = border && x <= 0 ? 0 : border && x >= last ? last : x;
        x = x > -2 ? x < size + 1 ? x : size + 1 : -2;
        const double base = floor(x);
        first[i] = (int32_t)base;
        beyond[i] = x - base;
    }
}

#endif
