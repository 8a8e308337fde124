/* Kernels of normalisations on the CPU: passes over the chunk, and between them what is done with statistics, of
 * which there are few. */
#include "core/base/dtype.h"
#include "core/device/device.h"
#include "ops/norm/norm_rows.h"
#include "ops/common/moments.h"

#include <math.h>
#include <string.h>

/* An empty chunk may have no memory. */
static void clear(double *sums, int64_t n)
{
    if (n > 0)
        memset(sums, 0, (size_t)n * sizeof *sums);
}

/* Stands for a weight or a bias that is absent, in any of the four dtypes. */
static const float one_f32 = 1;
static const double one_f64 = 1;
static const uint16_t one_bf16 = 0x3f80, one_f16 = 0x3c00;
static const void *const ones[] = {&one_f32, &one_f64, &one_bf16, &one_f16};
static const double zero;

static const struct stni_norm_cpu *kernels(const stn_queue *queue)
{
    return STNI_ISA_PICK(stni_norm_cpu, queue->isa);
}

static int64_t coarse_count(const struct stni_norm_args *a)
{
    return a->rows * a->groups;
}

static double element(stn_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case STN_DTYPE_F32: return ((const float *)data)[i];
    case STN_DTYPE_F64: return ((const double *)data)[i];
    case STN_DTYPE_BF16: return stni_bf16_to_f32(((const uint16_t *)data)[i]);
    case STN_DTYPE_F16: return stni_f16_to_f32(((const uint16_t *)data)[i]);
    case STN_DTYPE_I64:
    case STN_DTYPE_I32:
    case STN_DTYPE_I16:
    case STN_DTYPE_I8:
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL:
    case STN_DTYPE_C64: case STN_DTYPE_C128: case STN_DTYPE_COUNT:
        break;
    }
    return 0;
}

static void set_element(stn_dtype dtype, void *data, int64_t i, double value)
{
    switch (dtype) {
    case STN_DTYPE_F32: ((float *)data)[i] = (float)value; break;
    case STN_DTYPE_F64: ((double *)data)[i] = value; break;
    case STN_DTYPE_BF16: ((uint16_t *)data)[i] = stni_f32_to_bf16((float)value); break;
    case STN_DTYPE_F16: ((uint16_t *)data)[i] = stni_f32_to_f16((float)value); break;
    case STN_DTYPE_I64:
    case STN_DTYPE_I32:
    case STN_DTYPE_I16:
    case STN_DTYPE_I8:
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL:
    case STN_DTYPE_C64: case STN_DTYPE_C128: case STN_DTYPE_COUNT:
        break;
    }
}

static stn_dtype stat_dtype(const struct stni_norm_args *a)
{
    return a->dtype == STN_DTYPE_F64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
}

/* Four numbers per fine index, and two for each element of a parameter. */
size_t stni_norm_workspace(stn_queue *queue, const void *args)
{
    const struct stni_norm_args *a = args;
    (void)queue;
    return (size_t)(4 * a->rows * a->channels + 2 * a->params) * sizeof(double);
}

/* The n-th array of one number per fine index in the workspace, each with space for an f64. */
static double *fine_array(const struct stni_norm_args *a, int n)
{
    return (double *)a->workspace + n * a->rows * a->channels;
}

/* Moments */

/* The first element that belongs to each fine index: no sum of squares of deviations from it can drown the variance,
 * of which its own deviation is a part. */
static void take_shifts(const struct stni_norm_args *a, double *shift)
{
    const int64_t *const to = a->strides[NORM_STAT], *const from = a->strides[NORM_X];
    int64_t index[STN_MAX_NDIM] = {0}, f = 0, offset = 0;
    for (int d; ; index[d]++, f += to[d], offset += from[d]) {
        shift[f] = stni_moments_shift(element(a->dtype, a->x, offset));
        for (d = a->ndim - 1; d >= 0 && (to[d] == 0 || index[d] == a->shape[d] - 1); d--) {
            f -= to[d] * index[d];
            offset -= from[d] * index[d];
            index[d] = 0;
        }
        if (d < 0)
            return;
    }
}

/* Of all that belong to one fine index the first element with a weight: what has none may be anything, a mark of
 * what is missing too. */
static double first_weighted(const struct stni_norm_args *a, int64_t x_at, int64_t weight_at)
{
    const int64_t *const to = a->strides[NORM_STAT], *const x = a->strides[NORM_X], *const w = a->strides[NORM_WEIGHT],
                         first = x_at;
    int64_t index[STN_MAX_NDIM] = {0};
    for (int d; element(a->dtype, a->weight, weight_at) == 0; index[d]++, x_at += x[d], weight_at += w[d]) {
        for (d = a->ndim - 1; d >= 0 && (to[d] != 0 || index[d] == a->shape[d] - 1); d--) {
            x_at -= x[d] * index[d];
            weight_at -= w[d] * index[d];
            index[d] = 0;
        }
        if (d < 0)
            return element(a->dtype, a->x, first);
    }
    return element(a->dtype, a->x, x_at);
}

/* As take_shifts. */
static void take_weighted_shifts(const struct stni_norm_args *a, double *shift)
{
    const int64_t *const to = a->strides[NORM_STAT], *const x = a->strides[NORM_X], *const w = a->strides[NORM_WEIGHT];
    int64_t index[STN_MAX_NDIM] = {0}, f = 0, x_at = 0, weight_at = 0;
    for (int d; ; index[d]++, f += to[d], x_at += x[d], weight_at += w[d]) {
        shift[f] = stni_moments_shift(first_weighted(a, x_at, weight_at));
        for (d = a->ndim - 1; d >= 0 && (to[d] == 0 || index[d] == a->shape[d] - 1); d--) {
            f -= to[d] * index[d];
            x_at -= x[d] * index[d];
            weight_at -= w[d] * index[d];
            index[d] = 0;
        }
        if (d < 0)
            return;
    }
}

static int64_t elements(const struct stni_norm_args *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->ndim; d++)
        n *= a->shape[d];
    return n;
}

stn_status stni_norm_moments_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_norm_args *a = raw;
    const int64_t fine = a->rows * a->channels, coarse = coarse_count(a);
    double *shift = fine_array(a, 2);
    clear(a->coarse, 3 * coarse);
    if (a->empty)
        return STN_OK;
    const struct stni_norm_pass pass = {.args = a, .stat = {shift}, .weight = ones[a->dtype], .target = NORM_STAT,
                                        .sum = {fine_array(a, 0), fine_array(a, 1)},
                                        .ahead = stni_queue_run_ahead(queue, STNI_NORM_AHEAD)};
    const double n = (double)(elements(a) / fine);
    clear(fine_array(a, 0), 3 * fine);
    if (!a->about_zero)
        take_shifts(a, shift);
    kernels(queue)->moments[a->dtype](&pass);
    for (int64_t row = 0, f = 0; row < a->rows; row++)
        for (int64_t c = 0; c < a->channels; c++, f++) {
            const int64_t i = stni_norm_coarse_of(a, row, c);
            const struct stni_moments own =
                stni_moments_of_sums(n, shift[f], a->about_zero ? 0 : fine_array(a, 0)[f], fine_array(a, 1)[f]);
            stni_moments_write(a->coarse, coarse, i, stni_moments_join(stni_moments_read(a->coarse, coarse, i), own));
        }
    return STN_OK;
}

stn_status stni_norm_weighted_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_norm_args *a = raw;
    double *shift = a->coarse + a->rows;
    clear(a->coarse, STNI_WEIGHTED_PLANES * a->rows);
    if (a->empty)
        return STN_OK;
    struct stni_norm_pass pass = {.args = a,
                                  .stat = {shift},
                                  .weight = a->weight,
                                  .weight_step = 1,
                                  .target = NORM_STAT,
                                  .sum = {a->coarse + 2 * a->rows, a->coarse + 3 * a->rows}};
    take_weighted_shifts(a, shift);
    kernels(queue)->moments[a->dtype](&pass);
    pass.sum[0] = a->coarse;
    kernels(queue)->weights[a->dtype](&pass);
    return STN_OK;
}

/* Normalise */

static void merge_parts(const struct stni_norm_args *a)
{
    const int64_t n = coarse_count(a);
    for (int64_t i = 0; i < n; i++) {
        const struct stni_moments all = stni_moments_merge(a->parts, a->n_parts, n, i);
        set_element(stat_dtype(a), a->mean, i, all.mean);
        set_element(stat_dtype(a), a->rstd, i, stni_norm_rstd(all.n, all.m2, a->eps));
        if (a->var)
            set_element(stat_dtype(a), a->var, i, all.m2 / (all.n - 1));
    }
}

/* A coarse statistic as one number for each fine index, in the n-th array. */
static const void *spread(const struct stni_norm_args *a, const void *coarse, int n)
{
    void *to = fine_array(a, n);
    if (a->per_group == 1)
        return coarse;
    for (int64_t row = 0, f = 0; row < a->rows; row++)
        for (int64_t c = 0; c < a->channels; c++, f++)
            set_element(stat_dtype(a), to, f, element(stat_dtype(a), coarse, stni_norm_coarse_of(a, row, c)));
    return to;
}

/* What a pass that writes the result needs but for the statistics. */
static struct stni_norm_pass result_pass(const stn_queue *queue, const struct stni_norm_args *a, int streamed)
{
    return (struct stni_norm_pass){
        .args = a, .weight = a->weight ? a->weight : ones[a->dtype], .weight_step = a->weight != NULL,
        .bias = a->bias ? a->bias : &zero, .bias_step = a->bias != NULL, .to = a->y, .streamed = streamed,
        .ahead = streamed ? stni_queue_run_ahead(queue, STNI_NORM_AHEAD) : 0,
    };
}

void stni_norm_normalise_parts(const stn_queue *queue, const struct stni_norm_args *a, int streamed, int64_t ahead)
{
    merge_parts(a);
    if (a->empty)
        return;
    struct stni_norm_pass pass = result_pass(queue, a, streamed);
    pass.stat[0] = spread(a, a->mean, 0);
    pass.stat[1] = spread(a, a->rstd, 1);
    pass.ahead = ahead;
    kernels(queue)->normalise[a->dtype](&pass);
}

int stni_norm_has_whole(const stn_queue *queue, stn_dtype dtype)
{
    return kernels(queue)->whole[dtype] != NULL;
}

void stni_norm_normalise_whole(const stn_queue *queue, const struct stni_norm_args *a, int streamed)
{
    const struct stni_norm_pass pass = result_pass(queue, a, streamed);
    kernels(queue)->whole[a->dtype](&pass);
}

/* Backward */

/* Sums per channel: they are those of the parameters, summed over rows, and weighted those of the groups. */
static void fold_channels(const struct stni_norm_args *a, double *const sum[2])
{
    const int64_t n = coarse_count(a);
    for (int64_t c = 0; c < a->channels; c++) {
        const double w = a->weight ? element(a->dtype, a->weight, c * a->weight_step) : 1;
        double total[2] = {0, 0};
        for (int64_t row = 0; row < a->rows; row++)
            for (int k = 0; k < 2; k++) {
                double s = sum[k][row * a->channels + c];
                total[k] += s;
                a->coarse[k * n + stni_norm_coarse_of(a, row, c)] += w * s;
            }
        set_element(a->dtype, a->grad_bias, c, total[0]);
        set_element(a->dtype, a->grad_weight, c, total[1]);
    }
}

/* Parameters that lie along the lines of which there are statistics: their sums are a pass of their own. */
static void sum_lines_and_params(const stn_queue *queue, const struct stni_norm_args *a,
                                 const struct stni_norm_pass *lines)
{
    double *sum = fine_array(a, 4);
    struct stni_norm_pass pass[] = {*lines, *lines};
    clear(sum, 2 * a->params);
    pass[1].target = NORM_PARAM;
    pass[1].weight = ones[a->dtype];
    pass[1].weight_step = 0;
    pass[1].sum[0] = sum;
    pass[1].sum[1] = sum + a->params;
    if (!a->empty)
        stni_norm_sum_slices(queue, pass);
    for (int64_t i = 0; i < a->params; i++) {
        set_element(a->dtype, a->grad_bias, i, sum[i]);
        set_element(a->dtype, a->grad_weight, i, sum[a->params + i]);
    }
}

stn_status stni_norm_sums_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_norm_args *a = raw;
    const int64_t fine = a->rows * a->channels;
    const int along = a->along;
    clear(a->coarse, 2 * coarse_count(a));
    const struct stni_norm_pass pass = {
        .args = a, .stat = {spread(a, a->mean, 0), spread(a, a->rstd, 1)}, .target = NORM_STAT,
        .weight = along && a->weight ? a->weight : ones[a->dtype], .weight_step = along && a->weight != NULL,
        .sum = {along ? a->coarse : fine_array(a, 2), along ? a->coarse + coarse_count(a) : fine_array(a, 3)},
    };
    if (along) {
        sum_lines_and_params(queue, a, &pass);
        return STN_OK;
    }
    clear(fine_array(a, 2), 2 * fine);
    if (!a->empty)
        kernels(queue)->sums[a->dtype](&pass);
    fold_channels(a, pass.sum);
    return STN_OK;
}

stn_status stni_norm_apply_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_norm_args *a = raw;
    const stn_dtype stat = stat_dtype(a);
    void *mean_gradient = fine_array(a, 2), *variance_gradient = fine_array(a, 3);
    for (int64_t row = 0, f = 0; row < a->rows; row++)
        for (int64_t c = 0; c < a->channels; c++, f++) {
            int64_t i = stni_norm_coarse_of(a, row, c);
            double rstd = element(stat, a->rstd, i);
            set_element(stat, mean_gradient, f, stni_norm_mean_gradient(a, rstd, i));
            set_element(stat, variance_gradient, f, stni_norm_variance_gradient(a, rstd, i));
        }
    const struct stni_norm_pass pass = {
        .args = a, .stat = {spread(a, a->mean, 0), spread(a, a->rstd, 1), mean_gradient, variance_gradient},
        .weight = a->weight ? a->weight : ones[a->dtype], .weight_step = a->weight != NULL, .to = a->out,
        .streamed = stni_norm_is_streamed(a, NORM_OUT), .ahead = stni_queue_run_ahead(queue, STNI_NORM_AHEAD),
    };
    kernels(queue)->apply[a->dtype](&pass);
    return STN_OK;
}
