/* Softmax, logsumexp, normalisations, statistics, exact sums and losses with their gradients on a CUDA device against
 * the CPU's: odd sizes, no elements, few results of many elements, whose sums are taken in parts, and strided
 * inputs. */
#include "both.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>

static const int64_t shapes[][3] = {{3, 5, 7}, {1, 1, 1}, {2, 0, 3}, {2, 17, 66}, {1, 3, 9001}, {700, 6, 3}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const struct precision {
    stn_dtype dtype;
    double tolerance;
} precisions[] = {{STN_DTYPE_F32, 3e-5}, {STN_DTYPE_F64, 1e-11}, {STN_DTYPE_BF16, 0.02}, {STN_DTYPE_F16, 0.003}};
enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

static stn_tensor *leaf(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, int seed)
{
    stn_tensor *t = stn_detach(both_input(context, dtype, ndim, shape, seed));
    stn_set_requires_grad(t, 1);
    return t;
}

/* out = result and the gradients of n leaves, for a cotangent that differs from element to element. */
static int with_gradients(stn_context *context, stn_tensor *result, int n, stn_tensor *const *leaves, stn_tensor **out)
{
    const stn_spec *spec = stn_tensor_spec(result);
    if (stn_context_status(context) != STN_OK)
        return 0;
    stn_tensor *weight = both_input(context, stn_spec_dtype(spec), stn_spec_ndim(spec), stn_spec_shape(spec), 99);
    out[0] = result;
    stn_backward(stn_sum(stn_mul(result, weight), 0, NULL, 0));
    for (int i = 0; i < n; i++)
        if (stn_grad_of(leaves[i], &out[1 + i]) != STN_OK || !out[1 + i])
            return 0;
    return 1 + n;
}

static int softmax_along(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, 3, shape, 1);
    return with_gradients(context, stn_softmax(x, 2), 1, &x, out);
}

static int softmax_across(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, 3, shape, 1);
    return with_gradients(context, stn_softmax(x, 0), 1, &x, out);
}

static int log_softmax_of_a_view(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, 3, shape, 1);
    return with_gradients(context, stn_log_softmax(stn_slice(stn_transpose(x, 0, 2), 0, 0, shape[2], 2), 1), 1, &x,
                          out);
}

static int logsumexp_along(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, 3, shape, 1);
    return with_gradients(context, stn_logsumexp(x, 1, (int[]){2}, 0), 1, &x, out);
}

static int logsumexp_of_a_view(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, 3, shape, 1);
    return with_gradients(context, stn_logsumexp(stn_transpose(x, 0, 2), 2, (int[]){0, 1}, 1), 1, &x, out);
}

static int layer_norm_of_a_line(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *t[] = {leaf(context, dtype, 3, shape, 1), leaf(context, dtype, 1, shape + 2, 2),
                       leaf(context, dtype, 1, shape + 2, 3)};
    return with_gradients(context, stn_layer_norm(t[0], 1, shape + 2, t[1], t[2], 1e-3), 3, t, out);
}

static int layer_norm_of_a_plane(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *t[] = {leaf(context, dtype, 3, shape, 1), leaf(context, dtype, 2, shape + 1, 2)};
    return with_gradients(context, stn_layer_norm(t[0], 2, shape + 1, t[1], NULL, 1e-3), 2, t, out);
}

static int rms_norm_of_a_line(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *t[] = {leaf(context, dtype, 3, shape, 1), leaf(context, dtype, 1, shape + 2, 2)};
    return with_gradients(context, stn_rms_norm(t[0], 1, shape + 2, t[1], 1e-3), 2, t, out);
}

/* Groups of three channels where there are six, else one group. */
static int group_norm(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *t[] = {leaf(context, dtype, 3, shape, 1), leaf(context, dtype, 1, shape + 1, 2),
                       leaf(context, dtype, 1, shape + 1, 3)};
    return with_gradients(context, stn_group_norm(t[0], shape[1] == 6 ? 2 : 1, t[1], t[2], 1e-3), 3, t, out);
}

/* A channel has two elements at least. */
static int batch_norm(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int64_t whole[] = {shape[0] + 1, shape[1], shape[2]};
    stn_tensor *t[] = {leaf(context, dtype, 3, whole, 1), leaf(context, dtype, 1, shape + 1, 2),
                       leaf(context, dtype, 1, shape + 1, 3)};
    return with_gradients(context, stn_batch_norm(t[0], NULL, NULL, t[1], t[2], 1, 0.1, 1e-3, NULL, NULL), 3, t, out);
}

static int statistics(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const int dims[] = {0, 2};
    stn_tensor *x = both_input(context, dtype, 3, shape, 1);
    out[0] = stn_var(x, 0, NULL, 1, 0);
    out[1] = stn_std(x, 2, dims, 0, 0);
    out[2] = stn_var(stn_transpose(x, 1, 2), 1, dims, 1, 0);
    return 3;
}

/* The first third of the weights is 0. */
static int weighted_statistics(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const int dims[] = {0, 2};
    stn_tensor *x = both_input(context, dtype, 3, shape, 1),
               *ones = stn_add_number(stn_mul_number(both_input(context, dtype, 1, shape + 2, 2), 0), 1);
    stn_tensor *weight = stn_cast(stn_gt_number(stn_cumsum(ones, 0), (double)shape[2] / 3), dtype);
    weight = stn_mul(weight, stn_add_number(both_input(context, dtype, 1, shape + 2, 3), 5));
    out[0] = stn_weighted_mean(x, weight, 0, NULL, 0);
    out[1] = stn_weighted_mean(x, weight, 2, dims, 0);
    out[2] = stn_weighted_var(x, weight, 2, dims, 0);
    return 3;
}

static int losses_of_differences(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *t[] = {leaf(context, dtype, 3, shape, 1), leaf(context, dtype, 3, shape, 2)};
    stn_tensor *weight = stn_add_number(both_input(context, dtype, 1, shape + 2, 3), 5);
    stn_tensor *loss = stn_mse_loss(t[0], t[1], weight, STN_REDUCE_MEAN);
    loss = stn_add(loss, stn_smooth_l1_loss(t[0], t[1], STN_REDUCE_MEAN, 0.5));
    loss = stn_add(loss, stn_mean(stn_huber_loss(t[0], t[1], NULL, STN_REDUCE_NONE, 0.75), 0, NULL, 0));
    return with_gradients(context, loss, 2, t, out);
}

static int losses_of_probabilities(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *t[] = {leaf(context, dtype, 3, shape, 1), leaf(context, dtype, 3, shape, 2)};
    stn_tensor *p = stn_sigmoid(t[0]), *q = stn_sigmoid(t[1]);
    stn_tensor *loss = stn_binary_cross_entropy(p, q, NULL, STN_REDUCE_MEAN);
    loss = stn_add(loss, stn_binary_cross_entropy_with_logits(t[0], q, NULL, NULL, STN_REDUCE_MEAN));
    loss = stn_add(loss, stn_kl_div(t[0], q, STN_REDUCE_MEAN, 0));
    loss = stn_add(loss, stn_poisson_nll_loss(t[0], q, 1, 1, 1e-6, STN_REDUCE_MEAN));
    loss = stn_add(loss, stn_gaussian_nll_loss(t[0], t[1], q, 1, 1e-3, STN_REDUCE_MEAN));
    return with_gradients(context, loss, 2, t, out);
}

/* Targets are 1 and -1. */
static int losses_of_signs(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, 3, shape, 1), *sign = stn_sign(both_input(context, dtype, 3, shape, 2));
    stn_tensor *loss = stn_soft_margin_loss(x, sign, STN_REDUCE_MEAN);
    return with_gradients(context, stn_add(loss, stn_hinge_embedding_loss(x, sign, 1.5, STN_REDUCE_NONE)), 1, &x, out);
}

/* Classes lie along dim 1; about one target in five is ignored. */
static stn_tensor *targets(stn_context *context, const int64_t *shape)
{
    const int64_t targets[] = {shape[0], shape[2]};
    stn_tensor *number = stn_cast(
        stn_mul_number(stn_add_number(both_input(context, STN_DTYPE_F32, 2, targets, 4), 4), 1000), STN_DTYPE_I64);
    return stn_add_number(stn_remainder(number, stn_add_number(stn_mul_number(number, 0), (double)(shape[1] + 1))), -1);
}

static int cross_entropy(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, 3, shape, 1), *target = targets(context, shape);
    stn_tensor *weight = stn_add_number(both_input(context, dtype, 1, shape + 1, 3), 5);
    stn_tensor *loss = stn_cross_entropy(x, target, weight, -1, STN_REDUCE_MEAN, 0.125);
    return with_gradients(context, stn_add(loss, stn_nll_loss(x, target, NULL, -1, STN_REDUCE_NONE)), 1, &x, out);
}

/* Classes lie beside each other. */
static int cross_entropy_of_rows(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, 2, shape + 1, 1);
    stn_tensor *target = stn_select(targets(context, (int64_t[]){1, shape[2], shape[1]}), 0, 0);
    stn_tensor *weight = stn_add_number(both_input(context, dtype, 1, shape + 2, 3), 5);
    stn_tensor *loss = stn_cross_entropy(x, target, weight, -1, STN_REDUCE_MEAN, 0.125);
    loss = stn_add(loss, stn_nll_loss(x, target, weight, -1, STN_REDUCE_MEAN));
    return with_gradients(context, stn_add(loss, stn_nll_loss(x, target, NULL, -1, STN_REDUCE_NONE)), 1, &x, out);
}

static void run_all(const both_work *works, size_t n, int with_empty)
{
    for (size_t w = 0; w < n; w++)
        for (int p = 0; p < PRECISIONS; p++)
            for (int s = 0; s < SHAPES; s++)
                if ((with_empty || shapes[s][1] > 0) && (s % 3 == 0 || precisions[p].tolerance < 1e-3))
                    both_compare(&works[w], precisions[p].dtype, shapes[s], precisions[p].tolerance);
}

static void softmax_is_the_cpus(void)
{
    static const both_work works[] = {{"softmax along", softmax_along},
                                      {"softmax across", softmax_across},
                                      {"log_softmax of a view", log_softmax_of_a_view}};
    run_all(works, sizeof works / sizeof works[0], 1);
}

/* Dense rows about the sizes at which more threads take a row or it is no longer kept in registers, of lengths that
 * packs divide and others; few rows, and more than a block has. */
static const int64_t row_shapes[][3] = {{1, 300, 1}, {1, 33, 7},   {2, 17, 8},   {1, 5, 33},   {1, 9, 128},
                                        {3, 3, 255}, {1, 3, 264},  {1, 5, 512},  {1, 3, 520},  {1, 3, 1000},
                                        {1, 5, 1024}, {1, 3, 1032}, {2, 3, 2048}, {1, 3, 2056}, {1, 2, 4104},
                                        {1, 2, 4096}, {1, 3, 4099}, {1, 2, 8191}, {1, 2, 8192}, {1, 2, 8193},
                                        {1, 2, 8200}, {1, 1, 16392}, {2, 301, 264}};
enum { ROW_SHAPES = sizeof row_shapes / sizeof row_shapes[0] };

static void run_rows(const both_work *works, size_t n)
{
    for (size_t w = 0; w < n; w++)
        for (int p = 0; p < PRECISIONS; p++)
            for (int s = 0; s < ROW_SHAPES; s++)
                if (both_takes((int)w + p + s))
                    both_compare(&works[w], precisions[p].dtype, row_shapes[s], precisions[p].tolerance);
}

static int log_softmax_along(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, 3, shape, 1);
    return with_gradients(context, stn_log_softmax(x, 2), 1, &x, out);
}

/* Rows that are dense, but further apart than they are long, and the first begins at the second element. */
static stn_tensor *rows_apart(stn_context *context, stn_dtype dtype, const int64_t *shape, int seed)
{
    const int64_t wide[] = {shape[0], shape[1], shape[2] + 3};
    return stn_slice(both_input(context, dtype, 3, wide, seed), 2, 1, shape[2] + 1, 1);
}

static int softmax_of_rows_apart(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = rows_apart(context, dtype, shape, 1);
    out[0] = stn_softmax(x, 2);
    out[1] = stn_log_softmax(x, 2);
    return 2;
}

/* Some elements are -inf and the NaN is in the rows that have the largest numbers; of the last result all are -inf. */
static int softmax_of_other_numbers(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = both_input(context, dtype, 3, shape, 1);
    stn_tensor *some = stn_masked_fill(x, stn_lt_number(x, -2), -INFINITY);
    out[0] = stn_softmax(some, 2);
    out[1] = stn_softmax(stn_masked_fill(some, stn_gt_number(x, 3.99), NAN), 2);
    out[2] = stn_log_softmax(stn_masked_fill(x, stn_gt_number(x, 3.99), NAN), 2);
    out[3] = stn_softmax(stn_masked_fill(x, stn_gt_number(x, -5), -INFINITY), 2);
    return 4;
}

/* Results down to e^-92, in units of the least normal number, since the tolerance would not see those that are less. */
static int softmax_of_distant_numbers(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = both_input(context, dtype, 3, shape, 1);
    stn_tensor *y = stn_softmax(stn_mul_number(x, 11.5), 2);
    out[0] = stn_mul_number(stn_cast(y, STN_DTYPE_F64), dtype == STN_DTYPE_F16 ? 0x1p14 : 0x1p126);
    out[1] = stn_log_softmax(stn_mul_number(x, 1000), 2);
    out[2] = stn_softmax(stn_add_number(x, 1000), 2);
    return 3;
}

static void softmax_of_rows_is_the_cpus(void)
{
    static const both_work works[] = {{"softmax along", softmax_along},
                                      {"log_softmax along", log_softmax_along},
                                      {"softmax of rows apart", softmax_of_rows_apart},
                                      {"softmax of other numbers", softmax_of_other_numbers},
                                      {"softmax of distant numbers", softmax_of_distant_numbers}};
    run_rows(works, sizeof works / sizeof works[0]);
}

/* Infinite elements and a NaN among them. */
static int logsumexp_of_other_numbers(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = both_input(context, dtype, 3, shape, 1), *large = stn_gt_number(x, 3.99);
    stn_tensor *some = stn_masked_fill(x, stn_lt_number(x, -2), -INFINITY);
    out[0] = stn_logsumexp(some, 1, (int[]){2}, 0);
    out[1] = stn_logsumexp(stn_masked_fill(some, large, NAN), 1, (int[]){2}, 0);
    out[2] = stn_logsumexp(stn_masked_fill(some, large, INFINITY), 2, (int[]){1, 2}, 0);
    out[3] = stn_logsumexp(stn_masked_fill(x, stn_gt_number(x, -5), -INFINITY), 1, (int[]){2}, 0);
    out[4] = stn_logsumexp(rows_apart(context, dtype, shape, 2), 1, (int[]){2}, 1);
    return 5;
}

static void logsumexp_of_rows_is_the_cpus(void)
{
    static const both_work works[] = {{"logsumexp along", logsumexp_along},
                                      {"logsumexp of other numbers", logsumexp_of_other_numbers}};
    run_rows(works, sizeof works / sizeof works[0]);
}

static void logsumexp_is_the_cpus(void)
{
    static const both_work works[] = {{"logsumexp along", logsumexp_along},
                                      {"logsumexp of a view", logsumexp_of_a_view}};
    run_all(works, sizeof works / sizeof works[0], 1);
}

static void normalisations_are_the_cpus(void)
{
    static const both_work works[] = {{"layer_norm of a line", layer_norm_of_a_line},
                                      {"layer_norm of a plane", layer_norm_of_a_plane},
                                      {"rms_norm", rms_norm_of_a_line},
                                      {"group_norm", group_norm},
                                      {"batch_norm", batch_norm}};
    run_all(works, sizeof works / sizeof works[0], 0);
}

/* Without a bias, and with neither. */
static int layer_norm_of_a_line_with_less(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *t[] = {leaf(context, dtype, 3, shape, 1), leaf(context, dtype, 1, shape + 2, 2)};
    stn_tensor *less = stn_layer_norm(t[0], 1, shape + 2, NULL, NULL, 1e-3);
    return with_gradients(context, stn_add(less, stn_layer_norm(t[0], 1, shape + 2, t[1], NULL, 1e-3)), 2, t, out);
}

/* Rows far from 0 and about it, and parameters that begin at the second element of what they are of. */
static int norms_of_rows_apart(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int64_t more = shape[2] + 1, *n = shape + 2;
    stn_tensor *x = rows_apart(context, dtype, shape, 1);
    stn_tensor *weight = stn_slice(both_input(context, dtype, 1, &more, 2), 0, 1, more, 1);
    stn_tensor *bias = stn_slice(both_input(context, dtype, 1, &more, 3), 0, 1, more, 1);
    out[0] = stn_layer_norm(x, 1, n, weight, bias, 1e-3);
    out[1] = stn_rms_norm(x, 1, n, weight, 1e-3);
    out[2] = stn_layer_norm(both_input(context, dtype, 3, shape, 4), 1, n, weight, NULL, 1e-3);
    out[3] = stn_layer_norm(stn_add_number(both_input(context, dtype, 3, shape, 5), 100), 1, n, NULL, bias, 1e-1);
    return 4;
}

/* A NaN, and infinite elements about zero. */
static int norms_of_other_numbers(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = both_input(context, dtype, 3, shape, 1), *large = stn_gt_number(x, 3.99);
    out[0] = stn_layer_norm(stn_masked_fill(x, large, NAN), 1, shape + 2, NULL, NULL, 1e-3);
    out[1] = stn_rms_norm(stn_masked_fill(x, large, INFINITY), 1, shape + 2, NULL, 1e-3);
    out[2] = stn_layer_norm(stn_mul_number(x, 0), 1, shape + 2, NULL, NULL, 1e-3);
    return 3;
}

static void normalisations_of_rows_are_the_cpus(void)
{
    static const both_work works[] = {{"layer_norm of a line", layer_norm_of_a_line},
                                      {"layer_norm of a line with less", layer_norm_of_a_line_with_less},
                                      {"rms_norm", rms_norm_of_a_line},
                                      {"norms of rows apart", norms_of_rows_apart},
                                      {"norms of other numbers", norms_of_other_numbers}};
    run_rows(works, sizeof works / sizeof works[0]);
}

/* Statistics of rows and of channels, whose runs begin where packs do, or not; a channel has two images at least. */
static int norms_of_runs_apart(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int64_t whole[] = {shape[0] + 1, shape[1], shape[2]};
    stn_tensor *x = rows_apart(context, dtype, whole, 1), *weight = both_input(context, dtype, 1, shape + 1, 2);
    stn_tensor *wide = stn_pad(both_input(context, dtype, 3, whole, 3), 2, (int64_t[]){0, 8}, STN_PAD_CONSTANT, 1);
    stn_tensor *far = stn_narrow(wide, 2, 0, shape[2]);
    out[0] = stn_group_norm(x, 1, weight, NULL, 1e-3);
    out[1] = stn_batch_norm(x, NULL, NULL, NULL, weight, 1, 0.1, 1e-3, NULL, NULL);
    out[2] = stn_batch_norm(far, NULL, NULL, weight, weight, 1, 0.1, 1e-3, NULL, NULL);
    out[3] = stn_var(x, 1, (int[]){2}, 0, 0);
    out[4] = stn_var(far, 2, (int[]){0, 2}, 1, 1);
    return 5;
}

static void statistics_of_runs_are_the_cpus(void)
{
    static const both_work works[] = {{"group_norm", group_norm},
                                      {"batch_norm", batch_norm},
                                      {"norms of runs apart", norms_of_runs_apart},
                                      {"var and std", statistics}};
    run_rows(works, sizeof works / sizeof works[0]);
}

static void statistics_are_the_cpus(void)
{
    static const both_work works[] = {{"var and std", statistics}, {"weighted", weighted_statistics}};
    run_all(works, sizeof works / sizeof works[0], 1);
}

/* Of numbers of many magnitudes, dense and strided. */
static int exact_sums(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = both_input(context, dtype, 3, shape, 1), *cube = stn_mul(stn_mul(x, x), x);
    stn_tensor *wide = stn_mul(stn_mul(cube, cube), x);
    (void)context;
    out[0] = stn_exact_sum(wide, 0, NULL, 0);
    out[1] = stn_exact_sum(wide, 1, (int[]){0}, 1);
    out[2] = stn_exact_sum(stn_slice(stn_transpose(wide, 0, 2), 0, 0, shape[2], 2), 2, (int[]){0, 1}, 0);
    return 3;
}

static void losses_of_rows_are_the_cpus(void)
{
    static const both_work works[] = {{"of differences", losses_of_differences},
                                      {"of probabilities", losses_of_probabilities},
                                      {"of signs", losses_of_signs},
                                      {"cross_entropy of rows", cross_entropy_of_rows}};
    run_rows(works, sizeof works / sizeof works[0]);
}

static void exact_sums_are_the_cpus_to_the_bit(void)
{
    static const both_work work = {"exact sums", exact_sums};
    for (int s = 0; s < SHAPES; s++)
        for (int p = 0; p < PRECISIONS; p++)
            both_compare(&work, precisions[p].dtype, shapes[s], 0);
}

static void losses_are_the_cpus(void)
{
    static const both_work works[] = {{"of differences", losses_of_differences},
                                      {"of probabilities", losses_of_probabilities},
                                      {"of signs", losses_of_signs},
                                      {"cross_entropy", cross_entropy}};
    run_all(works, sizeof works / sizeof works[0], 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"softmax_is_the_cpus", softmax_is_the_cpus},
        {"softmax_of_rows_is_the_cpus", softmax_of_rows_is_the_cpus},
        {"logsumexp_is_the_cpus", logsumexp_is_the_cpus},
        {"logsumexp_of_rows_is_the_cpus", logsumexp_of_rows_is_the_cpus},
        {"normalisations_are_the_cpus", normalisations_are_the_cpus},
        {"normalisations_of_rows_are_the_cpus", normalisations_of_rows_are_the_cpus},
        {"statistics_of_runs_are_the_cpus", statistics_of_runs_are_the_cpus},
        {"statistics_are_the_cpus", statistics_are_the_cpus},
        {"exact_sums_are_the_cpus_to_the_bit", exact_sums_are_the_cpus_to_the_bit},
        {"losses_are_the_cpus", losses_are_the_cpus},
        {"losses_of_rows_are_the_cpus", losses_of_rows_are_the_cpus},
    };
    return TEST_MAIN(argc, argv, cases);
}
