/* The arithmetic of normalisations, for C, C++ and CUDA compilers. */
#ifndef STNI_OPS_NORM_NORM_ROWS_H
#define STNI_OPS_NORM_NORM_ROWS_H

#include "core/base/inline.h"
#include "ops/norm/norm_kernel.h"

#include <math.h>

/* Of an element, in the type of its arithmetic: the normal form of x; the gradient, with g = weight times cotangent. */
#define STNI_NORM_NORMAL(x, mean, rstd) (((x) - (mean)) * (rstd))
#define STNI_NORM_GRADIENT(g, x, mean, rstd, mean_gradient, variance_gradient) \
    ((rstd) * (g) - (mean_gradient) - ((x) - (mean)) * (variance_gradient))

/* The coarse index of a fine one. */
STNI_INLINE int64_t stni_norm_coarse_of(const struct stni_norm_args *a, int64_t row, int64_t channel)
{
    return row * a->groups + (channel + a->offset) / a->per_group;
}

/* Of n elements with this sum of squared deviations. */
STNI_INLINE double stni_norm_rstd(double n, double m2, double eps)
{
    return 1 / sqrt(m2 / n + eps);
}

/* What flows back through the mean and, per deviation from it, through the variance, at coarse index i, from the sums
 * there. */
STNI_INLINE double stni_norm_mean_gradient(const struct stni_norm_args *a, double rstd, int64_t i)
{
    return a->about_zero ? 0 : rstd * a->coarse[i] / (double)a->count;
}

STNI_INLINE double stni_norm_variance_gradient(const struct stni_norm_args *a, double rstd, int64_t i)
{
    return rstd * rstd * a->coarse[a->rows * a->groups + i] / (double)a->count;
}

#endif
