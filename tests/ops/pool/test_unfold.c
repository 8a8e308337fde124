/* unfold, im2col and fold: by plain loops, in random layouts against one process, by differences; memory, what
 * travels, what is refused. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <stdlib.h>
#include <string.h>

static const int worlds[] = {1, 2, 3, 6};

struct windows {
    int dim;
    int64_t size, step;
};

static stn_tensor *call_unfold(stn_tensor *const *in, const void *arg)
{
    const struct windows *w = arg;
    return stn_unfold(in[0], w->dim, w->size, w->step);
}

/* Chunks are often narrower than a window, and windows often leave elements out. */
static void draw_windows(uint64_t *state, struct random_shape *shape, struct windows *w)
{
    random_shape(state, shape);
    int n = shape->ndim > 0 ? shape->ndim : 1, at = (int)world_random(state, (uint64_t)n);
    int64_t length = shape->ndim > 0 ? shape->shape[at] : 1;
    *w = (struct windows){world_random(state, 2) ? at : at - n, (int64_t)world_random(state, (uint64_t)(length < 5 ? length : 5) + 1),
                          1 + (int64_t)world_random(state, 4)};
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 3;
    (void)arg;
    for (int i = 0; i < 80; i++) {
        struct windows w;
        struct against_one_op op = {.call = call_unfold, .arg = &w, .n_in = 1, .tolerance = 1e-14};
        struct random_shape shape;
        draw_windows(&state, &shape, &w);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 1u << STN_SUM};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void windows_in_every_layout_are_those_of_one_process(void)
{
    for (int i = 0; i < 4; i++)
        test_ranks(worlds[i], layouts_body, NULL);
}

struct image {
    int is_fold;
    int64_t size[2];
    stn_pool_attrs attrs;
};

static stn_tensor *call_image(stn_tensor *const *in, const void *arg)
{
    const struct image *image = arg;
    return image->is_fold ? stn_fold(in[0], image->size, &image->attrs) : stn_im2col(in[0], &image->attrs);
}

static int64_t windows_of(const struct image *image, int d)
{
    const stn_pool_attrs *a = &image->attrs;
    int64_t stride = a->stride[d] ? a->stride[d] : 1, dilation = a->dilation[d] ? a->dilation[d] : 1;
    return (image->size[d] + 2 * a->padding[d] - (a->kernel_size[d] - 1) * dilation - 1) / stride + 1;
}

static void draw_image(uint64_t *state, struct random_shape *shape, struct image *image)
{
    *image = (struct image){.is_fold = (int)world_random(state, 2), .attrs = {.size = sizeof image->attrs}};
    int batched = (int)world_random(state, 2);
    for (int d = 0; d < 2; d++) {
        image->size[d] = 3 + (int64_t)world_random(state, 6);
        image->attrs.kernel_size[d] = 1 + (int64_t)world_random(state, 3);
        image->attrs.stride[d] = (int64_t)world_random(state, 4);
        image->attrs.padding[d] = (int64_t)world_random(state, 3);
        image->attrs.dilation[d] = image->attrs.kernel_size[d] < 3 ? (int64_t)world_random(state, 3) : 1;
    }
    int64_t c = 1 + (int64_t)world_random(state, 3), each = image->attrs.kernel_size[0] * image->attrs.kernel_size[1];
    *shape = (struct random_shape){batched + 3, {2, c, image->size[0], image->size[1]}};
    if (image->is_fold)
        *shape = (struct random_shape){batched + 2, {2, c * each, windows_of(image, 0) * windows_of(image, 1)}};
    if (!batched)
        memmove(shape->shape, shape->shape + 1, 3 * sizeof *shape->shape);
}

static stn_status images_body(stn_context *context, void *arg)
{
    uint64_t state = 13;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct image image;
        struct against_one_op op = {.call = call_image, .arg = &image, .n_in = 1, .tolerance = 1e-14};
        struct random_shape shape;
        draw_image(&state, &shape, &image);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 1u << STN_SUM};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void columns_and_images_in_every_layout_are_those_of_one_process(void)
{
    for (int i = 0; i < 4; i++)
        test_ranks(worlds[i], images_body, NULL);
}

static stn_status differences_body(stn_context *context, void *arg)
{
    uint64_t state = 7;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        struct windows w;
        struct image image;
        struct random_shape shape;
        struct against_one_op op = {
            .call = i % 2 ? call_unfold : call_image, .arg = i % 2 ? (void *)&w : (void *)&image, .n_in = 1};
        if (i % 2)
            draw_windows(&state, &shape, &w);
        else
            draw_image(&state, &shape, &image);
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

enum { C = 2, H = 5, W = 6, K = 2, OH = 3, OW = 3 };

/* im2col element by element: windows of 2 x 2, 2 apart, dilated by 2 along rows, with a pad of 1. Then fold: each
 * element as often as it stands in the columns. */
static stn_status plain_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {C, H, W}, size[] = {H, W};
    const stn_pool_attrs attrs = {
        .size = sizeof attrs, .kernel_size = {K, K}, .stride = {2, 2}, .padding = {1, 0}, .dilation = {2, 1}};
    stn_placement rows[] = {stn_shard(1)};
    double columns[C * K * K * OH * OW], image[C * H * W], wanted[C * H * W] = {0};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 3, 0), rows, STN_DTYPE_F64, 3, shape, NULL, test_value);
    stn_tensor *y = stn_im2col(x, &attrs);
    CHECK_I64(stn_tensor_shape(y)[0], C * K * K);
    test_read(y, columns, C * K * K * OH * OW);
    test_read(stn_fold(y, size, &attrs), image, C * H * W);
    for (int64_t i = 0; i < C * K * K * OH * OW; i++) {
        int64_t c = i / (K * K * OH * OW), row = i / (OW * OH) / K % K * 2 + i % (OH * OW) / OW * 2 - 1,
                column = i / (OW * OH) % K + i % OW * 2;
        int64_t at = (c * H + row) * W + column;
        CHECK_NEAR(columns[i], row >= 0 && row < H ? test_value(at) : 0, 0);
        if (row >= 0 && row < H)
            wanted[at] += test_value(at);
    }
    for (int64_t i = 0; i < C * H * W; i++)
        CHECK_NEAR(image[i], wanted[i], 1e-15);
    return stn_scope_end(context);
}

static void columns_are_those_of_a_plain_loop(void)
{
    test_ranks(3, plain_body, NULL);
}

enum { N = 1000, ROW = 5, SIZE = 16 };

/* Windows of 16 rows, one apart: along a cut dim the rank that lacks rows holds those and its own once, not 16
 * times; along another nothing. */
static stn_status memory_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {N, ROW};
    stn_placement rows[] = {stn_shard(0)}, columns[] = {stn_shard(1)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_tensor *z = test_tensor(context, test_mesh(context, 2, 0), columns, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_unfold(x, 0, SIZE, 1); /* the communicator is made on first use */
    stn_context_stats_reset(context);
    int64_t before = test_stats(context).peak_bytes;
    stn_unfold(x, 0, SIZE, 1);
    CHECK(test_stats(context).peak_bytes - before < (N / 2 + SIZE) * ROW * 8 + 4000);
    CHECK(test_stats(context).bytes_sent <= SIZE * ROW * 8);
    stn_context_stats_reset(context);
    stn_unfold(z, 0, SIZE, 1);
    CHECK_I64(test_stats(context).allocations, 0);
    CHECK_I64(test_stats(context).collectives, 0);
    return stn_scope_end(context);
}

static void windows_share_the_memory_of_what_they_have_in_common(void)
{
    test_ranks(2, memory_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {2, 5, 4}, size[] = {5, 5};
    const stn_pool_attrs attrs = {.size = sizeof attrs, .kernel_size = {2, 2}};
    stn_placement rows[] = {stn_shard(1)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 3, shape, NULL, test_value);
    stn_unfold(x, 3, 1, 1);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "unfold: 'dimension' got 3, wanted -3 <= dimension < 3");
    stn_unfold(x, 1, 6, 1);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "unfold: 'size' got 6, wanted 0 to 5, the size of dim 1");
    stn_unfold(x, 1, 2, 0);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "unfold: 'step' got 0, wanted at least 1");
    stn_fold(x, size, &attrs);
    CHECK_ERROR(context, STN_ERR_SHAPE, "fold: 'input' got 5 x 4 elements, wanted a multiple of 4 x 16");
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"windows_in_every_layout_are_those_of_one_process", windows_in_every_layout_are_those_of_one_process},
        {"columns_and_images_in_every_layout_are_those_of_one_process",
         columns_and_images_in_every_layout_are_those_of_one_process},
        {"gradients_are_those_of_differences", gradients_are_those_of_differences},
        {"columns_are_those_of_a_plain_loop", columns_are_those_of_a_plain_loop},
        {"windows_share_the_memory_of_what_they_have_in_common", windows_share_the_memory_of_what_they_have_in_common},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
