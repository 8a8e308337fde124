/* Statistics and result of dense rows that are groups by themselves, one after the other, while the L1 cache holds
 * them: a template of core/box/each_float.h. Nothing that is written for one row is read for another, so that no row
 * waits for the stores of the last. */
#ifndef NAME /* read alone */
#include "ops/norm/norm_moments_tmpl.h"
#endif

/* The mean and 1 / sqrt(var + eps) of row r, which are also put where they belong. */
static inline void NAME(take_statistics)(const struct stni_norm_pass *p, const T *x, int64_t r, int64_t n, ACC *mean,
                                         ACC *rstd)
{
    const struct stni_norm_args *a = p->args;
    const double shift = a->about_zero ? 0 : stni_moments_shift((double)LOAD(x[0]));
    double sum[2] = {0, 0};
    NAME(moments_line)(x, n, shift, p->ahead != 0, sum);
    const struct stni_moments own = stni_moments_of_sums((double)n, shift, a->about_zero ? 0 : sum[0], sum[1]);
    const struct stni_moments all = stni_moments_join(stni_moments_of(0, 0, 0), own);
    ((ACC *)a->mean)[r] = *mean = (ACC)all.mean;
    ((ACC *)a->rstd)[r] = *rstd = (ACC)stni_norm_rstd(all.n, all.m2, a->eps);
    if (a->var)
        ((ACC *)a->var)[r] = (ACC)(all.m2 / (all.n - 1));
}

static inline __attribute__((always_inline)) void NAME(normalise_run)(T *restrict y, const T *restrict x,
                                                                      const T *restrict w, const T *restrict v,
                                                                      int64_t n, ACC mean, ACC rstd, int weighted,
                                                                      int biased)
{
    const ACC w0 = LOAD(w[0]), v0 = LOAD(v[0]);
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] =
        STORE(STNI_NORM_NORMAL(LOAD(x[i]), mean, rstd) * (weighted ? LOAD(w[i]) : w0) + (biased ? LOAD(v[i]) : v0));
}

/* n elements of a row from the i-th on. */
static inline void NAME(normalise_piece)(const struct stni_norm_pass *p, T *y, const T *x, int64_t i, int64_t n,
                                         ACC mean, ACC rstd)
{
    const T *w = (const T *)p->weight + i * p->weight_step, *v = (const T *)p->bias + i * p->bias_step;
    if (p->weight_step && p->bias_step)
        NAME(normalise_run)(y, x + i, w, v, n, mean, rstd, 1, 1);
    else if (p->weight_step)
        NAME(normalise_run)(y, x + i, w, v, n, mean, rstd, 1, 0);
    else if (p->bias_step)
        NAME(normalise_run)(y, x + i, w, v, n, mean, rstd, 0, 1);
    else
        NAME(normalise_run)(y, x + i, w, v, n, mean, rstd, 0, 0);
}

/* Rows from the r-th on whose results go out by non-temporal stores: one in pieces, or some short ones that follow
 * each other as one piece. */
static inline void NAME(stream_whole)(const struct stni_norm_pass *p, char *buffer, int64_t r, int64_t rows,
                                      const ACC *mean, const ACC *rstd)
{
    const struct stni_norm_args *a = p->args;
    const int64_t cols = a->shape[a->ndim - 1], x_row = a->strides[NORM_X][0], y_row = a->strides[NORM_Y][0];
    const int64_t step = least(cols, PIECE / (int64_t)sizeof(T));
    const T *x = (const T *)a->x + r * x_row;
    for (int64_t i = 0; i < cols; i += step) {
        const int64_t n = least(cols - i, step);
        T *out = (T *)a->y + r * y_row + i, *to = stni_block_place(buffer, out);
        for (int64_t k = 0; k < rows; k++)
            NAME(normalise_piece)(p, to + k * n, x + k * x_row, i, n, mean[k], rstd[k]);
        stni_block_send(out, to, (size_t)(rows * n) * sizeof(T));
    }
}

static void NAME(whole)(const struct stni_norm_pass *p)
{
    alignas(STNI_LINE) char buffer[STNI_STREAMING_PAGE + PIECE];
    const struct stni_norm_args *a = p->args;
    const int64_t cols = a->shape[a->ndim - 1], rows = a->ndim > 1 ? a->shape[0] : 1;
    const int64_t x_row = a->strides[NORM_X][0], y_row = a->strides[NORM_Y][0];
    const int64_t fit = y_row == cols ? least(PIECE / (int64_t)sizeof(T) / cols, TOGETHER) : 1,
                  together = p->streamed && fit > 1 ? fit : 1;
    for (int64_t r = 0; r < rows; r += together) {
        const int64_t n = least(rows - r, together);
        ACC mean[TOGETHER], rstd[TOGETHER];
        for (int64_t k = 0; k < n; k++)
            NAME(take_statistics)(p, (const T *)a->x + (r + k) * x_row, r + k, cols, &mean[k], &rstd[k]);
        if (p->streamed)
            NAME(stream_whole)(p, buffer, r, n, mean, rstd);
        else
            NAME(normalise_piece)(p, (T *)a->y + r * y_row, (const T *)a->x + r * x_row, 0, cols, mean[0], rstd[0]);
    }
    if (p->streamed)
        stni_stream_fence();
}
