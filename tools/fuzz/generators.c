/* The table. Domains keep numbers small and away from poles; kinks and ties are where rounding would choose the branch. */
#include "generators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct generator table[] = {
    /* Pointwise: op, kind, lo, hi, has_kink, kink, distinct, is_complex. */
    {"abs", draw_curve, 0, 0, 1, 0, 0, 0},
    {"acos", draw_curve, -0.95, 0.95, 0, 0, 0, 0},
    {"asin", draw_curve, -0.95, 0.95, 0, 0, 0, 0},
    {"atan", draw_curve, 0, 0, 0, 0, 0, 0},
    {"celu", draw_curve, -20, 20, 1, 0, 0, 0},
    {"cos", draw_curve, 0, 0, 0, 0, 0, 0},
    {"cosh", draw_curve, -3, 3, 0, 0, 0, 0},
    {"elu", draw_curve, -20, 20, 1, 0, 0, 0},
    {"erf", draw_curve, 0, 0, 0, 0, 0, 0},
    {"exp", draw_curve, -20, 3, 0, 0, 0, 0},
    {"expm1", draw_curve, -20, 3, 0, 0, 0, 0},
    {"gelu", draw_curve, 0, 0, 0, 0, 0, 0},
    {"leaky_relu", draw_curve, 0, 0, 1, 0, 0, 0},
    {"log", draw_curve, 0.2, 100, 0, 0, 0, 0},
    {"log1p", draw_curve, -0.7, 100, 0, 0, 0, 0},
    {"logsigmoid", draw_curve, 0, 0, 0, 0, 0, 0},
    {"mish", draw_curve, 0, 0, 0, 0, 0, 0},
    {"neg", draw_curve, 0, 0, 0, 0, 0, 0},
    {"reciprocal", draw_curve, 0.3, 100, 0, 0, 0, 0},
    {"relu", draw_curve, 0, 0, 1, 0, 0, 0},
    {"rsqrt", draw_curve, 0.3, 100, 0, 0, 0, 0},
    {"selu", draw_curve, -20, 20, 1, 0, 0, 0},
    {"sigmoid", draw_curve, 0, 0, 0, 0, 0, 0},
    {"silu", draw_curve, 0, 0, 0, 0, 0, 0},
    {"sin", draw_curve, 0, 0, 0, 0, 0, 0},
    {"sinh", draw_curve, -3, 3, 0, 0, 0, 0},
    {"softplus", draw_curve, -15, 15, 0, 0, 0, 0},
    {"sqrt", draw_curve, 0.2, 100, 0, 0, 0, 0},
    {"square", draw_curve, -10, 10, 0, 0, 0, 0},
    {"tanh", draw_curve, 0, 0, 0, 0, 0, 0},
    {"erfc", draw_curve, 0, 0, 0, 0, 0, 0},
    {"exp2", draw_curve, -20, 4, 0, 0, 0, 0},
    {"fftshift", draw_curve, 0, 0, 0, 0, 0, 0},
    {"hardsigmoid", draw_curve, -2.9, 2.9, 0, 0, 0, 0},
    {"hardswish", draw_curve, -2.9, 2.9, 0, 0, 0, 0},
    {"ifftshift", draw_curve, 0, 0, 0, 0, 0, 0},
    {"log2", draw_curve, 0.2, 100, 0, 0, 0, 0},
    {"nan_to_num", draw_curve, 0, 0, 0, 0, 0, 0},
    {"sign", draw_curve, 0, 0, 1, 0, 0, 0},
    {"tan", draw_curve, -1.2, 1.2, 0, 0, 0, 0},
    {"pow", draw_power, 0.3, 9, 0, 0, 0, 0},
    {"mul", draw_binary, -9, 9, 0, 0, 0, 0},
    {"add", draw_scaled, -50, 50, 0, 0, 0, 0},
    {"sub", draw_scaled, -50, 50, 0, 0, 0, 0},
    {"div", draw_divided, 0, 0, 0, 0, 0, 0},
    {"atan2", draw_divided, 0, 0, 0, 0, 0, 0},
    {"hypot", draw_divided, 0, 0, 0, 0, 0, 0},
    {"maximum", draw_apart, 0, 0, 0, 0, 0, 0},
    {"minimum", draw_apart, 0, 0, 0, 0, 0, 0},
    {"lerp", draw_three, -9, 9, 0, 0, 0, 0},
    {"addcmul", draw_three, -9, 9, 0, 0, 0, 0},
    {"where", draw_where, 0, 0, 0, 0, 0, 0},
    {"masked_fill", draw_masked, 0, 0, 0, 0, 0, 0},
    {"clamp", draw_clamp, 0, 0, 0, 0, 1, 0},
    {"gt", draw_compared, 0, 0, 1, 0.25, 0, 0},
    {"le", draw_compared, 0, 0, 1, 0.25, 0, 0},
    {"glu", draw_along, -20, 20, 0, 0, 0, 0},
    /* Reductions, scans, orders. */
    {"sum", draw_reduced, -9, 9, 0, 0, 0, 0},
    {"mean", draw_reduced, 0, 0, 0, 0, 0, 0},
    {"logsumexp", draw_reduced, 0, 0, 0, 0, 0, 0},
    {"amax", draw_reduced, 0, 0, 0, 0, 1, 0},
    {"amin", draw_reduced, 0, 0, 0, 0, 1, 0},
    {"vector_norm", draw_reduced, 0.1, 100, 0, 0, 0, 0},
    {"prod", draw_reduced_one, 0.5, 1.5, 0, 0, 0, 0},
    {"var", draw_spread, 0, 0, 0, 0, 1, 0},
    {"std", draw_spread, 0, 0, 0, 0, 1, 0},
    {"max", draw_reduced_one, 0, 0, 0, 0, 1, 0},
    {"argmin", draw_reduced_one, 0, 0, 0, 0, 1, 0},
    {"argmax", draw_reduced_one, 0, 0, 0, 0, 1, 0},
    {"any", draw_reduced_one, 0, 0, 1, 0, 0, 0},
    {"sort", draw_ordered, 0, 0, 0, 0, 1, 0},
    {"topk", draw_ordered, 0, 0, 0, 0, 1, 0},
    {"kthvalue", draw_ordered, 0, 0, 0, 0, 1, 0},
    {"median", draw_ordered, 0, 0, 0, 0, 1, 0},
    {"argsort", draw_ordered, 0, 0, 0, 0, 1, 0},
    {"cummin", draw_along, 0, 0, 0, 0, 1, 0},
    {"cumsum", draw_along, -9, 9, 0, 0, 0, 0},
    {"cumprod", draw_along, 0.5, 1.5, 0, 0, 0, 0},
    {"cummax", draw_along, 0, 0, 0, 0, 1, 0},
    {"logcumsumexp", draw_along, 0, 0, 0, 0, 0, 0},
    {"softmax", draw_along, 0, 0, 0, 0, 0, 0},
    {"log_softmax", draw_along, 0, 0, 0, 0, 0, 0},
    /* Normalisations, losses, products. */
    {"layer_norm", draw_layer_norm, 0, 0, 0, 0, 0, 0},
    {"rms_norm", draw_layer_norm, 0, 0, 0, 0, 0, 0},
    {"group_norm", draw_group_norm, 0, 0, 0, 0, 0, 0},
    {"batch_norm", draw_channel_norm, 0, 0, 0, 0, 0, 0},
    {"instance_norm", draw_channel_norm, 0, 0, 0, 0, 0, 0},
    {"l1_loss", draw_loss_apart, 0, 0, 0, 0, 0, 0},
    {"smooth_l1_loss", draw_loss_apart, 0, 0, 0, 0, 0, 0},
    {"binary_cross_entropy", draw_loss_of_probability, 0.05, 0.95, 0, 0, 0, 0},
    {"binary_cross_entropy_with_logits", draw_loss_of_probability, -20, 20, 0, 0, 0, 0},
    {"kl_div", draw_loss_of_probability, -20, 20, 0, 0, 0, 0},
    {"nll_loss", draw_classes, 0, 0, 0, 0, 0, 0},
    {"cross_entropy", draw_classes, -20, 20, 0, 0, 0, 0},
    {"mm", draw_matrices, -9, 9, 0, 0, 0, 0},
    {"bmm", draw_matrices, -9, 9, 0, 0, 0, 0},
    {"mv", draw_matrices, -9, 9, 0, 0, 0, 0},
    {"dot", draw_matrices, -9, 9, 0, 0, 0, 0},
    {"outer", draw_matrices, -9, 9, 0, 0, 0, 0},
    {"addmm", draw_sum_of_products, -9, 9, 0, 0, 0, 0},
    {"baddbmm", draw_sum_of_products, -9, 9, 0, 0, 0, 0},
    {"rfft", draw_transform, -5, 5, 0, 0, 0, 0},
    {"fft", draw_transform, -5, 5, 0, 0, 0, 1},
    {"ifft", draw_transform, 0, 0, 0, 0, 0, 1},
    {"irfft", draw_transform, 0, 0, 0, 0, 0, 1},
    {"hfft", draw_transform, 0, 0, 0, 0, 0, 1},
    {"real", draw_curve, 0, 0, 0, 0, 0, 1},
    {"imag", draw_curve, 0, 0, 0, 0, 0, 1},
    {"conj", draw_curve, 0, 0, 0, 0, 0, 1},
    {"view_as_real", draw_curve, 0, 0, 0, 0, 0, 1},
    {"mse_loss", draw_loss, -5, 5, 0, 0, 0, 0},
    {"huber_loss", draw_loss, -0.45, 0.45, 0, 0, 0, 0}, /* within delta of a target within it too */
    {"normalize", draw_along, 0.1, 100, 0, 0, 0, 0},
    {"cosine_similarity", draw_similarity, 0.1, 100, 0, 0, 0, 0},
    {"cdist", draw_distances, -9, 9, 0, 0, 0, 0},
    {"scaled_dot_product_attention", draw_attention, -9, 9, 0, 0, 0, 0},
    {"linear", draw_linear, -9, 9, 0, 0, 0, 0},
    {"matmul", draw_matmul, -9, 9, 0, 0, 0, 0},
    /* Shapes. */
    {"view", draw_reshape, 0, 0, 0, 0, 0, 0},
    {"reshape", draw_reshape, 0, 0, 0, 0, 0, 0},
    {"permute", draw_permute, 0, 0, 0, 0, 0, 0},
    {"transpose", draw_transpose, 0, 0, 0, 0, 0, 0},
    {"unsqueeze", draw_unsqueeze, 0, 0, 0, 0, 0, 0},
    {"squeeze", draw_curve, 0, 0, 0, 0, 0, 0},
    {"flatten", draw_flatten, 0, 0, 0, 0, 0, 0},
    {"expand", draw_expand, 0, 0, 0, 0, 0, 0},
    {"slice", draw_slice, 0, 0, 0, 0, 0, 0},
    {"narrow", draw_slice, 0, 0, 0, 0, 0, 0},
    {"select", draw_select, 0, 0, 0, 0, 0, 0},
    {"flip", draw_dims, 0, 0, 0, 0, 0, 0},
    {"roll", draw_roll, 0, 0, 0, 0, 0, 0},
    {"repeat", draw_repeat, 0, 0, 0, 0, 0, 0},
    {"tril", draw_triangle, 0, 0, 0, 0, 0, 0},
    {"triu", draw_triangle, 0, 0, 0, 0, 0, 0},
    {"diff", draw_diff, 0, 0, 0, 0, 0, 0},
    {"diagonal", draw_diagonal, 0, 0, 0, 0, 0, 0},
    {"movedim", draw_movedim, 0, 0, 0, 0, 0, 0},
    {"unfold", draw_unfolded, 0, 0, 0, 0, 0, 0},
    {"split", draw_pieces, 0, 0, 0, 0, 0, 0},
    {"chunk", draw_pieces, 0, 0, 0, 0, 0, 0},
    {"cat", draw_joined, 0, 0, 0, 0, 0, 0},
    {"stack", draw_joined, 0, 0, 0, 0, 0, 0},
    {"pad", draw_pad, 0, 0, 0, 0, 0, 0},
    {"pixel_shuffle", draw_shuffle, 0, 0, 0, 0, 0, 0},
    /* Lookups. */
    {"take_along_dim", draw_looked_up, 0, 0, 0, 0, 0, 0},
    {"index_fill", draw_filled, 0, 0, 0, 0, 0, 0},
    {"repeat_interleave", draw_repeated, 0, 0, 0, 0, 0, 0},
    {"scatter", draw_scattered, -9, 9, 0, 0, 0, 0},
    {"index_copy", draw_scattered, -9, 9, 0, 0, 0, 0},
    {"grid_sample", draw_sampled, 0, 0, 0, 0, 0, 0},
    {"embedding", draw_embedding, 0, 0, 0, 0, 0, 0},
    {"index_select", draw_looked_up, 0, 0, 0, 0, 0, 0},
    {"gather", draw_looked_up, 0, 0, 0, 0, 0, 0},
    {"scatter_add", draw_scattered, -9, 9, 0, 0, 0, 0},
    {"index_add", draw_scattered, -9, 9, 0, 0, 0, 0},
    /* Windows. */
    {"conv1d", draw_conv, -9, 9, 0, 0, 0, 0},
    {"conv2d", draw_conv, -9, 9, 0, 0, 0, 0},
    {"conv_transpose1d", draw_conv, -9, 9, 0, 0, 0, 0},
    {"conv_transpose2d", draw_conv, -9, 9, 0, 0, 0, 0},
    {"conv3d", draw_conv, -9, 9, 0, 0, 0, 0},
    {"conv_transpose3d", draw_conv, -9, 9, 0, 0, 0, 0},
    {"avg_pool3d", draw_pool, 0, 0, 0, 0, 0, 0},
    {"max_pool1d", draw_pool, 0, 0, 0, 0, 1, 0},
    {"adaptive_max_pool2d", draw_pool, 0, 0, 0, 0, 1, 0},
    {"adaptive_avg_pool1d", draw_pool, 0, 0, 0, 0, 0, 0},
    {"avg_pool1d", draw_pool, 0, 0, 0, 0, 0, 0},
    {"avg_pool2d", draw_pool, 0, 0, 0, 0, 0, 0},
    {"max_pool2d", draw_pool, 0, 0, 0, 0, 1, 0},
    {"adaptive_avg_pool2d", draw_pool, 0, 0, 0, 0, 0, 0},
    {"interpolate", draw_interpolate, 0, 0, 0, 0, 0, 0},
};

int generator_count(void)
{
    return (int)(sizeof table / sizeof *table);
}

const struct generator *generator_at(int i)
{
    return &table[i];
}

const struct generator *generator_of(const char *op)
{
    for (int i = 0; i < generator_count(); i++)
        if (strcmp(table[i].op, op) == 0)
            return &table[i];
    fprintf(stderr, "--op: got %s, wanted an op that programs are made of\n", op);
    exit(2);
}

int draw_first(struct draft *d, const struct generator *g, int min_ndim, int max_ndim)
{
    const int any = g->lo == 0 && g->hi == 0;
    const struct want want = {min_ndim, max_ndim, any ? -HUGE_VAL : g->lo, any ? HUGE_VAL : g->hi, g->has_kink, g->kink, g->distinct, 0, 0, g->is_complex};
    return draw_term(d, &want);
}
