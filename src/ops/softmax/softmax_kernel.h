/* Arguments of the softmax kernels, shared by every device. */
#ifndef STNI_OPS_SOFTMAX_SOFTMAX_KERNEL_H
#define STNI_OPS_SOFTMAX_SOFTMAX_KERNEL_H

#include "ops/util/lines.h"

#include <shardtensor/op.h>

/* Which operand of the lines. */
enum { SOFTMAX_X, SOFTMAX_Y, SOFTMAX_OUT, SOFTMAX_TENSORS };

/* forward: out = softmax(x).  max: stat = max x.  sum: total = sum exp(x - stat), and out is scratch until
 * scale: out = exp(x - stat) / total.
 * backward: out = y (x - sum x y).  dot: stat = sum x y.  apply: out = y (x - stat). x is the cotangent in the last three.
 * `logarithm`: the same of log softmax. scale: out = x - stat - log total.  dot: stat = sum x.  apply: out = x - exp(y) stat. */
struct stni_softmax_args {
    stn_dtype dtype;
    int logarithm;
    struct stni_lines lines;
    const void *x, *y;
    void *out;
    void *stat, *total; /* one number per line: f64 for f64, else f32 */
};

stn_status stni_softmax_forward_cpu(stn_queue *queue, const void *args);
stn_status stni_softmax_max_cpu(stn_queue *queue, const void *args);
stn_status stni_softmax_sum_cpu(stn_queue *queue, const void *args);
stn_status stni_softmax_scale_cpu(stn_queue *queue, const void *args);
stn_status stni_softmax_backward_cpu(stn_queue *queue, const void *args);
stn_status stni_softmax_dot_cpu(stn_queue *queue, const void *args);
stn_status stni_softmax_apply_cpu(stn_queue *queue, const void *args);

/* The CPU's, one table per instruction set. */
typedef void (*stni_softmax_fn)(const struct stni_softmax_args *args);
struct stni_softmax_cpu {
    stni_softmax_fn forward, max, sum, scale, backward, dot, apply;
};
extern const struct stni_softmax_cpu stni_softmax_cpu_base, stni_softmax_cpu_avx2, stni_softmax_cpu_avx512;

#endif
