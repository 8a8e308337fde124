/* Fourier transforms by cuFFT on a CUDA device: values and gradients are the CPU's, how often the library ran, and that
 * our kernels serve where it refuses, from the first refused lines on. */
#include "both.h"

#include "harness.h"

#include "core/context/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 1000 };

/* What the next work has the library refuse, and how often it ran. */
static struct stni_refusals refusals;
static int64_t runs;

static stn_tensor *complex_of(stn_tensor *x)
{
    return stn_complex(x, stn_square(x));
}

static stn_tensor *last_dim(stn_tensor *x)
{
    return stn_fft(complex_of(x), 0, 2, STN_FFT_BACKWARD);
}

/* A call for each index of the first dim. */
static stn_tensor *middle_dim(stn_tensor *x)
{
    return stn_ifft(complex_of(x), 0, 1, STN_FFT_BACKWARD);
}

/* At once. */
static stn_tensor *all_dims(stn_tensor *x)
{
    return stn_fftn(complex_of(x), 0, NULL, NULL, STN_FFT_ORTHO);
}

static stn_tensor *of_reals(stn_tensor *x)
{
    return stn_fft(x, 0, 2, STN_FFT_FORWARD);
}

static stn_tensor *halved(stn_tensor *x)
{
    return stn_rfft(x, 0, 2, STN_FFT_BACKWARD);
}

/* Every other element from the second on: reals that begin at no complex number's address. */
static stn_tensor *halved_of_some(stn_tensor *x)
{
    const int64_t n = stn_spec_shape(stn_tensor_spec(x))[2];
    return stn_rfft(stn_slice(x, 2, 1, n, 2), 0, 2, STN_FFT_ORTHO);
}

static stn_tensor *restored(stn_tensor *x)
{
    return stn_irfft(complex_of(x), 0, 2, STN_FFT_BACKWARD);
}

static stn_tensor *there_and_back(stn_tensor *x)
{
    const int64_t *shape = stn_spec_shape(stn_tensor_spec(x));
    const int64_t sizes[] = {shape[0], shape[1], shape[2]};
    return stn_irfftn(stn_rfftn(x, 0, NULL, NULL, STN_FFT_BACKWARD), 3, sizes, NULL, STN_FFT_BACKWARD);
}

/* Lines whose beginnings lie at three distances. */
static stn_tensor *scattered(stn_tensor *x)
{
    const int64_t *shape = stn_spec_shape(stn_tensor_spec(x)), fifth = shape[2] / 5;
    const int64_t wide[] = {shape[0], shape[1], fifth, 5};
    stn_tensor *z = complex_of(stn_reshape(stn_narrow(x, 2, 0, 5 * fifth), 4, wide));
    return stn_fft(stn_narrow(z, 3, 1, 3), 0, 1, STN_FFT_BACKWARD);
}

static stn_tensor *planes_of_reals(stn_tensor *x)
{
    return stn_fft2(x, NULL, NULL, STN_FFT_ORTHO);
}

/* Planes that lie in larger ones on the way there, and are dense on the way back. */
static stn_tensor *planes_of_some(stn_tensor *x)
{
    const int64_t n = stn_spec_shape(stn_tensor_spec(x))[2];
    return stn_ifft2(complex_of(stn_narrow(x, 2, 1, n - 2)), NULL, NULL, STN_FFT_BACKWARD);
}

static stn_tensor *inside(stn_tensor *x)
{
    const int64_t *shape = stn_spec_shape(stn_tensor_spec(x));
    return stn_fft2(stn_narrow(stn_narrow(complex_of(x), 2, 1, shape[2] - 2), 1, 1, shape[1] - 2), NULL, NULL,
                    STN_FFT_BACKWARD);
}

static stn_tensor *halved_inside(stn_tensor *x)
{
    const int64_t *shape = stn_spec_shape(stn_tensor_spec(x));
    return stn_rfft2(stn_narrow(stn_narrow(x, 2, 0, shape[2] - 2), 1, 0, shape[1] - 1), NULL, NULL, STN_FFT_ORTHO);
}

static stn_tensor *planes_restored(stn_tensor *x)
{
    return stn_irfft2(complex_of(x), NULL, NULL, STN_FFT_BACKWARD);
}

/* Halves of which two dims more are transformed, odd ones and even ones. */
static stn_tensor *cubes_restored(stn_tensor *x)
{
    const int64_t *shape = stn_spec_shape(stn_tensor_spec(x));
    const int64_t sizes[] = {shape[0], shape[1], 2 * shape[2] - 1};
    return stn_irfftn(complex_of(x), 3, sizes, NULL, STN_FFT_ORTHO);
}

/* One dim, and three at once. */
static stn_tensor *four_dims(stn_tensor *x)
{
    const int64_t *shape = stn_spec_shape(stn_tensor_spec(x)), fifth = shape[2] / 5;
    const int64_t wide[] = {shape[0], shape[1], fifth, 5};
    return stn_rfftn(stn_reshape(stn_narrow(x, 2, 0, 5 * fifth), 4, wide), 0, NULL, NULL, STN_FFT_FORWARD);
}

/* Neighbours along the last dim lie apart: a dim after the other, the second one in place. */
static stn_tensor *transposed(stn_tensor *x)
{
    return stn_fft2(stn_transpose(complex_of(x), 1, 2), NULL, NULL, STN_FFT_ORTHO);
}

static stn_tensor *first_dims_there_and_back(stn_tensor *x)
{
    static const int dims[] = {0, 1};
    const int64_t *shape = stn_spec_shape(stn_tensor_spec(x));
    const int64_t sizes[] = {shape[0], shape[1] - 1};
    return stn_irfftn(stn_rfftn(x, 2, NULL, dims, STN_FFT_ORTHO), 2, sizes, dims, STN_FFT_ORTHO);
}

/* The library's runs: of the transform, and of its gradient behind them. */
static const struct transform {
    const char *name;
    stn_tensor *(*run)(stn_tensor *x);
    int64_t runs;
} transforms[] = {
    {"last dim", last_dim, 2},   {"middle dim", middle_dim, 6},
    {"all dims", all_dims, 2},   {"of reals", of_reals, 2},
    {"halved", halved, 2},       {"halved of some", halved_of_some, 2},
    {"restored", restored, 2},   {"there and back", there_and_back, 4},
    {"scattered", scattered, 4}, {"planes of reals", planes_of_reals, 2},
    {"inside", inside, 2},       {"planes of some", planes_of_some, 2},
    {"halved inside", halved_inside, 2},
    {"planes restored", planes_restored, 2},
    {"cubes restored", cubes_restored, 2},
    {"four dims", four_dims, 4},
};
enum { TRANSFORMS = sizeof transforms / sizeof *transforms };

static const struct transform *current;

/* The transform's numbers and the gradient of the sum of their squares. */
static int transform_and_gradient(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    struct stni_refusals *injected = &context->foreign.refusals[STNI_LIBRARY_CUFFT];
    stn_tensor *x = stn_detach(both_input(context, dtype, 3, shape, 1));
    stn_set_requires_grad(x, 1);
    *injected = refusals;
    if (injected->run == 0)
        injected->run = MANY;
    const int64_t before = injected->run;
    out[0] = current->run(x);
    const stn_dtype got = stn_tensor_dtype(out[0]);
    if (got == STN_DTYPE_C64 || got == STN_DTYPE_C128)
        out[0] = stn_view_as_real(out[0]);
    CHECK_STATUS(stn_backward(stn_sum(stn_square(out[0]), 0, NULL, 0)), STN_OK);
    runs = before - injected->run;
    memset(injected, 0, sizeof *injected);
    return stn_grad_of(x, &out[1]) == STN_OK ? 2 : 0;
}

/* Refusals are those that are set. */
static void compare(const struct transform *transform, const int64_t *shape)
{
    const both_work work = {transform->name, transform_and_gradient};
    current = transform;
    for (int is_f64 = 0; is_f64 < 2; is_f64++) {
        both_compare(&work, is_f64 ? STN_DTYPE_F64 : STN_DTYPE_F32, shape, is_f64 ? 1e-12 : 1e-4);
        if (refusals.run == 0 && refusals.question < 1 && !CHECK_I64(runs, refusals.question ? 0 : transform->runs))
            fprintf(stderr, "%s: runs of the library\n", transform->name);
    }
}

static void compare_all(int64_t first_refused, int64_t question)
{
    static const int64_t shapes[][3] = {{3, 4, 10}, {3, 5, 37}};
    refusals = (struct stni_refusals){.question = question, .run = first_refused};
    for (int t = 0; t < TRANSFORMS; t++)
        for (int s = 0; s < 2; s++)
            compare(&transforms[t], shapes[s]);
}

/* Along the middle dim of more planes than are transformed where they are: lines go to buffers and back by tiles, of
 * which those at the ends are not full. */
static void lines_side_by_side_go_through_tiles(void)
{
    static const struct transform tiled[] = {
        {"middle dims", middle_dim, 2},
        {"transposed", transposed, 3},
        {"first dims", first_dims_there_and_back, 8},
    };
    static const int64_t shapes[][3] = {{6, 35, 37}, {5, 3, 33}, {7, 32, 32}};
    refusals = (struct stni_refusals){0};
    for (size_t t = 0; t < sizeof tiled / sizeof *tiled; t++)
        for (int s = 0; s < 3; s++)
            compare(&tiled[t], shapes[s]);
}

static void values_and_gradients_are_the_cpus(void)
{
    compare_all(0, 0);
}

static void every_question_may_be_refused(void)
{
    compare_all(0, -1);
}

/* What is refused at once is transformed a dim after the other, of which the library may take each. */
static void any_question_may_be_refused(void)
{
    for (int64_t n = 1; n <= 3; n++)
        compare_all(0, n);
}

static void every_run_may_be_refused(void)
{
    compare_all(-1, 0);
    for (int64_t n = 1; n <= 8; n++)
        compare_all(n, 0);
}

/* A plan that is there is recorded; none is made meanwhile, and our kernels are. Both run each time. */
static void transforms_are_recorded(void)
{
    const int64_t shape[] = {2, 3, 16}, other[] = {2, 3, 17};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    stn_graph *graph = NULL;
    if (!context)
        return;
    stn_scope_begin(context);
    stn_tensor *x = both_input(context, STN_DTYPE_F64, 3, shape, 1),
               *y = both_input(context, STN_DTYPE_F64, 3, other, 2);
    stn_tensor *planned = stn_rfft(x, 0, 2, STN_FFT_BACKWARD),
               *want = stn_rfft(stn_mul_number(x, 8), 0, 2, STN_FFT_BACKWARD);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    struct stni_refusals *injected = &context->foreign.refusals[STNI_LIBRARY_CUFFT];
    injected->run = MANY;
    CHECK_STATUS(stn_queue_capture_begin(stn_context_queue(context)), STN_OK);
    stn_mul_number_(x, 2);
    stn_mul_number_(y, 2);
    stn_tensor *by_library = stn_rfft(x, 0, 2, STN_FFT_BACKWARD), *by_us = stn_rfft(y, 0, 2, STN_FFT_BACKWARD);
    CHECK_STATUS(stn_queue_capture_end(stn_context_queue(context), &graph), STN_OK);
    CHECK_I64(injected->run, MANY - 1);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(stn_graph_launch(graph, stn_context_queue(context)), STN_OK);
    stn_tensor *also = stn_rfft(y, 0, 2, STN_FFT_BACKWARD);
    CHECK_I64(injected->run, MANY - 2);
    double off = 1, apart = 1;
    CHECK_STATUS(stn_item(stn_amax(stn_abs(stn_sub(by_library, want)), 0, NULL, 0), &off), STN_OK);
    CHECK_STATUS(stn_item(stn_amax(stn_abs(stn_sub(by_us, also)), 0, NULL, 0), &apart), STN_OK);
    CHECK(off < 1e-10);
    CHECK(apart < 1e-10);
    CHECK(stn_tensor_dtype(planned) == STN_DTYPE_C128);
    stn_graph_destroy(&graph);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

/* A table that is full is emptied, but for plans that a graph uses: their tables are read each time. */
static void recorded_plans_outlive_a_full_table(void)
{
    enum { MORE_THAN_A_TABLE = 4150 };
    const int64_t shape[] = {2, 3, 16};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    stn_graph *graph = NULL;
    double off = 1;
    if (!context)
        return;
    stn_scope_begin(context);
    stn_tensor *x = both_input(context, STN_DTYPE_F64, 3, shape, 1);
    stn_tensor *want = stn_rfft(stn_mul_number(x, 2), 0, 2, STN_FFT_BACKWARD);
    CHECK_STATUS(stn_queue_capture_begin(stn_context_queue(context)), STN_OK);
    stn_mul_number_(x, 2);
    stn_tensor *y = stn_rfft(x, 0, 2, STN_FFT_BACKWARD);
    CHECK_STATUS(stn_queue_capture_end(stn_context_queue(context), &graph), STN_OK);
    const int64_t plans = getenv("STN_TEST_FEW") ? 50 : MORE_THAN_A_TABLE; /* a real plan takes a while */
    for (int64_t n = 1; n < plans; n++) {
        const int64_t other[] = {n, 2};
        stn_scope_begin(context);
        stn_rfft(both_input(context, STN_DTYPE_F32, 2, other, 1), 0, 1, STN_FFT_BACKWARD);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK_STATUS(stn_graph_launch(graph, stn_context_queue(context)), STN_OK);
    CHECK_STATUS(stn_item(stn_amax(stn_abs(stn_sub(y, want)), 0, NULL, 0), &off), STN_OK);
    CHECK(off < 1e-12);
    stn_graph_destroy(&graph);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"values_and_gradients_are_the_cpus", values_and_gradients_are_the_cpus},
        {"lines_side_by_side_go_through_tiles", lines_side_by_side_go_through_tiles},
        {"every_question_may_be_refused", every_question_may_be_refused},
        {"any_question_may_be_refused", any_question_may_be_refused},
        {"every_run_may_be_refused", every_run_may_be_refused},
        {"transforms_are_recorded", transforms_are_recorded},
        {"recorded_plans_outlive_a_full_table", recorded_plans_outlive_a_full_table},
    };
    return TEST_MAIN(argc, argv, cases);
}
