/* The table. Domains keep numbers small and away from poles; kinks and ties are where rounding would choose the branch. */
#include "generators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct generator table[] = {
    /* Pointwise. */
    {.op = "abs", .draw = draw_curve, .has_kink = 1},
    {.op = "acos", .draw = draw_curve, .lo = -0.95, .hi = 0.95},
    {.op = "asin", .draw = draw_curve, .lo = -0.95, .hi = 0.95},
    {.op = "atan", .draw = draw_curve},
    {.op = "celu", .draw = draw_curve, .lo = -20, .hi = 20, .has_kink = 1},
    {.op = "cos", .draw = draw_curve},
    {.op = "cosh", .draw = draw_curve, .lo = -3, .hi = 3},
    {.op = "elu", .draw = draw_curve, .lo = -20, .hi = 20, .has_kink = 1},
    {.op = "erf", .draw = draw_curve},
    {.op = "exp", .draw = draw_curve, .lo = -20, .hi = 3, .keeps_result = 1},
    {.op = "expm1", .draw = draw_curve, .lo = -20, .hi = 3, .keeps_result = 1},
    {.op = "gelu", .draw = draw_curve},
    {.op = "leaky_relu", .draw = draw_curve, .has_kink = 1},
    {.op = "log", .draw = draw_curve, .lo = 0.2, .hi = 100},
    {.op = "log1p", .draw = draw_curve, .lo = -0.7, .hi = 100},
    {.op = "logsigmoid", .draw = draw_curve},
    {.op = "mish", .draw = draw_curve},
    {.op = "neg", .draw = draw_curve},
    {.op = "reciprocal", .draw = draw_curve, .lo = 0.3, .hi = 100, .keeps_result = 1},
    {.op = "relu", .draw = draw_curve, .has_kink = 1, .keeps_result = 1},
    {.op = "rsqrt", .draw = draw_curve, .lo = 0.3, .hi = 100, .keeps_result = 1},
    {.op = "selu", .draw = draw_curve, .lo = -20, .hi = 20, .has_kink = 1},
    {.op = "sigmoid", .draw = draw_curve, .keeps_result = 1},
    {.op = "silu", .draw = draw_curve},
    {.op = "sin", .draw = draw_curve},
    {.op = "sinh", .draw = draw_curve, .lo = -3, .hi = 3},
    {.op = "softplus", .draw = draw_curve, .lo = -15, .hi = 15},
    {.op = "sqrt", .draw = draw_curve, .lo = 0.2, .hi = 100, .keeps_result = 1},
    {.op = "square", .draw = draw_curve, .lo = -10, .hi = 10},
    {.op = "tanh", .draw = draw_curve, .keeps_result = 1},
    {.op = "erfc", .draw = draw_curve},
    {.op = "exp2", .draw = draw_curve, .lo = -20, .hi = 4, .keeps_result = 1},
    {.op = "fftshift", .draw = draw_curve},
    {.op = "hardsigmoid", .draw = draw_curve, .lo = -2.9, .hi = 2.9},
    {.op = "hardswish", .draw = draw_curve, .lo = -2.9, .hi = 2.9},
    {.op = "ifftshift", .draw = draw_curve},
    {.op = "log2", .draw = draw_curve, .lo = 0.2, .hi = 100},
    {.op = "nan_to_num", .draw = draw_curve},
    {.op = "sign", .draw = draw_curve, .has_kink = 1},
    {.op = "tan", .draw = draw_curve, .lo = -1.2, .hi = 1.2, .keeps_result = 1},
    {.op = "pow", .draw = draw_power, .lo = 0.3, .hi = 9},
    {.op = "mul", .draw = draw_binary, .lo = -9, .hi = 9},
    {.op = "add", .draw = draw_scaled, .lo = -50, .hi = 50},
    {.op = "sub", .draw = draw_scaled, .lo = -50, .hi = 50},
    {.op = "div", .draw = draw_divided, .keeps_result = 1},
    {.op = "atan2", .draw = draw_divided},
    {.op = "hypot", .draw = draw_divided, .keeps_result = 1},
    {.op = "maximum", .draw = draw_apart},
    {.op = "minimum", .draw = draw_apart},
    {.op = "lerp", .draw = draw_three, .lo = -9, .hi = 9},
    {.op = "addcmul", .draw = draw_three, .lo = -9, .hi = 9},
    {.op = "where", .draw = draw_where},
    {.op = "masked_fill", .draw = draw_masked},
    {.op = "clamp", .draw = draw_clamp, .distinct = 1, .keeps_result = 1},
    {.op = "gt", .draw = draw_compared, .has_kink = 1, .kink = 0.25},
    {.op = "le", .draw = draw_compared, .has_kink = 1, .kink = 0.25},
    {.op = "glu", .draw = draw_along, .lo = -20, .hi = 20},
    /* Reductions, scans, orders. */
    {.op = "sum", .draw = draw_reduced, .lo = -9, .hi = 9},
    {.op = "mean", .draw = draw_reduced},
    {.op = "logsumexp", .draw = draw_reduced, .keeps_result = 1},
    {.op = "amax", .draw = draw_reduced, .distinct = 1, .keeps_result = 1},
    {.op = "amin", .draw = draw_reduced, .distinct = 1, .keeps_result = 1},
    {.op = "vector_norm", .draw = draw_reduced, .lo = 0.1, .hi = 100, .keeps_result = 1},
    {.op = "prod", .draw = draw_reduced_one, .lo = 0.5, .hi = 1.5},
    {.op = "var", .draw = draw_spread, .distinct = 1},
    {.op = "std", .draw = draw_spread, .distinct = 1, .keeps_result = 1},
    {.op = "max", .draw = draw_reduced_one, .distinct = 1},
    {.op = "argmin", .draw = draw_reduced_one, .distinct = 1},
    {.op = "argmax", .draw = draw_reduced_one, .distinct = 1},
    {.op = "any", .draw = draw_reduced_one, .has_kink = 1},
    {.op = "sort", .draw = draw_ordered, .distinct = 1},
    {.op = "topk", .draw = draw_ordered, .distinct = 1},
    {.op = "kthvalue", .draw = draw_ordered, .distinct = 1},
    {.op = "median", .draw = draw_ordered, .distinct = 1},
    {.op = "argsort", .draw = draw_ordered, .distinct = 1},
    {.op = "cummin", .draw = draw_along, .distinct = 1},
    {.op = "cumsum", .draw = draw_along, .lo = -9, .hi = 9},
    {.op = "cumprod", .draw = draw_along, .lo = 0.5, .hi = 1.5},
    {.op = "cummax", .draw = draw_along, .distinct = 1},
    {.op = "logcumsumexp", .draw = draw_along, .keeps_result = 1},
    {.op = "softmax", .draw = draw_along, .keeps_result = 1},
    {.op = "log_softmax", .draw = draw_along, .keeps_result = 1},
    /* Normalisations, losses, products. */
    {.op = "layer_norm", .draw = draw_layer_norm},
    {.op = "rms_norm", .draw = draw_layer_norm},
    {.op = "group_norm", .draw = draw_group_norm},
    {.op = "batch_norm", .draw = draw_channel_norm},
    {.op = "instance_norm", .draw = draw_channel_norm},
    {.op = "l1_loss", .draw = draw_loss_apart},
    {.op = "smooth_l1_loss", .draw = draw_loss_apart},
    {.op = "binary_cross_entropy", .draw = draw_loss_of_probability, .lo = 0.05, .hi = 0.95},
    {.op = "binary_cross_entropy_with_logits", .draw = draw_loss_of_probability, .lo = -20, .hi = 20},
    {.op = "kl_div", .draw = draw_loss_of_probability, .lo = -20, .hi = 20},
    {.op = "nll_loss", .draw = draw_classes},
    {.op = "cross_entropy", .draw = draw_classes, .lo = -20, .hi = 20},
    {.op = "mm", .draw = draw_matrices, .lo = -9, .hi = 9},
    {.op = "bmm", .draw = draw_matrices, .lo = -9, .hi = 9},
    {.op = "mv", .draw = draw_matrices, .lo = -9, .hi = 9},
    {.op = "dot", .draw = draw_matrices, .lo = -9, .hi = 9},
    {.op = "outer", .draw = draw_matrices, .lo = -9, .hi = 9},
    {.op = "addmm", .draw = draw_sum_of_products, .lo = -9, .hi = 9},
    {.op = "baddbmm", .draw = draw_sum_of_products, .lo = -9, .hi = 9},
    {.op = "rfft", .draw = draw_transform, .lo = -5, .hi = 5},
    {.op = "fft", .draw = draw_transform, .lo = -5, .hi = 5, .is_complex = 1},
    {.op = "ifft", .draw = draw_transform, .is_complex = 1},
    {.op = "irfft", .draw = draw_transform, .is_complex = 1},
    {.op = "hfft", .draw = draw_transform, .is_complex = 1},
    {.op = "real", .draw = draw_curve, .is_complex = 1},
    {.op = "imag", .draw = draw_curve, .is_complex = 1},
    {.op = "conj", .draw = draw_curve, .is_complex = 1},
    {.op = "view_as_real", .draw = draw_curve, .is_complex = 1},
    {.op = "mse_loss", .draw = draw_loss, .lo = -5, .hi = 5},
    {.op = "huber_loss", .draw = draw_loss, .lo = -0.45, .hi = 0.45}, /* within delta of a target within it too */
    {.op = "normalize", .draw = draw_along, .lo = 0.1, .hi = 100, .keeps_result = 1},
    {.op = "cosine_similarity", .draw = draw_similarity, .lo = 0.1, .hi = 100, .keeps_result = 1},
    {.op = "cdist", .draw = draw_distances, .lo = -9, .hi = 9, .keeps_result = 1},
    {.op = "scaled_dot_product_attention", .draw = draw_attention, .lo = -9, .hi = 9, .keeps_result = 1},
    {.op = "linear", .draw = draw_linear, .lo = -9, .hi = 9},
    {.op = "matmul", .draw = draw_matmul, .lo = -9, .hi = 9},
    /* Shapes. */
    {.op = "view", .draw = draw_reshape},
    {.op = "reshape", .draw = draw_reshape},
    {.op = "permute", .draw = draw_permute},
    {.op = "transpose", .draw = draw_transpose},
    {.op = "unsqueeze", .draw = draw_unsqueeze},
    {.op = "squeeze", .draw = draw_curve},
    {.op = "flatten", .draw = draw_flatten},
    {.op = "expand", .draw = draw_expand},
    {.op = "slice", .draw = draw_slice},
    {.op = "narrow", .draw = draw_slice},
    {.op = "select", .draw = draw_select},
    {.op = "flip", .draw = draw_dims},
    {.op = "roll", .draw = draw_roll},
    {.op = "repeat", .draw = draw_repeat},
    {.op = "tril", .draw = draw_triangle},
    {.op = "triu", .draw = draw_triangle},
    {.op = "diff", .draw = draw_diff},
    {.op = "diagonal", .draw = draw_diagonal},
    {.op = "movedim", .draw = draw_movedim},
    {.op = "unfold", .draw = draw_unfolded},
    {.op = "split", .draw = draw_pieces},
    {.op = "chunk", .draw = draw_pieces},
    {.op = "cat", .draw = draw_joined},
    {.op = "stack", .draw = draw_joined},
    {.op = "pad", .draw = draw_pad},
    {.op = "pixel_shuffle", .draw = draw_shuffle},
    /* Lookups. */
    {.op = "take_along_dim", .draw = draw_looked_up},
    {.op = "index_fill", .draw = draw_filled},
    {.op = "repeat_interleave", .draw = draw_repeated},
    {.op = "scatter", .draw = draw_scattered, .lo = -9, .hi = 9},
    {.op = "index_copy", .draw = draw_scattered, .lo = -9, .hi = 9},
    {.op = "grid_sample", .draw = draw_sampled},
    {.op = "embedding", .draw = draw_embedding},
    {.op = "index_select", .draw = draw_looked_up},
    {.op = "gather", .draw = draw_looked_up},
    {.op = "scatter_add", .draw = draw_scattered, .lo = -9, .hi = 9},
    {.op = "index_add", .draw = draw_scattered, .lo = -9, .hi = 9},
    /* Windows. */
    {.op = "conv1d", .draw = draw_conv, .lo = -9, .hi = 9},
    {.op = "conv2d", .draw = draw_conv, .lo = -9, .hi = 9},
    {.op = "conv_transpose1d", .draw = draw_conv, .lo = -9, .hi = 9},
    {.op = "conv_transpose2d", .draw = draw_conv, .lo = -9, .hi = 9},
    {.op = "conv3d", .draw = draw_conv, .lo = -9, .hi = 9},
    {.op = "conv_transpose3d", .draw = draw_conv, .lo = -9, .hi = 9},
    {.op = "avg_pool3d", .draw = draw_pool},
    {.op = "max_pool1d", .draw = draw_pool, .distinct = 1},
    {.op = "adaptive_max_pool2d", .draw = draw_pool, .distinct = 1},
    {.op = "adaptive_avg_pool1d", .draw = draw_pool},
    {.op = "avg_pool1d", .draw = draw_pool},
    {.op = "avg_pool2d", .draw = draw_pool},
    {.op = "max_pool2d", .draw = draw_pool, .distinct = 1},
    {.op = "adaptive_avg_pool2d", .draw = draw_pool},
    {.op = "interpolate", .draw = draw_interpolate},
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
    const struct want want = {
        min_ndim, max_ndim,     any ? -HUGE_VAL : g->lo, any ? HUGE_VAL : g->hi, g->has_kink, g->kink, g->distinct, 0,
        0,        g->is_complex};
    return draw_term(d, &want);
}
