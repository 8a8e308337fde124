/* Which keys a query attends to, along one dim, and which queries attend to a key: pure functions of global
 * positions.
 *
 * With a dilation the positions of equal remainder are a line of their own. In its line a query at place p attends to
 * `kernel` consecutive places; they begin at p - kernel / 2, and are moved inward where they would reach beyond an end.
 * Causal: they end at p, and those before the line are left out.
 * Source: Hassani and Shi 2022, "Dilated neighborhood attention transformer", section 3; for even windows and causal
 * ones NATTEN's definition. */
#ifndef STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_WINDOW_H
#define STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_WINDOW_H

#include "ops/exchange/window.h"

/* kernel * dilation <= n, so that each line has a window. */
struct stni_neighborhood_dim {
    int64_t n, kernel, dilation;
    int is_causal;
};

/* Positions first, first + dilation, …, `count` of them, at least 1. */
struct stni_neighbors {
    int64_t first, count;
};

STNI_INLINE int64_t stni_neighborhood_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

STNI_INLINE int64_t stni_neighborhood_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Places of the line that position i is on. */
STNI_INLINE int64_t stni_neighborhood_line(const struct stni_neighborhood_dim *dim, int64_t i)
{
    return (dim->n - i % dim->dilation + dim->dilation - 1) / dim->dilation;
}

/* From one place of a line to another, both inclusive. */
STNI_INLINE struct stni_neighbors stni_neighborhood_places(const struct stni_neighborhood_dim *dim, int64_t i,
                                                           int64_t from, int64_t to)
{
    struct stni_neighbors places = {from * dim->dilation + i % dim->dilation, to - from + 1};
    return places;
}

/* The keys that query i attends to. */
STNI_INLINE struct stni_neighbors stni_neighborhood_keys(const struct stni_neighborhood_dim *dim, int64_t i)
{
    const int64_t p = i / dim->dilation, last = stni_neighborhood_line(dim, i) - dim->kernel;
    int64_t from = p - dim->kernel / 2;
    if (dim->is_causal)
        return stni_neighborhood_places(dim, i, stni_neighborhood_most(p - dim->kernel + 1, 0), p);
    from = stni_neighborhood_most(stni_neighborhood_least(from, last), 0);
    return stni_neighborhood_places(dim, i, from, from + dim->kernel - 1);
}

/* The queries that attend to key j. Windows begin at places that never decrease: at q - kernel + 1 or later and at q or
 * earlier those that have place q. */
STNI_INLINE struct stni_neighbors stni_neighborhood_queries(const struct stni_neighborhood_dim *dim, int64_t j)
{
    const int64_t q = j / dim->dilation, length = stni_neighborhood_line(dim, j), before = dim->kernel / 2;
    if (dim->is_causal)
        return stni_neighborhood_places(dim, j, q, stni_neighborhood_least(q + dim->kernel, length) - 1);
    return stni_neighborhood_places(dim, j, q < dim->kernel ? 0 : q - dim->kernel + 1 + before,
                                    q >= length - dim->kernel ? length - 1 : q + before);
}

/* A range over all keys of query i whose ends never decrease with i, as stencils want it (ops/exchange/stencil.h):
 * within dilation - 1 of the nearest one where windows are moved inward, else exact. */
STNI_INLINE struct stni_range stni_neighborhood_keys_over(const struct stni_neighborhood_dim *dim, int64_t i)
{
    const int64_t before = dim->kernel / 2 * dim->dilation, extent = dim->kernel * dim->dilation;
    const int64_t end = i - before + extent - dim->dilation + 1;
    if (dim->is_causal)
        return stni_range_of(stni_neighborhood_most(i - extent + dim->dilation, 0), i + 1);
    return stni_range_of(stni_neighborhood_most(stni_neighborhood_least(i - before, dim->n - extent), 0),
                         stni_neighborhood_least(stni_neighborhood_most(end, extent), dim->n));
}

/* The same over all queries of key j: those whose range above has it. */
STNI_INLINE struct stni_range stni_neighborhood_queries_over(const struct stni_neighborhood_dim *dim, int64_t j)
{
    const int64_t before = dim->kernel / 2 * dim->dilation, extent = dim->kernel * dim->dilation;
    if (dim->is_causal)
        return stni_range_of(j, stni_neighborhood_least(j + extent - dim->dilation + 1, dim->n));
    return stni_range_of(j < extent ? 0 : j - (extent - dim->dilation - before),
                         j >= dim->n - extent ? dim->n : stni_neighborhood_least(j + before + 1, dim->n));
}

#endif
