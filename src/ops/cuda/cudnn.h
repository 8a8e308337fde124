/* cuDNN, for convolutions and attention on a CUDA device. The files cudnn*.c alone know its API; builds without its
 * header have another file, in which it refuses.
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

/* Operands of attention, and those of its gradients. */
enum stni_cudnn_attention_operand {
    STNI_CUDNN_QUERY,
    STNI_CUDNN_KEY,
    STNI_CUDNN_VALUE,
    STNI_CUDNN_OUT,
    STNI_CUDNN_LSE,
    STNI_CUDNN_GRAD,
    STNI_CUDNN_GRAD_QUERY,
    STNI_CUDNN_GRAD_KEY,
    STNI_CUDNN_GRAD_VALUE,
    STNI_CUDNN_MEANS, /* scratch: a float for each query row, (batch, heads, rows) */
    STNI_CUDNN_ATTENTION_OPERANDS
};

/* Whether an operand has the rows and heads of keys. */
static inline int stni_cudnn_is_by_keys(int operand)
{
    return operand == STNI_CUDNN_KEY || operand == STNI_CUDNN_VALUE || operand == STNI_CUDNN_GRAD_KEY ||
           operand == STNI_CUDNN_GRAD_VALUE;
}

/* Attention of 16-bit floats without mask and dropout: `rows` query rows and `keys` keys for each of `heads` heads, of
 * which heads / key_heads share one head of keys and values, but for gradients none. The log-sum-exp of rows is of f32.
 * Compared by its bytes: set whole from {0}. */
struct stni_cudnn_attention {
    int64_t dtype, is_gradient;
    int64_t causal;  /* 0: every row attends to all keys; else row i to those up to i, or, where is_last, so that the
                        last row attends to all */
    int64_t is_last;
    int64_t batch, heads, key_heads, rows, keys, width, value_width;
    int64_t stride[STNI_CUDNN_MEANS][3]; /* elements from batch to batch, head to head, row to row */
};

/* Bytes of scratch, aligned to 256. STN_ERR_UNSUPPORTED where cuDNN is not there or refuses, for whatever reason. */
stn_status stni_cudnn_conv_workspace(stn_queue *queue, const struct stni_cudnn_conv *conv, size_t *bytes);
stn_status stni_cudnn_attention_workspace(stn_queue *queue, const struct stni_cudnn_attention *attention,
                                          size_t *bytes);

/* Puts it on the queue's stream. STN_ERR_UNSUPPORTED as above: nothing was put there then. `data` has the operands in
 * their order, NULL for those that the problem has not. */
stn_status stni_cudnn_conv_run(stn_queue *queue, const struct stni_cudnn_conv *conv, void *x, void *weight, void *y,
                               void *workspace);
stn_status stni_cudnn_attention_run(stn_queue *queue, const struct stni_cudnn_attention *attention, float scale,
                                    void *const *data, void *workspace);

STN_END_DECLS
#endif
