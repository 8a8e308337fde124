/* The softmax kernels of one element type on one strip (softmax_strip.h): a template of core/box/each_float.h.
 * Every lane adds in order of blocks and lanes are added pairwise, so that instruction sets differ in exp only. Runs
 * of blocks are added up in f64: a million terms in one f32 lose four digits, and beyond 2^24 equal ones are lost. */
#ifndef NAME /* read alone */
#include "ops/softmax/softmax_strip.h"
#include "core/box/as_f32.h"
#endif

struct NAME(lanes) {
    ACC v[LANES];
};

static inline struct NAME(lanes) NAME(all)(ACC value)
{
    struct NAME(lanes) out;
    for (int l = 0; l < LANES; l++)
        out.v[l] = value;
    return out;
}

/* Loads a block that is not LANES contiguous elements: w elements, c apart; the other lanes get `fill`. */
static __attribute__((noinline)) void NAME(load_apart)(ACC *v, const T *x, int64_t c, int64_t w, ACC fill)
{
    if (c == 1) {
        for (int l = 0; l < LANES; l++)
            v[l] = l < w ? LOAD(x[l]) : fill;
        return;
    }
    for (int l = 0; l < LANES; l++)
        v[l] = l < w ? LOAD(x[l * c]) : fill;
}

static __attribute__((noinline)) void NAME(store_apart)(T *y, const ACC *v, int64_t c, int64_t w)
{
    for (int l = 0; l < w; l++)
        y[l * c] = STORE(v[l]);
}

/* Block i of tensor `which`; lanes beyond its width get `fill`. Into an array: a struct that is returned may be
 * copied in halves of vectors, for which the loads of whole ones wait. Where elements are converted the loop stays
 * one, of which vectors are made: unrolled, conversions are scalar ones, while plain copies gain by it. */
static inline void NAME(load)(ACC *restrict v, const struct strip *s, int which, const T *x, int64_t i, ACC fill)
{
    int64_t c = s->c[which], w = i + 1 < s->blocks ? s->full : s->last;
    x += s->at[which] + i * s->step[which];
    if (c == 1 && w == LANES && sizeof(T) < sizeof(ACC))
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            v[l] = LOAD(x[l]);
    else if (c == 1 && w == LANES)
        for (int l = 0; l < LANES; l++)
            v[l] = LOAD(x[l]);
    else
        NAME(load_apart)(v, x, c, w, fill);
}

static inline void NAME(store)(const struct strip *s, T *y, int64_t i, const ACC *values)
{
    int64_t c = s->c[SOFTMAX_OUT], w = i + 1 < s->blocks ? s->full : s->last;
    y += s->at[SOFTMAX_OUT] + i * s->step[SOFTMAX_OUT];
    if (c == 1 && w == LANES && sizeof(T) < sizeof(ACC))
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            y[l] = STORE(values[l]);
    else if (c == 1 && w == LANES)
        for (int l = 0; l < LANES; l++)
            y[l] = STORE(values[l]);
    else
        NAME(store_apart)(y, values, c, w);
}

/* How many blocks from the first on are LANES contiguous elements, in tensor `which`: their loops have no branch,
 * and keep maxima and sums in registers. */
static inline int64_t NAME(whole_blocks)(const struct strip *s, int which)
{
    if (s->c[which] != 1 || s->full != LANES)
        return 0;
    return s->last == LANES ? s->blocks : s->blocks - 1;
}

/* Results of lines: one number, or one per lane. */
static inline struct NAME(lanes) NAME(recall)(const struct strip *s, const void *stat)
{
    const ACC *from = (const ACC *)stat + s->line;
    if (s->along)
        return NAME(all)(from[0]);
    struct NAME(lanes) out = NAME(all)(1);
    for (int l = 0; l < s->full; l++)
        out.v[l] = from[l];
    return out;
}

static inline void NAME(keep)(const struct strip *s, void *stat, const struct NAME(lanes) *values)
{
    ACC *to = (ACC *)stat + s->line;
    for (int l = 0; l < (s->along ? 1 : s->full); l++)
        to[l] = values->v[l];
}

static inline struct NAME(lanes) NAME(max_of)(const struct strip *s, const T *x)
{
    struct NAME(lanes) m = NAME(all)(-(ACC)INFINITY);
    const int64_t whole = NAME(whole_blocks)(s, SOFTMAX_X), step = s->step[SOFTMAX_X];
    const T *from = x + s->at[SOFTMAX_X];
    for (int64_t i = 0; i < whole; i++)
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            const ACC v = LOAD(from[i * step + l]);
            m.v[l] = v > m.v[l] ? v : m.v[l];
        }
    for (int64_t i = whole; i < s->blocks; i++) {
        ACC v[LANES];
        NAME(load)(v, s, SOFTMAX_X, x, i, -(ACC)INFINITY);
        for (int l = 0; l < LANES; l++)
            m.v[l] = v[l] > m.v[l] ? v[l] : m.v[l];
    }
    if (!s->along)
        return m;
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            m.v[l] = m.v[l + half] > m.v[l] ? m.v[l + half] : m.v[l];
    return NAME(all)(m.v[0]);
}

/* A run of blocks is over: `runs` takes its sums, but those that are in f64 already. */
static inline void NAME(end_run)(double *restrict runs, struct NAME(lanes) *sum)
{
    for (int l = 0; l < LANES && sizeof(ACC) < sizeof(double); l++) {
        runs[l] += sum->v[l];
        sum->v[l] = 0;
    }
}

static inline void NAME(add_runs)(struct NAME(lanes) *sum, const double *restrict runs)
{
    for (int l = 0; l < LANES && sizeof(ACC) < sizeof(double); l++)
        sum->v[l] = (ACC)(runs[l] + sum->v[l]);
}

static inline struct NAME(lanes) NAME(total)(const struct strip *s, struct NAME(lanes) sum)
{
    if (!s->along)
        return sum;
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            sum.v[l] += sum.v[l + half];
    return NAME(all)(sum.v[0]);
}

/* The sums of exp(x - max). Where T is exact, `out`, unless it is NULL, keeps the terms for scale_by; else that
 * computes them again. */
static inline struct NAME(lanes) NAME(sum_of)(const struct strip *s, const T *x, T *out, const struct NAME(lanes) *max)
{
    struct NAME(lanes) sum = NAME(all)(0);
    double runs[LANES] = {0};
    const int keeps = !HALF && out != NULL;
    const int64_t whole = keeps && NAME(whole_blocks)(s, SOFTMAX_OUT) == 0 ? 0 : NAME(whole_blocks)(s, SOFTMAX_X);
    const int64_t step = s->step[SOFTMAX_X], out_step = s->step[SOFTMAX_OUT];
    const T *from = x + s->at[SOFTMAX_X];
    T *to = keeps ? out + s->at[SOFTMAX_OUT] : NULL;
    for (int64_t i = 0; i < whole;) {
        for (const int64_t end = sizeof(ACC) < sizeof(double) ? end_of_run(i, whole) : whole; i < end; i++) {
            ACC v[LANES];
#pragma omp simd
            for (int l = 0; l < LANES; l++) {
                v[l] = MATH(exp_negative)(LOAD(from[i * step + l]) - max->v[l]);
                sum.v[l] += v[l];
            }
            for (int l = 0; l < LANES && keeps; l++)
                to[i * out_step + l] = STORE(v[l]);
        }
        if (i % RUN == 0)
            NAME(end_run)(runs, &sum);
    }
    for (int64_t i = whole; i < s->blocks; i++) {
        ACC v[LANES];
        NAME(load)(v, s, SOFTMAX_X, x, i, -(ACC)INFINITY);
        for (int l = 0; l < LANES; l++) {
            v[l] = MATH(exp_negative)(v[l] - max->v[l]);
            sum.v[l] += v[l];
        }
        if (keeps)
            NAME(store)(s, out, i, v);
        if ((i + 1) % RUN == 0)
            NAME(end_run)(runs, &sum);
    }
    NAME(add_runs)(&sum, runs);
    return NAME(total)(s, sum);
}

/* x - max - log total, the logarithm of what scale_by gives. */
static inline void NAME(subtract_log)(const struct strip *s, const void *x, void *out, const struct NAME(lanes) *max,
                                      const struct NAME(lanes) *total)
{
    struct NAME(lanes) less = NAME(all)(MATH(log)(total->v[0]));
    for (int l = 1; l < LANES && !s->along; l++)
        less.v[l] = MATH(log)(total->v[l]);
    for (int64_t i = 0; i < s->blocks; i++) {
        ACC v[LANES];
        NAME(load)(v, s, SOFTMAX_X, x, i, 0);
        for (int l = 0; l < LANES; l++)
            v[l] = (v[l] - max->v[l]) - less.v[l];
        NAME(store)(s, out, i, v);
    }
}

static inline void NAME(scale_by)(const struct strip *s, const void *x, void *out, const struct NAME(lanes) *max,
                                  const struct NAME(lanes) *total)
{
    struct NAME(lanes) inverse;
    for (int l = 0; l < LANES; l++)
        inverse.v[l] = (ACC)1 / total->v[l];
    for (int64_t i = 0; i < s->blocks; i++) {
        ACC v[LANES];
        NAME(load)(v, s, HALF ? SOFTMAX_X : SOFTMAX_OUT, HALF ? x : out, i, 0);
        for (int l = 0; l < LANES; l++)
            v[l] = (HALF ? MATH(exp_negative)(v[l] - max->v[l]) : v[l]) * inverse.v[l];
        NAME(store)(s, out, i, v);
    }
}

static inline struct NAME(lanes) NAME(dot_of)(const struct strip *s, const void *x, const void *y)
{
    struct NAME(lanes) sum = NAME(all)(0);
    double runs[LANES] = {0};
    for (int64_t i = 0; i < s->blocks; i++) {
        ACC a[LANES], b[LANES];
        NAME(load)(a, s, SOFTMAX_X, x, i, 0);
        NAME(load)(b, s, SOFTMAX_Y, y, i, 0);
        for (int l = 0; l < LANES; l++)
            sum.v[l] += a[l] * b[l];
        if ((i + 1) % RUN == 0)
            NAME(end_run)(runs, &sum);
    }
    NAME(add_runs)(&sum, runs);
    return NAME(total)(s, sum);
}

static inline struct NAME(lanes) NAME(plain_sum)(const struct strip *s, const void *x)
{
    struct NAME(lanes) sum = NAME(all)(0);
    double runs[LANES] = {0};
    for (int64_t i = 0; i < s->blocks; i++) {
        ACC v[LANES];
        NAME(load)(v, s, SOFTMAX_X, x, i, 0);
        for (int l = 0; l < LANES; l++)
            sum.v[l] += v[l];
        if ((i + 1) % RUN == 0)
            NAME(end_run)(runs, &sum);
    }
    NAME(add_runs)(&sum, runs);
    return NAME(total)(s, sum);
}

/* x - exp(y) sum. */
static inline void NAME(apply_log_to)(const struct strip *s, const void *x, const void *y, void *out,
                                      const struct NAME(lanes) * sum)
{
    for (int64_t i = 0; i < s->blocks; i++) {
        ACC a[LANES], b[LANES];
        NAME(load)(a, s, SOFTMAX_X, x, i, 0);
        NAME(load)(b, s, SOFTMAX_Y, y, i, 0);
        for (int l = 0; l < LANES; l++)
            a[l] -= MATH(exp_addend)(b[l]) * sum->v[l];
        NAME(store)(s, out, i, a);
    }
}

static inline void NAME(apply_to)(const struct strip *s, const void *x, const void *y, void *out,
                                  const struct NAME(lanes) *dot)
{
    for (int64_t i = 0; i < s->blocks; i++) {
        ACC a[LANES], b[LANES];
        NAME(load)(a, s, SOFTMAX_X, x, i, 0);
        NAME(load)(b, s, SOFTMAX_Y, y, i, 0);
        for (int l = 0; l < LANES; l++)
            a[l] = b[l] * (a[l] - dot->v[l]);
        NAME(store)(s, out, i, a);
    }
}

static void NAME(finish)(const struct stni_softmax_args *a, const struct strip *s, const struct NAME(lanes) *max,
                         const struct NAME(lanes) *total)
{
    if (a->logarithm)
        NAME(subtract_log)(s, a->x, a->out, max, total);
    else
        NAME(scale_by)(s, a->x, a->out, max, total);
}

static struct NAME(lanes)
    NAME(sum_terms)(const struct stni_softmax_args *a, const struct strip *s, const struct NAME(lanes) * max)
{
    return NAME(sum_of)(s, a->x, a->logarithm ? NULL : a->out, max);
}

static struct NAME(lanes) NAME(sum_back)(const struct stni_softmax_args *a, const struct strip *s)
{
    return a->logarithm ? NAME(plain_sum)(s, a->x) : NAME(dot_of)(s, a->x, a->y);
}

static void NAME(apply_sum)(const struct stni_softmax_args *a, const struct strip *s, const struct NAME(lanes) *sum)
{
    if (a->logarithm)
        NAME(apply_log_to)(s, a->x, a->y, a->out, sum);
    else
        NAME(apply_to)(s, a->x, a->y, a->out, sum);
}

static void NAME(forward)(const struct stni_softmax_args *a, const struct strip *s)
{
    struct NAME(lanes) max = NAME(max_of)(s, a->x), total = NAME(sum_terms)(a, s, &max);
    NAME(finish)(a, s, &max, &total);
}

static void NAME(max)(const struct stni_softmax_args *a, const struct strip *s)
{
    struct NAME(lanes) max = NAME(max_of)(s, a->x);
    NAME(keep)(s, a->stat, &max);
}

static void NAME(sum)(const struct stni_softmax_args *a, const struct strip *s)
{
    struct NAME(lanes) max = NAME(recall)(s, a->stat), total = NAME(sum_terms)(a, s, &max);
    NAME(keep)(s, a->total, &total);
}

static void NAME(scale)(const struct stni_softmax_args *a, const struct strip *s)
{
    struct NAME(lanes) max = NAME(recall)(s, a->stat), total = NAME(recall)(s, a->total);
    NAME(finish)(a, s, &max, &total);
}

static void NAME(backward)(const struct stni_softmax_args *a, const struct strip *s)
{
    struct NAME(lanes) sum = NAME(sum_back)(a, s);
    NAME(apply_sum)(a, s, &sum);
}

static void NAME(dot)(const struct stni_softmax_args *a, const struct strip *s)
{
    struct NAME(lanes) sum = NAME(sum_back)(a, s);
    NAME(keep)(s, a->stat, &sum);
}

static void NAME(apply)(const struct stni_softmax_args *a, const struct strip *s)
{
    struct NAME(lanes) sum = NAME(recall)(s, a->stat);
    NAME(apply_sum)(a, s, &sum);
}
