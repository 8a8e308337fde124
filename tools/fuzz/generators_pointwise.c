/* Pointwise ops, and what works along dims. */
#include "generators.h"

#include <string.h>

static int is(const struct generator *g, const char *op)
{
    return strcmp(g->op, op) == 0;
}

/* A dim by its number or its number from the end; of a tensor without dims 0. */
static int64_t draw_dim(struct draft *d, int t)
{
    const int ndim = term_of(d, t)->ndim;
    return ndim == 0 ? 0 : draw_below(d, 2 * ndim) - ndim;
}

static int64_t size_at(const struct draft *d, int t, int64_t dim)
{
    const struct term *term = term_of(d, t);
    return term->ndim == 0 ? 1 : term->shape[dim < 0 ? dim + term->ndim : dim];
}

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

/* Along dims */

static int put_dims(struct draft *d, int t, int at_least_one)
{
    const int ndim = term_of(d, t)->ndim;
    int64_t dims[STN_MAX_NDIM];
    int n = 0;
    for (int i = 0; i < ndim; i++)
        if (draw_chance(d, 2))
            dims[n++] = draw_chance(d, 2) ? i : i - ndim;
    if (n == 0 && at_least_one) {
        if (ndim == 0)
            return 0;
        dims[n++] = draw_below(d, ndim);
    }
    if (n > 0)
        put_ints(d, is(&(struct generator){.op = d->step->op}, "flip") ? "dims" : "dim", n, dims);
    return 1;
}

int draw_dims(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, STN_MAX_NDIM);
    return put_input(d, t) && put_dims(d, t, 1);
}

int draw_reduced(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, STN_MAX_NDIM);
    if (!put_input(d, t) || (term_numel(term_of(d, t)) == 0 && !is(g, "sum")))
        return 0;
    if (draw_chance(d, 2))
        put_bool(d, "keepdim", 1);
    return put_dims(d, t, d->step->n_attrs > 0 || is(g, "logsumexp"));
}

int draw_reduced_one(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    put_int(d, "dim", draw_dim(d, t));
    if (draw_chance(d, 2))
        put_bool(d, "keepdim", 1);
    return 1;
}

/* Over dims of two elements or more that differ by enough: the deviation's slope is its inverse. */
int draw_spread(struct draft *d, const struct generator *g)
{
    const struct want want = {1, STN_MAX_NDIM, -HUGE_VAL, HUGE_VAL, 0, 0, 1, 2, 0};
    const int t = draw_term(d, &want);
    (void)g;
    if (!put_input(d, t) || d->facts[t].gap < 1e-3)
        return 0;
    if (draw_chance(d, 3))
        put_float(d, "correction", 0);
    return put_dims(d, t, 1);
}

int draw_along(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const int64_t dim = draw_dim(d, t);
    put_int(d, "dim", dim);
    return !is(g, "glu") || size_at(d, t, dim) % 2 == 0;
}

/* Normalisations and losses */

int draw_layer_norm(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int n = draw_between(d, 1, term->ndim > 2 ? 2 : term->ndim), weights = draw_below(d, is(g, "layer_norm") ? 3 : 2);
    const int64_t *shape = term->shape + term->ndim - n;
    put_ints(d, "normalized_shape", n, shape);
    put_float(d, "eps", 0.1);
    for (int i = 0; i < weights; i++)
        if (!put_input(d, draw_leaf(d, FILL_REAL, n, shape, 0.5, 2)))
            return 0;
    return 1;
}

int draw_group_norm(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 2, 5);
    if (!put_input(d, t))
        return 0;
    const int64_t channels = term_of(d, t)->shape[1];
    int64_t groups = channels > 0 ? 1 + rng_below(&d->rng, channels) : 1;
    while (channels % groups != 0)
        groups--;
    put_int(d, "num_groups", groups);
    put_float(d, "eps", 0.1);
    for (int i = draw_below(d, 3); i > 0; i--)
        if (!put_input(d, draw_leaf(d, FILL_REAL, 1, &channels, 0.5, 2)))
            return 0;
    return 1;
}

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

/* Products */

int draw_linear(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 5);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int64_t weight[] = {draw_between(d, 1, 5), term->shape[term->ndim - 1]};
    return put_input(d, draw_leaf(d, FILL_REAL, 2, weight, -1, 1)) && (draw_chance(d, 2) || put_input(d, draw_leaf(d, FILL_REAL, 1, weight, -1, 1)));
}

int draw_matmul(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 4);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    int64_t shape[STN_MAX_NDIM];
    const int n = draw_between(d, 1, term->ndim > 2 ? term->ndim : 2);
    for (int i = 0; i + 2 < n; i++) /* dims of the batch, counted from the last */
        shape[n - 3 - i] = draw_chance(d, 3) ? 1 : term->shape[term->ndim - 3 - i];
    shape[n > 1 ? n - 2 : 0] = term->shape[term->ndim - 1];
    if (n > 1)
        shape[n - 1] = draw_between(d, 1, 5);
    return put_input(d, draw_leaf(d, FILL_REAL, n, shape, -1, 1));
}

/* Lookups */

int draw_embedding(struct draft *d, const struct generator *g)
{
    (void)g;
    const struct want want = {2, 2, -HUGE_VAL, HUGE_VAL, 0, 0, 0, 1, 0};
    const int64_t shape[] = {draw_between(d, 1, 6), draw_between(d, 1, 3)};
    const int table = draw_term(d, &want);
    return table >= 0 && put_input(d, draw_leaf(d, FILL_INDEX, draw_between(d, 1, 2), shape, 0, (double)term_of(d, table)->shape[0])) && put_input(d, table);
}

int draw_looked_up(struct draft *d, const struct generator *g)
{
    const struct want want = {1, 4, -HUGE_VAL, HUGE_VAL, 0, 0, 0, 1, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int dim = draw_below(d, term->ndim);
    int64_t shape[STN_MAX_NDIM];
    put_int(d, "dim", dim);
    for (int i = 0; i < term->ndim; i++)
        shape[i] = i == dim ? draw_between(d, 1, 5) : term->shape[i] - (term->shape[i] > 1 && draw_chance(d, 4));
    return put_input(d, is(g, "gather") ? draw_leaf(d, FILL_INDEX, term->ndim, shape, 0, (double)term->shape[dim])
                                        : draw_leaf(d, FILL_INDEX, 1, &shape[dim], 0, (double)term->shape[dim]));
}

int draw_scattered(struct draft *d, const struct generator *g)
{
    const struct want want = {1, 4, g->lo, g->hi, 0, 0, 0, 1, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int dim = draw_below(d, term->ndim), index_ndim = is(g, "scatter_add") ? term->ndim : 1;
    int64_t shape[STN_MAX_NDIM];
    put_int(d, "dim", dim);
    for (int i = 0; i < term->ndim; i++)
        shape[i] = i == dim ? draw_between(d, 1, 5) : term->shape[i];
    return put_input(d, draw_leaf(d, FILL_INDEX, index_ndim, index_ndim == 1 ? &shape[dim] : shape, 0, (double)term->shape[dim])) &&
           put_input(d, draw_leaf(d, FILL_REAL, term->ndim, shape, -2, 2));
}
