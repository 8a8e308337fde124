/* Pools: by plain loops, in random layouts against one process, by differences; what travels, what is refused,
 * halves, NaN. */
#include "ops/pool/pools.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static stn_status plain_body(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int i = 0; i < 150; i++) {
        struct random_shape shape, out;
        struct pool_case c;
        double *places, *wanted;
        pool_draw(&state, &shape, &c);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        pool_plain(&c, &shape, values, &out, &wanted, &places);
        stn_scope_begin(context);
        stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &shape, values), *y = pool_call(&x, &c);
        for (int d = 0; d < out.ndim; d++)
            CHECK_I64(stn_tensor_shape(y)[d], out.shape[d]);
        against_one_compare(y, wanted, 1e-13);
        c.picks = c.max;
        if (c.picks)
            against_one_compare(pool_call(&x, &c), places, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        free(values), free(wanted), free(places);
    }
    return STN_OK;
}

static void pools_are_those_of_plain_loops(void)
{
    test_ranks(1, plain_body, NULL);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 29;
    (void)arg;
    for (int i = 0; i < 70; i++) {
        struct pool_case c;
        struct against_one_op op = {.call = pool_call, .arg = &c, .n_in = 1};
        struct random_shape shape;
        pool_draw(&state, &shape, &c);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){i % 4 ? STN_DTYPE_F64 : STN_DTYPE_F32, shape, values, 1u << STN_SUM};
        op.tolerance = i % 4 ? 1e-13 : 4e-6;
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

/* Integers, many of them equal. */
static stn_status places_body(stn_context *context, void *arg)
{
    uint64_t state = 17;
    (void)arg;
    for (int i = 0; i < 60; i++) {
        struct random_shape shape, out;
        struct pool_case c;
        double *places, *wanted;
        pool_draw(&state, &shape, &c);
        c.max = c.picks = 1;
        double *values = against_one_draw(&state, against_one_numel(&shape));
        for (int64_t k = 0; k < against_one_numel(&shape); k++)
            values[k] = floor(4 * values[k]);
        pool_plain(&c, &shape, values, &out, &wanted, &places);
        const stn_spec *spec = random_spec(&state, context, random_mesh(&state, context), &shape, STN_DTYPE_I64, 0);
        stn_scope_begin(context);
        stn_tensor *x = against_one_tensor(context, spec, values);
        against_one_compare(pool_call(&x, &c), places, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        stn_spec_release(&spec);
        free(values), free(wanted), free(places);
    }
    return STN_OK;
}

static void places_in_every_layout_are_those_in_the_whole_input(void)
{
    static const int worlds[] = {2, 3, 6};
    for (int i = 0; i < 3; i++)
        test_ranks(worlds[i], places_body, NULL);
}

static void pools_in_every_layout_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

static stn_status differences_body(stn_context *context, void *arg)
{
    uint64_t state = 43;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct pool_case c;
        struct against_one_op op = {.call = pool_call, .arg = &c, .n_in = 1};
        struct random_shape shape;
        pool_draw(&state, &shape, &c);
        shape.shape[0]++;
        double *values = pool_values(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 0};
        against_one_differences(context, &state, &op);
        free(values);
    }
    return STN_OK;
}

static void gradients_are_those_of_differences(void)
{
    test_ranks(1, differences_body, NULL);
}

enum { H = 40, W = 7, CHANNELS = 3 };

/* 40 rows on 2 ranks, windows of 3 rows with a pad of 1: rank 0 lacks one row and rank 1 another. At stride 2 rank
 * 1's outputs begin at row 19, which rank 0 has; nothing else travels. */
static stn_status halo_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {1, CHANNELS, H, W};
    stn_pool_attrs attrs = {.size = sizeof attrs, .kernel_size = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
    stn_placement rows[] = {stn_shard(2)};
    int first = stn_context_rank(context) == 0;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 4, shape, NULL, test_value);
    stn_avg_pool2d(x, &attrs); /* the communicator is made on first use */
    for (int stride = 1; stride <= 2; stride++) {
        attrs.stride[0] = stride;
        stn_context_stats_reset(context);
        int64_t before = test_stats(context).peak_bytes;
        stn_tensor *y = stride == 1 ? stn_avg_pool2d(x, &attrs) : stn_max_pool2d(x, &attrs, NULL);
        CHECK_I64(test_stats(context).collectives, 1);
        CHECK_I64(test_stats(context).bytes_sent, stride == 1 || first ? CHANNELS * W * 4 : 0);
        CHECK_I64(stn_tensor_local_shape(y)[2], H / 2 / stride);
        CHECK(test_stats(context).peak_bytes - before < CHANNELS * H / 2 * W * 4 + 6000); /* the result, tables and a few rows */
    }
    attrs = (stn_pool_attrs){.size = sizeof attrs, .kernel_size = {2, 2}};
    stn_context_stats_reset(context);
    stn_max_pool2d(x, &attrs, NULL);
    CHECK_I64(test_stats(context).collectives, 0);
    return stn_scope_end(context);
}

static void only_rows_beyond_a_cut_travel(void)
{
    test_ranks(2, halo_body, NULL);
}

/* The mean of all pixels, as classifiers take it: each rank has its addend. Of the greatest one ranks gather a number
 * and a place; the gradient is put where it belongs by each rank. */
static stn_status one_part_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {2, CHANNELS, H, W}, one[] = {1, 1};
    const stn_placement places[][1] = {{stn_shard(2)}, {stn_shard(3)}};
    (void)arg;
    for (int i = 0; i < 2; i++) {
        stn_scope_begin(context);
        const stn_mesh *mesh = test_mesh(context, 3, 0);
        stn_tensor *x = test_tensor(context, mesh, places[i], STN_DTYPE_F64, 4, shape, NULL, test_value);
        stn_context_stats_reset(context);
        stn_tensor *y = stn_adaptive_avg_pool2d(x, one);
        CHECK_I64(test_stats(context).collectives, 0);
        CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_PARTIAL);
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_context_stats_reset(context);
        y = stn_adaptive_max_pool2d(x, one, NULL);
        CHECK_I64(test_stats(context).collectives, 2);
        CHECK(test_stats(context).bytes_sent <= 2 * 2 * CHANNELS * (8 + 8));
        CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_REPLICATE);
        stn_tensor *grad;
        stn_context_stats_reset(context);
        CHECK_STATUS(stn_grad(context, 1, &y, &y, 1, &x, 0, 0, &grad), STN_OK);
        CHECK(test_stats(context).bytes_sent <= 120); /* what backward agrees on */
        CHECK(stn_tensor_spec(grad) == stn_tensor_spec(x));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void of_one_part_little_travels(void)
{
    test_ranks(3, one_part_body, NULL);
}

/* Equal elements, zeros of both signs, and NaNs in several ranks' chunks, one of which is empty. */
static stn_status order_among_ranks_body(stn_context *context, void *arg)
{
    enum { LINES = 4, N = 5 };
    const int64_t shape[] = {1, LINES, N};
    const double in[] = {1, 7, 7, 3, 7, NAN, 2, NAN, 9, 1, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                         -0.0, 0, -0.0, 0, -1};
    const double wanted[] = {1, 2, 0, 0};
    const int64_t cut[] = {2, 0, 2, 1}, *const sizes[] = {NULL, NULL, cut};
    const stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_placement last[] = {stn_shard(2)};
    const stn_spec *spec;
    double values[LINES], at[LINES];
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, 4, 0);
    CHECK_STATUS(stn_spec_create(context, mesh, last, STN_DTYPE_F64, 3, shape, &options, &spec), STN_OK);
    stn_tensor *places, *y = stn_adaptive_max_pool1d(stn_from_host_global(context, spec, in), 1, &places);
    test_read(y, values, LINES);
    test_read(stn_cast(places, STN_DTYPE_F64), at, LINES);
    CHECK(values[0] == 7 && isnan(values[1]) && values[2] == -INFINITY && values[3] == 0 && signbit(values[3]));
    CHECK_BYTES(at, wanted, sizeof at);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void equal_elements_of_several_ranks_are_taken_in_order(void)
{
    test_ranks(4, order_among_ranks_body, NULL);
}

/* Of equal elements the first, of NaNs the last; -infinity is a maximum too. */
static stn_status order_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {3, {1, 4, 4}};
    const stn_pool_attrs attrs = {.size = sizeof attrs, .kernel_size = {2, 2}};
    static const double in[] = {1, 2, NAN, 0, 2, 1, 5, NAN, -INFINITY, -INFINITY, 3, 3, -INFINITY, -INFINITY, 3, 3};
    static const double wanted[] = {1, 7, 8, 10};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &shape, in), *places;
    for (int i = 0; i < 4; i++) {
        double values[4], got[4];
        test_read(stn_cast(stn_max_pool2d(stn_cast(x, dtypes[i]), &attrs, &places), STN_DTYPE_F64), values, 4);
        CHECK(values[0] == 2 && isnan(values[1]) && values[2] == -INFINITY && values[3] == 3);
        test_read(stn_cast(places, STN_DTYPE_F64), got, 4);
        CHECK_BYTES(got, wanted, sizeof got);
    }
    return stn_scope_end(context);
}

static void equal_elements_and_nan_are_taken_in_order(void)
{
    test_ranks(1, order_body, NULL);
}

/* Numbers that are often equal, zeros of both signs, infinities and NaNs. */
static double number_of_kind(int i)
{
    return i % 41 == 0  ? (double)NAN
           : i % 7 == 0 ? -(double)INFINITY
           : i % 5 == 0 ? (i % 2 ? 0.0 : -0.0)
                        : (double)(i * 37 % 64);
}

/* The bits of the maxima of windows of `kernel`, with and without indices. */
static void check_alone(stn_tensor *x, int64_t kernel, int64_t stride, int64_t dilation)
{
    const stn_pool_attrs attrs = {.size = sizeof attrs, .kernel_size = {kernel, kernel}, .stride = {stride, stride},
                                  .padding = {kernel / 2, kernel / 2}, .dilation = {dilation, dilation}};
    stn_tensor *places, *alone = stn_max_pool2d(x, &attrs, NULL);
    const int64_t n = stn_spec_numel(stn_tensor_spec(alone));
    double *with = calloc((size_t)n, sizeof *with), *without = calloc((size_t)n, sizeof *without);
    test_read(stn_cast(stn_max_pool2d(x, &attrs, &places), STN_DTYPE_F64), with, n);
    test_read(stn_cast(alone, STN_DTYPE_F64), without, n);
    CHECK_BYTES(without, with, (size_t)n * sizeof *with);
    free(with), free(without);
}

/* Maxima alone are compared in loops of their own: several lines at a time, of which those with two columns from
 * target to target are parted. */
static stn_status alone_body(stn_context *context, void *arg)
{
    static const struct random_shape shapes[] = {{3, {2, 19, 37}}, {3, {1, 9, 1111}}, {3, {1, 5, 13}}};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16,
                                       STN_DTYPE_I64, STN_DTYPE_I32, STN_DTYPE_U8};
    (void)arg;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t n = against_one_numel(&shapes[i]);
        double *in = calloc((size_t)n, sizeof *in);
        for (int k = 0; k < n; k++)
            in[k] = number_of_kind(k);
        stn_scope_begin(context);
        stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &shapes[i], in);
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int64_t stride = 1; stride <= 3; stride++)
                for (int64_t kernel = 1; kernel <= 4; kernel++)
                    check_alone(stn_cast(x, dtypes[d]), kernel, stride,
                                kernel == 3 && stride == 2 ? 1 + (int64_t)i % 2 : 1);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        free(in);
    }
    return STN_OK;
}

static void maxima_without_indices_are_those_with_them(void)
{
    test_ranks(1, alone_body, NULL);
}

/* 16-bit data is computed in f32 and rounded once: gradients of overlapping windows give what f32 gives, rounded. */
static stn_status halves_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {1, CHANNELS, 8, W};
    const stn_pool_attrs attrs = {.size = sizeof attrs, .kernel_size = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
    stn_placement rows[] = {stn_shard(2)};
    double got[CHANNELS * 8 * W], wanted[CHANNELS * 8 * W];
    (void)arg;
    stn_scope_begin(context);
    for (int k = 0; k < 4; k++) {
        stn_dtype half = k % 2 ? STN_DTYPE_BF16 : STN_DTYPE_F16;
        stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 4, shape, NULL, test_value);
        stn_tensor *in[2] = {stn_detach(stn_cast(x, half))}, *out[2], *grad[2];
        in[1] = stn_detach(stn_cast(in[0], STN_DTYPE_F32));
        for (int i = 0; i < 2; i++) {
            stn_set_requires_grad(in[i], 1);
            out[i] = k < 2 ? stn_avg_pool2d(in[i], &attrs) : stn_max_pool2d(in[i], &attrs, NULL);
        }
        stn_tensor *g[2] = {stn_detach(out[0])};
        g[1] = stn_cast(g[0], STN_DTYPE_F32);
        for (int i = 0; i < 2; i++)
            stn_grad(context, 1, &out[i], &g[i], 1, &in[i], 0, 0, &grad[i]);
        test_read(stn_cast(grad[0], STN_DTYPE_F32), got, CHANNELS * 8 * W);
        test_read(stn_cast(stn_cast(grad[1], half), STN_DTYPE_F32), wanted, CHANNELS * 8 * W);
        CHECK_BYTES(got, wanted, sizeof got);
    }
    return stn_scope_end(context);
}

static void halves_are_summed_in_f32(void)
{
    test_ranks(2, halves_body, NULL);
}

enum { MEANS = 5 };

static stn_tensor *mean_of_many(stn_tensor *x, int which)
{
    const int64_t n = stn_spec_numel(stn_tensor_spec(x)), line[] = {1, 1, n}, square[] = {1, 1, n / 1000, 1000},
                  cube[] = {1, 1, 10, n / 500, 50};
    const stn_pool_attrs long_windows = {.size = sizeof long_windows, .kernel_size = {5000}, .stride = {1000}};
    const stn_interpolate_attrs area = {.size = sizeof area, .mode = STN_INTERPOLATE_AREA, .output_size = {3, 1}};
    switch (which) {
    case 0: return stn_adaptive_avg_pool1d(stn_view(x, 3, line), 1);
    case 1: return stn_avg_pool1d(stn_view(x, 3, line), &long_windows);
    case 2: return stn_adaptive_avg_pool2d(stn_view(x, 4, square), (int64_t[]){1, 2});
    case 3: return stn_interpolate(stn_view(x, 4, square), &area);
    default: return stn_adaptive_avg_pool3d(stn_view(x, 5, cube), (int64_t[]){2, 1, 1});
    }
}

/* Numbers of one sign, so that sums grow. */
static stn_status many_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {1, {1000000}};
    double *values = malloc(1000000 * sizeof *values), want[1024];
    (void)arg;
    for (int i = 0; i < 1000000; i++)
        values[i] = (double)(float)(0.1 + 1e-3 * test_value(i));
    stn_scope_begin(context);
    stn_tensor *exact = against_one_local(context, STN_DTYPE_F64, &shape, values),
               *x = against_one_local(context, STN_DTYPE_F32, &shape, values);
    for (int k = 0; k < MEANS; k++) {
        stn_tensor *y = mean_of_many(exact, k);
        const int64_t n = stn_spec_numel(stn_tensor_spec(y));
        test_read(y, want, n);
        against_one_compare(mean_of_many(x, k), want, 4 * 0x1p-23);
    }
    test_read(mean_of_many(exact, 0), want, 1);
    long double sum = 0;
    for (int i = 0; i < 1000000; i++)
        sum += values[i];
    CHECK_NEAR(want[0], (double)(sum / 1000000), 100 * 0x1p-52);
    free(values);
    return stn_scope_end(context);
}

static void means_of_a_million_are_as_exact_as_those_of_few(void)
{
    test_ranks(1, many_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {1, 2, 4, 4}, sizes[] = {2, -2};
    stn_placement rows[] = {stn_shard(2)};
    const stn_pool_attrs none = {.size = sizeof none},
                         pads = {.size = sizeof pads, .kernel_size = {2, 2}, .padding = {2, 0}},
                         wide = {.size = sizeof wide, .kernel_size = {5, 2}};
    const stn_attr divisor[] = {{.name = "kernel_size", .type = STN_ATTR_INT, .value.i = 2},
                                {.name = "divisor_override", .type = STN_ATTR_INT}};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 4, shape, NULL, test_value),
               *out;
    stn_max_pool2d(x, &none, NULL);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "max_pool2d: 'kernel_size' got 0, wanted 1 to 2147483647");
    stn_avg_pool2d(x, &pads);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "avg_pool2d: 'padding' got 2, wanted at most half of the window's extent, 1");
    stn_avg_pool2d(x, &wide);
    CHECK_ERROR(context, STN_ERR_SHAPE, "avg_pool2d: a window of 5 does not fit into 4 elements with pads of 0");
    stn_max_pool1d(x, &wide, NULL);
    CHECK_ERROR(context, STN_ERR_SHAPE, "max_pool1d: 'input' got 4 dims, wanted 2 or 3");
    stn_adaptive_avg_pool2d(x, sizes);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "adaptive_avg_pool2d: 'output_size' got -2, wanted -1 to 2147483647");
    stn_call(context, "avg_pool2d", 1, &x, 2, divisor, 1, &out);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "avg_pool2d: 'divisor_override' got 0, wanted another number");
    const stn_pool_attrs apart = {.size = sizeof apart, .kernel_size = {2, 2}, .dilation = {1, 2}},
                         divided = {.size = sizeof divided, .kernel_size = {2}, .divisor_override = 3};
    stn_avg_pool2d(x, &apart);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "avg_pool2d: 'dilation' got 2, wanted 0 or 1");
    stn_avg_pool1d(x, &divided);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "avg_pool1d: 'divisor_override' got 3, wanted 0");
    stn_max_pool2d(stn_cast(x, STN_DTYPE_BOOL), &wide, NULL);
    CHECK_ERROR(context, STN_ERR_DTYPE, "max_pool2d: 'input' got bool, wanted a floating dtype, i64, i32 or u8");
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"pools_are_those_of_plain_loops", pools_are_those_of_plain_loops},
        {"pools_in_every_layout_give_what_one_process_gives", pools_in_every_layout_give_what_one_process_gives},
        {"places_in_every_layout_are_those_in_the_whole_input", places_in_every_layout_are_those_in_the_whole_input},
        {"gradients_are_those_of_differences", gradients_are_those_of_differences},
        {"only_rows_beyond_a_cut_travel", only_rows_beyond_a_cut_travel},
        {"of_one_part_little_travels", of_one_part_little_travels},
        {"equal_elements_of_several_ranks_are_taken_in_order", equal_elements_of_several_ranks_are_taken_in_order},
        {"equal_elements_and_nan_are_taken_in_order", equal_elements_and_nan_are_taken_in_order},
        {"maxima_without_indices_are_those_with_them", maxima_without_indices_are_those_with_them},
        {"halves_are_summed_in_f32", halves_are_summed_in_f32},
        {"means_of_a_million_are_as_exact_as_those_of_few", means_of_a_million_are_as_exact_as_those_of_few},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
