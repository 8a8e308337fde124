/* Arguments of the softmax kernels, shared by every device. */
#ifndef STNI_OPS_SOFTMAX_SOFTMAX_KERNEL_H
#define STNI_OPS_SOFTMAX_SOFTMAX_KERNEL_H

#include <shardtensor/op.h>

enum { SOFTMAX_X, SOFTMAX_Y, SOFTMAX_OUT, SOFTMAX_TENSORS };

/* Lines along the softmax dim of up to three tensors of one shape. Line l is the l-th of the remaining dims in the order given here,
 * which is the same on all ranks that share lines. Strides in elements. */
struct stni_softmax_lines {
    int64_t n;                     /* elements of this rank along the dim */
    int64_t step[SOFTMAX_TENSORS]; /* from one to the next */
    int ndim;                      /* the other dims, slowest first; at least one */
    int64_t shape[STN_MAX_NDIM];
    int64_t strides[SOFTMAX_TENSORS][STN_MAX_NDIM];
};

/* forward: out = softmax(x).  max: stat = max x.  sum: total = sum exp(x - stat), and out is scratch until
 * scale: out = exp(x - stat) / total.
 * backward: out = y (x - sum x y).  dot: stat = sum x y.  apply: out = y (x - stat). x is the cotangent in the last three.
 * `logarithm`: the same of log softmax. scale: out = x - stat - log total.  dot: stat = sum x.  apply: out = x - exp(y) stat. */
struct stni_softmax_args {
    stn_dtype dtype;
    int logarithm;
    struct stni_softmax_lines lines;
    const void *x, *y;
    void *out;
    void *stat, *total; /* one number per line: f64 for f64, else f32 */
};

/* The lines of tensors of local shape `shape`; entries of `strides` may be NULL. `order`: dims from the slowest in memory. */
void stni_softmax_lines_make(struct stni_softmax_lines *lines, int dim, int ndim, const int64_t *shape, const uint8_t *order,
                             const int64_t *const strides[SOFTMAX_TENSORS]);

int64_t stni_softmax_lines_count(const struct stni_softmax_lines *lines);

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
