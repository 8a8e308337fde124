/* interpolate on ranks: every mode in random layouts against one process, differences, a plain loop, what travels,
 * what is refused. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static stn_tensor *call_interpolate(stn_tensor *const *in, const void *arg)
{
    return stn_interpolate(in[0], arg);
}

/* Sizes from a third to three times, factors now and then; chunks are often narrower than what an element reads. */
static void draw_case(uint64_t *state, struct random_shape *shape, stn_interpolate_attrs *attrs)
{
    int dims = 1 + (int)world_random(state, 3);
    *attrs = (stn_interpolate_attrs){.size = sizeof *attrs, .mode = (stn_interpolate_mode)world_random(state, 6)};
    const int always = attrs->mode == STN_INTERPOLATE_LANCZOS;
    if (attrs->mode == STN_INTERPOLATE_CUBIC)
        dims = 2;
    if (attrs->mode == STN_INTERPOLATE_LINEAR || attrs->mode == STN_INTERPOLATE_CUBIC || always) {
        attrs->align_corners = (int)world_random(state, 2);
        attrs->antialias = always || world_random(state, 2);
    }
    shape->ndim = 2 + dims;
    shape->shape[0] = (int64_t)world_random(state, 3);
    shape->shape[1] = 1 + (int64_t)world_random(state, 3);
    int by_factor = world_random(state, 3) == 0;
    for (int d = 0; d < dims; d++) {
        int64_t n = 1 + (int64_t)world_random(state, 9);
        shape->shape[2 + d] = n;
        if (by_factor)
            attrs->scale_factor[d] = (1 + 0.05 * (double)world_random(state, 40)) / (double)(n < 3 ? 1 : 2);
        else
            attrs->output_size[d] = 1 + (int64_t)world_random(state, 3 * (uint64_t)n);
    }
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 23;
    (void)arg;
    for (int i = 0; i < 60; i++) {
        stn_interpolate_attrs attrs;
        struct against_one_op op = {.call = call_interpolate, .arg = &attrs, .n_in = 1};
        struct random_shape shape;
        draw_case(&state, &shape, &attrs);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){i % 4 ? STN_DTYPE_F64 : STN_DTYPE_F32, shape, values, 1u << STN_SUM};
        op.tolerance = i % 4 ? 1e-13 : 2e-6;
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void every_mode_in_every_layout_gives_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

static stn_status differences_body(stn_context *context, void *arg)
{
    uint64_t state = 71;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        stn_interpolate_attrs attrs;
        struct against_one_op op = {.call = call_interpolate, .arg = &attrs, .n_in = 1};
        struct random_shape shape;
        draw_case(&state, &shape, &attrs);
        shape.shape[0]++;
        double *values = against_one_draw(&state, against_one_numel(&shape));
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

/* Bilinear with half-pixel centres, element by element. */
static double plain_bilinear(int64_t h, int64_t w, int64_t oh, int64_t ow, int64_t y, int64_t x)
{
    double py = fmax(0, ((double)y + 0.5) * (double)h / (double)oh - 0.5),
           px = fmax(0, ((double)x + 0.5) * (double)w / (double)ow - 0.5);
    int64_t y0 = (int64_t)py, x0 = (int64_t)px, y1 = y0 + (y0 < h - 1), x1 = x0 + (x0 < w - 1);
    double ty = py - (double)y0, tx = px - (double)x0;
    return (1 - ty) * ((1 - tx) * test_value(y0 * w + x0) + tx * test_value(y0 * w + x1)) +
           ty * ((1 - tx) * test_value(y1 * w + x0) + tx * test_value(y1 * w + x1));
}

/* Of an output of a line of n, by the formula of Pillow's and PyTorch's: cells around its middle, their distance in
 * units of what it covers. */
static double plain_filtered(stn_interpolate_mode mode, int64_t n, int64_t to, int64_t o, int64_t stride, int64_t at)
{
    const double pi = acos(-1), scale = (double)n / (double)to, wide = fmax(scale, 1);
    double sum = 0, total = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = fabs((double)i + 0.5 - ((double)o + 0.5) * scale) / wide;
        double w = x < 1 ? 1 - x : 0;
        if (mode == STN_INTERPOLATE_CUBIC)
            w = x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * (x - 1) * (x - 2) * (x - 2) : 0;
        else if (mode == STN_INTERPOLATE_LANCZOS)
            w = x == 0 ? 1 : x < 3 ? sin(pi * x) / (pi * x) * sin(pi * x / 3) / (pi * x / 3) : 0;
        sum += w * test_value(at + i * stride);
        total += w;
    }
    return sum / total;
}

/* Rows alone are resampled, fewer and more; chunks are narrower than filters are. */
static stn_status filters_body(stn_context *context, void *arg)
{
    static const stn_interpolate_mode modes[] = {STN_INTERPOLATE_LINEAR, STN_INTERPOLATE_CUBIC,
                                                 STN_INTERPOLATE_LANCZOS};
    enum { ROWS = 41, COLUMNS = 3, MOST = 60 };
    static const int64_t sizes[] = {1, 2, 7, 40, 41, MOST}, shape[] = {1, 1, ROWS, COLUMNS};
    const int64_t cut[] = {3, 0, 38}, *const cuts[] = {NULL, NULL, cut, NULL};
    (void)arg;
    for (int m = 0; m < 3; m++)
        for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++) {
            const stn_interpolate_attrs attrs = {
                .size = sizeof attrs, .mode = modes[m], .antialias = 1, .output_size = {sizes[s], COLUMNS}};
            stn_placement rows[] = {stn_shard(2)};
            double got[MOST * COLUMNS];
            stn_scope_begin(context);
            stn_tensor *x =
                test_tensor(context, test_mesh(context, 3, 0), rows, STN_DTYPE_F64, 4, shape, cuts, test_value);
            test_read(stn_interpolate(x, &attrs), got, sizes[s] * COLUMNS);
            for (int64_t i = 0; i < sizes[s] * COLUMNS; i++)
                CHECK_NEAR(got[i], plain_filtered(modes[m], ROWS, sizes[s], i / COLUMNS, COLUMNS, i % COLUMNS), 1e-11);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void filters_are_those_of_the_formula(void)
{
    test_ranks(3, filters_body, NULL);
}

enum { H = 37, W = 5, OH = 73, OW = 9, CHANNELS = 3 };

/* 37 rows on 2 ranks as 19 and 18, 73 as 37 and 36: rank 0's row 36 stands at 18.0 and reads row 18 alone, rank 1's row
 * 37 stands at 18.5 and reads rows 18 and 19. */
static stn_status halo_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {1, 1, H, W};
    const stn_interpolate_attrs attrs = {.size = sizeof attrs, .mode = STN_INTERPOLATE_LINEAR, .output_size = {OH, OW}};
    stn_placement rows[] = {stn_shard(2)};
    double *got = malloc(OH * OW * sizeof *got);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F64, 4, shape, NULL, test_value);
    stn_interpolate(x, &attrs); /* the communicator is made on first use */
    stn_context_stats_reset(context);
    int64_t before = test_stats(context).peak_bytes;
    stn_tensor *y = stn_interpolate(x, &attrs);
    CHECK_I64(test_stats(context).collectives, 1);
    CHECK_I64(test_stats(context).bytes_sent, stn_context_rank(context) == 0 ? W * 8 : 0);
    CHECK_I64(stn_tensor_local_shape(y)[2], stn_context_rank(context) == 0 ? 37 : 36);
    CHECK(test_stats(context).peak_bytes - before < 37 * OW * 8 + 6000); /* the result, weights and a few rows */
    test_read(y, got, OH * OW);
    for (int64_t i = 0; i < OH * OW; i++)
        CHECK_NEAR(got[i], plain_bilinear(H, W, OH, OW, i / OW, i % OW), 1e-10);
    free(got);
    return stn_scope_end(context);
}

static void only_the_rows_that_are_read_travel(void)
{
    test_ranks(2, halo_body, NULL);
}

/* Weights that repeat every 1 to 7 elements, and lines longer than what a kernel computes at once; with channels
 * last as well. */
static stn_status periods_body(stn_context *context, void *arg)
{
    static const struct {
        int64_t from, to;
    } widths[] = {{301, 602}, {301, 903}, {301, 1204}, {300, 450}, {301, 301},
                  {602, 301}, {300, 500}, {280, 490},  {301, 4},   {3, 301}};
    static const int order[] = {0, 2, 3, 1};
    const stn_spec_options channels_last = {.size = sizeof channels_last, .memory_order = order};
    const stn_spec *spec;
    (void)arg;
    for (int i = 0; i < (int)(sizeof widths / sizeof *widths); i++) {
        const int64_t w = widths[i].from, to = widths[i].to, shape[] = {1, 1, 3, w}, pair[] = {1, 2, 3, w};
        const stn_interpolate_attrs attrs = {
            .size = sizeof attrs, .mode = STN_INTERPOLATE_LINEAR, .output_size = {5, to}};
        stn_placement columns[] = {stn_shard(3)};
        double *got = malloc((size_t)(10 * to) * sizeof *got);
        stn_scope_begin(context);
        const stn_mesh *mesh = test_mesh(context, 2, 0);
        stn_tensor *x = test_tensor(context, mesh, columns, STN_DTYPE_F64, 4, shape, NULL, test_value);
        test_read(stn_interpolate(x, &attrs), got, 5 * to);
        for (int64_t k = 0; k < 5 * to; k++)
            CHECK_NEAR(got[k], plain_bilinear(3, w, 5, to, k / to, k % to), 1e-10);
        CHECK_STATUS(stn_spec_create(context, mesh, columns, STN_DTYPE_F64, 4, pair, &channels_last, &spec), STN_OK);
        test_read(stn_interpolate(stn_redistribute(stn_expand(x, 4, pair), spec), &attrs), got, 10 * to);
        stn_spec_release(&spec);
        for (int64_t k = 0; k < 10 * to; k++)
            CHECK_NEAR(got[k], plain_bilinear(3, w, 5, to, k / to % 5, k % to), 1e-10);
        stn_scope_end(context);
        free(got);
    }
    return STN_OK;
}

static void weights_that_repeat_give_what_a_plain_loop_gives(void)
{
    test_ranks(2, periods_body, NULL);
}

/* Twice the size by nearest: each rank's rows are made of its own. */
static stn_status aligned_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {2, CHANNELS, 8, W};
    const stn_interpolate_attrs attrs = {.size = sizeof attrs, .output_size = {16, 2 * W}};
    stn_placement rows[] = {stn_shard(2)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 4, shape, NULL, test_value);
    stn_context_stats_reset(context);
    stn_interpolate(x, &attrs);
    CHECK_I64(test_stats(context).collectives, 0);
    return stn_scope_end(context);
}

static void nothing_travels_where_no_rank_reads_anothers_rows(void)
{
    test_ranks(2, aligned_body, NULL);
}

/* 16-bit data is computed in f32 and rounded once: forward and backward give what f32 gives, rounded. */
/* A row of NaN, and the others twice as long or as they are. */
static stn_status nan_body(stn_context *context, void *arg)
{
    enum { ROWS = 5, LONG = 4 };
    const struct random_shape shape = {4, {1, 1, ROWS, 2}};
    const double x[2 * ROWS] = {1, 2, 3, 4, NAN, NAN, 5, 6, 7, 8};
    double got[ROWS * LONG];
    (void)arg;
    for (int k = 0; k < 4; k++) {
        const int length = k & 1 ? LONG : 2;
        const stn_interpolate_attrs attrs = {.size = sizeof attrs, .mode = STN_INTERPOLATE_LINEAR,
                                             .align_corners = k >> 1, .output_size = {ROWS, length}};
        stn_scope_begin(context);
        test_read(stn_interpolate(against_one_local(context, STN_DTYPE_F64, &shape, x), &attrs), got, ROWS * length);
        for (int r = 0; r < ROWS; r++) {
            CHECK(isnan(got[r * length]) == (r == 2) && isnan(got[r * length + length - 1]) == (r == 2));
            CHECK(r == 2 || (got[r * length] == x[2 * r] && got[r * length + length - 1] == x[2 * r + 1]));
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void what_stands_upon_an_element_reads_it_alone(void)
{
    test_ranks(1, nan_body, NULL);
}

static stn_status halves_body(stn_context *context, void *arg)
{
    static const stn_dtype halves[] = {STN_DTYPE_BF16, STN_DTYPE_F16};
    const int64_t shape[] = {1, CHANNELS, 8, W};
    const stn_interpolate_attrs attrs = {.size = sizeof attrs, .mode = STN_INTERPOLATE_LINEAR, .output_size = {13, 2}};
    stn_placement rows[] = {stn_shard(2)};
    double got[CHANNELS * 8 * W], wanted[CHANNELS * 8 * W];
    (void)arg;
    stn_scope_begin(context);
    for (int h = 0; h < 2; h++) {
        stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 4, shape, NULL, test_value);
        stn_tensor *half = stn_detach(stn_cast(x, halves[h])), *wide = stn_detach(stn_cast(half, STN_DTYPE_F32)),
                   *grad[2];
        stn_set_requires_grad(half, 1);
        stn_set_requires_grad(wide, 1);
        stn_tensor *y = stn_interpolate(half, &attrs), *z = stn_interpolate(wide, &attrs);
        test_read(stn_cast(y, STN_DTYPE_F32), got, CHANNELS * 13 * 2);
        test_read(stn_cast(stn_cast(z, halves[h]), STN_DTYPE_F32), wanted, CHANNELS * 13 * 2);
        CHECK_BYTES(got, wanted, CHANNELS * 13 * 2 * sizeof *got);
        stn_tensor *g = stn_detach(y), *g_wide = stn_cast(g, STN_DTYPE_F32);
        stn_grad(context, 1, &y, &g, 1, &half, 0, 0, &grad[0]);
        stn_grad(context, 1, &z, &g_wide, 1, &wide, 0, 0, &grad[1]);
        test_read(stn_cast(grad[0], STN_DTYPE_F32), got, CHANNELS * 8 * W);
        test_read(stn_cast(stn_cast(grad[1], halves[h]), STN_DTYPE_F32), wanted, CHANNELS * 8 * W);
        CHECK_BYTES(got, wanted, sizeof got);
    }
    return stn_scope_end(context);
}

static void halves_are_computed_in_f32(void)
{
    test_ranks(2, halves_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {1, 2, 4, 4};
    stn_placement rows[] = {stn_shard(2)};
    stn_interpolate_attrs none = {.size = sizeof none},
                          both = {.size = sizeof both, .output_size = {2, 2}, .scale_factor = {2, 2}},
                          tiny = {.size = sizeof tiny, .scale_factor = {0.1, 1}},
                          corners = {.size = sizeof corners, .align_corners = 1, .output_size = {2, 2}},
                          area = {.size = sizeof area, .mode = STN_INTERPOLATE_AREA, .antialias = 1,
                                  .output_size = {2, 2}},
                          lanczos = {.size = sizeof lanczos, .mode = STN_INTERPOLATE_LANCZOS, .output_size = {2, 2}};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 4, shape, NULL, test_value);
    stn_interpolate(x, &none);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "interpolate: got neither, wanted one of 'size' and 'scale_factor'");
    stn_interpolate(x, &both);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "interpolate: got both, wanted one of 'size' and 'scale_factor'");
    stn_interpolate(x, &tiny);
    CHECK_ERROR(context, STN_ERR_SHAPE, "interpolate: dim 2 got 4 elements in and 0 out, wanted at least 1");
    stn_interpolate(x, &corners);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "interpolate: 'align_corners' got a value, wanted none for mode 'nearest'");
    stn_interpolate(x, &area);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "interpolate: 'antialias' got 1, wanted 0 for mode 'area'");
    stn_interpolate(x, &lanczos);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "interpolate: 'antialias' got 0, wanted 1 for mode 'lanczos'");
    stn_interpolate(stn_cast(x, STN_DTYPE_I64), &none);
    CHECK_ERROR(context, STN_ERR_DTYPE, "interpolate: 'input' got i64, wanted a floating dtype");
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_mode_in_every_layout_gives_what_one_process_gives",
         every_mode_in_every_layout_gives_what_one_process_gives},
        {"gradients_are_those_of_differences", gradients_are_those_of_differences},
        {"filters_are_those_of_the_formula", filters_are_those_of_the_formula},
        {"only_the_rows_that_are_read_travel", only_the_rows_that_are_read_travel},
        {"weights_that_repeat_give_what_a_plain_loop_gives", weights_that_repeat_give_what_a_plain_loop_gives},
        {"nothing_travels_where_no_rank_reads_anothers_rows", nothing_travels_where_no_rank_reads_anothers_rows},
        {"what_stands_upon_an_element_reads_it_alone", what_stands_upon_an_element_reads_it_alone},
        {"halves_are_computed_in_f32", halves_are_computed_in_f32},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
