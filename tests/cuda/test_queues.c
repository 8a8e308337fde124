/* What a queue of a CUDA device can do beside running kernels, through the public functions: call the host behind its
 * work, record work and repeat it, run on a stream of the caller's, keep value errors where the host reads them. */
#include "both.h"

#include "harness.h"

#include "core/context/context.h"
#include "core/tensor/tensor.h"

#include <shardtensor/shardtensor.h>

#include <string.h>

enum { N = 1000 };

static stn_tensor *constant(stn_context *context, float value)
{
    const int64_t shape[1] = {N};
    float host[N];
    for (int i = 0; i < N; i++)
        host[i] = value;
    const stn_spec *spec = NULL;
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 1, shape, &spec), STN_OK);
    return stn_from_host(context, spec, host);
}

static void check_constant(stn_tensor *tensor, double value)
{
    float host[N];
    memset(host, 0, sizeof host);
    CHECK_STATUS(stn_to_host(tensor, host, sizeof host), STN_OK);
    CHECK_NEAR(host[0], value, 0);
    CHECK_NEAR(host[N - 1], value, 0);
}

/* x = 2 x, y = y + x, on memory that both have already. */
static void record_step(stn_context *context, stn_tensor *x, stn_tensor *y, stn_graph **graph)
{
    CHECK_STATUS(stn_queue_capture_begin(stn_context_queue(context)), STN_OK);
    stn_mul_number_(x, 2);
    stn_add_(y, x, 1);
    CHECK_STATUS(stn_queue_capture_end(stn_context_queue(context), graph), STN_OK);
}

static void recorded_work_runs_when_it_is_launched(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    stn_graph *graph = NULL;
    if (!context)
        return;
    stn_tensor *x = constant(context, 1), *y = constant(context, 10);
    record_step(context, x, y, &graph);
    check_constant(x, 1);
    check_constant(y, 10);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(stn_graph_launch(graph, stn_context_queue(context)), STN_OK);
    stn_mul_number_(y, 10); /* behind all of them */
    stn_graph_destroy(&graph);
    check_constant(x, 8);
    check_constant(y, 10 * (10 + 2 + 4 + 8));
    stn_tensor_release(&x);
    stn_tensor_release(&y);
    stn_context_destroy(&context);
}

/* Memory that is new to the context is asked for while it records. */
static void recorded_work_may_allocate(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    stn_graph *graph = NULL;
    if (!context)
        return;
    stn_tensor *x = constant(context, 3);
    CHECK_STATUS(stn_queue_capture_begin(stn_context_queue(context)), STN_OK);
    stn_tensor *y = stn_mul_number(x, 2);
    CHECK_STATUS(stn_queue_capture_end(stn_context_queue(context), &graph), STN_OK);
    stn_mul_number_(x, 5);
    CHECK_STATUS(stn_graph_launch(graph, stn_context_queue(context)), STN_OK);
    check_constant(y, 30);
    stn_graph_destroy(&graph);
    stn_tensor_release(&y);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
}

static void check_equal(stn_tensor *a, stn_tensor *b)
{
    double apart = 1;
    CHECK_STATUS(stn_item(stn_amax(stn_abs(stn_sub(a, b)), 0, NULL, 0), &apart), STN_OK);
    CHECK_NEAR(apart, 0, 0);
}

/* Libraries that have not run before load their kernels while the queue records. */
static void libraries_may_run_first_in_a_recording(void)
{
    enum { SIDE = 10, WINDOW = 3 };
    const int64_t square[] = {SIDE, SIDE}, image[] = {1, 1, SIDE, SIDE}, window[] = {1, 1, WINDOW, WINDOW};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    stn_graph *graph = NULL;
    if (!context)
        return;
    struct stni_refusals *const refusals = context->foreign.refusals;
    refusals[STNI_LIBRARY_CUBLASLT].run = refusals[STNI_LIBRARY_CUDNN].run = 10; /* counts */
    stn_scope_begin(context);
    stn_tensor *x = both_input(context, STN_DTYPE_F32, 2, square, 1);
    stn_tensor *images = both_input(context, STN_DTYPE_F32, 4, image, 2);
    stn_tensor *windows = both_input(context, STN_DTYPE_F32, 4, window, 3);
    CHECK_STATUS(stn_queue_capture_begin(stn_context_queue(context)), STN_OK);
    stn_tensor *y = stn_matmul(x, x), *z = stn_conv2d(images, windows, NULL, NULL);
    CHECK_STATUS(stn_queue_capture_end(stn_context_queue(context), &graph), STN_OK);
    CHECK_STATUS(stn_graph_launch(graph, stn_context_queue(context)), STN_OK);
    CHECK_I64(refusals[STNI_LIBRARY_CUBLASLT].run, 9);
    CHECK_I64(refusals[STNI_LIBRARY_CUDNN].run, 9);
    refusals[STNI_LIBRARY_CUBLASLT].run = refusals[STNI_LIBRARY_CUDNN].run = 0;
    check_equal(y, stn_matmul(x, x));
    check_equal(z, stn_conv2d(images, windows, NULL, NULL));
    stn_graph_destroy(&graph);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

/* What eager steps have left, and another step with an output that it alone held. */
static void give_memory_back(stn_context *context, stn_step **other)
{
    stn_context_trim(context);
    stn_step_destroy(other);
}

static stn_step *captured_before(stn_context *context, stn_tensor *x)
{
    stn_step *step = NULL;
    stn_scope_begin(context);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_mul_number(stn_mul_number(x, 2), 3);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return step;
}

static void memory_goes_back_while_a_step_is_captured(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    stn_step *step = NULL;
    if (!context)
        return;
    stn_tensor *x = constant(context, 1);
    stn_step *other = captured_before(context, x);
    stn_tensor_release(&(stn_tensor *){constant(context, 2)});
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_mul_number_(x, 3);
    give_memory_back(context, &other);
    stn_mul_number_(x, 5);
    if (CHECK_STATUS(stn_capture_end(context, &step), STN_OK))
        CHECK_STATUS(stn_step_run(step), STN_OK);
    check_constant(x, 15 * 15);
    stn_step_destroy(&step);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
}

static void what_reads_values_cannot_be_recorded(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    stn_graph *graph = NULL;
    float host[N];
    if (!context)
        return;
    stn_tensor *x = constant(context, 1);
    CHECK_STATUS(stn_queue_capture_begin(stn_context_queue(context)), STN_OK);
    CHECK_STATUS(stn_to_host(x, host, sizeof host), STN_ERR_STATE);
    CHECK_STATUS(stn_queue_capture_end(stn_context_queue(context), &graph), STN_ERR_STATE);
    CHECK(graph == NULL);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    stn_mul_number_(x, 7);
    check_constant(x, 7);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
}

struct reading {
    float *at;
    float seen[2];
    int calls;
};

static void read_it(void *arg)
{
    struct reading *reading = arg;
    reading->seen[reading->calls++] = *reading->at;
}

/* Each call sees the copy before it, and none behind it. */
static void calls_run_behind_what_is_queued(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    float first[N] = {0};
    struct reading reading = {.at = first};
    if (!context)
        return;
    stn_tensor *x = constant(context, 3), *y = constant(context, 5);
    stn_queue *queue = stn_context_queue(context);
    for (int i = 0; i < 40; i++) {
        reading.calls = 0;
        CHECK_STATUS(stni_queue_copy(queue, first, stn_tensor_data(x), sizeof first, STNI_COPY_TO_HOST), STN_OK);
        CHECK_STATUS(stn_queue_call(queue, read_it, &reading), STN_OK);
        CHECK_STATUS(stni_queue_copy(queue, first, stn_tensor_data(y), sizeof first, STNI_COPY_TO_HOST), STN_OK);
        CHECK_STATUS(stn_queue_call(queue, read_it, &reading), STN_OK);
        CHECK_STATUS(stn_queue_sync(queue), STN_OK);
        CHECK_I64(reading.calls, 2);
        CHECK_NEAR(reading.seen[0], 3, 0);
        CHECK_NEAR(reading.seen[1], 5, 0);
    }
    stn_tensor_release(&x);
    stn_tensor_release(&y);
    stn_context_destroy(&context);
}

/* What either context puts on it runs in the order of the calls, on memory of one of them. */
static void two_contexts_share_a_stream(void)
{
    stn_context *first = both_open((stn_context_options){.device = "cuda"});
    if (!first)
        return;
    const stn_queue_options options = {
        .size = sizeof options, .stream = stn_queue_native(stn_context_queue(first)), .priority = 1};
    stn_context *second = both_open((stn_context_options){.device = "cuda", .queue = options});
    if (second) {
        const int64_t shape[1] = {N};
        CHECK(stn_queue_native(stn_context_queue(second)) == options.stream);
        stn_tensor *x = constant(first, 1);
        stn_tensor *one = constant(second, 1),
                   *same = stn_wrap(second, STN_DTYPE_F32, 1, shape, NULL, stn_tensor_data(x), NULL, NULL);
        for (int i = 0; i < 10; i++) {
            stn_mul_number_(x, 2);
            stn_add_(same, one, -1);
        }
        check_constant(x, 1);
        stn_tensor_release(&same);
        stn_tensor_release(&one);
        stn_context_destroy(&second);
        stn_mul_number_(x, 4); /* the stream is the first one's still */
        check_constant(x, 4);
        stn_tensor_release(&x);
    }
    stn_context_destroy(&first);
}

/* Ones between zeros. */
static void check_padded(stn_tensor *padded)
{
    float host[N + 2];
    int wrong = 0;
    CHECK_STATUS(stn_to_host(padded, host, sizeof host), STN_OK);
    for (int i = 0; i < N; i++)
        wrong += host[i + 1] < 1 || host[i + 1] > 1;
    CHECK_I64(wrong, 0);
    CHECK_NEAR(host[0], 0, 0);
    CHECK_NEAR(host[N + 1], 0, 0);
}

/* Zeros beyond a boundary are copied from an element, which a recording that is never launched does not make. */
static void zeros_are_not_those_of_a_recording(void)
{
    const stn_halo halo = {.size = sizeof halo, .below = {1}, .above = {1}};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    stn_graph *graph = NULL;
    if (!context)
        return;
    stn_queue *queue = stn_context_queue(context);
    stn_tensor *x = constant(context, 1);
    CHECK_STATUS(stn_queue_capture_begin(queue), STN_OK);
    stn_tensor *recorded = stn_halo_pad(x, &halo, STN_GRAD_PER_RANK);
    CHECK_STATUS(stn_queue_capture_end(queue, &graph), STN_OK);
    stn_tensor *padded = stn_halo_pad(x, &halo, STN_GRAD_PER_RANK);
    check_padded(padded);
    CHECK_STATUS(stn_graph_launch(graph, queue), STN_OK);
    check_padded(recorded);
    stn_graph_destroy(&graph);
    stn_tensor_release(&padded);
    stn_tensor_release(&recorded);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
}

/* On the CPU a complex number of two doubles may lie as doubles do. */
static void elements_lie_at_multiples_of_their_size(void)
{
    const int64_t shape[1] = {3};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    stn_tensor *x = constant(context, 1);
    char *data = stn_tensor_data(x);
    CHECK(stn_tensor_is_error(stn_wrap(context, STN_DTYPE_C128, 1, shape, NULL, data + 8, NULL, NULL)));
    CHECK_STR(stn_context_error_text(context), "wrap: data got an address that is no multiple of 16");
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
    stn_tensor *y = stn_wrap(context, STN_DTYPE_C128, 1, shape, NULL, data + 16, NULL, NULL);
    CHECK(!stn_tensor_is_error(y));
    stn_tensor_release(&y);
    stn_tensor_release(&x);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"recorded_work_runs_when_it_is_launched", recorded_work_runs_when_it_is_launched},
        {"recorded_work_may_allocate", recorded_work_may_allocate},
        {"libraries_may_run_first_in_a_recording", libraries_may_run_first_in_a_recording},
        {"elements_lie_at_multiples_of_their_size", elements_lie_at_multiples_of_their_size},
        {"zeros_are_not_those_of_a_recording", zeros_are_not_those_of_a_recording},
        {"memory_goes_back_while_a_step_is_captured", memory_goes_back_while_a_step_is_captured},
        {"what_reads_values_cannot_be_recorded", what_reads_values_cannot_be_recorded},
        {"calls_run_behind_what_is_queued", calls_run_behind_what_is_queued},
        {"two_contexts_share_a_stream", two_contexts_share_a_stream},
    };
    return TEST_MAIN(argc, argv, cases);
}
