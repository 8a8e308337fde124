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

/* The second operand lies above or below all of the first, so that no pair ties. Both sides are taken with the
 * third. */
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
    if (is(g, "addcdiv") && draw_chance(d, 2))
        put_float(d, "value", 0.75);
    return put_input(d, t) && put_input(d, draw_partner(d, t, -9, 9)) &&
           put_input(d, draw_partner(d, t, is(g, "addcdiv") ? 0.4 : -9, 9));
}

int draw_mask(struct draft *d, int t)
{
    const struct term *term = term_of(d, t);
    for (int other = d->p->n_terms - 1; other >= 0; other--) {
        const struct term *o = term_of(d, other);
        if (o->dtype == STN_DTYPE_BOOL && o->ndim == term->ndim &&
            memcmp(o->shape, term->shape, sizeof *o->shape * (size_t)o->ndim) == 0)
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
    return t >= 0 && put_input(d, draw_mask(d, t)) && put_input(d, t) &&
           put_input(d, draw_partner(d, t, -HUGE_VAL, HUGE_VAL));
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
    put_float(d, is(g, "clamp") ? "min" : "min_val", d->facts[t].lo - 1);
    put_float(d, is(g, "clamp") ? "max" : "max_val", d->facts[t].hi - d->facts[t].gap / 2);
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

/* What jumps at whole numbers, of quotients by one half or three: the inputs are apart from multiples of a half. */
int draw_quotient(struct draft *d, const struct generator *g)
{
    put_float(d, "other", draw_chance(d, 2) ? 0.5 : -1.5);
    return put_input(d, draw_first(d, g, 0, 5));
}

int draw_logical(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    return put_input(d, t) && put_input(d, draw_mask(d, t));
}

/* Integers, or one of them and truths, of the shape of a term. */
int draw_bits(struct draft *d, const struct generator *g)
{
    enum { MOST = 100 };
    const int t = draw_first(d, g, 0, 5);
    if (t < 0)
        return 0;
    int64_t shape[STN_MAX_NDIM];
    const int ndim = term_of(d, t)->ndim;
    memcpy(shape, term_of(d, t)->shape, sizeof shape);
    if (!put_input(d, draw_leaf(d, FILL_INDEX, ndim, shape, 0, MOST)) || is(g, "bitwise_not"))
        return 1;
    return put_input(d, draw_leaf(d, draw_chance(d, 3) ? FILL_BOOL : FILL_INDEX, ndim, shape, 0, MOST));
}

int draw_threshold(struct draft *d, const struct generator *g)
{
    if (!draw_curve(d, g))
        return 0;
    put_float(d, "threshold", g->kink);
    put_float(d, "value", -1.5);
    return 1;
}

/* One weight, or one for each channel. */
int draw_prelu(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 5);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int64_t n = term->ndim > 1 && draw_chance(d, 2) ? term->shape[1] : 1;
    return put_input(d, draw_leaf(d, FILL_REAL, 1, &n, -1, 1));
}

/* To what computes no less exactly than it is compared: 16-bit floats would show how the last bit was rounded. */
int draw_cast(struct draft *d, const struct generator *g)
{
    static const char *const dtypes[] = {"f32", "c64", "bool", "i64", "f64", "c128"};
    const char *dtype = dtypes[draw_below(d, d->dtype == STN_DTYPE_F64 ? 6 : 4)];
    const int jumps = strcmp(dtype, "bool") == 0 || strcmp(dtype, "i64") == 0;
    const struct want want = {.max_ndim = STN_MAX_NDIM,
                              .lo = -9,
                              .hi = 9,
                              .has_kink = jumps ? KINK_HALVES : KINK_NONE,
                              .is_complex = !jumps && draw_chance(d, 4)};
    (void)g;
    put_text(d, "dtype", dtype);
    return put_input(d, draw_term(d, &want));
}

/* Complex numbers of two real tensors. */
int draw_complex(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 5);
    return put_input(d, t) && put_input(d, draw_partner(d, t, draw_chance(d, 2) ? 0.3 : -9, 9));
}

int draw_pairs(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 5);
    int64_t shape[STN_MAX_NDIM];
    if (t < 0)
        return 0;
    const struct term *term = term_of(d, t);
    for (int i = 0; i < term->ndim; i++)
        shape[i] = i == term->ndim - 1 ? 2 : term->shape[i];
    return put_input(d, size_at(d, t, -1) == 2 ? t : draw_leaf(d, FILL_REAL, term->ndim, shape, -2, 2));
}

/* The numbers belong to elements, not to ranks: what is dropped is the same in every layout. */
int draw_dropped(struct draft *d, const struct generator *g)
{
    put_float(d, "p", draw_chance(d, 2) ? 0.3 : 0.8);
    put_bool(d, "training", !draw_chance(d, 5));
    return put_input(d, draw_first(d, g, is(g, "dropout_channels") ? 2 : 0, 5));
}
