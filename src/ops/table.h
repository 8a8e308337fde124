/* The op table: one row per built-in op. The row `name` stands for the descriptor stni_op_name of the op's own file and for its index. Pointwise
 * ops have a list of their own. */
#ifndef STNI_OPS_TABLE_H
#define STNI_OPS_TABLE_H

#include "ops/elementwise/op_list.h"

#include <shardtensor/op.h>

/* Products, distances and attention. */
#define STNI_PRODUCT_OP_LIST(X) \
    X(mm)               \
    X(bmm)              \
    X(mv)               \
    X(dot)              \
    X(outer)            \
    X(addmm)            \
    X(baddbmm)          \
    X(contract)         \
    X(einsum)           \
    X(cross)            \
    X(cosine_similarity) \
    X(normalize)        \
    X(cdist)            \
    X(cdist_backward)   \
    X(scaled_dot_product_attention) \
    X(scaled_dot_product_attention_backward)

/* By family, as the folders are. */
#define STNI_OP_LIST(X) \
    STNI_POINTWISE_OP_LIST(X) \
    X(sum)              \
    X(mean)             \
    X(amax)             \
    X(amin)             \
    X(any)              \
    X(all)              \
    X(count_nonzero)    \
    X(logsumexp)        \
    X(vector_norm)      \
    X(var)              \
    X(std)              \
    X(weighted_mean)    \
    X(weighted_var)     \
    X(expand)           \
    /* Scans. */ \
    X(prod) \
    X(cumsum) \
    X(cumprod) \
    X(cummax) \
    X(cummin) \
    X(logcumsumexp) \
    X(affine_scan) \
    /* Fourier transforms. */ \
    X(fft) \
    X(ifft) \
    X(rfft) \
    X(irfft) \
    X(hfft) \
    X(ihfft) \
    X(fft2) \
    X(ifft2) \
    X(rfft2) \
    X(irfft2) \
    X(fftn) \
    X(ifftn) \
    X(rfftn) \
    X(irfftn) \
    X(fft_complex) \
    X(fft_halve) \
    X(fft_restore) \
    X(fftshift) \
    X(ifftshift) \
    X(view_as_real) \
    X(view_as_complex) \
    X(matmul)           \
    X(linear)           \
    STNI_PRODUCT_OP_LIST(X) \
    X(conv1d)            \
    X(conv2d)            \
    X(conv3d)            \
    X(conv_transpose1d)  \
    X(conv_transpose2d)  \
    X(conv_transpose3d)  \
    X(conv1d_grad_input) \
    X(conv2d_grad_input) \
    X(conv3d_grad_input) \
    X(conv1d_grad_weight) \
    X(conv2d_grad_weight) \
    X(conv3d_grad_weight) \
    X(mse_loss)          \
    X(l1_loss)           \
    X(huber_loss)        \
    X(smooth_l1_loss)    \
    X(loss_backward)     \
    X(group_norm)        \
    X(group_norm_backward) \
    X(layer_norm)        \
    X(layer_norm_backward) \
    X(rms_norm)          \
    X(rms_norm_backward) \
    X(softmax)          \
    X(softmax_backward)  \
    X(view)              \
    X(transpose)         \
    X(permute)           \
    X(movedim)           \
    X(slice)             \
    X(slice_backward)    \
    X(cat)               \
    X(narrow)            \
    X(select)            \
    X(unbind)            \
    X(split)             \
    X(chunk)             \
    X(reshape)           \
    X(squeeze)           \
    X(unsqueeze)         \
    X(flatten)           \
    X(unflatten)         \
    X(stack)             \
    X(repeat)            \
    X(diff)              \
    X(pixel_shuffle)     \
    X(pixel_unshuffle)   \
    X(tril)              \
    X(triu)              \
    X(pad)               \
    X(pad_backward)      \
    X(roll)              \
    X(flip)              \
    X(interpolate)       \
    X(interpolate_backward) \
    X(grid_sample)       \
    X(grid_sample_backward) \
    X(avg_pool1d)        \
    X(avg_pool2d)        \
    X(avg_pool3d)        \
    X(adaptive_avg_pool1d) \
    X(adaptive_avg_pool2d) \
    X(adaptive_avg_pool3d) \
    X(avg_pool_backward) \
    X(max_pool1d)        \
    X(max_pool2d)        \
    X(max_pool3d)        \
    X(adaptive_max_pool1d) \
    X(adaptive_max_pool2d) \
    X(adaptive_max_pool3d) \
    X(max_pool)          \
    X(max_pool_backward) \
    X(max_pool_pick)     \
    X(unfold)            \
    X(unfold_backward)   \
    X(im2col)            \
    X(fold)              \
    X(dropout)           \
    X(dropout_channels)  \
    X(dropout_backward)  \
    X(embedding)         \
    X(order_top)         \
    X(order_sort)        \
    X(order_select)      \
    X(order_search)      \
    X(order_place)       \
    X(order_take)        \
    X(order_send_back)   \
    X(max)               \
    X(min)               \
    X(argmax)            \
    X(argmin)            \
    X(sort)              \
    X(argsort)           \
    X(topk)              \
    X(kthvalue)          \
    X(median)            \
    X(searchsorted)      \
    X(bucketize)         \
    X(histc)             \
    X(max_all)           \
    X(min_all)           \
    X(index_read)        \
    X(index_write)       \
    X(gather)            \
    X(index_select)      \
    X(take_along_dim)    \
    X(scatter)           \
    X(scatter_add)       \
    X(scatter_reduce)    \
    X(index_add)         \
    X(index_copy)        \
    X(index_fill)        \
    X(index_put)         \
    X(put_keys)          \
    X(repeat_interleave) \
    X(repeat_index)      \
    X(one_hot)           \
    X(diagonal)          \
    X(diagonal_backward) \
    X(masked_select)     \
    X(nonzero)           \
    X(unique)            \
    X(dist_all_reduce)   \
    X(dist_others)       \
    /* Losses and normalisations. */ \
    X(log_softmax) \
    X(log_softmax_backward) \
    X(nll_loss) \
    X(nll_loss_backward) \
    X(cross_entropy) \
    X(binary_cross_entropy) \
    X(binary_cross_entropy_with_logits) \
    X(kl_div) \
    X(gaussian_nll_loss) \
    X(gaussian_nll) \
    X(poisson_nll_loss) \
    X(soft_margin_loss) \
    X(hinge_embedding_loss) \
    X(triplet_margin_loss) \
    X(batch_norm) \
    X(instance_norm) \
    X(channel_norm) \
    X(channel_norm_backward)

#define STNI_OP_DECLARE(name) extern const stn_op_desc stni_op_##name;
STNI_OP_LIST(STNI_OP_DECLARE)
#undef STNI_OP_DECLARE

#define STNI_OP_INDEX(name) STNI_OP_##name,
enum stni_op_index { STNI_OP_LIST(STNI_OP_INDEX) STNI_OP_COUNT };
#undef STNI_OP_INDEX

/* STNI_OP_COUNT entries, in the order of the list. */
extern const stn_op_desc *const stni_op_table[];

#endif
