/* Losses. */
#ifndef SHARDTENSOR_OPS_LOSS_H
#define SHARDTENSOR_OPS_LOSS_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

typedef enum stn_loss_reduction {
    STN_REDUCE_MEAN,
    STN_REDUCE_NONE, /* a loss per element */
    STN_REDUCE_SUM
} stn_loss_reduction;

/** weight (input - target)^2, summed or averaged; a weighted mean divides by the sum of the weights.
 *
 * Shapes:     input, target and weight (NULL: 1) broadcast; the result is a number, with STN_REDUCE_NONE of the common shape. Floating.
 * Placement:  operands meet as in stn_add; Partial is reduced first. A number is Partial(sum) on the axes that cut the elements; a weighted
 *             mean is Replicate: one all-reduce of two numbers.
 * Collective: over the mesh where an input has to move, and for a weighted mean of what is cut.
 * Gradient:   of input and target, twice differentiable; none of weight.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (reduction), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_mse_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, stn_loss_reduction reduction);

/** weight |input - target|, as stn_mse_loss. */
STN_API stn_tensor *stn_l1_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, stn_loss_reduction reduction);

/** d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2), d = input - target; as stn_mse_loss, but that a weighted mean divides by the number of
 *  elements. Source: Huber 1964. */
STN_API stn_tensor *stn_huber_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, stn_loss_reduction reduction, double delta);

/** d^2 / (2 beta) where |d| < beta, else |d| - beta / 2; as stn_mse_loss without weights. Source: Girshick, "Fast R-CNN", 2015. */
STN_API stn_tensor *stn_smooth_l1_loss(stn_tensor *input, stn_tensor *target, stn_loss_reduction reduction, double beta);

STN_END_DECLS
#endif
