/* What leads from one dtype's workspace to sums without a table (legendre_direct.h), and back. A part of
 * legendre_tmpl.h. */
#ifndef NAME /* read alone */
#include "ops/sht/legendre_table_tmpl.h"
#endif

/* What the functions of order m hold of degree l is here times that of degree l, or above and below times its
 * neighbours: cos P(l) = e(l + 1) P(l + 1) + e(l) P(l - 1). */
struct NAME(degree) {
    double here, above, below;
};

static int NAME(has_neighbours)(const struct NAME(work) *w)
{
    return w->args->of.part == STNI_LEGENDRE_MERIDIONAL && w->m > 0;
}

STNI_KERNEL_INLINE struct NAME(degree) NAME(degree_of)(const struct NAME(work) *w, int64_t l)
{
    const struct stni_legendre_function *of = &w->args->of;
    if (stni_legendre_is_bare(of))
        return (struct NAME(degree)){1, 0, 0};
    const struct stni_legendre_row row = stni_legendre_row_of(of, l, w->m);
    const double *e = w->direct.e + l - w->functions.order;
    if (NAME(has_neighbours)(w))
        return (struct NAME(degree)){0, row.here * e[1], row.here * e[0] + row.below};
    return (struct NAME(degree)){row.here, 0, 0};
}

/* Columns as f64, and what is left of them where functions are made of squares: odd ones have the cosine, meridional
 * ones of order 0 the sine. */
static double NAME(factor)(const struct NAME(work) *w, int64_t k, int odd)
{
    const struct functions *f = &w->functions;
    const double factor = odd ? f->cosine[k] : 1;
    return w->args->of.part == STNI_LEGENDRE_MERIDIONAL && w->m == 0 ? factor * f->sine[k] : factor;
}

static void NAME(widen_columns)(const struct NAME(work) *w, int64_t f, int64_t o)
{
    for (int part = 0; part < PARTS; part++) {
        const ACC *restrict in = NAME(column)(w, f, o, part / 2) + part % 2 * w->column;
        double *restrict out = w->direct.columns + part * w->pitch;
        for (int64_t k = 0; k < w->pitch; k++)
            out[k] = NAME(factor)(w, k, part / 2) * (double)in[k];
    }
}

static void NAME(narrow_columns)(const struct NAME(work) *w, int64_t f, int64_t o)
{
    for (int part = 0; part < PARTS; part++) {
        const double *restrict in = w->direct.columns + part * w->pitch;
        ACC *restrict out = NAME(column)(w, f, o, part / 2) + part % 2 * w->column;
        for (int64_t k = 0; k < w->pitch; k++)
            out[k] = (ACC)(NAME(factor)(w, k, part / 2) * in[k]);
    }
}

static ACC *NAME(pair)(const struct NAME(work) *w, int64_t f, int64_t o, int64_t l)
{
    return NAME(pairs)(w, f, o, stni_legendre_is_odd(&w->args->of, l, w->m)) + (l - w->m) / 2 * 2;
}

/* Coefficients of what is asked for become those of functions of consecutive degrees. */
static void NAME(spread_pairs)(const struct NAME(work) *w, int64_t f, int64_t o)
{
    const int64_t order = w->functions.order;
    const int has_neighbours = NAME(has_neighbours)(w);
    memset(w->direct.of_degree - 4, 0, (size_t)(4 * w->direct.n + 8) * sizeof(double));
    for (int64_t l = order; l < w->args->lmax; l++) {
        const struct NAME(degree) degree = NAME(degree_of)(w, l);
        const ACC *pair = NAME(pair)(w, f, o, l);
        double *at = w->direct.of_degree + 2 * (l - order);
        for (int part = 0; part < 2; part++)
            if (has_neighbours) {
                at[part - 2] += degree.below * (double)pair[part];
                at[part + 2] += degree.above * (double)pair[part];
            } else {
                at[part] = degree.here * (double)pair[part];
            }
    }
}

static void NAME(gather_pairs)(const struct NAME(work) *w, int64_t f, int64_t o)
{
    const int64_t order = w->functions.order;
    for (int64_t l = w->m; l < order && l < w->args->lmax; l++)
        memset(NAME(pair)(w, f, o, l), 0, 2 * sizeof(ACC));
    for (int64_t l = order; l < w->args->lmax; l++) {
        const struct NAME(degree) degree = NAME(degree_of)(w, l);
        ACC *pair = NAME(pair)(w, f, o, l);
        const double *at = w->direct.of_degree + 2 * (l - order);
        for (int part = 0; part < 2; part++)
            pair[part] = (ACC)(degree.below * at[part - 2] + degree.here * at[part] + degree.above * at[part + 2]);
    }
}

/* The sums of one order, field after field. */
static void NAME(run_direct)(struct NAME(work) *w, int64_t o, int is_analysis)
{
    const int64_t degrees = w->args->lmax + NAME(has_neighbours)(w) - w->functions.order;
    make_steps(&w->direct, degrees > 0 ? (degrees + 1) / 2 : 0);
    for (int64_t f = 0; f < w->fields; f++)
        if (is_analysis) {
            NAME(widen_columns)(w, f, o);
            direct_analysis(&w->direct);
            direct_part(&w->direct);
            NAME(gather_pairs)(w, f, o);
        } else {
            NAME(spread_pairs)(w, f, o);
            direct_join(&w->direct);
            direct_synthesis(&w->direct);
            NAME(narrow_columns)(w, f, o);
        }
}
