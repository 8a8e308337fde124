/* Arguments of the softmax kernels, shared by every device. */
#ifndef STNI_OPS_SOFTMAX_SOFTMAX_KERNEL_H
#define STNI_OPS_SOFTMAX_SOFTMAX_KERNEL_H

#include "core/base/isa.h"
#include "ops/common/lines.h"

#include <shardtensor/op.h>

/* Which operand of the lines. */
enum { SOFTMAX_X, SOFTMAX_Y, SOFTMAX_OUT, SOFTMAX_TENSORS };

/* forward: out = softmax(x).  max: stat = max x.  sum: total = sum exp(x - stat), and out is scratch until scale: out =
 * exp(x - stat) / total. backward: out = y (x - sum x y).  dot: stat = sum x y.  apply: out = y (x - stat). x is the
 * cotangent in the last three. `logarithm`: the same of log softmax. scale: out = x - stat - log total.  dot: stat =
 * sum x.  apply: out = x - exp(y) stat. */
struct stni_softmax_args {
    stn_dtype dtype;
    int logarithm;
    struct stni_lines lines;
    const void *x, *y;
    void *out;
    void *stat, *total; /* one number per line: f64 for f64, else f32 */
};

/* The CPU's. */
STNI_ISA_KERNEL(stni_softmax_forward);
STNI_ISA_KERNEL(stni_softmax_max);
STNI_ISA_KERNEL(stni_softmax_sum);
STNI_ISA_KERNEL(stni_softmax_scale);
STNI_ISA_KERNEL(stni_softmax_backward);
STNI_ISA_KERNEL(stni_softmax_dot);
STNI_ISA_KERNEL(stni_softmax_apply);

#endif
