/* Scratch that a kernel asks for: each kernel of a slot its own amount, for the arguments at hand; built-in and
 * registered ones, of this header and of an older one. */
#include "ranks.h"

#include "core/context/context.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* y[i] = the sum of the chunk's elements up to i. */
struct sums_args {
    int64_t n;
    const double *x;
    double *y;
    double *workspace; /* as many bytes as the kernel asks for */
};

/* The last answers of the tests' kernels and ops; ranks are threads. */
static _Atomic int asked;
static _Atomic size_t bytes_got;

/* Elements fewer that an op asks for than its kernel is launched with. */
static _Atomic int64_t forgets;

static stn_status plain_kernel(stn_queue *queue, const void *args)
{
    const struct sums_args *a = args;
    double sum = 0;
    (void)queue;
    for (int64_t i = 0; i < a->n; i++)
        a->y[i] = sum += a->x[i];
    return STN_OK;
}

/* By way of the workspace, all of which it writes; negated, so that the two are told apart. */
static stn_status workspace_kernel(stn_queue *queue, const void *args)
{
    const struct sums_args *a = args;
    struct sums_args sums = *a;
    sums.y = a->workspace;
    plain_kernel(queue, &sums);
    for (int64_t i = 0; i < a->n; i++) {
        a->workspace[a->n + i] = -a->workspace[i];
        a->y[i] = a->workspace[a->n + i];
    }
    return STN_OK;
}

static size_t two_lines(stn_queue *queue, const void *args)
{
    CHECK(queue != NULL);
    asked++;
    return 2 * (size_t)((const struct sums_args *)args)->n * sizeof(double);
}

static stn_status check(stn_op_call *call)
{
    const stn_spec *in = call->in_spec[0];
    call->out_meta[0] = (stn_meta){.dtype = stn_spec_dtype(in), .ndim = stn_spec_ndim(in)};
    memcpy(call->out_meta[0].shape, stn_spec_shape(in), (size_t)stn_spec_ndim(in) * sizeof(int64_t));
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    struct sums_args args = {stn_spec_local_numel(stn_tensor_spec(call->in[0])), stn_tensor_data(call->in[0]),
                             stn_tensor_data(call->out[0]), NULL};
    void *workspace = NULL;
    args.n -= forgets;
    const size_t bytes = stn_op_workspace(call, 0, STN_DTYPE_F64, &args);
    args.n += forgets;
    CHECK_I64((int64_t)stn_op_workspace(call, 1, STN_DTYPE_F64, &args), 0);  /* no such slot */
    CHECK_I64((int64_t)stn_op_workspace(call, -1, STN_DTYPE_F64, &args), 0);
    CHECK_I64((int64_t)stn_op_workspace(call, 0, STN_DTYPE_F32, &args), 0); /* no such kernel */
    bytes_got = bytes;
    if (bytes > 0) {
        stn_status status = stn_op_scratch(call, bytes, &workspace);
        if (status != STN_OK)
            return status;
    }
    args.workspace = workspace;
    return stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct sums_args)}};
static const stn_kernel plain_kernels[] = {
    {sizeof(stn_kernel), "forward", "cpu", 1u << STN_DTYPE_F64, sizeof(struct sums_args), plain_kernel, NULL}};
static const stn_kernel workspace_kernels[] = {
    {sizeof(stn_kernel), "forward", "cpu", 1u << STN_DTYPE_F64, sizeof(struct sums_args), workspace_kernel, two_lines}};
static const stn_op_impl plain = {
    .check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(plain_kernels)};
static const stn_op_impl built_in = {
    .check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(workspace_kernels)};
static const stn_op_desc sums = {
    .size = sizeof sums, .name = "sums", STN_INPUTS(inputs), .n_outputs = 1, .impl = &plain};
static const stn_op_desc others = {
    .size = sizeof others, .name = "others", STN_INPUTS(inputs), .n_outputs = 1, .impl = &built_in};

/* The op on this rank's chunk of x, and what it asked for. */
static void expect(stn_context *context, const char *name, double sign, int asks)
{
    const stn_placement shard = stn_shard(0);
    const int ranks = stn_context_size(context);
    for (int64_t n = 0; n < 8; n++) {
        double got[8], total = 0;
        const int before = asked;
        stn_tensor *x = test_tensor(context, test_mesh(context, ranks, 0), &shard, STN_DTYPE_F64, 1, &n, NULL,
                                    test_value),
                   *y = NULL;
        CHECK_STATUS(stn_call(context, name, 1, &x, 0, NULL, 1, &y), STN_OK);
        const int64_t local = stn_spec_local_numel(stn_tensor_spec(x)), first = n / ranks * stn_context_rank(context);
        if (ranks == 1) {
            CHECK_I64(asked - before, asks);
            CHECK_I64((int64_t)bytes_got, asks * 2 * local * (int64_t)sizeof(double));
        }
        test_read(y, got, n);
        for (int64_t i = 0; i < n && ranks == 1; i++)
            CHECK_NEAR(got[i], sign * (total += test_value(i)), 1e-12);
        if (ranks > 1 && local > 0 && n % ranks == 0)
            CHECK_NEAR(got[first], sign * test_value(first), 1e-12);
    }
}

static stn_status body(stn_context *context, void *arg)
{
    const stn_kernel added = {sizeof added,     "sums.forward", "cpu", 1u << STN_DTYPE_F64, sizeof(struct sums_args),
                              workspace_kernel, two_lines};
    stn_kernel older = {offsetof(stn_kernel, workspace), "sums.forward", "cpu",    1u << STN_DTYPE_F64,
                        sizeof(struct sums_args),        plain_kernel,   two_lines};
    const stn_op *op;
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &sums, &op), STN_OK);
    CHECK_STATUS(stn_op_register(context, &others, &op), STN_OK);
    stn_scope_begin(context);
    expect(context, "sums", 1, 0);
    expect(context, "others", -1, 1);
    CHECK_STATUS(stn_kernel_register(context, &added), STN_OK);
    expect(context, "sums", -1, 1);
    CHECK_STATUS(stn_kernel_enable(context, "sums.forward", 0), STN_OK);
    expect(context, "sums", 1, 0);
    CHECK_STATUS(stn_kernel_enable(context, "sums.forward", 1), STN_OK);
    CHECK_STATUS(stn_kernel_register(context, &older), STN_OK);
    expect(context, "sums", 1, 0);
    older.size--;
    CHECK_STATUS(stn_kernel_register(context, &older), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
    return stn_scope_end(context);
}

static void a_kernel_gets_the_scratch_that_it_asks_for(void)
{
    test_ranks(1, body, NULL);
    test_ranks(3, body, NULL);
}

/* Two calls alike, of which the second op forgets an element; what the first was given does not serve for it. */
static stn_status forget(stn_context *context, void *arg)
{
    const int64_t n = 3;
    const stn_op *op;
    stn_tensor *y = NULL;
    char text[256];
    (void)arg;
    stni_context_check_scratch(context);
    CHECK_STATUS(stn_op_register(context, &others, &op), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, test_value);
    CHECK_STATUS(stn_call(context, "others", 1, &x, 0, NULL, 1, &y), STN_OK);
    forgets = 1;
    CHECK_STATUS(stn_call(context, "others", 1, &x, 0, NULL, 1, &y), STN_ERR_INTERNAL);
    forgets = 0;
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_INTERNAL);
    CHECK_STR(text, "others: 'others.forward' wants 48 bytes of scratch at its launch, of 32 that it was asked for");
    CHECK_STATUS(stn_call(context, "others", 1, &x, 0, NULL, 1, &y), STN_OK);
    return stn_scope_end(context);
}

static void tests_see_a_kernel_that_gets_less_than_it_wants(void)
{
    test_ranks(1, forget, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_kernel_gets_the_scratch_that_it_asks_for", a_kernel_gets_the_scratch_that_it_asks_for},
        {"tests_see_a_kernel_that_gets_less_than_it_wants", tests_see_a_kernel_that_gets_less_than_it_wants},
    };
    return TEST_MAIN(argc, argv, cases);
}
