/* A row of one element type, and what its elements add to sums: a template of core/box/each_float.h. */
#ifndef NAME /* read alone */
#include "ops/norm/norm_moments_tmpl.h"
#endif

/* One row from column i on. */
struct NAME(line) {
    const T *x, *y, *w;
    const ACC *mean, *rstd;
    const double *shift;
};

static inline struct NAME(line) NAME(line_at)(const struct stni_norm_pass *p, const struct tile *t, enum terms kind,
                                              struct steps s, int64_t r, int64_t i)
{
    const int64_t stat = t->at[NORM_STAT] + r * t->row[NORM_STAT] + i * s.stat;
    struct NAME(line) line = {
        .x = (const T *)p->args->x + t->at[NORM_X] + r * t->row[NORM_X] + i * s.x,
        .w = (const T *)p->weight + t->at[NORM_WEIGHT] * p->weight_step + r * t->row[NORM_WEIGHT] + i * s.weight,
    };
    if (kind == SUMS) {
        line.y = (const T *)p->args->y + t->at[NORM_Y] + r * t->row[NORM_Y] + i * s.y;
        line.mean = (const ACC *)p->stat[0] + stat;
        line.rstd = (const ACC *)p->stat[1] + stat;
    } else {
        line.shift = (const double *)p->stat[0] + stat;
    }
    return line;
}

/* The two terms of an element: the first is added to *a, the second to *b. */
static inline __attribute__((always_inline)) void NAME(add_terms)(const struct NAME(line) line, enum terms kind,
                                                                  struct steps s, int64_t i, double *a, double *b)
{
    if (kind == SUMS) {
        ACC g = LOAD(line.w[i * s.weight]) * LOAD(line.y[i * s.y]);
        *a += (double)g;
        *b += (double)(g * STNI_NORM_NORMAL(LOAD(line.x[i * s.x]), line.mean[i * s.stat], line.rstd[i * s.stat]));
    } else if (kind == WEIGHTS) {
        *a += (double)LOAD(line.w[i * s.weight]);
    } else {
        double z = (double)LOAD(line.x[i * s.x]) - line.shift[i * s.stat];
        double w = kind == WEIGHTED ? (double)LOAD(line.w[i * s.weight]) : 1;
        *a += kind == WEIGHTED ? w * z : z;
        *b += kind == WEIGHTED ? w * z * z : z * z;
    }
}
