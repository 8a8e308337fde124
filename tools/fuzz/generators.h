/* The ops that programs are made of: one row each. A new op is a row; a new kind of op is a function that asks for
 * inputs (draw_term) and writes the step (put_input, put_int, …). */
#ifndef FUZZ_GENERATORS_H
#define FUZZ_GENERATORS_H

#include "draw.h"

#include <math.h>
#include <string.h>

struct generator {
    const char *op;
    int (*draw)(struct draft *d, const struct generator *g); /* 0 where nothing suits */
    double lo, hi;      /* of the numbers that the first input may have; both 0: any */
    enum kink has_kink; /* none of them near it */
    double kink;
    int distinct;       /* no two of them alike: else a maximum is a matter of rounding */
    int is_complex;     /* it is one: made by an op of the program */
    int keeps_result;   /* its backward reads what it gave, or it may give its input: not changed in place */
};

int generator_count(void);
const struct generator *generator_at(int i);
const struct generator *generator_of(const char *op); /* exits where there is none */

static inline int is(const struct generator *g, const char *op)
{
    return strcmp(g->op, op) == 0;
}

/** A dim of a term by its number or its number from the end; of a tensor without dims 0. */
static inline int64_t draw_dim(struct draft *d, int t)
{
    const int ndim = term_of(d, t)->ndim;
    return ndim == 0 ? 0 : draw_below(d, 2 * ndim) - ndim;
}

static inline int64_t size_at(const struct draft *d, int t, int64_t dim)
{
    const struct term *term = term_of(d, t);
    return term->ndim == 0 ? 1 : term->shape[dim < 0 ? dim + term->ndim : dim];
}

/** A first input as the row asks for it. */
int draw_first(struct draft *d, const struct generator *g, int min_ndim, int max_ndim);

/** Some of a term's dims, as `dim`, or `dims` of a flip. 0 where one is wanted and the term has none. */
int put_dims(struct draft *d, int t, int at_least_one);

/* Kinds. */
int draw_curve(struct draft *d, const struct generator *g);
int draw_binary(struct draft *d, const struct generator *g);
int draw_scaled(struct draft *d, const struct generator *g);
int draw_divided(struct draft *d, const struct generator *g);
int draw_apart(struct draft *d, const struct generator *g);
int draw_three(struct draft *d, const struct generator *g);
int draw_where(struct draft *d, const struct generator *g);
int draw_masked(struct draft *d, const struct generator *g);
int draw_clamp(struct draft *d, const struct generator *g);
int draw_threshold(struct draft *d, const struct generator *g);
int draw_bits(struct draft *d, const struct generator *g);
int draw_compared(struct draft *d, const struct generator *g);
int draw_reduced(struct draft *d, const struct generator *g);
int draw_reduced_one(struct draft *d, const struct generator *g);
int draw_spread(struct draft *d, const struct generator *g);
int draw_along(struct draft *d, const struct generator *g);
int draw_layer_norm(struct draft *d, const struct generator *g);
int draw_group_norm(struct draft *d, const struct generator *g);
int draw_loss(struct draft *d, const struct generator *g);
int draw_linear(struct draft *d, const struct generator *g);
int draw_matmul(struct draft *d, const struct generator *g);
int draw_dims(struct draft *d, const struct generator *g);
int draw_reshape(struct draft *d, const struct generator *g);
int draw_permute(struct draft *d, const struct generator *g);
int draw_transpose(struct draft *d, const struct generator *g);
int draw_unsqueeze(struct draft *d, const struct generator *g);
int draw_flatten(struct draft *d, const struct generator *g);
int draw_expand(struct draft *d, const struct generator *g);
int draw_slice(struct draft *d, const struct generator *g);
int draw_select(struct draft *d, const struct generator *g);
int draw_roll(struct draft *d, const struct generator *g);
int draw_repeat(struct draft *d, const struct generator *g);
int draw_triangle(struct draft *d, const struct generator *g);
int draw_diff(struct draft *d, const struct generator *g);
int draw_pieces(struct draft *d, const struct generator *g);
int draw_joined(struct draft *d, const struct generator *g);
int draw_pad(struct draft *d, const struct generator *g);
int draw_sphere(struct draft *d, const struct generator *g);
int draw_shuffle(struct draft *d, const struct generator *g);
int draw_embedding(struct draft *d, const struct generator *g);
int draw_looked_up(struct draft *d, const struct generator *g);
int draw_scattered(struct draft *d, const struct generator *g);
int draw_conv(struct draft *d, const struct generator *g);
int draw_pool(struct draft *d, const struct generator *g);
int draw_interpolate(struct draft *d, const struct generator *g);
int draw_power(struct draft *d, const struct generator *g);
int draw_loss_apart(struct draft *d, const struct generator *g);
int draw_loss_of_probability(struct draft *d, const struct generator *g);
int draw_classes(struct draft *d, const struct generator *g);
int draw_channel_norm(struct draft *d, const struct generator *g);
int draw_ordered(struct draft *d, const struct generator *g);
int draw_filled(struct draft *d, const struct generator *g);
int draw_repeated(struct draft *d, const struct generator *g);
int draw_sampled(struct draft *d, const struct generator *g);
int draw_matrices(struct draft *d, const struct generator *g);
int draw_sum_of_products(struct draft *d, const struct generator *g);
int draw_transform(struct draft *d, const struct generator *g);
int draw_diagonal(struct draft *d, const struct generator *g);
int draw_unfolded(struct draft *d, const struct generator *g);
int draw_movedim(struct draft *d, const struct generator *g);
int draw_similarity(struct draft *d, const struct generator *g);
int draw_distances(struct draft *d, const struct generator *g);
int draw_near(struct draft *d, const struct generator *g);
int draw_surface(struct draft *d, const struct generator *g);
int draw_attention(struct draft *d, const struct generator *g);
int draw_neighborhood(struct draft *d, const struct generator *g);
int draw_bucketized(struct draft *d, const struct generator *g);
int draw_cast(struct draft *d, const struct generator *g);
int draw_columns(struct draft *d, const struct generator *g);
int draw_complex(struct draft *d, const struct generator *g);
int draw_correlation(struct draft *d, const struct generator *g);
int draw_counted(struct draft *d, const struct generator *g);
int draw_cross(struct draft *d, const struct generator *g);
int draw_dropped(struct draft *d, const struct generator *g);
int draw_einsum(struct draft *d, const struct generator *g);
int draw_ensemble(struct draft *d, const struct generator *g);
int draw_error(struct draft *d, const struct generator *g);
int draw_folded(struct draft *d, const struct generator *g);
int draw_gaussian(struct draft *d, const struct generator *g);
int draw_histogram(struct draft *d, const struct generator *g);
int draw_logical(struct draft *d, const struct generator *g);
int draw_mask(struct draft *d, int t); /* of the term's shape, or one that is repeated to it */
int draw_alike(struct draft *d, const struct generator *g);
int draw_indexed(struct draft *d, const struct generator *g);
int draw_named(struct draft *d, const struct generator *g);
int draw_one_hot(struct draft *d, const struct generator *g);
int draw_pairs(struct draft *d, const struct generator *g);
int draw_poisson(struct draft *d, const struct generator *g);
int draw_prelu(struct draft *d, const struct generator *g);
int draw_put(struct draft *d, const struct generator *g);
int draw_quotient(struct draft *d, const struct generator *g);
int draw_scatter_reduced(struct draft *d, const struct generator *g);
int draw_searched(struct draft *d, const struct generator *g);
int draw_signed(struct draft *d, const struct generator *g);
int draw_spectrum(struct draft *d, const struct generator *g);
int draw_harmonics(struct draft *d, const struct generator *g);
int draw_degrees(struct draft *d, const struct generator *g);
int draw_transforms(struct draft *d, const struct generator *g);
int draw_triplet(struct draft *d, const struct generator *g);
int draw_unbound(struct draft *d, const struct generator *g);
int draw_unflatten(struct draft *d, const struct generator *g);
int draw_weighted(struct draft *d, const struct generator *g);

#endif
