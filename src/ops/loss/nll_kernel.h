/* Arguments of the kernels of nll_loss and its backward, shared by every device. */
#ifndef STNI_OPS_LOSS_NLL_KERNEL_H
#define STNI_OPS_LOSS_NLL_KERNEL_H

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

/* What has a stride per dim of the targets: the numbers of the classes, which forward are the input's and backward the result's; the targets; and a
 * number per target, which forward is the loss and backward the cotangent. */
enum { NLL_X, NLL_TARGET, NLL_EACH, NLL_OPERANDS };

/* With t the target, w the weights, C all classes and s the smoothing, and 0 where the target is ignored or no class:
 *
 *     loss = -((1 - s) w[t] x[t] + s / C sum_c w[c] x[c])
 *
 * over the classes of this chunk. Forward each = loss or, where `each` is NULL, sum = {sum of losses, sum of w[t]}. Backward x is the gradient of
 * each loss / total. */
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
    int reports; /* 1: a target that is no class is a value error of `op` */
    int op;
};

stn_status stni_nll_cpu(stn_queue *queue, const void *args);
stn_status stni_nll_backward_cpu(stn_queue *queue, const void *args);

#endif
