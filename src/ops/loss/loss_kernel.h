/* The kernels of losses that are a function of input and target, and of at most one operand more, element by
 * element, weighted and summed. */
#ifndef STNI_OPS_LOSS_LOSS_KERNEL_H
#define STNI_OPS_LOSS_LOSS_KERNEL_H

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

#include "core/base/isa.h"

/* Losses, one row each: the value and its derivatives with respect to x, the input, y, the target, and z, a third
 * operand that some losses have: the first by x y z, the second by xx xy yy, xz yz zz. p and q are the loss's
 * numbers. d = x - y, a = |d| and `one` is the sign of d; comparisons are such that NaN stays NaN where PyTorch's
 * does. Functions in capitals are defined in loss_functions.h. */
#define STNI_LOSS_LIST(X)                                                                                                    \
    STNI_LOSS_OF_DIFFERENCE(X)                                                                                               \
    X(binary_cross_entropy, -(y * CLAMPED(LOG(x)) + (1 - y) * CLAMPED(LOG1P(-x))),                                           \
      (x - y) / VARIANCE(x), CLAMPED(LOG1P(-x)) - CLAMPED(LOG(x)), 0,                                                        \
      (x * x - 2 * x * y + y) / (VARIANCE(x) * VARIANCE(x)), -1 / VARIANCE(x), 0, 0, 0, 0)                                   \
    /* z: the weight of the positive */                                                                                      \
    X(binary_cross_entropy_with_logits, (1 - y) * x + (1 + (z - 1) * y) * SOFTPLUS(-x),                                      \
      1 - y - (1 + (z - 1) * y) * SIGMOID(-x), (z - 1) * SOFTPLUS(-x) - x, 0,                                                \
      (1 + (z - 1) * y) * SIGMOID(x) * SIGMOID(-x), -1 - (z - 1) * SIGMOID(-x), 0, 0, 0, 0)                                  \
    X(kl_div, (y == 0 ? 0 : y * LOG(y)) - y * x, -y, LOG(y) + 1 - x, 0, 0, -1, 1 / y, 0, 0, 0)                               \
    X(kl_div_log, EXP(y) * (y - x), -EXP(y), EXP(y) * (y - x + 1), 0, 0, -EXP(y), EXP(y) * (y - x + 2), 0, 0, 0)             \
    /* z: the variance, at least p; q: what is added */                                                                      \
    X(gaussian_nll, (LOG(LEAST(z)) + d * d / LEAST(z)) / 2 + q,                                                              \
      d / LEAST(z), -d / LEAST(z), (1 - d * d / LEAST(z)) / (2 * LEAST(z)),                                                  \
      1 / LEAST(z), -1 / LEAST(z), 1 / LEAST(z), -d / (LEAST(z) * LEAST(z)), d / (LEAST(z) * LEAST(z)),                      \
      (d * d / LEAST(z) - (T)0.5) / (LEAST(z) * LEAST(z)))                                                                   \
    X(poisson_nll, x - y * LOG(x + p) + FULL(STIRLING(y)),                                                                   \
      1 - y / (x + p), FULL(STIRLING_SLOPE(y)) - LOG(x + p), 0,                                                              \
      y / ((x + p) * (x + p)), -1 / (x + p), FULL(STIRLING_BEND(y)), 0, 0, 0)                                                \
    X(poisson_nll_log, EXP(x) - y * x + FULL(STIRLING(y)),                                                                   \
      EXP(x) - y, FULL(STIRLING_SLOPE(y)) - x, 0, EXP(x), -1, FULL(STIRLING_BEND(y)), 0, 0, 0)                               \
    X(soft_margin_loss, SOFTPLUS(-x * y),                                                                                    \
      -y * SIGMOID(-x * y), -x * SIGMOID(-x * y), 0, y * y * SIGMOID(x * y) * SIGMOID(-x * y),                               \
      (x * y * SIGMOID(x * y) - 1) * SIGMOID(-x * y), x * x * SIGMOID(x * y) * SIGMOID(-x * y), 0, 0, 0)                     \
    X(hinge_embedding_loss, (y == 1 ? 0 : x >= p ? 0 : p - x) + (y == -1 ? 0 : x),                                           \
      (y == 1 ? 0 : x < p ? -1 : 0) + (y == -1 ? 0 : 1), 0, 0, 0, 0, 0, 0, 0, 0)

/* Losses that are functions of d alone: value, first and second derivative. The derivatives with respect to y are
 * those with respect to x with the other sign, and are never used. */
#define STNI_LOSS_OF_DIFFERENCE(X)                                                                                           \
    STNI_LOSS_OF_D(X, mse_loss, d * d, 2 * d, 2)                                                                             \
    STNI_LOSS_OF_D(X, l1_loss, a, one, 0)                                                                                    \
    STNI_LOSS_OF_D(X, huber_loss, a <= p ? d * d / 2 : p * (a - p / 2), a > p ? p * one : d, a < p ? 1 : 0)                  \
    STNI_LOSS_OF_D(X, smooth_l1_loss, a < p ? d * d / (2 * p) : a - p / 2, a >= p || p == 0 ? one : d / p,                   \
                   a < p ? 1 / p : 0)
#define STNI_LOSS_OF_D(X, name, value, first, second) X(name, value, first, 0, 0, second, 0, 0, 0, 0, 0)

#define STNI_LOSS_INDEX(name, value, x, y, z, xx, xy, yy, xz, yz, zz) STNI_LOSS_##name,
enum stni_loss { STNI_LOSS_LIST(STNI_LOSS_INDEX) STNI_LOSS_COUNT };
#undef STNI_LOSS_INDEX
enum { STNI_LOSS_LAST_OF_DIFFERENCE = STNI_LOSS_smooth_l1_loss };

enum stni_loss_term {
    STNI_LOSS_VALUE, STNI_LOSS_X, STNI_LOSS_Y, STNI_LOSS_Z,
    STNI_LOSS_XX, STNI_LOSS_XY, STNI_LOSS_YY, STNI_LOSS_XZ, STNI_LOSS_YZ, STNI_LOSS_ZZ, STNI_LOSS_TERMS
};

/* extra is z; grad is the cotangent of the result, absent going forward. */
enum { LOSS_INPUT, LOSS_TARGET, LOSS_WEIGHT, LOSS_EXTRA, LOSS_GRAD, LOSS_OUT, LOSS_OPERANDS };

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
    double p, q;
    const double *total; /* NULL: 1 */
    double *sum;
    void *workspace; /* as many bytes as the kernel asks for */
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
    const void *x, *y, *w, *z, *g;
    void *out;
    double p, q, scale;
    double *sum; /* added to */
};
typedef void (*stni_loss_block_fn)(const struct stni_loss_block *block);
struct stni_loss_kernels {
    stni_loss_block_fn map[2], sum[2]; /* f32, f64 */
};
extern const struct stni_loss_kernels stni_loss_kernels_base, stni_loss_kernels_avx2, stni_loss_kernels_avx512;

#endif
