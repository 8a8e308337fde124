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
        shape[i] = i == dim ? draw_between(d, 1, 5)
                            : term->shape[i] - (is(g, "gather") && term->shape[i] > 1 && draw_chance(d, 4));
    return put_input(d, !is(g, "index_select")
                            ? draw_leaf(d, FILL_INDEX, term->ndim, shape, 0, (double)term->shape[dim])
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
    return put_input(d, draw_leaf(d, FILL_INDEX, index_ndim, index_ndim == 1 ? &shape[dim] : shape, 0,
                                  (double)term->shape[dim])) &&
           put_input(d, draw_leaf(d, FILL_REAL, term->ndim, shape, -2, 2));
}

/* Numbers that scatter, with others than a sum. Products stay small; of several that are joined none is another. */
int draw_scatter_reduced(struct draft *d, const struct generator *g)
{
    static const char *const reductions[] = {"sum", "mean", "prod", "amax", "amin"};
    const int r = draw_below(d, 5), is_product = r == 2, is_order = r > 2;
    const struct want want = {.min_ndim = 1,
                              .max_ndim = 4,
                              .lo = is_product ? 0.5 : -9,
                              .hi = is_product ? 1.5 : 9,
                              .distinct = is_order,
                              .min_size = 1};
    const int t = draw_term(d, &want);
    (void)g;
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int dim = draw_below(d, term->ndim);
    int64_t shape[STN_MAX_NDIM];
    put_int(d, "dim", dim);
    put_text(d, "reduce", reductions[r]);
    put_bool(d, "include_self", draw_below(d, 2));
    for (int i = 0; i < term->ndim; i++)
        shape[i] = i == dim ? draw_between(d, 1, 5) : term->shape[i];
    return put_input(d, draw_leaf(d, FILL_INDEX, term->ndim, shape, 0, (double)term->shape[dim])) &&
           put_input(d, draw_leaf(d, FILL_REAL, term->ndim, shape, is_product ? 0.5 : -2, is_product ? 1.5 : 2));
}

/* Indices for the first dims, one after the other, of which some are one for all. */
int draw_put(struct draft *d, const struct generator *g)
{
    const struct want want = {.min_ndim = 1, .max_ndim = 4, .lo = -9, .hi = 9, .min_size = 1};
    const int t = draw_term(d, &want);
    (void)g;
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int n = draw_between(d, 1, term->ndim < 3 ? term->ndim : 3);
    const int64_t points = draw_between(d, 1, 5), one = 1;
    int64_t shape[STN_MAX_NDIM] = {points};
    for (int i = n; i < term->ndim; i++)
        shape[1 + i - n] = term->shape[i];
    put_bool(d, "accumulate", draw_below(d, 2));
    if (!put_input(d, draw_leaf(d, FILL_REAL, 1 + term->ndim - n, shape, -2, 2)))
        return 0;
    for (int i = 0; i < n; i++) {
        const int64_t *shape_of_index = i > 0 && draw_chance(d, 4) ? &one : &points;
        if (!put_input(d, draw_leaf(d, FILL_INDEX, 1, shape_of_index, 0, (double)term->shape[i])))
            return 0;
    }
    return 1;
}

/* One index of integers, or two, or a mask of the first dims. */
int draw_indexed(struct draft *d, const struct generator *g)
{
    const struct want want = {.min_ndim = 1, .max_ndim = 4, .lo = -HUGE_VAL, .hi = HUGE_VAL, .min_size = 1};
    const int t = draw_term(d, &want);
    (void)g;
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int n = draw_between(d, 1, term->ndim < 2 ? term->ndim : 2);
    const int64_t shape[] = {draw_between(d, 1, 3), draw_between(d, 1, 5)};
    if (draw_chance(d, 3))
        return put_input(d, draw_leaf(d, FILL_BOOL, n, term->shape, 0, 1));
    for (int i = 0; i < n; i++) {
        const int wide = draw_chance(d, 2); /* the other one is repeated for it */
        if (!put_input(d, draw_leaf(d, FILL_INDEX, 1 + wide, wide ? shape : shape + 1, 0, (double)term->shape[i])))
            return 0;
    }
    return 1;
}

/* Elements that a mask names, and what replaces them. */
int draw_named(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 0, 4);
    if (!put_input(d, t) || !put_input(d, draw_mask(d, t)))
        return 0;
    if (!is(g, "masked_scatter"))
        return 1;
    int64_t numel = 1;
    for (int i = 0; i < term_of(d, t)->ndim; i++)
        numel *= term_of(d, t)->shape[i];
    return put_input(d, draw_leaf(d, FILL_REAL, 1, &numel, -2, 2));
}

/* Whole numbers, of which many are alike or 0: those of others are a matter of rounding. */
int draw_alike(struct draft *d, const struct generator *g)
{
    const int64_t shape[] = {draw_between(d, 1, 5), draw_between(d, 1, 4), draw_between(d, 1, 3)};
    if (strncmp(g->op, "unique", 6) == 0) {
        put_bool(d, "return_inverse", draw_below(d, 2));
        put_bool(d, "return_counts", draw_below(d, 2));
    }
    return put_input(d, draw_leaf(d, FILL_INDEX, draw_between(d, 0, 3), shape, 0, 4));
}

int draw_one_hot(struct draft *d, const struct generator *g)
{
    const int64_t shape[] = {draw_between(d, 1, 6), draw_between(d, 1, 4)}, classes = draw_between(d, 1, 5);
    (void)g;
    put_int(d, "num_classes", draw_chance(d, 4) ? -1 : classes);
    return put_input(d, draw_leaf(d, FILL_INDEX, draw_between(d, 0, 2), shape, 0, (double)classes));
}

static void put_side(struct draft *d)
{
    if (draw_chance(d, 2))
        put_bool(d, "right", 1);
}

/* Boundaries are multiples of a half, the numbers none of these. */
int draw_bucketized(struct draft *d, const struct generator *g)
{
    const int64_t n = draw_between(d, 1, 9);
    put_side(d);
    return put_input(d, draw_first(d, g, 0, 5)) && put_input(d, draw_leaf(d, FILL_RISING, 1, &n, -2, 3));
}

/* As there, with boundaries of its own for each line, or the same for all. */
int draw_searched(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 4);
    if (t < 0)
        return 0;
    const struct term *term = term_of(d, t);
    int64_t shape[STN_MAX_NDIM];
    for (int i = 0; i < term->ndim; i++)
        shape[i] = term->shape[i];
    shape[term->ndim - 1] = draw_between(d, 1, 9);
    put_side(d);
    const int ndim = draw_chance(d, 3) ? 1 : term->ndim;
    return put_input(d, draw_leaf(d, FILL_RISING, ndim, shape + term->ndim - ndim, -2, 3)) && put_input(d, t);
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
