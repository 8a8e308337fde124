/* Ops that look up and scatter by indices. */
#include "generators.h"

#include <string.h>

int draw_embedding(struct draft *d, const struct generator *g)
{
    (void)g;
    const struct want want = {2, 2, -HUGE_VAL, HUGE_VAL, 0, 0, 0, 1, 0, 0};
    const int64_t shape[] = {draw_between(d, 1, 6), draw_between(d, 1, 3)};
    const int table = draw_term(d, &want);
    return table >= 0 &&
           put_input(d,
                     draw_leaf(d, FILL_INDEX, draw_between(d, 1, 2), shape, 0, (double)term_of(d, table)->shape[0])) &&
           put_input(d, table);
}

int draw_looked_up(struct draft *d, const struct generator *g)
{
    const struct want want = {1, 4, -HUGE_VAL, HUGE_VAL, 0, 0, 0, 1, 0, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int dim = draw_below(d, term->ndim);
    int64_t shape[STN_MAX_NDIM];
    put_int(d, "dim", dim);
    for (int i = 0; i < term->ndim; i++)
        shape[i] = i == dim ? draw_between(d, 1, 5) : term->shape[i] - (is(g, "gather") && term->shape[i] > 1 && draw_chance(d, 4));
    return put_input(d, !is(g, "index_select") ? draw_leaf(d, FILL_INDEX, term->ndim, shape, 0, (double)term->shape[dim])
                                        : draw_leaf(d, FILL_INDEX, 1, &shape[dim], 0, (double)term->shape[dim]));
}

int draw_scattered(struct draft *d, const struct generator *g)
{
    const struct want want = {1, 4, g->lo, g->hi, 0, 0, 0, 1, 0, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int dim = draw_below(d, term->ndim), index_ndim = strncmp(g->op, "scatter", 7) == 0 ? term->ndim : 1;
    int64_t shape[STN_MAX_NDIM];
    put_int(d, "dim", dim);
    for (int i = 0; i < term->ndim; i++)
        shape[i] = i == dim ? draw_between(d, 1, 5) : term->shape[i];
    return put_input(d, draw_leaf(d, FILL_INDEX, index_ndim, index_ndim == 1 ? &shape[dim] : shape, 0, (double)term->shape[dim])) &&
           put_input(d, draw_leaf(d, FILL_REAL, term->ndim, shape, -2, 2));
}

int draw_filled(struct draft *d, const struct generator *g)
{
    const struct want want = {1, 4, -HUGE_VAL, HUGE_VAL, 0, 0, 0, 1, 0, 0};
    const int t = draw_term(d, &want);
    (void)g;
    if (!put_input(d, t))
        return 0;
    const int dim = draw_below(d, term_of(d, t)->ndim);
    const int64_t n = draw_between(d, 1, 4);
    put_int(d, "dim", dim);
    put_float(d, "value", -0.25);
    return put_input(d, draw_leaf(d, FILL_INDEX, 1, &n, 0, (double)term_of(d, t)->shape[dim]));
}

int draw_repeated(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 4);
    if (!put_input(d, t))
        return 0;
    put_int(d, "repeats", draw_between(d, 1, 3));
    if (draw_below(d, 3) > 0)
        put_int(d, "dim", draw_dim(d, t));
    return 1;
}
