/* group_norm, layer_norm and rms_norm: layouts against one process with second derivatives, what moves, memory,
 * precision, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct norm {
    int64_t groups; /* 0: layer_norm over the last `last` dims, -1: rms_norm */
    int last;
    struct random_shape x;
    int with_weight, with_bias;
};

static const struct norm norms[] = {
    {2, 0, {4, {2, 6, 5, 3}}, 1, 1},  {3, 0, {3, {3, 6, 7}}, 0, 0},    {1, 0, {5, {1, 4, 3, 2, 2}}, 1, 0},
    {4, 0, {2, {5, 8}}, 0, 1},        {2, 0, {3, {2, 4, 0}}, 1, 1},    {2, 0, {3, {0, 4, 3}}, 1, 1},
    {0, 1, {3, {4, 3, 6}}, 1, 1},     {0, 2, {4, {2, 3, 4, 5}}, 1, 0}, {-1, 1, {3, {4, 3, 6}}, 1, 0},
    {-1, 2, {4, {2, 3, 4, 5}}, 0, 0}, {0, 1, {1, {9}}, 0, 0},          {0, 2, {2, {5, 4}}, 0, 1},
};
enum { N_NORMS = sizeof norms / sizeof *norms };

static struct random_shape params_of(const struct norm *n)
{
    struct random_shape p = {1, {n->x.shape[1]}};
    for (int d = 0; n->groups <= 0 && d < n->last; d++)
        p.shape[d] = n->x.shape[n->x.ndim - n->last + d];
    p.ndim = n->groups > 0 ? 1 : n->last;
    return p;
}

static stn_tensor *call_norm(stn_tensor *const *in, const void *arg)
{
    const struct norm *n = arg;
    const struct random_shape p = params_of(n);
    stn_tensor *weight = n->with_weight ? in[1] : NULL, *bias = n->with_bias ? in[1 + n->with_weight] : NULL;
    if (n->groups < 0)
        return stn_rms_norm(in[0], p.ndim, p.shape, weight, 0.1);
    return n->groups ? stn_group_norm(in[0], n->groups, weight, bias, 0.1)
                     : stn_layer_norm(in[0], p.ndim, p.shape, weight, bias, 0.1);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 11;
    (void)arg;
    for (int round = 0; round < test_draws(6); round++)
        for (int i = 0; i < N_NORMS; i++) {
            const struct norm *n = &norms[i];
            const struct random_shape p = params_of(n);
            stn_dtype dtype = round % 3 ? STN_DTYPE_F64 : STN_DTYPE_F32;
            struct against_one_op op = {.call = call_norm, .arg = n, .n_in = 1 + n->with_weight + n->with_bias,
                                        .tolerance = round % 3 ? 1e-11 : 1e-4};
            double *v[3];
            for (int k = 0; k < op.n_in; k++) {
                const struct random_shape *s = k == 0 ? &n->x : &p;
                v[k] = against_one_draw(&state, against_one_numel(s));
                op.in[k] = (struct against_one_input){dtype, *s, v[k], 1u << STN_SUM};
            }
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 1 && against_one_numel(&n->x) > 0)
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

/* Rows cut: one collective forward, of three numbers per group, and one backward, of two; the parameters' gradients
 * stay pending. Channels cut between groups: none. */
static stn_status moves_body(stn_context *context, void *arg)
{
    enum { N = 2, GROUPS = 4 };
    const int64_t shape[] = {N, 8, 9, 5}, c[] = {8};
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    (void)arg;
    for (int cut = 1; cut <= 2; cut++) {
        const int64_t by_groups[] = {2, 0, 6}, *const sizes[] = {NULL, by_groups, NULL, NULL};
        const stn_placement placement = stn_shard(cut), everywhere = stn_replicate();
        stn_scope_begin(context);
        stn_tensor *x =
            test_tensor(context, mesh, &placement, STN_DTYPE_F32, 4, shape, cut == 1 ? sizes : NULL, test_value);
        stn_tensor *w = test_tensor(context, mesh, &everywhere, STN_DTYPE_F32, 1, c, NULL, test_value);
        stn_tensor *in[] = {x, w}, *grads[2];
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
        stn_context_stats_reset(context);
        stn_tensor *y = stn_group_norm(x, GROUPS, w, NULL, 1e-5);
        stn_stats stats = test_stats(context);
        CHECK(stn_tensor_spec(y) == stn_tensor_spec(x));
        CHECK_I64(stats.collectives, cut == 2);
        CHECK_I64(stats.bytes_sent, cut == 2 ? 2 * 3 * 8 * N * GROUPS : 0);
        CHECK_I64(stats.fallbacks, 0);
        stn_tensor *g = stn_detach(x);
        stn_context_stats_reset(context);
        CHECK_STATUS(stn_grad(context, 1, &y, &g, 2, in, 0, 0, grads), STN_OK);
        stats = test_stats(context);
        CHECK_I64(stats.redistributions, 1); /* the weight's gradient, as the leaf lies */
        CHECK(stn_tensor_spec(grads[0]) == stn_tensor_spec(x));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void cut_rows_cost_one_collective_each_way_and_cut_groups_none(void)
{
    test_ranks(3, moves_body, NULL);
}

/* Channels last, as convolutions give it. */
static stn_status memory_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {2, 16, 40, 24};
    const int last[] = {0, 2, 3, 1};
    const stn_spec_options options = {.size = sizeof options, .memory_order = last};
    const stn_placement rows = stn_shard(2);
    const stn_spec *spec;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, test_mesh(context, 2, 0), &rows, STN_DTYPE_F32, 4, shape, &options, &spec),
                 STN_OK);
    int64_t chunk = stn_spec_local_numel(spec) * 4;
    stn_tensor *x = stn_mul_number(stn_empty(context, spec), 0), *grad;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_context_stats_reset(context);
    int64_t before = test_stats(context).live_bytes;
    stn_tensor *y = stn_group_norm(x, 8, NULL, NULL, 1e-5);
    CHECK(stn_tensor_spec(y) == spec);
    CHECK(test_stats(context).peak_bytes - before < chunk + chunk / 4);
    before = test_stats(context).live_bytes;
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_grad(context, 1, &y, &x, 1, &x, 0, 0, &grad), STN_OK);
    CHECK(stn_tensor_spec(grad) == spec);
    CHECK(test_stats(context).peak_bytes - before < chunk + chunk / 4);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void channels_last_stays_so_and_nothing_of_the_inputs_size_is_made_but_the_result(void)
{
    test_ranks(2, memory_body, NULL);
}

/* Short rows, and such as are summed in blocks; about zero the mean square of a row is infinite where one element
 * is. */
static stn_status infinite_body(stn_context *context, void *arg)
{
    static const int64_t lengths[] = {5, 40, 3000};
    const stn_placement cols = stn_shard(1);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (int k = 0; k < 3; k++) {
        const int64_t n = lengths[k], shape[] = {2, n};
        const stn_spec *spec;
        double *x = calloc((size_t)(2 * n), sizeof *x), *y = calloc((size_t)(2 * n), sizeof *y);
        for (int64_t i = 0; i < 2 * n; i++)
            x[i] = i == 3 ? -(double)INFINITY : 2;
        stn_scope_begin(context);
        CHECK_STATUS(stn_spec_create(context, mesh, &cols, STN_DTYPE_F32, 2, shape, NULL, &spec), STN_OK);
        test_read(stn_rms_norm(against_one_tensor(context, spec, x), 1, &n, NULL, 1e-5), y, 2 * n);
        for (int64_t i = 0; i < n; i++) {
            CHECK(i == 3 ? isnan(y[i]) : y[i] == 0);
            CHECK_NEAR(y[n + i], 1, 1e-5);
        }
        stn_spec_release(&spec);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        free(x), free(y);
    }
    return STN_OK;
}

static void an_infinite_element_makes_the_others_of_its_row_0_in_rms_norm(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, infinite_body, NULL);
}

/* Deviations of 1 about 3000: squares in f32 would lose them. In 16 bits statistics are those of the rounded
 * numbers. */
static stn_status precision_body(stn_context *context, void *arg)
{
    enum { COUNT = 2 * 4 * 300 };
    static const struct random_shape shape = {3, {2, 4, 300}};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16};
    static const double bounds[] = {4e-4, 0x1p-8, 0x1p-11}, offsets[] = {3000, 4, 4};
    double *v = malloc(COUNT * sizeof *v), *want = malloc(COUNT * sizeof *want);
    (void)arg;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < COUNT; i++)
            v[i] = offsets[k] + test_value(i);
        stn_scope_begin(context);
        stn_tensor *x = stn_cast(against_one_local(context, STN_DTYPE_F32, &shape, v), dtypes[k]);
        test_read(stn_group_norm(stn_cast(x, STN_DTYPE_F64), 2, NULL, NULL, 1e-5), want, COUNT);
        stn_tensor *y = stn_group_norm(x, 2, NULL, NULL, 1e-5);
        CHECK_I64(stn_tensor_dtype(y), dtypes[k]);
        against_one_compare(stn_cast(y, STN_DTYPE_F32), want, 1.01 * bounds[k]);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    free(v), free(want);
    return STN_OK;
}

static void statistics_are_taken_wide_about_an_element(void)
{
    test_ranks(1, precision_body, NULL);
}

/* By name an eps below 0 is added as it is, and is NaN where no root is; one that is absent is small. So is one below
 * 0 of the typed function. */
static stn_status eps_body(stn_context *context, void *arg)
{
    static const double eps[] = {-0.5, -1.5}, ones[] = {1, 1, 1, 1};
    const struct random_shape shape = {1, {4}};
    const int64_t four = 4;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        const stn_attr attrs[] = {{"normalized_shape", STN_ATTR_INTS, {.ints = {1, {4}}}},
                                  {"eps", STN_ATTR_FLOAT, {.f = eps[i % 2]}}};
        double got[4], g[4];
        stn_scope_begin(context);
        stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &shape, ones), *y = NULL, *grad;
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        CHECK_STATUS(stn_call(context, "rms_norm", 1, &x, i < 2 ? 2 : 1, attrs, 1, &y), STN_OK);
        test_read(y, got, 4);
        CHECK(i == 1 ? isnan(got[3]) : fabs(got[3] - (i == 0 ? sqrt(2) : 1)) < 1e-12);
        stn_tensor *sum = stn_sum(y, 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &x, 0, 0, &grad), STN_OK);
        test_read(grad, g, 4);
        CHECK(i == 1 ? isnan(g[3]) : fabs(g[3] - (i == 0 ? -sqrt(2) : 0)) < 1e-12);
        test_read(stn_rms_norm(x, 1, &four, NULL, -0.5), got, 4);
        CHECK_NEAR(got[0], 1, 1e-12);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void an_eps_below_0_is_one_by_name(void)
{
    test_ranks(1, eps_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[64];
    char text[512];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){3, {2, 6, 3}}, zeros);
    stn_tensor *w = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {5}}, zeros);
    stn_tensor *wide = against_one_local(context, STN_DTYPE_F64, &(struct random_shape){1, {6}}, zeros);
    CHECK(stn_tensor_is_error(stn_group_norm(x, 4, NULL, NULL, 1e-5)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "group_norm: 'num_groups' got 4, wanted a divisor of the 6 channels");
    CHECK(stn_tensor_is_error(stn_group_norm(w, 1, NULL, NULL, 1e-5)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "group_norm: 'input' got shape (5), wanted (n, channels, …)");
    CHECK(stn_tensor_is_error(stn_group_norm(x, 2, w, NULL, 1e-5)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "group_norm: 'weight' got shape (5), wanted (6)");
    CHECK(stn_tensor_is_error(stn_group_norm(x, 2, NULL, wide, 1e-5)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "group_norm: 'bias' got f64, wanted f32");
    CHECK(stn_tensor_is_error(stn_layer_norm(x, 2, (int64_t[]){6, 4}, NULL, NULL, 1e-5)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "layer_norm: 'normalized_shape' got (6, 4), wanted the last dims of 'input', of shape (2, 6, 3)");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

static stn_status no_channels_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {2, 0, 3};
    const stn_placement place = stn_shard(1);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), &place, STN_DTYPE_F32, 3,
                                shape, NULL, test_value),
               *grad = NULL;
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_group_norm(x, 2, NULL, NULL, 1e-5);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &(stn_tensor *){stn_detach(y)}, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    CHECK_I64(grad ? stn_tensor_shape(grad)[2] : -1, 3);
    return stn_scope_end(context);
}

static void no_channels_are_normalised_to_none(void)
{
    test_ranks(1, no_channels_body, NULL);
    test_ranks(3, no_channels_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"cut_rows_cost_one_collective_each_way_and_cut_groups_none",
         cut_rows_cost_one_collective_each_way_and_cut_groups_none},
        {"channels_last_stays_so_and_nothing_of_the_inputs_size_is_made_but_the_result",
         channels_last_stays_so_and_nothing_of_the_inputs_size_is_made_but_the_result},
        {"statistics_are_taken_wide_about_an_element", statistics_are_taken_wide_about_an_element},
        {"no_channels_are_normalised_to_none", no_channels_are_normalised_to_none},
        {"an_infinite_element_makes_the_others_of_its_row_0_in_rms_norm",
         an_infinite_element_makes_the_others_of_its_row_0_in_rms_norm},
        {"an_eps_below_0_is_one_by_name", an_eps_below_0_is_one_by_name},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
