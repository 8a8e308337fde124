/* Weighted statistics, and scores of forecasts. */
#include "generators.h"

/* A leaf that broadcasts to a term. */
static int draw_field(struct draft *d, int t, double lo, double hi)
{
    const struct term *term = term_of(d, t);
    int64_t shape[STN_MAX_NDIM];
    for (int i = 0; i < term->ndim; i++)
        shape[i] = draw_chance(d, 4) ? 1 : term->shape[i];
    return draw_leaf(d, FILL_REAL, term->ndim, shape, lo, hi);
}

static int draw_weights(struct draft *d, int t)
{
    return draw_field(d, t, 0.3, 2);
}

int draw_weighted(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0 || !put_input(d, draw_weights(d, t)))
        return 0;
    if (draw_chance(d, 2))
        put_bool(d, "keepdim", 1);
    return put_dims(d, t, 1);
}

/* The target lies well above the input: no error is 0. */
int draw_error(struct draft *d, const struct generator *g)
{
    static const double orders[] = {1, 1.5, 2, 3};
    const int t = draw_first(d, g, 1, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    if (!put_input(d, draw_field(d, t, d->facts[t].hi + 1.5, d->facts[t].hi + 3)))
        return 0;
    if (draw_chance(d, 2) && !put_input(d, draw_weights(d, t)))
        return 0;
    if (is(g, "lp_loss")) {
        put_float(d, "p", orders[draw_below(d, 4)]);
        put_bool(d, "relative", draw_below(d, 2));
    }
    if (draw_chance(d, 2))
        put_bool(d, "keepdim", 1);
    return put_dims(d, t, 1);
}

/* Anomalies of one sign, so that none is 0. */
int draw_correlation(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const int climatology = draw_below(d, 3), weight = climatology > 0 && draw_chance(d, 2);
    return put_input(d, draw_field(d, t, 0.4, 2)) && (climatology == 0 || put_input(d, draw_field(d, t, -2, -0.5))) &&
           (!weight || put_input(d, draw_weights(d, t))) && put_dims(d, t, 1);
}

/* Members that differ by enough, and a target that is none of them. */
int draw_ensemble(struct draft *d, const struct generator *g)
{
    const int least = is(g, "energy_score") ? 2 : 1;
    const struct want want = {.min_ndim = least, .max_ndim = 4, .lo = -9, .hi = 9, .distinct = 1, .min_size = 2};
    const int t = draw_term(d, &want);
    if (!put_input(d, t) || d->facts[t].gap < 1e-3)
        return 0;
    const struct term *term = term_of(d, t);
    const int dim = draw_below(d, term->ndim);
    int64_t shape[STN_MAX_NDIM];
    for (int i = 0; i + 1 < term->ndim; i++)
        shape[i] = term->shape[i + (i >= dim)];
    put_int(d, "dim", dim);
    put_bool(d, "fair", draw_below(d, 2));
    return put_input(d, draw_leaf(d, FILL_REAL, term->ndim - 1, shape, d->facts[t].hi + 1.5, d->facts[t].hi + 3));
}
