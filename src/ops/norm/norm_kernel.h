/* Arguments of the kernels of normalisations, shared by every device.
 *
 * Statistics belong to groups of elements. The kernels pass over a chunk with one line of statistics per *fine*
 * index: of group_norm a channel of an image, of layer_norm a row. Fine indices are numbered (rows, channels); fine
 * (r, c) belongs to *coarse* index (r, (c + offset) / per_group), which is how mean and rstd lie. Sums over fine
 * indices are f64. */
#ifndef STNI_OPS_NORM_NORM_KERNEL_H
#define STNI_OPS_NORM_NORM_KERNEL_H

#include <shardtensor/op.h>

/* What has a stride per dim: y is the result going forward, the cotangent going back; out the gradient; stat the
 * fine index; weight; and param, the bias going forward, the index of a parameter's element (dense) going back. */
enum { NORM_X, NORM_Y, NORM_OUT, NORM_STAT, NORM_WEIGHT, NORM_PARAM, NORM_OPERANDS };

/* moments:   coarse = (count, mean, sum of squared deviations) of this rank's elements, three planes (ops/common/moments.h), of whatever weight;
 *            about zero: (count, 0, sum of squares), which is infinite, and not NaN, where an element is.
 * weighted:  coarse = (sum of weights, a number c, sums of weight (x - c) and weight (x - c)^2), four planes; the weight may be another for each
 *            element and of either sign; fine and coarse indices are the same.
 * normalise: mean, rstd, var from `parts`, n_parts times what moments gave, in the order of ranks, or, where parts are NULL, from this rank's
 *            elements, which are all there are; y = (x - mean) rstd weight + bias.
 * sums:      coarse = the sums of weight y and of weight y (x - mean) rstd, two planes; grad_weight, grad_bias of this rank's elements.
 * apply:     out = rstd (weight y - (coarse[0] + (x - mean) rstd coarse[1]) / count), without coarse[0] about 0.
 *            Of what is `whole` a device may leave the sums of rows to it. */
struct stni_norm_args {
    stn_dtype dtype;
    const void *x, *weight, *bias; /* weight, bias: NULL where there is none */
    void *y, *out;
    int empty; /* no elements here */
    int whole; /* sums and apply, which follow each other at once: all elements of each statistic are here */
    int ndim;  /* at least 1 */
    int64_t shape[STN_MAX_NDIM], strides[NORM_OPERANDS][STN_MAX_NDIM]; /* sorted by x's strides, largest first */
    int64_t rows, channels, groups, offset, per_group;
    int along;           /* parameters run along the elements of a fine index; else they are of channels */
    int64_t params;      /* along: elements of a parameter here; else 0 */
    int64_t weight_step; /* else: of the weight from channel to channel */
    int64_t count;       /* elements of a group on all ranks */
    int about_zero;      /* mean is 0 and the variance the mean square */
    double eps;
    double *coarse;
    void *workspace; /* as many bytes as the kernel asks for; kernels that follow each other may have the same */
    const double *parts;
    int n_parts;
    void *mean, *rstd, *var;        /* f64 for f64, else f32; dense. var: of all elements but one; NULL: not wanted */
    void *grad_weight, *grad_bias;  /* dense */
};

stn_status stni_norm_moments_cpu(stn_queue *queue, const void *args);
stn_status stni_norm_weighted_cpu(stn_queue *queue, const void *args);
stn_status stni_norm_normalise_cpu(stn_queue *queue, const void *args);
stn_status stni_norm_sums_cpu(stn_queue *queue, const void *args);
stn_status stni_norm_apply_cpu(stn_queue *queue, const void *args);
size_t stni_norm_workspace(stn_queue *queue, const void *args); /* of each of them */

/* normalise with parts, on the CPU. `streamed`: the result is written by non-temporal stores, and x is prefetched
 * `ahead` bytes further on. */
void stni_norm_normalise_parts(const stn_queue *queue, const struct stni_norm_args *args, int streamed, int64_t ahead);

/* normalise without parts, of rows that stni_norm_cpu.whole takes, where there is such a function of the dtype. */
int stni_norm_has_whole(const stn_queue *queue, stn_dtype dtype);
void stni_norm_normalise_whole(const stn_queue *queue, const struct stni_norm_args *args, int streamed);

/* The passes over the chunk of the CPU's kernels, one table per instruction set. */
struct stni_norm_pass {
    const struct stni_norm_args *args;
    const void *stat[4];  /* per fine index: f64 for moments, else as mean and rstd are. moments: a shift; others: mean, rstd, …;
                             apply: also what is subtracted, and what is times x - mean */
    const void *weight;   /* never NULL */
    const void *bias;
    int64_t weight_step, bias_step; /* 0 where a one or a zero stands for it, else 1 */
    int target;           /* NORM_STAT or NORM_PARAM: what sums belong to */
    double *sum[2];
    void *to;             /* the result of normalise and apply */
    int streamed;         /* the result is written by non-temporal stores */
    int64_t ahead;        /* how far ahead x is prefetched, bytes; 0: not at all */
};

/* Bytes to prefetch ahead: hardware prefetchers stop at the end of a page. */
enum { STNI_NORM_AHEAD = 8192 };

/* Whether operand `out` is large and contiguous, so that non-temporal stores write it. */
int stni_norm_is_streamed(const struct stni_norm_args *args, int out);

/* Two passes of sums over the same operands. */
void stni_norm_sum_slices(const stn_queue *queue, const struct stni_norm_pass *pass);

typedef void (*stni_norm_pass_fn)(const struct stni_norm_pass *pass);
struct stni_norm_cpu {
    stni_norm_pass_fn moments[4], weights[4], normalise[4], sums[4], apply[4]; /* by dtype: f32 f64 bf16 f16 */
    stni_norm_pass_fn whole[4]; /* statistics and result of dense rows, each a group by itself; NULL: the two passes serve */
};
extern const struct stni_norm_cpu stni_norm_cpu_base, stni_norm_cpu_avx2, stni_norm_cpu_avx512;

#endif
