/* Normalisations: softmax and its kin. */
#ifndef SHARDTENSOR_OPS_NORM_H
#define SHARDTENSOR_OPS_NORM_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Softmax along `dim`: y[i] = exp(x[i] - m) / sum_j exp(x[j] - m), m = max_j x[j].
 *
 * Shapes:     (d0, …, dn-1) -> same shape and dtype.
 * Placement:  keeps x's. Sharded along `dim`: two all-reduces of numel / shape[dim] elements. Partial is reduced first.
 * Collective: over x's mesh where sharded along `dim` or Partial.
 * Gradient:   yes, twice differentiable.
 * @param dim  -ndim <= dim < ndim.
 * @return new tensor; STN_ERR_ARGUMENT (dim), STN_ERR_DTYPE (not floating), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: shifted softmax, Goodfellow, Bengio and Courville 2016, section 4.1. */
STN_API stn_tensor *stn_softmax(stn_tensor *input, int dim);

/** log softmax(x) along `dim`, x - m - log sum_j exp(x[j] - m), which keeps its digits where the probability is 0 in
 *  the dtype. As stn_softmax. */
STN_API stn_tensor *stn_log_softmax(stn_tensor *input, int dim);

/** Normalises each group of channels: y = (x - mean) / sqrt(var + eps) * weight + bias, mean and var (of all elements,
 *  not of all but one) over the channels of the group and all dims after them.
 *
 * Shapes:     input (n, channels, …), weight, bias (channels) or NULL -> input's shape and dtype.
 * Placement:  keeps input's Shards and memory order, whatever is sharded. Where ranks share groups: forward one
 *             all-gather of three numbers per (n, group) and rank, backward one all-reduce of two. The parameters'
 *             gradients are Partial(sum) on the axes that shard n or the last dims. Partial input is reduced first.
 * Collective: over input's mesh where groups are sharded, or inputs have to move.
 * Gradient:   yes, twice differentiable.
 * @param groups  divides the channels.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE (not floating, or they differ), STN_ERR_ARGUMENT (groups),
 * STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Wu and He, "Group normalization", 2018; statistics of ranks are joined as in Chan, Golub and LeVeque 1979. */
STN_API stn_tensor *stn_group_norm(stn_tensor *input, int64_t groups, stn_tensor *weight, stn_tensor *bias, double eps);

/** Normalises over the last `n_dims` dims, whose sizes are `normalized_shape`; weight and bias have that shape, or are
 *  NULL. As stn_group_norm otherwise; ranks share statistics where one of these dims is sharded.
 *  @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (n_dims), STN_ERR_MEMORY, STN_ERR_COMM.
 *  Source: Ba, Kiros and Hinton, "Layer normalization", 2016. */
STN_API stn_tensor *stn_layer_norm(stn_tensor *input, int n_dims, const int64_t *normalized_shape, stn_tensor *weight,
                                   stn_tensor *bias, double eps);

/** y = x / sqrt(mean of x^2 + eps) * weight over the last `n_dims` dims, as stn_layer_norm; eps < 0: the
 *  spacing of the numbers in which is computed (by name that is an absent eps, and one below 0 is added as it is).
 *  Source: Zhang and Sennrich, "Root mean square layer normalization", 2019. */
STN_API stn_tensor *stn_rms_norm(stn_tensor *input, int n_dims, const int64_t *normalized_shape, stn_tensor *weight,
                                 double eps);

/** Normalises each channel over all samples: y = (x - mean) / sqrt(var + eps) * weight + bias. In training mean and var
 *  are the batch's, of all ranks together; else they are the running ones.
 *
 * Shapes:     input (n, channels, …); the others (channels), weight and bias NULL for 1 and 0, both running statistics
 *             NULL in training alone.
 * Placement:  as stn_group_norm; in training one all-gather of three numbers per channel and rank on the axes that
 *             shard other dims. The new statistics are sharded as input's channels are.
 * Collective: as stn_group_norm.
 * Gradient:   of input, weight and bias, twice differentiable; running statistics neither have nor give one.
 * @param new_mean, new_var  in training with running statistics: (1 - momentum) running + momentum batch's, the
 *             variance of all elements but one; the running ones where input has no elements. NULL where not wanted;
 *             else set to NULL where there are none, to the error tensor on failure.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (running statistics), STN_ERR_MEMORY,
 * STN_ERR_COMM.
 * Source: Ioffe and Szegedy, "Batch normalization", 2015; statistics of ranks are joined as in Chan, Golub and LeVeque
 * 1979. */
STN_API stn_tensor *stn_batch_norm(stn_tensor *input, stn_tensor *running_mean, stn_tensor *running_var,
                                   stn_tensor *weight, stn_tensor *bias, int training, double momentum, double eps,
                                   stn_tensor **new_mean, stn_tensor **new_var);

/** As stn_batch_norm, but that each sample has statistics of its own: (n, channels, …) with at least one dim after the
 *  channels. With `use_input_stats` they are the input's, and the new running statistics are of their means over the
 *  samples; else the running ones.
 *  Source: Ulyanov, Vedaldi and Lempitsky, "Instance normalization", 2016. */
STN_API stn_tensor *stn_instance_norm(stn_tensor *input, stn_tensor *running_mean, stn_tensor *running_var,
                                      stn_tensor *weight, stn_tensor *bias, int use_input_stats, double momentum,
                                      double eps, stn_tensor **new_mean, stn_tensor **new_var);

STN_END_DECLS
#endif
