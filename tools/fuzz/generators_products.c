/* Products, distances, transforms. */
#include "generators.h"

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

/* A matrix or vectors, and what fits them. */
int draw_matrices(struct draft *d, const struct generator *g)
{
    const int n = is(g, "bmm") ? 3 : is(g, "mm") || is(g, "mv") ? 2 : 1, t = draw_first(d, g, n, n);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int64_t last = term->shape[n - 1], columns = draw_between(d, 1, 5);
    const int64_t batch[] = {term->shape[0], last, columns}, matrix[] = {last, columns}, vector[] = {last};
    if (n == 3)
        return put_input(d, draw_leaf(d, FILL_REAL, 3, batch, -1, 1));
    if (is(g, "mm"))
        return put_input(d, draw_leaf(d, FILL_REAL, 2, matrix, -1, 1));
    return put_input(d, draw_leaf(d, FILL_REAL, 1, is(g, "outer") ? &columns : vector, -1, 1));
}

int draw_sum_of_products(struct draft *d, const struct generator *g)
{
    const int batched = is(g, "baddbmm"), n = batched ? 3 : 2, t = draw_first(d, g, n, n);
    if (t < 0)
        return 0;
    const struct term *term = term_of(d, t);
    const int64_t columns = draw_between(d, 1, 5);
    const int64_t other[] = {term->shape[0], term->shape[n - 1], columns}, sum[] = {term->shape[0], term->shape[n - 2], columns};
    if (draw_chance(d, 2))
        put_float(d, "beta", 0.5);
    if (draw_chance(d, 2))
        put_float(d, "alpha", -1.5);
    return put_input(d, draw_leaf(d, FILL_REAL, n, sum + !batched, -1, 1)) && put_input(d, t) &&
           put_input(d, draw_leaf(d, FILL_REAL, n, other + !batched, -1, 1));
}

/* Along one dim, of the length that is there or another. */
int draw_transform(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 4);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const int64_t dim = draw_dim(d, t), size = size_at(d, t, dim);
    put_int(d, "dim", dim);
    if (draw_chance(d, 3))
        put_int(d, "n", draw_between(d, 2, 9));
    else if (is(g, "irfft") || is(g, "hfft"))
        return size > 1;
    return 1;
}

int draw_similarity(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 4);
    if (!put_input(d, t) || !put_input(d, draw_partner(d, t, 0.4, 50)))
        return 0;
    put_int(d, "dim", draw_dim(d, t));
    return 1;
}

int draw_distances(struct draft *d, const struct generator *g)
{
    const struct want want = {2, 3, g->lo, g->hi, 0, 0, 1, 1, 0, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    int64_t shape[3] = {term->shape[0]};
    shape[term->ndim - 2] = draw_between(d, 1, 5);
    shape[term->ndim - 1] = term->shape[term->ndim - 1];
    return put_input(d, draw_leaf(d, FILL_REAL, term->ndim, shape, -2, 2));
}

int draw_attention(struct draft *d, const struct generator *g)
{
    const struct want want = {3, 4, g->lo, g->hi, 0, 0, 0, 1, 0, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int n = term->ndim;
    int64_t key[4] = {term->shape[0], term->shape[1]}, value[4] = {term->shape[0], term->shape[1]};
    key[n - 2] = value[n - 2] = draw_between(d, 1, 6);
    key[n - 1] = term->shape[n - 1];
    value[n - 1] = draw_between(d, 1, 4);
    if (draw_chance(d, 2))
        put_bool(d, "is_causal", 1);
    return put_input(d, draw_leaf(d, FILL_REAL, n, key, -1, 1)) && put_input(d, draw_leaf(d, FILL_REAL, n, value, -1, 1));
}
