/* Losses. */
#ifndef SHARDTENSOR_OPS_LOSS_H
#define SHARDTENSOR_OPS_LOSS_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

typedef enum stn_loss_reduction {
    STN_REDUCE_MEAN,
    STN_REDUCE_NONE, /* a loss per element */
    STN_REDUCE_SUM,
    STN_REDUCE_BATCHMEAN /* stn_kl_div alone: the sum over the size of input's first dim */
} stn_loss_reduction;

/** weight (input - target)^2, summed or averaged; a weighted mean divides by the sum of the weights.
 *
 * Shapes:     input, target and weight (NULL: 1) broadcast; the result is a number, with STN_REDUCE_NONE of the common
 *             shape. Floating.
 * Placement:  operands meet as in stn_add; Partial is reduced first. A number is Partial(sum) on the axes that shard
 *             the elements; a weighted mean is Replicate: one all-reduce of two numbers.
 * Collective: over the mesh where an input has to move, and for a weighted mean of what is sharded.
 * Gradient:   of input and target, twice differentiable; none of weight.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (reduction), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_mse_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight,
                                 stn_loss_reduction reduction);

/** weight |input - target|, as stn_mse_loss. */
STN_API stn_tensor *stn_l1_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight,
                                stn_loss_reduction reduction);

/** d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2), d = input - target, delta > 0; as stn_mse_loss, but that a
 *  weighted mean divides by the number of elements. Source: Huber 1964. */
STN_API stn_tensor *stn_huber_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight,
                                   stn_loss_reduction reduction, double delta);

/** d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, beta >= 0; as stn_mse_loss without weights. Source: Girshick,
 *  "Fast R-CNN", 2015. */
STN_API stn_tensor *stn_smooth_l1_loss(stn_tensor *input, stn_tensor *target, stn_loss_reduction reduction,
                                       double beta);

/** -weight (target log input + (1 - target) log(1 - input)), logarithms not below -100; as stn_mse_loss, but that a
 *  weighted mean divides by the number of elements, and that target must have input's shape. Beyond 0 and 1, where
 *  `input` is no probability, the loss is NaN. */
STN_API stn_tensor *stn_binary_cross_entropy(stn_tensor *input, stn_tensor *target, stn_tensor *weight,
                                             stn_loss_reduction reduction);

/** weight (-pos_weight target log s - (1 - target) log(1 - s)), s = sigmoid(input), from the logarithm of s itself, so
 *  that large inputs keep their digits; as stn_binary_cross_entropy. pos_weight (NULL: 1) broadcasts too and has no
 *  gradient. */
STN_API stn_tensor *stn_binary_cross_entropy_with_logits(stn_tensor *input, stn_tensor *target, stn_tensor *weight,
                                                         stn_tensor *pos_weight, stn_loss_reduction reduction);

/** target (log target - input), 0 where target is 0; with `log_target` exp(target) (target - input): `input` is a
 *  logarithm. As stn_mse_loss without weights; STN_REDUCE_BATCHMEAN too. Source: Kullback and Leibler 1951. */
STN_API stn_tensor *stn_kl_div(stn_tensor *input, stn_tensor *target, stn_loss_reduction reduction, int log_target);

/** (log v + (input - target)^2 / v) / 2, v = max(var, eps), and with `full` log(2 pi) / 2 more; as stn_mse_loss without
 * weights.
 *
 * var broadcasts, or has input's shape without the last dim. Its gradient is that of v, where eps stands for it too.
 * Unlike elsewhere a negative var is no error: eps stands for it. Source: Nix and Weigend 1994. */
STN_API stn_tensor *stn_gaussian_nll_loss(stn_tensor *input, stn_tensor *target, stn_tensor *var, int full, double eps,
                                          stn_loss_reduction reduction);

/** exp(input) - target input, without `log_input` input - target log(input + eps); with `full` Stirling's approximation
 *  of log target! more where target is more than 1. As stn_mse_loss without weights. */
STN_API stn_tensor *stn_poisson_nll_loss(stn_tensor *input, stn_tensor *target, int log_input, int full, double eps,
                                         stn_loss_reduction reduction);

/** log(1 + exp(-target input)), target -1 or 1; as stn_mse_loss without weights. */
STN_API stn_tensor *stn_soft_margin_loss(stn_tensor *input, stn_tensor *target, stn_loss_reduction reduction);

/** input where target is 1, max(margin - input, 0) where it is -1 (their sum where it is neither); as stn_mse_loss
 *  without weights. Target, which may be of integers, has no gradient. */
STN_API stn_tensor *stn_hinge_embedding_loss(stn_tensor *input, stn_tensor *target, double margin,
                                             stn_loss_reduction reduction);

/** -weight[t] input[t] for each target t that is not `ignore_index`, for which it is 0; summed, or averaged by the
 *  weights of the targets that are not ignored.
 *
 * Shapes:     input (n, classes, …) and target (n, …), or (classes) and (); weight (classes) or NULL: 1. The result is
 *             a number, with STN_REDUCE_NONE of target's shape. input and weight floating of one dtype, target i64, i32
 *             or u8.
 * Placement:  input stays where it is, Partial(sum) too; target and weight are sharded as it is. Where the classes are,
 *             each rank handles the targets whose class it has. What is summed is Partial(sum) on the axes that shard
 *             it; a mean is Replicate: one all-reduce of two numbers.
 * Collective: over the mesh where target or weight has to move, and for a mean of what is sharded.
 * Gradient:   of input, twice differentiable (it is linear); in input's layout.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (reduction), STN_ERR_MEMORY, STN_ERR_COMM. A
 *         target that is no class counts as ignored and is a value error (STN_ERR_VALUE at the next agreement). */
STN_API stn_tensor *stn_nll_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, int64_t ignore_index,
                                 stn_loss_reduction reduction);

/** stn_nll_loss of stn_log_softmax along the classes. With label smoothing s a target is (1 - s) of itself and s /
 *  classes of every class; its mean divides as without.
 *
 * Targets may also be probabilities: floating, of input's shape. Then none is ignored, a mean divides by the number of
 * targets, and they have a gradient. Nothing of input's size is gathered; along sharded classes two all-reduces of a
 * number per target. */
STN_API stn_tensor *stn_cross_entropy(stn_tensor *input, stn_tensor *target, stn_tensor *weight, int64_t ignore_index,
                                      stn_loss_reduction reduction, double label_smoothing);

/** max(|a - p| - |a - n| + margin, 0) of distances along the last dim, |v| = (sum |v + eps|^p)^(1/p); with `swap` the
 *  smaller of |a - n| and |p - n| for the second.
 *
 * Shapes:     the three broadcast, (…, d) -> (…) with STN_REDUCE_NONE, else a number. Floating.
 * Placement:  as stn_sub and stn_vector_norm. Gradient: of all three.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (reduction), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Balntas et al., "Learning local feature descriptors with triplets", 2016. */
STN_API stn_tensor *stn_triplet_margin_loss(stn_tensor *anchor, stn_tensor *positive, stn_tensor *negative,
                                            double margin, double p, double eps, int swap,
                                            stn_loss_reduction reduction);

STN_END_DECLS
#endif
