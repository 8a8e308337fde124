/* Moments of dense lines: a template of core/box/each_float.h. Sums of z and z^2, z = x - shift.
 *
 * For dtypes that compute in f32. Sums are taken about a number near the mean of a block, in f32 lanes, each of
 * which adds up no more than STEPS numbers before it is added to a sum in f64. With the roundings of z, of z^2 and
 * of two pairwise additions of lanes they are exact to (STEPS + 4) 2^-24, relative to the sums of |z| and of z^2;
 * the latter is no more than twice the sum of squares about the mean, so that a mean far from 0 costs no digits. */
#ifndef NAME /* read alone */
#include "ops/norm/norm_tile.h"
#include "core/box/as_f32.h"
#endif

static inline __attribute__((always_inline)) double NAME(fold8)(const double *v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* In f64, about the shift itself. */
static inline void NAME(sum_wide)(const T *restrict x, int64_t n, double shift, double *sum)
{
    double a[LANES], b[LANES];
    int64_t i = 0;
    _Pragma("omp simd")
    for (int l = 0; l < LANES; l++)
        a[l] = b[l] = 0;
    for (; i + LANES <= n; i += LANES)
        _Pragma("omp simd")
        for (int l = 0; l < LANES; l++) {
            double z = (double)LOAD(x[i + l]) - shift;
            a[l] += z;
            b[l] += z * z;
        }
    for (int l = 0; i + l < n; l++) {
        double z = (double)LOAD(x[i + l]) - shift;
        a[l] += z;
        b[l] += z * z;
    }
    _Pragma("omp simd")
    for (int l = 0; l < LANES / 2; l++) {
        a[l] += a[l + LANES / 2];
        b[l] += b[l + LANES / 2];
    }
    sum[0] += NAME(fold8)(a);
    sum[1] += NAME(fold8)(b);
}

static inline __attribute__((always_inline)) void NAME(widen)(ACC *restrict v, double *restrict sum)
{
    _Pragma("omp simd")
    for (int l = 0; l < WIDTH / 2; l++)
        v[l] += v[l + WIDTH / 2];
    _Pragma("omp simd")
    for (int l = 0; l < WIDTH / 4; l++)
        v[l] += v[l + WIDTH / 4];
    _Pragma("omp simd")
    for (int l = 0; l < WIDTH / 4; l++)
        sum[l] += (double)v[l];
}

/* About `about`, of a multiple of SPAN. */
static inline __attribute__((always_inline)) void NAME(sum_spans)(const T *restrict x, int64_t n, ACC about,
                                                                  size_t ahead, double *sum)
{
    double a[WIDTH / 4], b[WIDTH / 4];
    _Pragma("omp simd")
    for (int l = 0; l < WIDTH / 4; l++)
        a[l] = b[l] = 0;
    for (int64_t i = 0; i < n; i += SPAN) {
        ACC u[WIDTH], v[WIDTH];
        stni_block_prefetch(x + i, SPAN * sizeof(T), ahead);
        _Pragma("omp simd")
        for (int l = 0; l < WIDTH; l++) {
            ACC z = LOAD(x[i + l]) - about;
            u[l] = z;
            v[l] = z * z;
        }
        _Pragma("GCC unroll 8")
        for (int k = 1; k < STEPS; k++)
            _Pragma("omp simd")
            for (int l = 0; l < WIDTH; l++) {
                ACC z = LOAD(x[i + k * WIDTH + l]) - about;
                u[l] += z;
                v[l] += z * z;
            }
        NAME(widen)(u, a);
        NAME(widen)(v, b);
    }
    sum[0] = NAME(fold8)(a);
    sum[1] = NAME(fold8)(b);
}

/* The mean of SAMPLES of the n numbers. */
static inline ACC NAME(sample_mean)(const T *x, int64_t n)
{
    const int64_t step = n / SAMPLES - n / 64 - 1; /* no period that rows are likely to have */
    ACC a[SAMPLES];
    for (int k = 0; k < SAMPLES; k++)
        a[k] = LOAD(x[k * step]);
    return (((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))) / SAMPLES;
}

/* A multiple of SPAN: about the mean of a few samples, where that is no farther from the mean of all than the
 * deviations are, else about the mean that this pass has found. Where a sum of squares leaves the range that f32
 * holds with all digits, or neither mean is near enough, the sums are taken in f64. */
static inline void NAME(sum_near)(const T *restrict x, int64_t n, double shift, int ahead, double *sum)
{
    ACC about = NAME(sample_mean)(x, n);
    for (int attempt = 0; attempt < 2; attempt++) {
        double own[2];
        if (ahead)
            NAME(sum_spans)(x, n, about, STNI_NORM_AHEAD, own);
        else
            NAME(sum_spans)(x, n, about, 0, own);
        if (!(own[1] >= least_squares && own[1] <= most_squares))
            break;
        if (2 * own[0] * own[0] <= (double)n * own[1]) {
            const double d = (double)about - shift;
            sum[0] += own[0] + (double)n * d;
            sum[1] += own[1] + d * (2 * own[0] + (double)n * d);
            return;
        }
        about = (ACC)((double)about + own[0] / (double)n);
    }
    NAME(sum_wide)(x, n, shift, sum);
}

/* Adds the sums of n numbers to the two in `sum`. `ahead`: what follows is prefetched, which gains a quarter where
 * it is in memory and costs one in the caches. */
static inline void NAME(moments_line)(const T *restrict x, int64_t n, double shift, int ahead, double *sum)
{
    int64_t i = 0;
    for (int64_t some; sizeof(ACC) < sizeof(double) && n - i >= SPAN; i += some) {
        some = least(n - i, NEAR_BLOCK) / SPAN * SPAN;
        NAME(sum_near)(x + i, some, shift, ahead, sum);
    }
    if (i < n)
        NAME(sum_wide)(x + i, n - i, shift, sum);
}

static void NAME(moments_lines)(const struct stni_norm_pass *p, const struct tile *t)
{
    for (int64_t r = 0; r < t->rows; r++) {
        const T *x = (const T *)p->args->x + t->at[NORM_X] + r * t->row[NORM_X];
        const double shift = ((const double *)p->stat[0])[t->at[NORM_STAT] + r * t->row[NORM_STAT]];
        const int64_t target = t->at[p->target] + r * t->row[p->target];
        double sum[2] = {0, 0};
        NAME(moments_line)(x, t->cols, shift, p->ahead != 0, sum);
        p->sum[0][target] += sum[0];
        p->sum[1][target] += sum[1];
    }
}
