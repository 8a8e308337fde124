/* cuDNN, for convolutions on a CUDA device. cudnn.c and cudnn_plan.c alone know its API; builds without its header have
 * another file, in which it refuses.
 *
 * Only engines serve that keep to the library's numbers: inputs are not rounded to fewer bits (f32 to TF32 where
 * that is allowed), sums are those of f32 at least, two runs give the same bits, and no transform (Winograd,
 * Fourier) takes digits. */
#ifndef STNI_OPS_CUDA_CUDNN_H
#define STNI_OPS_CUDA_CUDNN_H

#include "ops/conv/conv_problem.h"

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/* Of all addresses, bytes. Engines that are told less were seen to read what is not aligned all the same (9.19 on an
 * H200). */
enum { STNI_CUDNN_ALIGNMENT = 16 };

/* Whether dim d can be told to cuDNN with one pad for both sides: upper pads that differ by less than a stride give
 * as many elements of y. A problem is refused where a dim cannot. For pads that differ cuDNN has one engine for
 * values of f32 and f64, which is thirty times slower than others, and one for gradients of their weights that is
 * wrong (seen with 9.19 on an H200). */
static inline int stni_cudnn_pads_agree(const struct stni_conv_problem *p, int d)
{
    return p->pad_low[d] >= 0 && p->pad_high[d] <= p->pad_low[d] && p->pad_low[d] < p->pad_high[d] + p->stride[d];
}

/* The same problem where x has the pads of such dims as elements. 0: all dims can be told as they are. */
static inline int stni_cudnn_frame(struct stni_conv_problem *p)
{
    int differ = 0;
    for (int d = 0; d < p->dims; d++)
        if (!stni_cudnn_pads_agree(p, d)) {
            p->in[d] += p->pad_low[d] + p->pad_high[d];
            p->pad_low[d] = p->pad_high[d] = 0;
            differ = 1;
        }
    return differ;
}

/* Compared by its bytes: set whole from {0}. */
struct stni_cudnn_conv {
    struct stni_conv_problem problem;
    int64_t adds;       /* 1: the result is added to what is there, and rounded once */
    int64_t allow_tf32; /* 1: factors of f32 may be rounded to TF32 */
};

/* Bytes of scratch, aligned to 256. STN_ERR_UNSUPPORTED where cuDNN is not there or refuses, for whatever reason. */
stn_status stni_cudnn_workspace(stn_queue *queue, const struct stni_cudnn_conv *conv, size_t *bytes);

/* Puts the convolution on the queue's stream. STN_ERR_UNSUPPORTED as above: nothing was put there then. */
stn_status stni_cudnn_run(stn_queue *queue, const struct stni_cudnn_conv *conv, void *x, void *weight, void *y, void *workspace);

STN_END_DECLS
#endif
