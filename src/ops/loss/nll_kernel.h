/* Arguments of the kernels of nll_loss and its backward, shared by every device. */
#ifndef STNI_OPS_LOSS_NLL_KERNEL_H
#define STNI_OPS_LOSS_NLL_KERNEL_H

#include "core/base/inline.h"

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

/* What has a stride per dim of the targets: the numbers of the classes, which forward are the input's and backward
 * the result's; the targets; and a number per target, which forward is the loss and backward the cotangent. */
enum { NLL_X, NLL_TARGET, NLL_EACH, NLL_OPERANDS };

/* With t the target, w the weights, C all classes and s the smoothing, and 0 where the target is ignored or no class:
 *
 *     loss = -((1 - s) w[t] x[t] + s / C sum_c w[c] x[c])
 *
 * over the classes of this chunk. Forward each = loss or, where `each` is NULL, sum = {sum of losses, sum of w[t]}.
 * Backward x is the gradient of each loss / total. */
struct stni_nll_args {
    stn_dtype dtype, target_dtype; /* target: i64, i32 or u8 */
    int64_t n; /* targets here */
    int ndim;  /* of the targets */
    int64_t shape[STN_MAX_NDIM], strides[NLL_OPERANDS][STN_MAX_NDIM], offset[STN_MAX_NDIM]; /* offset: of the chunk, for reports */
    int64_t classes, first, all_classes; /* here, the first one's number, of all ranks */
    int64_t class_step, weight_step;
    int64_t ignore_index;
    double smoothing;
    void *x; /* read forward */
    const void *target, *weight; /* weight NULL: ones */
    void *each;                  /* read backward */
    const double *total;
    double *sum;
    void *workspace; /* as many bytes as the kernel asks for */
    int reports; /* 1: a target that is no class is a value error of `op` */
    int op;
};

/* Of a target: its class in this chunk, or why there is none. */
enum { STNI_NLL_ELSEWHERE = -1, STNI_NLL_IGNORED = -2, STNI_NLL_NO_CLASS = -3 };

STNI_INLINE int64_t stni_nll_target(const struct stni_nll_args *a, int64_t i)
{
    return a->target_dtype == STN_DTYPE_I64   ? ((const int64_t *)a->target)[i]
           : a->target_dtype == STN_DTYPE_I32 ? ((const int32_t *)a->target)[i]
                                              : ((const uint8_t *)a->target)[i];
}

STNI_INLINE int64_t stni_nll_class(const struct stni_nll_args *a, int64_t target)
{
    const int64_t here = target - a->first;
    if (target == a->ignore_index)
        return STNI_NLL_IGNORED;
    if (target < 0 || target >= a->all_classes)
        return STNI_NLL_NO_CLASS;
    return here >= 0 && here < a->classes ? here : (int64_t)STNI_NLL_ELSEWHERE;
}

stn_status stni_nll_cpu(stn_queue *queue, const void *args);
stn_status stni_nll_backward_cpu(stn_queue *queue, const void *args);

#endif
