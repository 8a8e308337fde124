/* Losses. */
#include "generators.h"

int draw_loss(struct draft *d, const struct generator *g)
{
    static const char *const reductions[] = {"none", "sum", "mean"};
    const int t = draw_first(d, g, 0, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const struct term *term = term_of(d, t);
    put_text(d, "reduction", reductions[draw_below(d, 3)]);
    return put_input(d, draw_leaf(d, FILL_REAL, term->ndim, term->shape, fmax(g->lo, -2), fmin(g->hi, 2)));
}

/* Losses with a kink, or a pole, at the target: it lies well above the input. */
int draw_loss_apart(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const struct term *term = term_of(d, t);
    return put_input(d, draw_leaf(d, FILL_REAL, term->ndim, term->shape, d->facts[t].hi + 1.5, d->facts[t].hi + 3));
}

/* The target is a probability, and no gradient reaches it. */
int draw_loss_of_probability(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const struct term *term = term_of(d, t);
    const int target = draw_leaf(d, FILL_REAL, term->ndim, term->shape, 0.05, 0.95);
    if (target >= 0)
        d->p->terms[target].requires_grad = 0;
    return put_input(d, target);
}

/* Classes stand in dim 1. */
int draw_classes(struct draft *d, const struct generator *g)
{
    const struct want want = {2, 4, g->lo == g->hi ? -HUGE_VAL : g->lo, g->lo == g->hi ? HUGE_VAL : g->hi, 0, 0, 0, 1,
                              0, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    int64_t shape[STN_MAX_NDIM] = {term->shape[0]};
    for (int i = 2; i < term->ndim; i++)
        shape[i - 1] = term->shape[i];
    return put_input(d, draw_leaf(d, FILL_INDEX, term->ndim - 1, shape, 0, (double)term->shape[1]));
}

static void put_reduction(struct draft *d)
{
    static const char *const reductions[] = {"none", "sum", "mean"};
    put_text(d, "reduction", reductions[draw_below(d, 3)]);
}

/* The variance is that of each element, or one for each line. */
int draw_gaussian(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const struct term *term = term_of(d, t);
    int64_t shape[STN_MAX_NDIM];
    const int lines = draw_chance(d, 3), ndim = term->ndim - (lines && draw_chance(d, 2));
    for (int i = 0; i < ndim; i++)
        shape[i] = lines && i == term->ndim - 1 ? 1 : term->shape[i];
    put_reduction(d);
    put_bool(d, "full", draw_below(d, 2));
    return put_input(d, draw_leaf(d, FILL_REAL, term->ndim, term->shape, -2, 2)) &&
           put_input(d, draw_leaf(d, FILL_REAL, ndim, shape, 0.4, 2));
}

/* The target is -1 or 1. */
int draw_signed(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    put_reduction(d);
    return put_input(d, draw_leaf(d, FILL_SIGN, term_of(d, t)->ndim, term_of(d, t)->shape, -1, 1));
}

/* Counts are all above 1, or all below: Stirling's approximation begins there. */
int draw_poisson(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5), many = draw_below(d, 2);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    put_reduction(d);
    put_bool(d, "full", draw_below(d, 2));
    put_bool(d, "log_input", d->facts[t].lo < 0.2 || draw_chance(d, 2));
    const struct term *term = term_of(d, t);
    return put_input(d, draw_leaf(d, FILL_REAL, term->ndim, term->shape, many ? 1.2 : 0.1, many ? 3 : 0.8));
}

/* Leaves stand on two sides of the anchor, at distances that no margin joins. */
int draw_triplet(struct draft *d, const struct generator *g)
{
    static const double orders[] = {1, 2, 3};
    const int t = draw_first(d, g, 1, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const struct term *term = term_of(d, t);
    const double above = d->facts[t].hi, below = d->facts[t].lo;
    put_reduction(d);
    put_float(d, "p", orders[draw_below(d, 3)]);
    put_float(d, "margin", 0.37);
    put_bool(d, "swap", draw_below(d, 2));
    return put_input(d, draw_leaf(d, FILL_REAL, term->ndim, term->shape, above + 0.5, above + 2)) &&
           put_input(d, draw_leaf(d, FILL_REAL, term->ndim, term->shape, below - 2, below - 0.5));
}
