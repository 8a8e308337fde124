/* The kernels of losses that are a function of input - target, element by element, weighted and summed. */
#ifndef STNI_OPS_LOSS_LOSS_KERNEL_H
#define STNI_OPS_LOSS_LOSS_KERNEL_H

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

#include "core/isa.h"

/* Losses, one row each: value, slope and curvature in d = input - target, `a` being |d|, `one` the sign of d and p the loss's number. */
/*    name            value                                     slope                     curvature */
#define STNI_LOSS_LIST(X)                                                                                       \
    X(mse_loss,       d * d,                                    2 * d,                    2)                    \
    X(l1_loss,        a,                                        one,                      0)                    \
    X(huber_loss,     a <= p ? d * d / 2 : p * (a - p / 2),     a <= p ? d : p * one,     a <= p ? 1 : 0)       \
    X(smooth_l1_loss, a < p ? d * d / (2 * p) : a - p / 2,      a < p ? d / p : one,      a < p ? 1 / p : 0)

#define STNI_LOSS_INDEX(name, value, slope, curvature) STNI_LOSS_##name,
enum stni_loss { STNI_LOSS_LIST(STNI_LOSS_INDEX) STNI_LOSS_COUNT };
#undef STNI_LOSS_INDEX

enum stni_loss_term { STNI_LOSS_VALUE, STNI_LOSS_SLOPE, STNI_LOSS_CURVATURE };

/* grad is the cotangent of the result, absent going forward. */
enum { LOSS_INPUT, LOSS_TARGET, LOSS_WEIGHT, LOSS_GRAD, LOSS_OUT, LOSS_OPERANDS };

struct stni_loss_operand {
    void *data; /* NULL: all ones; of out: sums are wanted */
    stn_dtype dtype;
    int64_t strides[STN_MAX_NDIM]; /* elements; 0 along broadcast dims */
};

/* out = weight grad term / total, element by element; or sum = {sum of weight term, sum of weight}. */
struct stni_loss_args {
    enum stni_loss loss;
    enum stni_loss_term term;
    stn_dtype compute; /* f32 or f64 */
    int empty, ndim;
    int64_t shape[STN_MAX_NDIM];
    struct stni_loss_operand operand[LOSS_OPERANDS];
    double p;
    const double *total; /* NULL: 1 */
    double *sum;
};

/* total = the sum of weights, `count` or 1; out = sum[0] / total where out is not NULL. */
struct stni_loss_finish_args {
    stn_dtype dtype; /* of out */
    int by_weights;
    double count; /* what is divided by otherwise */
    const double *sum;
    double *total;
    void *out;
};

stn_status stni_loss_cpu(stn_queue *queue, const void *args);
stn_status stni_loss_finish_cpu(stn_queue *queue, const void *args);

/* Dense runs of one compute type, for the CPU's kernel; compiled once per instruction set. */
struct stni_loss_block {
    enum stni_loss loss;
    enum stni_loss_term term;
    int64_t n;
    const void *x, *y, *w, *g;
    void *out;
    double p, scale;
    double *sum; /* added to */
};
typedef void (*stni_loss_block_fn)(const struct stni_loss_block *block);
struct stni_loss_kernels {
    stni_loss_block_fn map[2], sum[2]; /* f32, f64 */
};
extern const struct stni_loss_kernels stni_loss_kernels_base, stni_loss_kernels_avx2, stni_loss_kernels_avx512;

#endif
