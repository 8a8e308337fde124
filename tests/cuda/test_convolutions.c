/* Convolutions on a CUDA device, by cuDNN and by our own kernels: values and gradients are the CPU's, how often the
 * library ran, and that our kernels serve where it refuses. */
#include "both.h"

#include "harness.h"

#include "core/tensor/tensor.h"

#include <shardtensor/shardtensor.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static stn_tensor *conv1d(stn_tensor *const *in)
{
    return stn_conv1d(in[0], in[1], in[2], NULL);
}

static stn_tensor *conv2d(stn_tensor *const *in)
{
    return stn_conv2d(in[0], in[1], in[2], NULL);
}

static stn_tensor *padded(stn_tensor *const *in)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .padding = {1, 2}, .dilation = {2, 1}};
    return stn_conv2d(in[0], in[1], in[2], &attrs);
}

static stn_tensor *grouped(stn_tensor *const *in)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .stride = {2, 1}, .padding = {1, 1}, .groups = 2};
    return stn_conv2d(in[0], in[1], in[2], &attrs);
}

/* Of ten elements the last is read by no tap. */
static stn_tensor *strided(stn_tensor *const *in)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .stride = {2, 2}};
    return stn_conv2d(in[0], in[1], in[2], &attrs);
}

/* Of an even kernel pads differ: the library is given a copy that has them. */
static stn_tensor *same(stn_tensor *const *in)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .same = 1};
    return stn_conv2d(in[0], in[1], in[2], &attrs);
}

static stn_tensor *conv3d(stn_tensor *const *in)
{
    return stn_conv3d(in[0], in[1], in[2], NULL);
}

/* Of a window that is wider than the image by far, with pads that differ or not: the library is not asked. */
static stn_tensor *far(stn_tensor *const *in)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .same = 1, .dilation = {1, INT32_MAX, 1000000}};
    return stn_conv3d(in[0], in[1], in[2], &attrs);
}

static stn_tensor *transposed(stn_tensor *const *in)
{
    return stn_conv_transpose2d(in[0], in[1], in[2], NULL);
}

/* Windows that do not overlap: in f32 and f64 gradients by x are products of matrices, and results of many taps. */
static stn_tensor *enlarged(stn_tensor *const *in)
{
    const stn_conv_transpose_attrs attrs = {.size = sizeof attrs, .stride = {2, 3}};
    return stn_conv_transpose2d(in[0], in[1], in[2], &attrs);
}

static stn_tensor *cut_in_pieces(stn_tensor *const *in)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .stride = {4, 4, 4}};
    return stn_conv3d(in[0], in[1], in[2], &attrs);
}

enum { INPUTS = 3, MOST = 4000 };

/* The library runs for y, the gradient of x and that of the weight. */
enum { RUNS = 3 };

static const struct call {
    stn_tensor *(*run)(stn_tensor *const *in);
    struct {
        int ndim;
        int64_t shape[5];
    } in[INPUTS];
} calls[] = {
    {conv1d, {{3, {2, 3, 40}}, {3, {5, 3, 3}}, {1, {5}}}},
    {conv2d, {{4, {2, 3, 9, 10}}, {4, {4, 3, 3, 3}}, {1, {4}}}},
    {conv2d, {{4, {3, 8, 5, 6}}, {4, {8, 8, 1, 1}}, {1, {8}}}},
    {padded, {{4, {1, 3, 9, 8}}, {4, {2, 3, 3, 4}}, {1, {2}}}},
    {grouped, {{4, {2, 4, 9, 10}}, {4, {6, 2, 3, 3}}, {1, {6}}}},
    {strided, {{4, {2, 4, 10, 9}}, {4, {6, 4, 3, 3}}, {1, {6}}}},
    {same, {{4, {2, 3, 7, 10}}, {4, {4, 3, 4, 3}}, {1, {4}}}},
    {conv3d, {{5, {1, 2, 5, 6, 7}}, {5, {3, 2, 2, 3, 3}}, {1, {3}}}},
    {far, {{5, {1, 2, 5, 6, 7}}, {5, {3, 2, 2, 2, 3}}, {1, {3}}}},
    {far, {{5, {1, 2, 5, 6, 7}}, {5, {3, 2, 1, 3, 3}}, {1, {3}}}},
    {transposed, {{4, {2, 3, 6, 5}}, {4, {3, 4, 3, 3}}, {1, {4}}}},
    {enlarged, {{4, {2, 3, 5, 4}}, {4, {3, 4, 2, 3}}, {1, {4}}}},
    {cut_in_pieces, {{5, {2, 2, 4, 8, 8}}, {5, {3, 2, 4, 4, 4}}, {1, {3}}}},
};
enum { N_CALLS = sizeof calls / sizeof *calls };

/* How many of a call's problems the library is not asked for: products of matrices where `is_wide`, and what is far. */
static int ours(const struct call *call, int is_wide)
{
    if (call->run == far)
        return RUNS;
    if (!is_wide)
        return 0;
    return call->run == enlarged ? 1 : call->run == cut_in_pieces ? 2 : 0;
}

static int64_t numel(const stn_tensor *t)
{
    return stn_spec_numel(stn_tensor_spec(t));
}

/* Multiples of 1/16 between -1 and 1, the same for the same seed: exact in every dtype. */
static stn_tensor *drawn(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, uint64_t seed)
{
    const stn_spec *spec = NULL;
    double values[MOST];
    for (int i = 0; i < MOST; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = (double)((seed >> 40) % 33) / 16 - 1;
    }
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F64, ndim, shape, &spec), STN_OK);
    return stn_cast(stn_from_host(context, spec, values), dtype);
}

static void read(stn_tensor *t, double *out)
{
    CHECK_STATUS(stn_to_host(stn_cast(stn_detach(t), STN_DTYPE_F64), out, (size_t)numel(t) * sizeof *out), STN_OK);
}

/* y and the gradients of x, weight and bias; how often the library ran. */
static int64_t solve(stn_context *context, const struct call *call, stn_dtype dtype, struct stni_refusals refusals,
                     double (*out)[MOST], int64_t *n)
{
    enum { MANY = 1000 };
    struct stni_refusals *injected = &context->foreign.refusals[STNI_LIBRARY_CUDNN];
    stn_tensor *in[INPUTS], *gradient = NULL;
    stn_scope_begin(context);
    for (int i = 0; i < INPUTS; i++) {
        in[i] = stn_detach(drawn(context, dtype, call->in[i].ndim, call->in[i].shape, (uint64_t)i + 1));
        stn_set_requires_grad(in[i], 1);
    }
    *injected = refusals;
    if (injected->run == 0)
        injected->run = MANY;
    const int64_t before = injected->run;
    stn_tensor *y = call->run(in);
    stn_tensor *cotangent =
        drawn(context, dtype, stn_spec_ndim(stn_tensor_spec(y)), stn_spec_shape(stn_tensor_spec(y)), 9);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    const int64_t runs = before - injected->run;
    memset(injected, 0, sizeof *injected);
    read(y, out[0]);
    n[0] = numel(y);
    for (int i = 0; i < INPUTS; i++) {
        CHECK_STATUS(stn_grad_of(in[i], &gradient), STN_OK);
        read(gradient, out[1 + i]);
        n[1 + i] = numel(gradient);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return runs;
}

static void check_results(const struct call *call, stn_dtype dtype, double (*got)[MOST], double (*want)[MOST],
                          const int64_t *n)
{
    static const double tolerance[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = 1e-5, [STN_DTYPE_F64] = 1e-13, [STN_DTYPE_BF16] = 0x1p-6, [STN_DTYPE_F16] = 0x1p-9};
    for (int t = 0; t <= INPUTS; t++) {
        double worst = 0;
        for (int64_t i = 0; i < n[t]; i++) {
            const double size = want[t][i] < 0 ? -want[t][i] : want[t][i], off = got[t][i] - want[t][i];
            const double error = (off < 0 ? -off : off) / (1 + size);
            worst = error <= worst ? worst : error; /* NaN stays */
        }
        if (!CHECK(worst < tolerance[dtype]))
            fprintf(stderr, "  call %d, dtype %d, tensor %d: off by %g\n", (int)(call - calls), (int)dtype, t, worst);
    }
}

/* The library's results and our own kernels' beside the CPU's, which shares none of the device's ways. */
static void compare(const struct call *call, stn_dtype dtype, struct stni_refusals refusals, int serves)
{
    static double got[1 + INPUTS][MOST], want[1 + INPUTS][MOST];
    const int own_runs = ours(call, dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_F64);
    int64_t n[1 + INPUTS];
    stn_context *library = both_open((stn_context_options){.device = "cuda"});
    stn_context *own = both_open((stn_context_options){.device = "cuda", .without = "cudnn"});
    stn_context *cpu = both_open((stn_context_options){.device = "cpu"});
    if (library && own && cpu) {
        solve(cpu, call, dtype, (struct stni_refusals){0}, want, n);
        const int64_t runs = solve(library, call, dtype, refusals, got, n);
        if (refusals.run == 0)
            CHECK_I64(runs, serves ? RUNS - own_runs : 0);
        check_results(call, dtype, got, want, n);
        CHECK_I64(solve(own, call, dtype, (struct stni_refusals){0}, got, n), 0);
        check_results(call, dtype, got, want, n);
    }
    stn_context_destroy(&library);
    stn_context_destroy(&own);
    stn_context_destroy(&cpu);
}

static void on_all(struct stni_refusals refusals, int serves)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    for (int i = 0; i < N_CALLS; i++)
        for (int d = 0; d < 4; d++)
            compare(&calls[i], dtypes[d], refusals, serves);
}

static void values_and_gradients_are_the_librarys(void)
{
    on_all((struct stni_refusals){0}, 1);
}

static void every_question_may_be_refused(void)
{
    on_all((struct stni_refusals){.question = -1}, 0);
}

static void every_run_may_be_refused(void)
{
    on_all((struct stni_refusals){.run = -1}, 0);
    for (int n = 1; n <= 3; n++)
        compare(&calls[1], STN_DTYPE_F32, (struct stni_refusals){.run = n}, 0);
}

/* TF32 has 10 bits of fraction, so that 1 + 2^-12 is 1. GPUs may take another engine; the stand-in takes the first
 * allowed. */
static void check_tf32(int allow_tf32, const char *without, stn_dtype dtype, int is_rounded)
{
    enum { CHANNELS = 2, PIXELS = 3, N = CHANNELS * PIXELS };
    const float data[N + CHANNELS * CHANNELS] = {1 + 0x1p-12f, 1 + 0x1p-12f, 1 + 0x1p-12f, 1 + 0x1p-12f, 1 + 0x1p-12f,
                                                 1 + 0x1p-12f, 1, 1, 1, 1};
    const int64_t image[] = {1, CHANNELS, PIXELS}, kernel[] = {CHANNELS, CHANNELS, 1};
    const stn_spec *of_image = NULL, *of_kernel = NULL;
    stn_context *context =
        both_open((stn_context_options){.device = "cuda", .without = without, .allow_tf32 = allow_tf32});
    if (!context)
        return;
    stn_scope_begin(context);
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 3, image, &of_image), STN_OK);
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 3, kernel, &of_kernel), STN_OK);
    stn_tensor *in[INPUTS] = {stn_detach(stn_cast(stn_from_host(context, of_image, data), dtype)),
                              stn_detach(stn_cast(stn_from_host(context, of_kernel, data + N), dtype)), NULL};
    for (int i = 0; i < 2; i++)
        stn_set_requires_grad(in[i], 1);
    stn_tensor *out[3] = {conv1d(in), NULL, NULL}, *cotangent = stn_detach(in[0]);
    CHECK_STATUS(stn_backward_many(context, 1, out, &cotangent, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(in[0], &out[1]), STN_OK);
    CHECK_STATUS(stn_grad_of(in[1], &out[2]), STN_OK);
    const double products[] = {CHANNELS, CHANNELS, PIXELS}; /* in y, in the gradients of x and of the weight */
    for (int t = 0; t < 3; t++) {
        double got[MOST];
        read(out[t], got);
        if (is_rounded && both_on_standin())
            CHECK_NEAR(got[0], products[t], 0);
        else
            CHECK(is_rounded ? got[0] >= products[t] : got[0] > products[t]);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

static void only_where_it_is_allowed_f32_is_rounded_to_tf32(void)
{
    check_tf32(0, NULL, STN_DTYPE_F32, 0);
    check_tf32(1, NULL, STN_DTYPE_F32, 1);
    check_tf32(1, NULL, STN_DTYPE_F64, 0);
    check_tf32(1, "cudnn", STN_DTYPE_F32, 0);
}

/* How often the library is told to run for y and for the gradient of the weight, of 16-bit floats. */
static int64_t count_runs(stn_padding_mode mode)
{
    enum { MANY = 1000 };
    const struct call *call = &calls[1];
    const stn_conv_attrs attrs = {.size = sizeof attrs, .padding = {1, 1}, .mode = {mode, mode}};
    stn_tensor *in[2];
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return 0;
    struct stni_refusals *injected = &context->foreign.refusals[STNI_LIBRARY_CUDNN];
    stn_scope_begin(context);
    for (int i = 0; i < 2; i++)
        in[i] = stn_detach(drawn(context, STN_DTYPE_F16, call->in[i].ndim, call->in[i].shape, (uint64_t)i + 1));
    stn_set_requires_grad(in[1], 1);
    injected->run = MANY;
    stn_tensor *y = stn_conv2d(in[0], in[1], NULL, &attrs);
    stn_tensor *cotangent = drawn(context, STN_DTYPE_F16, 4, (const int64_t[]){2, 4, 9, 10}, 9);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    const int64_t runs = MANY - injected->run;
    memset(injected, 0, sizeof *injected);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
    return runs;
}

/* What lies around the chunk, another chunk or a boundary, is joined to it: no sum is rounded before it is whole. */
static void gradients_of_16_bit_weights_are_one_problem(void)
{
    CHECK_I64(count_runs(STN_PADDING_ZEROS), 2);
    CHECK_I64(count_runs(STN_PADDING_CIRCULAR), 2);
}

/* Copies of boxes, transposes among them, that were launched. */
static struct {
    stn_kernel_fn copy;
    int64_t n;
} copies;

static stn_status counted_copy(stn_queue *queue, const void *args)
{
    copies.n++;
    return copies.copy(queue, args);
}

/* Whether channels lie behind the pixels. */
static int lies_channels_last(const stn_tensor *image)
{
    return stn_spec_memory_order(stn_tensor_spec(image))[3] == 1;
}

/* How y lies, and that where it is row-major and padded by zeros nothing is copied for it and the gradients, which lie
 * as their leaves. */
static void check_order(stn_dtype dtype, int allow_tf32, stn_padding_mode mode, int channels_last)
{
    const struct call *call = &calls[1];
    stn_tensor *in[2];
    stn_context *context = both_open((stn_context_options){.device = "cuda", .allow_tf32 = allow_tf32});
    if (!context)
        return;
    const stn_conv_attrs attrs = {.size = sizeof attrs, .padding = {1, 1}, .mode = {mode, mode}};
    copies.copy = context->device->box_copy;
    stn_scope_begin(context);
    for (int i = 0; i < 2; i++) {
        in[i] = stn_detach(drawn(context, dtype, call->in[i].ndim, call->in[i].shape, (uint64_t)i + 1));
        stn_set_requires_grad(in[i], 1);
    }
    stn_tensor *cotangent = drawn(context, dtype, 4, (const int64_t[]){2, 4, 9, 10}, 9);
    context->device->box_copy = counted_copy;
    copies.n = 0;
    stn_tensor *y = stn_conv2d(in[0], in[1], NULL, &attrs);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    context->device->box_copy = copies.copy;
    CHECK_I64(lies_channels_last(y), channels_last);
    if (mode == STN_PADDING_ZEROS)
        CHECK((copies.n > 0) == channels_last);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

static void images_of_f32_and_f64_stay_row_major(void)
{
    check_order(STN_DTYPE_F32, 0, STN_PADDING_ZEROS, 0);
    check_order(STN_DTYPE_F64, 1, STN_PADDING_ZEROS, 0);
    check_order(STN_DTYPE_F32, 1, STN_PADDING_ZEROS, 1);
    check_order(STN_DTYPE_BF16, 0, STN_PADDING_ZEROS, 1);
    check_order(STN_DTYPE_F32, 0, STN_PADDING_CIRCULAR, 0);
}

/* Which no library has. */
static int of_complex_numbers(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int64_t image[] = {2, 3, shape[0], shape[1], 2}, kernel[] = {4, 3, 3, 2, 2};
    stn_tensor *pairs[] = {both_input(context, dtype, 5, image, 1), both_input(context, dtype, 5, kernel, 2)}, *in[3];
    for (int i = 0; i < 2; i++) {
        stn_set_requires_grad(pairs[i], 1);
        in[i] = stn_view_as_complex(pairs[i]);
    }
    in[2] = NULL;
    stn_tensor *y = stn_view_as_real(padded(in)), *cotangent = both_input(context, dtype, 5, stn_tensor_shape(y), 3);
    out[0] = y;
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 2, pairs, 0, 0, out + 1), STN_OK);
    return 3;
}

static void complex_values_and_gradients_are_the_cpus(void)
{
    static const both_work work = {"complex", of_complex_numbers};
    both_compare(&work, STN_DTYPE_F32, (const int64_t[]){9, 8, 0}, 5e-5);
    both_compare(&work, STN_DTYPE_F64, (const int64_t[]){9, 8, 0}, 1e-13);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"images_of_f32_and_f64_stay_row_major", images_of_f32_and_f64_stay_row_major},
        {"values_and_gradients_are_the_librarys", values_and_gradients_are_the_librarys},
        {"complex_values_and_gradients_are_the_cpus", complex_values_and_gradients_are_the_cpus},
        {"every_question_may_be_refused", every_question_may_be_refused},
        {"every_run_may_be_refused", every_run_may_be_refused},
        {"only_where_it_is_allowed_f32_is_rounded_to_tf32", only_where_it_is_allowed_f32_is_rounded_to_tf32},
        {"gradients_of_16_bit_weights_are_one_problem", gradients_of_16_bit_weights_are_one_problem},
    };
    return TEST_MAIN(argc, argv, cases);
}
