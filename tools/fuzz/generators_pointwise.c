/* Pointwise ops, and what works along dims. */
#include "generators.h"

#include <string.h>

int draw_curve(struct draft *d, const struct generator *g)
{
    return put_input(d, draw_first(d, g, 0, STN_MAX_NDIM));
}

int draw_binary(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    return put_input(d, t) && put_input(d, draw_partner(d, t, g->lo, g->hi));
}

int draw_scaled(struct draft *d, const struct generator *g)
{
    if (!draw_binary(d, g))
        return 0;
    if (draw_chance(d, 3))
        put_float(d, "alpha", -1.5);
    return 1;
}

int draw_divided(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    return put_input(d, t) && put_input(d, draw_partner(d, t, 0.4, 50));
}

/* The second operand lies above or below all of the first, so that no pair ties. Both sides are taken with the third. */
int draw_apart(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const double edge = draw_chance(d, 2) ? d->facts[t].hi + 0.5 : d->facts[t].lo - 2.5;
    return put_input(d, draw_leaf(d, FILL_REAL, term->ndim, term->shape, edge, edge + 2));
}

int draw_three(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    return put_input(d, t) && put_input(d, draw_partner(d, t, -9, 9)) && put_input(d, draw_partner(d, t, -9, 9));
}

static int draw_mask(struct draft *d, int t)
{
    const struct term *term = term_of(d, t);
    for (int other = d->p->n_terms - 1; other >= 0; other--) {
        const struct term *o = term_of(d, other);
        if (o->dtype == STN_DTYPE_BOOL && o->ndim == term->ndim && memcmp(o->shape, term->shape, sizeof *o->shape * (size_t)o->ndim) == 0)
            return other;
    }
    int64_t shape[STN_MAX_NDIM];
    for (int i = 0; i < term->ndim; i++)
        shape[i] = draw_chance(d, 4) ? 1 : term->shape[i];
    return draw_leaf(d, FILL_BOOL, term->ndim, shape, 0, 1);
}

int draw_where(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    return t >= 0 && put_input(d, draw_mask(d, t)) && put_input(d, t) && put_input(d, draw_partner(d, t, -HUGE_VAL, HUGE_VAL));
}

int draw_masked(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    put_float(d, "value", 0.75);
    return put_input(d, t) && put_input(d, draw_mask(d, t));
}

/* The bounds lie beyond what is there but for one side: between two elements, of which all are apart. */
int draw_clamp(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    if (!put_input(d, t))
        return 0;
    put_float(d, "min", d->facts[t].lo - 1);
    put_float(d, "max", d->facts[t].hi - d->facts[t].gap / 2);
    return d->facts[t].gap < 1e9;
}

int draw_compared(struct draft *d, const struct generator *g)
{
    put_float(d, "other", g->kink);
    return put_input(d, draw_first(d, g, 0, 5));
}

int draw_power(struct draft *d, const struct generator *g)
{
    static const double exponents[] = {2, -1, 0.5, 1.75};
    put_float(d, "exponent", exponents[draw_below(d, 4)]);
    return put_input(d, draw_first(d, g, 0, 5));
}
