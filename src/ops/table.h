/* The op table: one row per built-in op. The row `name` stands for the descriptor stni_op_name of the op's own file
 * and for its index. Pointwise ops have a list of their own. */
#ifndef STNI_OPS_TABLE_H
#define STNI_OPS_TABLE_H

#include "ops/elementwise/op_list.h"

#include <shardtensor/op.h>

/* One block a family, sorted. */
#define STNI_OP_LIST(X) \
    STNI_POINTWISE_OP_LIST(X) \
    /* Reductions. */ \
    X(all) \
    X(amax) \
    X(amin) \
    X(any) \
    X(count_nonzero) \
    X(euclidean_norm) \
    X(exact_sum) \
    X(expand) \
    X(logsumexp) \
    X(logsumexp_wide) \
    X(mean) \
    X(mean_wide) \
    X(prod) \
    X(std) \
    X(sum) \
    X(var) \
    X(vector_norm) \
    X(weighted_mean) \
    X(weighted_var) \
    /* Points. */ \
    X(knn) \
    X(radius_search) \
    X(signed_distance_field) \
    X(surface_distance) \
    /* Scores of fields. */ \
    X(anomaly_correlation) \
    X(crps_ensemble) \
    X(energy_score) \
    X(lp_loss) \
    X(power_spectrum) \
    X(rmse) \
    /* Scans. */ \
    X(affine_scan) \
    X(cummax) \
    X(cummin) \
    X(cumprod) \
    X(cumsum) \
    X(logcumsumexp) \
    /* Order. */ \
    X(argmax) \
    X(argmin) \
    X(argsort) \
    X(bucketize) \
    X(histc) \
    X(kthvalue) \
    X(max) \
    X(max_all) \
    X(median) \
    X(min) \
    X(min_all) \
    X(order_place) \
    X(order_search) \
    X(order_select) \
    X(sort_backward) \
    X(order_sort) \
    X(order_take) \
    X(order_top) \
    X(quantile) \
    X(searchsorted) \
    X(sort) \
    X(topk) \
    /* Products, distances and attention. */ \
    X(addmm) \
    X(baddbmm) \
    X(bmm) \
    X(cdist) \
    X(cdist_backward) \
    X(contract) \
    X(cosine_similarity) \
    X(cross) \
    X(dot) \
    X(einsum) \
    X(linear) \
    X(matmul) \
    X(mm) \
    X(mv) \
    X(neighborhood_attention) \
    X(neighborhood_attention_backward) \
    X(normalize) \
    X(outer) \
    X(scaled_dot_product_attention) \
    X(scaled_dot_product_attention_backward) \
    /* Convolutions. */ \
    X(conv1d) \
    X(conv1d_grad_input) \
    X(conv1d_grad_weight) \
    X(conv2d) \
    X(conv2d_grad_input) \
    X(conv2d_grad_weight) \
    X(conv3d) \
    X(conv3d_grad_input) \
    X(conv3d_grad_weight) \
    X(conv_transpose1d) \
    X(conv_transpose2d) \
    X(conv_transpose3d) \
    /* Fourier transforms. */ \
    X(fft) \
    X(fft2) \
    X(fft_complex) \
    X(fft_halve) \
    X(fft_restore) \
    X(fftn) \
    X(fftshift) \
    X(hfft) \
    X(ifft) \
    X(ifft2) \
    X(ifftn) \
    X(ifftshift) \
    X(ihfft) \
    X(irfft) \
    X(irfft2) \
    X(irfftn) \
    X(rfft) \
    X(rfft2) \
    X(rfftn) \
    X(view_as_complex) \
    X(view_as_real) \
    /* Spherical harmonics. */ \
    X(anchor) \
    X(degree_power) \
    X(isht) \
    X(ivsht) \
    X(legendre_analysis) \
    X(legendre_synthesis) \
    X(sht) \
    X(vsht) \
    /* Losses. */ \
    X(binary_cross_entropy) \
    X(binary_cross_entropy_with_logits) \
    X(cross_entropy) \
    X(gaussian_nll) \
    X(gaussian_nll_loss) \
    X(hinge_embedding_loss) \
    X(huber_loss) \
    X(kl_div) \
    X(l1_loss) \
    X(loss_backward) \
    X(mse_loss) \
    X(nll_loss) \
    X(nll_loss_backward) \
    X(poisson_nll_loss) \
    X(smooth_l1_loss) \
    X(soft_margin_loss) \
    X(triplet_margin_loss) \
    /* Normalisations and softmax. */ \
    X(batch_norm) \
    X(channel_norm) \
    X(channel_norm_backward) \
    X(group_norm) \
    X(group_norm_backward) \
    X(instance_norm) \
    X(layer_norm) \
    X(layer_norm_backward) \
    X(log_softmax) \
    X(log_softmax_backward) \
    X(rms_norm) \
    X(rms_norm_backward) \
    X(softmax) \
    X(softmax_backward) \
    /* Shapes. */ \
    X(cat) \
    X(chunk) \
    X(diff) \
    X(flatten) \
    X(flip) \
    X(movedim) \
    X(narrow) \
    X(pad) \
    X(pad_backward) \
    X(pad_sphere) \
    X(pad_sphere_backward) \
    X(permute) \
    X(pixel_shuffle) \
    X(pixel_unshuffle) \
    X(repeat) \
    X(reshape) \
    X(roll) \
    X(select) \
    X(slice) \
    X(slice_backward) \
    X(split) \
    X(squeeze) \
    X(stack) \
    X(transpose) \
    X(tril) \
    X(triu) \
    X(unbind) \
    X(unflatten) \
    X(unsqueeze) \
    X(view) \
    /* Pools, windows, sampling. */ \
    X(adaptive_avg_pool) \
    X(adaptive_avg_pool1d) \
    X(adaptive_avg_pool2d) \
    X(adaptive_avg_pool3d) \
    X(adaptive_max_pool1d) \
    X(adaptive_max_pool2d) \
    X(adaptive_max_pool3d) \
    X(avg_pool1d) \
    X(avg_pool2d) \
    X(avg_pool3d) \
    X(avg_pool_backward) \
    X(fold) \
    X(global_max_pool) \
    X(grid_sample) \
    X(grid_sample_backward) \
    X(im2col) \
    X(interpolate) \
    X(interpolate_backward) \
    X(max_pool) \
    X(max_pool1d) \
    X(max_pool2d) \
    X(max_pool3d) \
    X(max_pool_backward) \
    X(max_pool_keep) \
    X(max_pool_pick) \
    X(unfold) \
    X(unfold_backward) \
    /* Indexed access. */ \
    X(diagonal) \
    X(diagonal_backward) \
    X(embedding) \
    X(gather) \
    X(index) \
    X(index_add) \
    X(index_copy) \
    X(index_fill) \
    X(index_put) \
    X(index_read) \
    X(index_select) \
    X(index_write) \
    X(masked_scatter) \
    X(masked_select) \
    X(nonzero) \
    X(one_hot) \
    X(one_hot_of) \
    X(put_keys) \
    X(repeat_index) \
    X(repeat_interleave) \
    X(scatter) \
    X(scatter_add) \
    X(scatter_reduce) \
    X(take_along_dim) \
    X(true_places) \
    X(unique) \
    X(unique_consecutive) \
    /* Random numbers, and tensors made of nothing. */ \
    X(dropout) \
    X(dropout_backward) \
    X(dropout_channels) \
    X(factory) \
    /* Collectives of per-rank programs. */ \
    X(dist_all_gather) \
    X(dist_all_reduce) \
    X(dist_all_reduction) \
    X(dist_all_to_all) \
    X(dist_broadcast) \
    X(dist_exchange) \
    X(dist_gather) \
    X(dist_halo) \
    X(dist_others) \
    X(dist_reduce) \
    X(dist_reduce_scatter) \
    X(dist_route) \
    X(dist_scatter)

#define STNI_OP_DECLARE(name) extern const stn_op_desc stni_op_##name;
STNI_OP_LIST(STNI_OP_DECLARE)
#undef STNI_OP_DECLARE

#define STNI_OP_INDEX(name) STNI_OP_##name,
enum stni_op_index { STNI_OP_LIST(STNI_OP_INDEX) STNI_OP_COUNT };
#undef STNI_OP_INDEX

/* STNI_OP_COUNT entries, in the order of the list. */
extern const stn_op_desc *const stni_op_table[];

#endif
