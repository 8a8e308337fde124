/* batch_norm and instance_norm: layouts against one process with second derivatives, statistics against plain loops,
 * what moves, mixed dtypes, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

struct norm {
    int per_sample, own; /* own: statistics are the input's */
    struct random_shape x;
    int with_weight, with_bias;
};

static const struct norm norms[] = {
    {0, 1, {4, {3, 4, 2, 3}}, 1, 1}, {0, 1, {2, {7, 5}}, 0, 0},    {0, 1, {3, {4, 3, 5}}, 1, 0}, {1, 1, {3, {3, 4, 6}}, 1, 1},
    {1, 1, {4, {2, 3, 4, 2}}, 0, 1}, {0, 0, {3, {3, 5, 4}}, 1, 1}, {1, 0, {2, {4, 3}}, 0, 0},    {0, 0, {4, {2, 3, 2, 2}}, 1, 0},
    {0, 1, {3, {2, 0, 3}}, 1, 1},    {0, 1, {3, {0, 4, 3}}, 1, 0}, {1, 1, {3, {2, 4, 0}}, 1, 0}, {1, 0, {3, {0, 4, 3}}, 1, 1},
};
enum { N_NORMS = sizeof norms / sizeof *norms };
static const double MOMENTUM = 0.3, EPS = 0.1;

/* Running statistics are whole numbers of 16 channels, since they have no gradient to be compared. */
static stn_tensor *call_norm(stn_tensor *const *in, const void *arg)
{
    const struct norm *n = arg;
    stn_tensor *running = stn_cast(in[1], stn_tensor_dtype(in[0])), *new_mean, *new_var;
    stn_tensor *weight = n->with_weight ? in[2] : NULL, *bias = n->with_bias ? in[2 + n->with_weight] : NULL;
    if (n->own && !n->with_bias)
        running = NULL;
    return (n->per_sample ? stn_instance_norm : stn_batch_norm)(in[0], running, running, weight, bias, n->own, MOMENTUM,
                                                                EPS, &new_mean, &new_var);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 13;
    (void)arg;
    for (int round = 0; round < test_draws(6); round++)
        for (int i = 0; i < N_NORMS; i++) {
            const struct norm *n = &norms[i];
            const struct random_shape channels = {1, {n->x.shape[1]}};
            struct against_one_op op = {
                .call = call_norm, .arg = n, .n_in = 2 + n->with_weight + n->with_bias, .tolerance = 1e-11};
            double *v[4];
            for (int k = 0; k < op.n_in; k++) {
                const struct random_shape *s = k == 0 ? &n->x : &channels;
                v[k] = against_one_draw(&state, against_one_numel(s));
                for (int64_t c = 0; c < s->shape[0] && k == 1; c++)
                    v[k][c] = (double)(1 + c % 3);
                op.in[k] = (struct against_one_input){k == 1 ? STN_DTYPE_I64 : STN_DTYPE_F64, *s, v[k],
                                                      k == 1 ? 0 : 1u << STN_SUM};
            }
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
                against_one_differences(context, &state, &op);
            for (int k = 0; k < op.n_in; k++)
                free(v[k]);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

enum { N = 5, C = 3, K = 7 };

/* Mean and variance of all elements but one of the set of channel c and, per_sample, sample i. */
static void moments(int per_sample, int64_t i, int64_t c, double *mean, double *var)
{
    double sum = 0, square = 0;
    int64_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t s = per_sample ? i : 0; s < (per_sample ? i + 1 : N); s++)
            for (int64_t k = 0; k < K; k++) {
                const double x = test_value((s * C + c) * K + k);
                sum += pass == 0 ? x : 0;
                square += pass == 0 ? 0 : (x - *mean) * (x - *mean);
                n += pass == 0;
            }
        *mean = sum / (double)n;
    }
    *var = square / (double)(n - 1);
}

/* Samples and elements cut over a 2 x 3 mesh, uneven and empty: y, and running statistics, as plain loops give them;
 * one collective. */
static stn_status statistics_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {N, C, K}, channels[] = {C}, rows[] = {5, 0}, *const sizes[] = {rows, NULL, NULL};
    const stn_placement cut[] = {stn_shard(0), stn_shard(2)}, everywhere[] = {stn_replicate(), stn_replicate()};
    const stn_mesh *mesh = test_mesh(context, 2, 3);
    double got[2][C], y[N * C * K];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, cut, STN_DTYPE_F32, 3, shape, sizes, test_value), *stat[2];
    stn_tensor *running = test_tensor(context, mesh, everywhere, STN_DTYPE_F32, 1, channels, NULL, test_value);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    for (int per_sample = 0; per_sample < 2; per_sample++) {
        stn_context_stats_reset(context);
        stn_tensor *out = (per_sample ? stn_instance_norm : stn_batch_norm)(x, running, running, NULL, NULL, 1,
                                                                            MOMENTUM, EPS, &stat[0], &stat[1]);
        stn_stats stats = {.size = sizeof stats};
        stn_context_stats(context, &stats);
        CHECK(stn_tensor_spec(out) == stn_tensor_spec(x));
        CHECK_I64(stats.fallbacks, 0);
        if (!per_sample)
            CHECK_I64(stats.collectives, 1);
        CHECK(!stn_requires_grad(stat[0]) && !stn_requires_grad(stat[1]));
        test_read(out, y, N * C * K);
        test_read(stat[0], got[0], C);
        test_read(stat[1], got[1], C);
        for (int64_t c = 0; c < C; c++) {
            double mean, var, means = 0, vars = 0;
            const int64_t sets = per_sample ? N : 1, count = per_sample ? K : N * K;
            for (int64_t i = 0; i < N; i++) {
                moments(per_sample, i, c, &mean, &var);
                means += i < sets ? mean / (double)sets : 0;
                vars += i < sets ? var / (double)sets : 0;
                const double biased = var * (double)(count - 1) / (double)count;
                for (int64_t k = 0; k < K; k++)
                    CHECK_NEAR(y[(i * C + c) * K + k], (test_value((i * C + c) * K + k) - mean) / sqrt(biased + EPS),
                               1e-5);
            }
            CHECK_NEAR(got[0][c], (1 - MOMENTUM) * test_value(c) + MOMENTUM * means, 1e-6);
            CHECK_NEAR(got[1][c], (1 - MOMENTUM) * test_value(c) + MOMENTUM * vars, 1e-6);
        }
    }
    return stn_scope_end(context);
}

static void statistics_are_those_of_all_ranks_and_cost_one_collective(void)
{
    test_ranks(6, statistics_body, NULL);
}

/* A half-precision input beside wide parameters and statistics. */
static stn_status mixed_body(stn_context *context, void *arg)
{
    static const struct random_shape shape = {3, {2, 2, 50}}, channels = {1, {2}};
    double v[200], y[200], mean[2];
    stn_tensor *new_mean, *new_var;
    (void)arg;
    for (int i = 0; i < 200; i++)
        v[i] = 4 + (i % 8) / 8.0;
    stn_scope_begin(context);
    stn_tensor *x = stn_cast(against_one_local(context, STN_DTYPE_F32, &shape, v), STN_DTYPE_BF16);
    stn_tensor *p = against_one_local(context, STN_DTYPE_F32, &channels, (double[]){4, 2});
    for (int training = 0; training < 2; training++) {
        stn_tensor *out = stn_batch_norm(x, p, p, p, p, training, 1, 0, &new_mean, &new_var);
        CHECK_I64(stn_tensor_dtype(out), STN_DTYPE_BF16);
        CHECK((new_mean != NULL) == training && (new_var != NULL) == training);
        test_read(stn_cast(out, STN_DTYPE_F64), y, 200);
        for (int i = 0; i < 200 && !training; i++) {
            const double s = i / 50 % 2 ? 2 : 4;
            CHECK_NEAR(y[i], (v[i] - s) / sqrt(s) * s + s, 0x1p-8 * 8);
        }
    }
    CHECK_I64(stn_tensor_dtype(new_mean), STN_DTYPE_F32);
    test_read(new_mean, mean, 2);
    double sum[2] = {0, 0};
    for (int i = 0; i < 200; i++)
        sum[i / 50 % 2] += v[i] / 100;
    for (int c = 0; c < 2; c++)
        CHECK_NEAR(mean[c], sum[c], 1e-6);
    return stn_scope_end(context);
}

static void halves_go_with_wide_parameters(void)
{
    test_ranks(1, mixed_body, NULL);
}

/* What stands at a few places of channel 0, of (4, 2, depth); the means that PyTorch 2.15 gives then, beside variances
 * of NaN. Channel 1 is as it was. */
static const struct special {
    double first, middle, last; /* 0: nothing special */
    double mean;
} specials[] = {
    {INFINITY, 0, 0, INFINITY},         {0, INFINITY, 0, INFINITY}, {0, 0, -INFINITY, -INFINITY},
    {INFINITY, 0, INFINITY, INFINITY},  {0, -INFINITY, -INFINITY, -INFINITY},
    {INFINITY, 0, -INFINITY, NAN},      {0, NAN, INFINITY, NAN},
};
static const struct special *special; /* of this call, for all ranks */
static int64_t special_depth;

static double special_value(int64_t i)
{
    const int64_t row = 2 * special_depth;
    const int64_t last = 4 * row - special_depth - 1;
    const double at = i == 0 ? special->first : i == 2 * row + 1 ? special->middle : i == last ? special->last : 0;
    return at != 0 ? at : test_value(i);
}

static void check_special(stn_context *context, const stn_placement *place, stn_dtype dtype, int per_sample,
                          double rate)
{
    const int64_t shape[] = {4, 2, special_depth}, channels = 2;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement whole = stn_replicate();
    double mean[2], var[2], wanted = 0, tolerance = stn_dtype_size(dtype) < 4 ? 1e-2 : 1e-6;
    for (int64_t i = 0; i < 8 * special_depth; i++)
        wanted += i / special_depth % 2 == 1 ? test_value(i) / (double)(4 * special_depth) : 0;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, place, STN_DTYPE_F64, 3, shape, NULL, special_value), *stat[2];
    stn_tensor *running = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 1, &channels, NULL, test_value);
    x = stn_cast(x, dtype);
    (per_sample ? stn_instance_norm : stn_batch_norm)(x, running, running, NULL, NULL, 1, rate, EPS, stat, stat + 1);
    test_read(stat[0], mean, 2);
    test_read(stat[1], var, 2);
    if (stn_spec_local_numel(stn_tensor_spec(stat[0])) > 0) {
        CHECK_NEAR(mean[0], special->mean, 0);
        CHECK(isnan(var[0]));
        CHECK(fabs(mean[1] - rate * wanted - (1 - rate) * test_value(1)) < tolerance);
        CHECK(isfinite(var[1]));
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

/* Without samples, and with samples without elements. */
static stn_status empty_body(stn_context *context, void *arg)
{
    const stn_placement places[] = {stn_replicate(), stn_shard(0), stn_shard(1), stn_shard(2)}, whole = stn_replicate();
    const int64_t shapes[][3] = {{0, 3, 2}, {4, 3, 0}}, channels = 3;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (int k = 0; k < 2 * 4 * 2 * 2; k++) {
        const int64_t *shape = shapes[k & 1];
        const double momentum = k >> 1 & 1 ? 1 : 0.25;
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, mesh, &places[k >> 3], STN_DTYPE_F64, 3, shape, NULL, test_value);
        stn_tensor *stat[2];
        stn_tensor *running = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 1, &channels, NULL, test_value);
        (k >> 2 & 1 ? stn_instance_norm : stn_batch_norm)(x, running, running, NULL, NULL, 1, momentum, EPS, stat,
                                                         stat + 1);
        for (int i = 0; i < 2; i++)
            test_compare(stat[i], (double[]){test_value(0), test_value(1), test_value(2)}, channels, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void an_input_without_elements_keeps_running_statistics(void)
{
    test_ranks(1, empty_body, NULL);
    test_ranks(2, empty_body, NULL);
}

static stn_status special_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F64, STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16};
    const stn_placement places[] = {stn_replicate(), stn_shard(0), stn_shard(2)};
    (void)arg;
    for (int p = 0; p < 3; p++)
        for (int d = 0; d < 4; d++)
            for (int per_sample = 0; per_sample < 2; per_sample++) {
                check_special(context, &places[p], dtypes[d], per_sample, 0.25);
                check_special(context, &places[p], dtypes[d], per_sample, 1);
            }
    return STN_OK;
}

static void an_infinite_element_makes_an_infinite_mean(void)
{
    for (special_depth = 3; special_depth < 1000; special_depth += 700)
        for (size_t s = 0; s < sizeof specials / sizeof *specials; s++) {
            special = &specials[s];
            for (int ranks = 1; ranks <= 3; ranks++)
                test_ranks(ranks, special_body, NULL);
        }
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[24];
    char text[512];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){2, {1, 4}}, zeros);
    stn_tensor *p = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {4}}, zeros);
    stn_tensor *w = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {3}}, zeros);
    CHECK(stn_tensor_is_error(stn_batch_norm(x, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5, NULL, NULL)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "batch_norm: 'input' got shape (1, 4), wanted more than one element per statistic");
    CHECK(stn_tensor_is_error(stn_batch_norm(x, p, NULL, NULL, NULL, 0, 0.1, 1e-5, NULL, NULL)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "batch_norm: 'running_var' is absent, wanted both running statistics, since they are to be used");
    CHECK(stn_tensor_is_error(stn_instance_norm(x, p, p, w, NULL, 0, 0.1, 1e-5, NULL, NULL)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "instance_norm: 'weight' got shape (3), wanted (4)");
    CHECK(stn_tensor_is_error(stn_batch_norm(p, p, p, NULL, NULL, 0, 0.1, 1e-5, NULL, NULL)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "batch_norm: 'input' got shape (4), wanted (n, channels, …)");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"statistics_are_those_of_all_ranks_and_cost_one_collective",
         statistics_are_those_of_all_ranks_and_cost_one_collective},
        {"halves_go_with_wide_parameters", halves_go_with_wide_parameters},
        {"an_infinite_element_makes_an_infinite_mean", an_infinite_element_makes_an_infinite_mean},
        {"an_input_without_elements_keeps_running_statistics", an_input_without_elements_keeps_running_statistics},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
