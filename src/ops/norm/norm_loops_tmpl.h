/* Loops over the rows of a tile: a part of norm_lanes_tmpl.h, with FORM(function) the functions' names, SIMD what
 * stands before loops without dependences, and ALONE what stands first in their bodies. */
#ifndef FORM /* read alone */
#include "ops/norm/norm_line_tmpl.h"
#define FORM(function) NAME(function)
#define SIMD _Pragma("omp simd")
#define ALONE
#endif

/* Rows whose sums are one number each: the partial sums of lanes are added pairwise, half to half. Each row is read
 * as four concurrent streams, which hardware prefetchers serve better than one. */
static inline __attribute__((always_inline)) void FORM(along)(const struct stni_norm_pass *p, const struct tile *t,
                                                              enum terms kind, struct steps s)
{
    const int64_t apart = t->cols / 4 / LANES * LANES;
    for (int64_t r = 0; r < t->rows; r++) {
        const struct NAME(line) l0 = NAME(line_at)(p, t, kind, s, r, 0), l1 = NAME(line_at)(p, t, kind, s, r, apart);
        const struct NAME(line) l2 = NAME(line_at)(p, t, kind, s, r, 2 * apart),
                                l3 = NAME(line_at)(p, t, kind, s, r, 3 * apart);
        double sum[2][LANES] = {{0}};
        int64_t i = 0, target = t->at[p->target] + r * t->row[p->target];
        for (; i < apart; i += LANES) {
            SIMD
            for (int l = 0; l < LANES; l++) {
                ALONE
                double a = sum[0][l], b = sum[1][l];
                NAME(add_terms)(l0, kind, s, i + l, &a, &b);
                NAME(add_terms)(l1, kind, s, i + l, &a, &b);
                NAME(add_terms)(l2, kind, s, i + l, &a, &b);
                NAME(add_terms)(l3, kind, s, i + l, &a, &b);
                sum[0][l] = a;
                sum[1][l] = b;
            }
        }
        for (i = 4 * apart; i + LANES <= t->cols; i += LANES)
            SIMD
            for (int l = 0; l < LANES; l++) {
                ALONE
                NAME(add_terms)(l0, kind, s, i + l, &sum[0][l], &sum[1][l]);
            }
        for (int l = 0; i + l < t->cols; l++) {
            STNI_SCALAR_LOOP
            NAME(add_terms)(l0, kind, s, i + l, &sum[0][l], &sum[1][l]);
        }
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int l = 0; l < half; l++) {
                sum[0][l] += sum[0][l + half];
                sum[1][l] += sum[1][l + half];
            }
        p->sum[0][target] += sum[0][0];
        if (kind != WEIGHTS)
            p->sum[1][target] += sum[1][0];
    }
}

/* Up to BLOCK columns of rows in which each column has the same sum of its own: four rows at a time, so that sums
 * are read and written a quarter as often. */
static inline __attribute__((always_inline)) void FORM(strip)(const struct stni_norm_pass *p, const struct tile *t,
                                                              enum terms kind, struct steps s, int64_t row,
                                                              int64_t rows, int64_t first, int64_t n)
{
    double sum[2][BLOCK];
    const int64_t target = t->at[p->target] + row * t->row[p->target] + first * s.target;
    int64_t r = row;
    for (int64_t i = 0; i < n; i++)
        sum[0][i] = sum[1][i] = 0;
    for (; r + 4 <= row + rows; r += 4) {
        const struct NAME(line) l0 = NAME(line_at)(p, t, kind, s, r, first),
                                l1 = NAME(line_at)(p, t, kind, s, r + 1, first);
        const struct NAME(line) l2 = NAME(line_at)(p, t, kind, s, r + 2, first),
                                l3 = NAME(line_at)(p, t, kind, s, r + 3, first);
        SIMD
        for (int64_t i = 0; i < n; i++) {
            ALONE
            double a = sum[0][i], b = sum[1][i];
            NAME(add_terms)(l0, kind, s, i, &a, &b);
            NAME(add_terms)(l1, kind, s, i, &a, &b);
            NAME(add_terms)(l2, kind, s, i, &a, &b);
            NAME(add_terms)(l3, kind, s, i, &a, &b);
            sum[0][i] = a;
            sum[1][i] = b;
        }
    }
    for (; r < row + rows; r++) {
        const struct NAME(line) line = NAME(line_at)(p, t, kind, s, r, first);
        SIMD
        for (int64_t i = 0; i < n; i++) {
            ALONE
            NAME(add_terms)(line, kind, s, i, &sum[0][i], &sum[1][i]);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        p->sum[0][target + i * s.target] += sum[0][i];
        if (kind != WEIGHTS)
            p->sum[1][target + i * s.target] += sum[1][i];
    }
}

static inline __attribute__((always_inline)) void FORM(across)(const struct stni_norm_pass *p, const struct tile *t,
                                                               enum terms kind, struct steps s)
{
    const int64_t step = t->row[p->target] == 0 ? t->rows : 1;
    for (int64_t r = 0; r < t->rows; r += step)
        for (int64_t i = 0; i < t->cols; i += BLOCK)
            FORM(strip)(p, t, kind, s, r, step, i, t->cols - i < BLOCK ? t->cols - i : BLOCK);
}

static inline __attribute__((always_inline)) void FORM(normalise_rows)(const struct stni_norm_pass *p,
                                                                       const struct tile *t, struct steps s)
{
    for (int64_t r = 0; r < t->rows; r++) {
        const int64_t stat = t->at[NORM_STAT] + r * t->row[NORM_STAT];
        const T *restrict x = (const T *)p->args->x + t->at[NORM_X] + r * t->row[NORM_X];
        const T *restrict w = (const T *)p->weight + t->at[NORM_WEIGHT] * p->weight_step + r * t->row[NORM_WEIGHT];
        const T *restrict v = (const T *)p->bias + t->at[NORM_PARAM] * p->bias_step + r * t->row[NORM_PARAM];
        const ACC *restrict mean = (const ACC *)p->stat[0] + stat, *restrict rstd = (const ACC *)p->stat[1] + stat;
        T *restrict y = (T *)t->to + t->at[NORM_Y] + r * t->row[NORM_Y];
        const ACC mean0 = mean[0], rstd0 = rstd[0], w0 = LOAD(w[0]), v0 = LOAD(v[0]);
        SIMD
        for (int64_t i = 0; i < t->cols; i++) {
            ALONE
            ACC z = STNI_NORM_NORMAL(LOAD(x[i * s.x]), (s.stat ? mean[i * s.stat] : mean0),
                                     (s.stat ? rstd[i * s.stat] : rstd0));
            y[i * s.y] = STORE(z * (s.weight ? LOAD(w[i * s.weight]) : w0) + (s.target ? LOAD(v[i * s.target]) : v0));
        }
    }
}

static inline __attribute__((always_inline)) void FORM(apply_rows)(const struct stni_norm_pass *p, const struct tile *t,
                                                                   struct steps s)
{
    for (int64_t r = 0; r < t->rows; r++) {
        const int64_t stat = t->at[NORM_STAT] + r * t->row[NORM_STAT];
        const T *restrict x = (const T *)p->args->x + t->at[NORM_X] + r * t->row[NORM_X];
        const T *restrict y = (const T *)p->args->y + t->at[NORM_Y] + r * t->row[NORM_Y];
        const T *restrict w = (const T *)p->weight + t->at[NORM_WEIGHT] * p->weight_step + r * t->row[NORM_WEIGHT];
        const ACC *restrict mean = (const ACC *)p->stat[0] + stat, *restrict rstd = (const ACC *)p->stat[1] + stat;
        const ACC *restrict mean_gradient = (const ACC *)p->stat[2] + stat;
        const ACC *restrict variance_gradient = (const ACC *)p->stat[3] + stat;
        T *restrict out = (T *)t->to + t->at[NORM_OUT] + r * t->row[NORM_OUT];
        SIMD
        for (int64_t i = 0; i < t->cols; i++) {
            ALONE
            out[i * s.target] =
                STORE(STNI_NORM_GRADIENT((LOAD(w[i * s.weight]) * LOAD(y[i * s.y])), LOAD(x[i * s.x]), mean[i * s.stat],
                                         rstd[i * s.stat], mean_gradient[i * s.stat], variance_gradient[i * s.stat]));
        }
    }
}
