/* What works along dims: reductions, scans, orders, normalisations. */
#include "generators.h"

int put_dims(struct draft *d, int t, int at_least_one)
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
        put_ints(d, strcmp(d->step->op, "flip") == 0 ? "dims" : "dim", n, dims);
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

int draw_counted(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, STN_MAX_NDIM);
    return put_input(d, t) && put_dims(d, t, 0);
}

/* Bins whose edges are multiples of a half, and numbers beyond the last ones. */
int draw_histogram(struct draft *d, const struct generator *g)
{
    put_int(d, "bins", draw_chance(d, 2) ? 4 : 2);
    put_float(d, "min", -1);
    put_float(d, "max", 1);
    return put_input(d, draw_first(d, g, 0, 5));
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
    const struct want want = {1, STN_MAX_NDIM, -HUGE_VAL, HUGE_VAL, 0, 0, 1, 2, 0, 0};
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

/* Normalisations */

int draw_layer_norm(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int n = draw_between(d, 1, term->ndim > 2 ? 2 : term->ndim),
              weights = draw_below(d, is(g, "layer_norm") ? 3 : 2);
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

/* By the statistics of what is there, which are to be of two elements at least. */
int draw_channel_norm(struct draft *d, const struct generator *g)
{
    const int of_batch = is(g, "batch_norm");
    const struct want want = {of_batch ? 2 : 3, 5, -HUGE_VAL, HUGE_VAL, 0, 0, 0, 2, 0, 0};
    const int t = draw_term(d, &want), weights = draw_below(d, 3);
    if (!put_input(d, t))
        return 0;
    d->step->inputs[d->step->n_inputs++] = -1;
    d->step->inputs[d->step->n_inputs++] = -1;
    if (of_batch)
        put_bool(d, "training", 1);
    put_float(d, "eps", 0.1);
    for (int i = 0; i < weights; i++)
        if (!put_input(d, draw_leaf(d, FILL_REAL, 1, &term_of(d, t)->shape[1], 0.5, 2)))
            return 0;
    return 1;
}

/* The k first, or the kth, of a dim. */
int draw_ordered(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 5);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const int64_t dim = draw_dim(d, t);
    put_int(d, "dim", dim);
    if (is(g, "topk") || is(g, "kthvalue"))
        put_int(d, "k", 1 + rng_below(&d->rng, size_at(d, t, dim)));
    if (is(g, "quantile"))
        put_float(d, "q", (double)rng_below(&d->rng, 9) / 8);
    if (is(g, "topk") && draw_chance(d, 2))
        put_bool(d, "largest", 0);
    if (is(g, "sort") && draw_chance(d, 2))
        put_bool(d, "descending", 1);
    return 1;
}
