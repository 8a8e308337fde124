/* Foreign libraries refuse: not asked at all, their n-th question, their n-th run. Values and gradients stay those
 * of one process in f64. */
#include "core/context/context.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static stn_tensor *call_matmul(stn_tensor *const *in) { return stn_matmul(in[0], in[1]); }
static stn_tensor *call_linear(stn_tensor *const *in) { return stn_linear(in[0], in[1], in[2]); }
static stn_tensor *call_einsum(stn_tensor *const *in) { return stn_einsum("bic,jbc->jib", 2, in); }
static stn_tensor *call_conv1d(stn_tensor *const *in) { return stn_conv1d(in[0], in[1], in[2], NULL); }
static stn_tensor *call_conv2d(stn_tensor *const *in) { return stn_conv2d(in[0], in[1], in[2], NULL); }
static stn_tensor *call_conv3d(stn_tensor *const *in) { return stn_conv3d(in[0], in[1], NULL, NULL); }
static stn_tensor *call_transposed(stn_tensor *const *in) { return stn_conv_transpose2d(in[0], in[1], in[2], NULL); }

static stn_tensor *call_grouped(stn_tensor *const *in)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .stride = {2, 1}, .padding = {1, 1}, .groups = 2};
    return stn_conv2d(in[0], in[1], NULL, &attrs);
}

static stn_tensor *call_fft(stn_tensor *const *in)
{
    return stn_view_as_real(stn_fft(stn_view_as_complex(in[0]), 0, 0, STN_FFT_BACKWARD));
}

static stn_tensor *call_rfft(stn_tensor *const *in)
{
    return stn_view_as_real(stn_rfft(in[0], 0, 1, STN_FFT_BACKWARD));
}

static stn_tensor *call_irfft(stn_tensor *const *in)
{
    return stn_irfft(stn_view_as_complex(in[0]), 12, 1, STN_FFT_BACKWARD);
}

enum { MAX_INPUTS = 3 };

static const struct call {
    stn_tensor *(*run)(stn_tensor *const *in);
    int n_in, transforms; /* transforms know no 16-bit floats */
    struct random_shape in[MAX_INPUTS];
} calls[] = {
    {call_matmul, 2, 0, {{2, {33, 31}}, {2, {31, 29}}}},
    {call_matmul, 2, 0, {{2, {1, 48}}, {2, {48, 50}}}},
    {call_matmul, 2, 0, {{3, {3, 14, 15}}, {3, {3, 15, 13}}}},
    {call_matmul, 2, 0, {{2, {14, 15}}, {3, {3, 15, 13}}}},
    {call_matmul, 2, 0, {{4, {2, 3, 14, 15}}, {4, {2, 1, 15, 13}}}},
    {call_linear, 3, 0, {{3, {2, 9, 16}}, {2, {20, 16}}, {1, {20}}}},
    {call_einsum, 2, 0, {{3, {3, 14, 15}}, {3, {13, 3, 15}}}},
    {call_conv1d, 3, 0, {{3, {2, 3, 40}}, {3, {5, 3, 3}}, {1, {5}}}},
    {call_conv2d, 3, 0, {{4, {2, 3, 9, 10}}, {4, {4, 3, 3, 3}}, {1, {4}}}},
    {call_conv2d, 3, 0, {{4, {3, 8, 5, 6}}, {4, {8, 8, 1, 1}}, {1, {8}}}},
    {call_grouped, 2, 0, {{4, {2, 4, 9, 10}}, {4, {6, 2, 3, 3}}}},
    {call_conv3d, 2, 0, {{5, {1, 2, 5, 6, 7}}, {5, {3, 2, 2, 3, 3}}}},
    {call_transposed, 3, 0, {{4, {2, 3, 6, 5}}, {4, {3, 4, 3, 3}}, {1, {4}}}},
    /* Images that are summed up one by one. */
    {call_conv2d, 3, 0, {{4, {3, 16, 26, 24}}, {4, {16, 16, 3, 3}}, {1, {16}}}},
    {call_fft, 1, 1, {{3, {12, 5, 2}}}},
    {call_rfft, 1, 1, {{2, {3, 15}}}},
    {call_irfft, 1, 1, {{3, {3, 7, 2}}}},
};
enum { N_CALLS = sizeof calls / sizeof *calls };

/* A tensor of f64, local where `mesh` is NULL. */
static stn_tensor *made(stn_context *context, const stn_mesh *mesh, stn_placement placement,
                        const struct random_shape *shape, const double *values)
{
    const stn_spec *spec;
    if (!mesh)
        return against_one_local(context, STN_DTYPE_F64, shape, values);
    CHECK_STATUS(stn_spec_create(context, mesh, &placement, STN_DTYPE_F64, shape->ndim, shape->shape, NULL, &spec),
                 STN_OK);
    stn_tensor *tensor = stn_from_host_global(context, spec, values);
    stn_spec_release(&spec);
    return tensor;
}

/* Forward and backward with inputs and a cotangent of the given values, rounded to `rounded`, computed in `dtype`;
 * the first input is sharded along its first dim, the others are whole. Gradients in f64, then the result. */
static void compute(stn_context *context, const stn_mesh *mesh, const struct call *call, stn_dtype rounded,
                    stn_dtype dtype, double *const *values, stn_tensor **out)
{
    stn_tensor *in[MAX_INPUTS] = {NULL};
    for (int i = 0; i < call->n_in; i++) {
        in[i] = stn_detach(stn_cast(
            stn_cast(made(context, mesh, i == 0 ? stn_shard(0) : stn_replicate(), &call->in[i], values[i]), rounded),
            dtype));
        stn_set_requires_grad(in[i], 1);
    }
    stn_tensor *y = call->run(in);
    const stn_spec *spec = stn_tensor_spec(y);
    struct random_shape shape = {stn_spec_ndim(spec), {0}};
    for (int d = 0; d < shape.ndim; d++)
        shape.shape[d] = stn_spec_shape(spec)[d];
    stn_tensor *cotangent =
        stn_cast(stn_cast(made(context, mesh, stn_replicate(), &shape, values[MAX_INPUTS]), rounded), dtype);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    for (int i = 0; i < call->n_in; i++) {
        stn_tensor *gradient = NULL;
        CHECK_STATUS(stn_grad_of(in[i], &gradient), STN_OK);
        out[i] = stn_cast(gradient, STN_DTYPE_F64);
    }
    out[call->n_in] = stn_cast(stn_detach(y), STN_DTYPE_F64);
}

static void check_call(stn_context *context, const stn_mesh *mesh, const struct call *call, stn_dtype dtype,
                       const struct stni_refusals *refusals)
{
    enum { MOST = 40000 };
    static const double tolerance[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = 3e-6, [STN_DTYPE_F16] = 0x1p-10, [STN_DTYPE_BF16] = 0x1p-7};
    uint64_t state = 7;
    double *values[MAX_INPUTS + 1] = {NULL};
    stn_tensor *got[MAX_INPUTS + 1], *want[MAX_INPUTS + 1];
    for (int i = 0; i < call->n_in; i++)
        values[i] = against_one_draw(&state, against_one_numel(&call->in[i]));
    values[MAX_INPUTS] = against_one_draw(&state, MOST);
    stn_scope_begin(context);
    compute(context, NULL, call, dtype, STN_DTYPE_F64, values, want);
    for (int l = 0; l < STNI_LIBRARY_COUNT; l++)
        context->foreign.refusals[l] = *refusals;
    compute(context, mesh, call, dtype, dtype, values, got);
    for (int i = 0; i <= call->n_in && CHECK_STATUS(stn_context_status(context), STN_OK); i++) {
        double *whole = calloc(MOST, sizeof *whole);
        test_read(want[i], whole, stn_spec_numel(stn_tensor_spec(want[i])));
        against_one_compare(got[i], whole, tolerance[dtype]);
        free(whole);
    }
    if (stn_context_status(context) != STN_OK)
        fprintf(stderr, "  %s\n", stn_context_error_text(context));
    memset(context->foreign.refusals, 0, sizeof context->foreign.refusals);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    for (int i = 0; i <= MAX_INPUTS; i++)
        free(values[i]);
}

static stn_status all_calls(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16};
    for (int i = 0; i < N_CALLS; i++)
        for (int d = 0; d < (calls[i].transforms ? 1 : 3); d++)
            check_call(context, NULL, &calls[i], dtypes[d], arg);
    return STN_OK;
}

static void check_refusals(const char *without, struct stni_refusals refusals)
{
    for (int threads = 1; threads <= 2; threads++) {
        const stn_context_options options = {.size = sizeof options, .threads = threads, .without = without};
        if (!CHECK_STATUS(test_launch(1, &options, all_calls, &refusals), STN_OK))
            fprintf(stderr, "  without %s, %d threads\n", without ? without : "nothing", threads);
    }
}

static void a_context_does_without_each_library(void)
{
    check_refusals(NULL, (struct stni_refusals){0});
    check_refusals("onednn", (struct stni_refusals){0});
    check_refusals("fftw", (struct stni_refusals){0});
    check_refusals("onednn,fftw", (struct stni_refusals){0});
}

static void every_question_is_refused(void)
{
    check_refusals(NULL, (struct stni_refusals){.question = -1});
}

static void every_run_is_refused(void)
{
    check_refusals(NULL, (struct stni_refusals){.run = -1});
    check_refusals(NULL, (struct stni_refusals){.question = -1, .run = -1});
}

static void one_question_is_refused(void)
{
    for (int n = 1; n <= 4; n += test_thread_step(3))
        check_refusals(NULL, (struct stni_refusals){.question = n});
}

static void one_run_is_refused(void)
{
    for (int n = 1; n <= 5; n += test_thread_step(4))
        check_refusals(NULL, (struct stni_refusals){.run = n});
}

/* The rank whose libraries refuse, and what they refuse there; the others are served. */
struct alone {
    int rank;
    struct stni_refusals refusals;
};

static stn_status sharded_calls(stn_context *context, void *arg)
{
    static const struct stni_refusals none;
    const struct alone *alone = arg;
    const int size = stn_context_size(context);
    const struct stni_refusals *refusals =
        alone->rank < 0 || stn_context_rank(context) == alone->rank % size ? &alone->refusals : &none;
    const stn_mesh *mesh = test_mesh(context, size, 0);
    for (int i = 0; i < N_CALLS; i++)
        check_call(context, mesh, &calls[i], i % 2 && !calls[i].transforms ? STN_DTYPE_BF16 : STN_DTYPE_F32, refusals);
    return STN_OK;
}

static void a_refusal_on_one_rank_or_on_all_changes_no_value(void)
{
    static const struct alone cases[] = {
        {-1, {.question = -1}}, {-1, {.run = -1}}, {0, {.question = -1}}, {1, {.run = -1}}, {2, {.run = 2}}};
    for (int ranks = 2; ranks <= 3; ranks++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            struct alone alone = cases[k];
            const stn_context_options options = {.size = sizeof options};
            if (!CHECK_STATUS(test_launch(ranks, &options, sharded_calls, &alone), STN_OK))
                fprintf(stderr, "  %d ranks, case %zu\n", ranks, k);
        }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_context_does_without_each_library", a_context_does_without_each_library},
        {"every_question_is_refused", every_question_is_refused},
        {"every_run_is_refused", every_run_is_refused},
        {"one_question_is_refused", one_question_is_refused},
        {"one_run_is_refused", one_run_is_refused},
        {"a_refusal_on_one_rank_or_on_all_changes_no_value", a_refusal_on_one_rank_or_on_all_changes_no_value},
    };
    return TEST_MAIN(argc, argv, cases);
}
