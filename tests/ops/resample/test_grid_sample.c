/* grid_sample: every mode by a plain loop and by differences, in random layouts against one process; halves, what
 * moves, what is refused. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sampling {
    stn_sample_mode mode;
    stn_sample_padding padding;
    int corners;
    struct random_shape input, grid;
};

static int64_t below(uint64_t *state, int64_t n)
{
    return (int64_t)world_random(state, (uint64_t)n);
}

static void draw_sampling(uint64_t *state, int i, struct sampling *s)
{
    int dims = 2 + (i % 3 != 2 && i / 18 % 2);
    *s = (struct sampling){.mode = (stn_sample_mode)(i % 3), .padding = (stn_sample_padding)(i / 3 % 3), .corners = i / 9 % 2};
    s->input.ndim = s->grid.ndim = dims + 2;
    s->input.shape[0] = s->grid.shape[0] = 1 + below(state, 3);
    s->input.shape[1] = 1 + below(state, 7);
    for (int d = 0; d < dims; d++) {
        s->input.shape[2 + d] = 1 + below(state, 7);
        s->grid.shape[1 + d] = 1 + below(state, 4);
    }
    if (i % 12 == 0) { /* more points than the kernels take at a time, in longer rows */
        s->grid.shape[1] = 9;
        s->grid.shape[2] = 65 + below(state, 3);
    }
    s->grid.shape[dims + 1] = dims;
}

/* Coordinates a little beyond the ends too, farther from kinks than a step of a difference. */
static double *draw_grid(uint64_t *state, const struct sampling *s)
{
    int64_t n = against_one_numel(&s->grid);
    double *values = malloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++)
        values[i] = ((double)below(state, 2600) - 1300) / 1000 + 0.00037;
    return values;
}

static stn_tensor *sample(const struct sampling *s, stn_tensor *input, stn_tensor *grid)
{
    return stn_grid_sample(input, grid, s->mode, s->padding, s->corners);
}

/* Where an end mirrors or holds a position. */
static double moved(const struct sampling *s, int64_t n, double x)
{
    double low = s->corners ? 0 : -0.5, high = s->corners ? (double)n - 1 : (double)n - 0.5;
    if (s->padding == STN_SAMPLE_ZEROS)
        return x;
    if (s->padding == STN_SAMPLE_REFLECTION && high > low)
        while (x < low || x > high)
            x = x < low ? 2 * low - x : 2 * high - x;
    return fmin(fmax(x, 0), (double)n - 1);
}

static double cubic(double x)
{
    double a = -0.75, d = fabs(x);
    return d <= 1  ? (a + 2) * d * d * d - (a + 3) * d * d + 1
           : d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a
                   : 0;
}

/* The weight of element i for position x. Of cubic sums several positions may be moved to one element. */
static double weight(const struct sampling *s, int64_t n, double x, int64_t i)
{
    double sum = 0;
    if (s->mode == STN_SAMPLE_BICUBIC) {
        for (double p = floor(x) - 1; p <= floor(x) + 2; p++)
            sum += moved(s, n, p) == (double)i ? cubic(x - p) : 0;
        return sum;
    }
    x = moved(s, n, x);
    return s->mode == STN_SAMPLE_NEAREST ? rint(x) == (double)i : fmax(0, 1 - fabs(x - (double)i));
}

/* One result: every element of the channel, with the product of its weights. */
static double plain_point(const struct sampling *s, const double *channel, const double *at)
{
    int dims = s->input.ndim - 2;
    int64_t n = 1;
    double sum = 0;
    for (int d = 0; d < dims; d++)
        n *= s->input.shape[2 + d];
    for (int64_t i = 0; i < n; i++) {
        double w = 1;
        int64_t rest = i;
        for (int d = dims - 1; d >= 0; d--) {
            int64_t size = s->input.shape[2 + d];
            double c = at[dims - 1 - d],
                   x = s->corners ? (c + 1) / 2 * (double)(size - 1) : ((c + 1) * (double)size - 1) / 2;
            w *= weight(s, size, x, rest % size);
            rest /= size;
        }
        sum += w * channel[i];
    }
    return sum;
}

static double *plain(const struct sampling *s, const double *input, const double *grid)
{
    int64_t batch = s->input.shape[0], channels = s->input.shape[1],
            n = against_one_numel(&s->input) / (batch * channels);
    int64_t dims = s->input.ndim - 2, points = against_one_numel(&s->grid) / (batch * dims);
    double *out = malloc((size_t)(batch * channels * points) * sizeof *out);
    for (int64_t i = 0; i < batch * channels * points; i++) {
        int64_t p = i % points, image = i / points, b = image / channels;
        out[i] = plain_point(s, input + image * n, grid + (b * points + p) * dims);
    }
    return out;
}

static stn_status plain_body(stn_context *context, void *arg)
{
    uint64_t state = 7;
    (void)arg;
    for (int i = 0; i < 72; i++) {
        struct sampling s;
        draw_sampling(&state, i, &s);
        double *input = against_one_draw(&state, against_one_numel(&s.input)), *grid = draw_grid(&state, &s),
               *wanted = plain(&s, input, grid);
        stn_scope_begin(context);
        against_one_compare(sample(&s, against_one_local(context, STN_DTYPE_F64, &s.input, input),
                                   against_one_local(context, STN_DTYPE_F64, &s.grid, grid)),
                            wanted, 1e-12);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        free(input), free(grid), free(wanted);
    }
    return STN_OK;
}

static void samples_are_those_of_a_plain_loop(void)
{
    test_ranks(1, plain_body, NULL);
}

/* Both gradients. */
/* One row of four pixels, 1 to 4. */
static stn_status far_body(stn_context *context, void *arg)
{
    static const double far[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 0.5}, pixels[] = {1, 2, 3, 4};
    static const double zeros[] = {0, 0, 0, 0, 0, 3.5}, border[] = {0, 4, 1, 4, 1, 3.5};
    double at[12];
    (void)arg;
    for (int i = 0; i < 6; i++) {
        at[2 * i] = far[i];
        at[2 * i + 1] = 0;
    }
    stn_scope_begin(context);
    const struct random_shape of_input = {4, {1, 1, 1, 4}}, of_grid = {4, {1, 1, 6, 2}};
    stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &of_input, pixels);
    stn_tensor *places = against_one_local(context, STN_DTYPE_F64, &of_grid, at);
    against_one_compare(stn_grid_sample(x, places, STN_SAMPLE_BILINEAR, STN_SAMPLE_ZEROS, 0), zeros, 0);
    against_one_compare(stn_grid_sample(x, places, STN_SAMPLE_BILINEAR, STN_SAMPLE_BORDER, 0), border, 0);
    return stn_scope_end(context);
}

static void what_is_no_position_reads_zero_and_what_is_far_the_border(void)
{
    test_ranks(1, far_body, NULL);
}

static void gradients(stn_context *context, const struct sampling *s, stn_tensor *input, stn_tensor *grid,
                      stn_tensor **grads)
{
    stn_tensor *in[] = {input, grid}, *out;
    stn_set_requires_grad(input, 1);
    stn_set_requires_grad(grid, 1);
    out = sample(s, input, grid);
    stn_tensor *g = stn_detach(out); /* of the sum of squares, halved */
    stn_grad(context, 1, &out, &g, 2, in, 0, 0, grads);
}

static double half_square(const struct sampling *s, const double *input, const double *grid)
{
    int64_t n = s->input.shape[1] * against_one_numel(&s->grid) / (s->input.ndim - 2);
    double *out = plain(s, input, grid), sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += out[i] * out[i] / 2;
    free(out);
    return sum;
}

/* A few elements' derivatives against central differences of the plain loop. */
static void check_differences(uint64_t *state, const struct sampling *s, double *input, double *grid, double *of,
                              int64_t n, const double *got)
{
    const double h = 1e-5;
    for (int k = 0; k < 6; k++) {
        int64_t i = below(state, n);
        double was = of[i];
        of[i] = was + h;
        double high = half_square(s, input, grid);
        of[i] = was - h;
        double low = half_square(s, input, grid), wanted = (high - low) / (2 * h);
        of[i] = was;
        CHECK(fabs(got[i] - wanted) <= 1e-6 * (1 + fabs(wanted)));
    }
}

static stn_status differences_body(stn_context *context, void *arg)
{
    uint64_t state = 19;
    (void)arg;
    for (int i = 0; i < 72; i++) {
        struct sampling s;
        draw_sampling(&state, i, &s);
        int64_t n_input = against_one_numel(&s.input), n_grid = against_one_numel(&s.grid);
        double *input = against_one_draw(&state, n_input), *grid = draw_grid(&state, &s),
               *got = malloc((size_t)(n_input + n_grid) * sizeof *got);
        stn_tensor *grads[2];
        stn_scope_begin(context);
        gradients(context, &s, against_one_local(context, STN_DTYPE_F64, &s.input, input),
                  against_one_local(context, STN_DTYPE_F64, &s.grid, grid), grads);
        test_read(grads[0], got, n_input);
        test_read(grads[1], got + n_input, n_grid);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        check_differences(&state, &s, input, grid, input, n_input, got);
        check_differences(&state, &s, input, grid, grid, n_grid, got + n_input);
        free(input), free(grid), free(got);
    }
    return STN_OK;
}

static void gradients_are_those_of_differences(void)
{
    test_ranks(1, differences_body, NULL);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 31;
    (void)arg;
    for (int i = 0; i < 60; i++) {
        struct sampling s;
        draw_sampling(&state, i, &s);
        int64_t n_input = against_one_numel(&s.input), n_grid = against_one_numel(&s.grid);
        double *input = against_one_draw(&state, n_input), *grid = draw_grid(&state, &s),
               *wanted = plain(&s, input, grid);
        double *whole[] = {malloc((size_t)n_input * sizeof *input), malloc((size_t)n_grid * sizeof *grid)};
        const stn_mesh *mesh = random_mesh(&state, context);
        const stn_spec *specs[] = {random_spec(&state, context, mesh, &s.input, STN_DTYPE_F64, 1u << STN_SUM),
                                   random_spec(&state, context, mesh, &s.grid, STN_DTYPE_F64, 0)};
        stn_tensor *grads[2];
        stn_scope_begin(context);
        gradients(context, &s, against_one_local(context, STN_DTYPE_F64, &s.input, input),
                  against_one_local(context, STN_DTYPE_F64, &s.grid, grid), grads);
        test_read(grads[0], whole[0], n_input);
        test_read(grads[1], whole[1], n_grid);
        stn_tensor *x = against_one_tensor(context, specs[0], input), *at = against_one_tensor(context, specs[1], grid);
        against_one_compare(sample(&s, x, at), wanted, 1e-12);
        gradients(context, &s, x, at, grads);
        against_one_compare(grads[0], whole[0], 1e-12);
        against_one_compare(grads[1], whole[1], 1e-10);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        for (int k = 0; k < 2; k++)
            stn_spec_release(&specs[k]), free(whole[k]);
        free(input), free(grid), free(wanted);
    }
    return STN_OK;
}

static void samples_in_every_layout_are_those_of_one_process(void)
{
    test_worlds(layouts_body, NULL);
}

static double point_value(int64_t i)
{
    return (double)(i % 7) / 4 - 0.7;
}

/* Rows of pixels on 2 ranks: with channels to cut, half of the input changes ranks, and nothing is left pending;
 * with one channel nothing moves but the grid, if that is sharded, and the sum is pending. */
static stn_status rule_body(stn_context *context, void *arg)
{
    const int64_t grid_shape[] = {1, 4, 4, 2};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement rows[] = {stn_shard(2)}, whole[] = {stn_replicate()};
    (void)arg;
    stn_scope_begin(context);
    for (int64_t channels = 1; channels <= 2; channels++) {
        const int64_t shape[] = {1, channels, 6, 4};
        stn_tensor *x = test_tensor(context, mesh, rows, STN_DTYPE_F32, 4, shape, NULL, test_value);
        stn_tensor *at = test_tensor(context, mesh, whole, STN_DTYPE_F32, 4, grid_shape, NULL, point_value);
        stn_grid_sample(x, at, STN_SAMPLE_BILINEAR, STN_SAMPLE_ZEROS, 0); /* the communicator is made on first use */
        stn_context_stats_reset(context);
        stn_tensor *y = stn_grid_sample(x, at, STN_SAMPLE_BILINEAR, STN_SAMPLE_ZEROS, 0);
        stn_placement got = stn_spec_placement(stn_tensor_spec(y), 0);
        CHECK_I64(got.kind, channels == 1 ? STN_PLACE_PARTIAL : STN_PLACE_SHARD);
        CHECK_I64(test_stats(context).bytes_sent, channels == 1 ? 0 : 6 * 4 * 4 / 2);
    }
    return stn_scope_end(context);
}

static void a_cut_of_pixels_becomes_one_of_channels_or_a_pending_sum(void)
{
    test_ranks(2, rule_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {1, 2, 4, 4}, grid_shape[] = {1, 2, 2, 3}, deep_shape[] = {1, 2, 4, 4, 4},
                  deep_grid[] = {1, 2, 2, 2, 3};
    stn_placement rows[] = {stn_shard(2)};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, rows, STN_DTYPE_F32, 4, shape, NULL, test_value);
    stn_tensor *at = test_tensor(context, mesh, rows, STN_DTYPE_F32, 4, grid_shape, NULL, test_value);
    stn_tensor *deep = test_tensor(context, mesh, rows, STN_DTYPE_F32, 5, deep_shape, NULL, test_value);
    stn_tensor *points = test_tensor(context, mesh, rows, STN_DTYPE_F32, 5, deep_grid, NULL, test_value);
    stn_grid_sample(x, at, STN_SAMPLE_BILINEAR, STN_SAMPLE_ZEROS, 0);
    CHECK_ERROR(context, STN_ERR_SHAPE,
                "grid_sample: 'grid' got shape (1, 2, 2, 3), wanted 4 dims, 1 in the first and 2 in the last");
    stn_grid_sample(x, stn_cast(at, STN_DTYPE_F64), STN_SAMPLE_BILINEAR, STN_SAMPLE_ZEROS, 0);
    CHECK_ERROR(context, STN_ERR_DTYPE, "grid_sample: 'grid' got f64, wanted f32 as 'input' has");
    stn_grid_sample(deep, points, STN_SAMPLE_BICUBIC, STN_SAMPLE_ZEROS, 0);
    CHECK_ERROR(context, STN_ERR_SHAPE, "grid_sample: 'input' got 5 dims, wanted 4 for mode 'bicubic'");
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"samples_are_those_of_a_plain_loop", samples_are_those_of_a_plain_loop},
        {"what_is_no_position_reads_zero_and_what_is_far_the_border",
         what_is_no_position_reads_zero_and_what_is_far_the_border},
        {"gradients_are_those_of_differences", gradients_are_those_of_differences},
        {"samples_in_every_layout_are_those_of_one_process", samples_in_every_layout_are_those_of_one_process},
        {"a_cut_of_pixels_becomes_one_of_channels_or_a_pending_sum",
         a_cut_of_pixels_becomes_one_of_channels_or_a_pending_sum},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
