/* softmax and log_softmax on ranks: every layout against one process, what it communicates, and lines without finite
 * elements. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>

struct which {
    int dim, logarithm;
};

static stn_tensor *call_softmax(stn_tensor *const *in, const void *arg)
{
    const struct which *w = arg;
    return w->logarithm ? stn_log_softmax(in[0], w->dim) : stn_softmax(in[0], w->dim);
}

static stn_status random_layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 11;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct against_one_op op = {.call = call_softmax, .n_in = 1, .tolerance = 1e-12};
        random_shape(&state, &op.in[0].shape);
        int ndim = op.in[0].shape.ndim, dim = ndim > 0 ? (int)world_random(&state, 2 * (uint64_t)ndim) - ndim : 0;
        double *values = against_one_draw(&state, against_one_numel(&op.in[0].shape));
        const struct which which = {dim, i % 2};
        op.in[0].dtype = STN_DTYPE_F64;
        op.in[0].values = values;
        op.in[0].ops = 1u << STN_SUM;
        op.arg = &which;
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void every_layout_gives_what_one_process_gives(void)
{
    static const int worlds[] = {1, 2, 3, 5, 6};
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], random_layouts_body, NULL);
}

static stn_status differences_body(stn_context *context, void *arg)
{
    uint64_t state = 23;
    (void)arg;
    for (int i = 0; i < 6; i++) {
        const struct which which = {i % 3, i / 3};
        struct against_one_op op = {.call = call_softmax, .arg = &which, .n_in = 1};
        struct random_shape shape = {.ndim = 3, .shape = {3, 5, 2}};
        double *values = against_one_draw(&state, 30);
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 0};
        against_one_differences(context, &state, &op);
        free(values);
    }
    return STN_OK;
}

static void derivatives_are_those_of_differences(void)
{
    test_ranks(1, differences_body, NULL);
}

enum { LINES = 4, LENGTH = 10 };

/* Both axes cut the softmax's dim; one piece is empty. */
static stn_tensor *shared_lines(stn_context *context)
{
    static const int64_t cut[] = {3, 0, 2, 1, 3, 1};
    const int64_t shape[] = {LINES, LENGTH}, *const sizes[] = {NULL, cut};
    stn_placement both[] = {stn_shard(1), stn_shard(1)};
    return test_tensor(context, test_mesh(context, 2, 3), both, STN_DTYPE_F32, 2, shape, sizes, test_value);
}

/* An all-reduce of n elements among p ranks costs this rank at most 2 (p - 1) messages of the sizes that contract 16
 * names. */
static stn_status communication_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = shared_lines(context), *y;
    y = stn_softmax(x, 1); /* the communicator is made on first use */
    stn_context_stats_reset(context);
    y = stn_softmax(x, 1);
    stn_stats stats = test_stats(context);
    CHECK_I64(stats.collectives, 2);
    CHECK_I64(stats.redistributions, 0);
    CHECK_I64(stats.fallbacks, 0);
    int64_t own = LINES / 6 + (stn_context_rank(context) < LINES % 6);
    CHECK_I64(stats.bytes_sent, 2 * (LINES + 4 * own) * 4);
    CHECK(stn_tensor_spec(y) == stn_tensor_spec(x));
    return stn_scope_end(context);
}

static void two_axes_on_the_dim_share_one_communicator(void)
{
    test_ranks(6, communication_body, NULL);
}

static stn_status local_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {LINES, LENGTH};
    stn_placement rows[] = {stn_shard(0)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 3, 0), rows, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_softmax(x, 1),
               *ones = test_tensor(context, test_mesh(context, 3, 0), rows, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_tensor *grad;
    stn_context_stats_reset(context);
    y = stn_softmax(x, 1);
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_I64(test_stats(context).kernels, 1);
    CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &x, 0, 0, &grad), STN_OK);
    CHECK_I64(test_stats(context).kernels, 2); /* forward and backward: what hosts agree on is no kernel's */
    return stn_scope_end(context);
}

static void whole_lines_are_one_kernel_each_way(void)
{
    test_ranks(3, local_body, NULL);
}

static double mostly_minus_infinity(int64_t i)
{
    int64_t line = i / LENGTH;
    if (line == 0)
        return -INFINITY;
    if (line == 1)
        return i % LENGTH == 7 ? 2.0 : -INFINITY;
    return line == 2 && i % LENGTH == 0 ? NAN : test_value(i);
}

static stn_status infinities_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {LINES, LENGTH};
    stn_placement columns[] = {stn_shard(1)};
    double got[LINES * LENGTH];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), columns, STN_DTYPE_F64, 2,
                                shape, NULL, mostly_minus_infinity);
    test_read(stn_softmax(x, -1), got, LINES * LENGTH);
    for (int j = 0; j < LENGTH; j++) {
        CHECK(isnan(got[j]));
        CHECK_NEAR(got[LENGTH + j], j == 7 ? 1.0 : 0.0, 0);
        CHECK(isnan(got[2 * LENGTH + j]));
        CHECK(got[3 * LENGTH + j] > 0 && got[3 * LENGTH + j] < 1);
    }
    return stn_scope_end(context);
}

static void a_line_of_minus_infinity_is_nan_whoever_holds_it(void)
{
    for (int ranks = 1; ranks <= 5; ranks++)
        test_ranks(ranks, infinities_body, NULL);
}

enum { LONG_LINE = 1000003, LONG_COLUMNS = 100003, N_COLUMNS = 20 };

/* A line begins with 0 and is -0.37 else: sums of its terms in one f32 would be off by parts in a thousand. */
static stn_status long_lines_body(stn_context *context, void *arg)
{
    static const struct random_shape shapes[] = {{1, {LONG_LINE}}, {2, {LONG_COLUMNS, N_COLUMNS}}};
    (void)arg;
    for (int k = 0; k < 4; k++) {
        const struct random_shape *shape = &shapes[k / 2];
        const int64_t n = shape->shape[0], numel = against_one_numel(shape), columns = numel / n;
        const double sum = 1 + (double)(n - 1) * exp((double)-0.37f), first = k % 2 ? -log(sum) : 1 / sum;
        double *values = malloc((size_t)numel * sizeof *values);
        const stn_spec *spec = NULL;
        if (!CHECK(values != NULL))
            return STN_ERR_MEMORY;
        for (int64_t i = 0; i < numel; i++)
            values[i] = i < columns ? 0 : -0.37;
        stn_scope_begin(context);
        CHECK_STATUS(stn_spec_create(context, test_mesh(context, stn_context_size(context), 0),
                                     (stn_placement[]){stn_shard(0)}, STN_DTYPE_F32, shape->ndim, shape->shape, NULL,
                                     &spec),
                     STN_OK);
        stn_tensor *x = against_one_tensor(context, spec, values), *grad = NULL;
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_tensor *y = k % 2 ? stn_log_softmax(x, 0) : stn_softmax(x, 0);
        stn_tensor *cotangent = stn_add_number(stn_mul_number(stn_detach(x), 0), 0.1);
        CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &x, 0, 0, &grad), STN_OK);
        test_read(stn_detach(y), values, numel);
        CHECK_NEAR(values[0] / first, 1, 2e-5);
        CHECK_NEAR(values[columns - 1] / first, 1, 2e-5);
        test_read(grad, values, numel);
        if (k % 2)
            CHECK_NEAR(values[0], 0.1 - 0.1 * (double)n / sum, 2e-5);
        else
            CHECK(fabs(values[0]) <= 1e-10);
        stn_spec_release(&spec);
        free(values);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void sums_of_long_lines_keep_their_digits(void)
{
    for (int ranks = 1; ranks <= 2; ranks++)
        test_ranks(ranks, long_lines_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {2, 3};
    char text[256];
    const stn_spec *spec;
    (void)arg;
    stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 2, shape, NULL, &spec);
    stn_tensor *whole = stn_empty(context, spec), *y = stn_softmax(whole, 0);
    CHECK(stn_tensor_is_error(y));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "softmax: 'input' got i64, wanted a floating dtype");
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_softmax(x, 2);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "softmax: 'dim' got 2, wanted -2 <= dim < 2");
    stn_tensor_release(&whole);
    stn_tensor_release(&x);
    stn_spec_release(&spec);
    return STN_OK;
}

static void integers_and_bad_dims_are_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_layout_gives_what_one_process_gives", every_layout_gives_what_one_process_gives},
        {"derivatives_are_those_of_differences", derivatives_are_those_of_differences},
        {"two_axes_on_the_dim_share_one_communicator", two_axes_on_the_dim_share_one_communicator},
        {"whole_lines_are_one_kernel_each_way", whole_lines_are_one_kernel_each_way},
        {"a_line_of_minus_infinity_is_nan_whoever_holds_it", a_line_of_minus_infinity_is_nan_whoever_holds_it},
        {"sums_of_long_lines_keep_their_digits", sums_of_long_lines_keep_their_digits},
        {"integers_and_bad_dims_are_refused", integers_and_bad_dims_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
