/* What a queue can do beside running kernels: call the host behind its work, record work and repeat it, run on a stream
 * of the caller's. On the device of the test module and on the CPU. */
#include "harness.h"
#include "module/door.h"
#include "module/probe.h"

#include "core/box/box.h"
#include "core/tensor/tensor.h"

#include <shardtensor/module.h>

#include <stdatomic.h>
#include <string.h>

static char text[512];

static stn_context *open_context(const char *device)
{
    stn_context_options options = {.size = sizeof options,
                                   .device = device,
                                   .module_path = PROBE_FOLDER,
                                   .queue = door_queue(11),
                                   .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    return context;
}

static void on_devices(void (*body)(stn_context *context))
{
    static const char *const devices[] = {"cpu", "probe:0"};
    for (int d = 0; d < 2; d++) {
        stn_context *context = open_context(devices[d]);
        if (!context)
            continue;
        body(context);
        stn_context_destroy(&context);
    }
}

/* Kernels on numbers of the host, which the test module's queues run too. */

struct count_args {
    atomic_int *at;
    int want; /* what is there before; else the kernel fails */
};

static stn_status count_kernel(stn_queue *queue, const void *args)
{
    const struct count_args *a = args;
    int got = atomic_load(a->at);
    if (a->want >= 0 && got != a->want)
        return stn_queue_fail(queue, STN_ERR_INTERNAL, "got %d, wanted %d", got, a->want);
    atomic_fetch_add(a->at, 1);
    return STN_OK;
}

static stn_status count(stn_context *context, atomic_int *at, int want)
{
    struct count_args args = {at, want};
    return stn_queue_launch(context->queue, count_kernel, &args, sizeof args);
}

static void add_hundred(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 100);
}

static void calls_come_in_order(stn_context *context)
{
    atomic_int n = 0;
    for (int i = 0; i < 5; i++)
        CHECK_STATUS(count(context, &n, i), STN_OK);
    CHECK_STATUS(stn_queue_call(context->queue, add_hundred, &n), STN_OK);
    CHECK_STATUS(count(context, &n, 105), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    CHECK_I64(atomic_load(&n), 106);
}

static void a_call_runs_behind_a_failure(stn_context *context)
{
    atomic_int n = 0;
    count(context, &n, 3);
    CHECK_STATUS(stn_queue_call(context->queue, add_hundred, &n), STN_OK);
    stn_queue_sync(context->queue);
    CHECK_I64(atomic_load(&n), 100);
    stni_queue_recover(context->queue);
}

static void calls_run_behind_what_is_queued(void)
{
    on_devices(calls_come_in_order);
    on_devices(a_call_runs_behind_a_failure);
}

static void record_and_repeat(stn_context *context)
{
    atomic_int n = 0;
    stn_graph *graph = NULL;
    CHECK_STATUS(stn_queue_capture_begin(context->queue), STN_OK);
    CHECK_STATUS(stn_queue_capture_begin(context->queue), STN_ERR_STATE);
    CHECK_STATUS(count(context, &n, -1), STN_OK);
    CHECK_STATUS(count(context, &n, -1), STN_OK);
    CHECK_STATUS(stn_queue_capture_end(context->queue, &graph), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    CHECK_I64(atomic_load(&n), 0);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(stn_graph_launch(graph, context->queue), STN_OK);
    CHECK_STATUS(count(context, &n, 6), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    CHECK_I64(atomic_load(&n), 7);
    stn_graph_destroy(&graph);
    CHECK(graph == NULL);
    CHECK_STATUS(stn_queue_capture_end(context->queue, &graph), STN_ERR_STATE);
}

/* What cannot be recorded ends the recording, and the queue works again once its error was taken. */
static void wait_while_recording(stn_context *context)
{
    atomic_int n = 0;
    stn_graph *graph = NULL;
    CHECK_STATUS(stn_queue_capture_begin(context->queue), STN_OK);
    CHECK_STATUS(count(context, &n, -1), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_ERR_STATE);
    CHECK_STR(stn_queue_error_text(context->queue), "the host waited while the queue records its work");
    CHECK_STATUS(stn_queue_capture_end(context->queue, &graph), STN_ERR_STATE);
    CHECK(graph == NULL);
    stni_queue_recover(context->queue);
    CHECK_STATUS(count(context, &n, 0), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    CHECK_I64(atomic_load(&n), 1);
}

static void read_while_recording(stn_context *context)
{
    const int64_t shape[1] = {3};
    const float host[3] = {1, 2, 3};
    float back[3];
    stn_graph *graph = NULL;
    const stn_spec *spec = NULL;
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 1, shape, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, host);
    CHECK_STATUS(stn_queue_capture_begin(context->queue), STN_OK);
    CHECK_STATUS(stn_to_host(tensor, back, sizeof back), STN_ERR_STATE);
    CHECK_STATUS(stn_queue_capture_end(context->queue, &graph), STN_ERR_STATE);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    CHECK_STATUS(stn_to_host(tensor, back, sizeof back), STN_OK);
    CHECK_NEAR(back[2], 3, 0);
    stn_tensor_release(&tensor);
}

static void recorded_work_runs_when_it_is_launched(void)
{
    on_devices(record_and_repeat);
}

static void what_reads_values_cannot_be_recorded(void)
{
    on_devices(wait_while_recording);
    on_devices(read_while_recording);
}

static void what_an_older_device_cannot_it_says(void)
{
    stn_context *context = open_context("probe:1"); /* of an older table */
    if (!context)
        return;
    CHECK_STATUS(stn_queue_capture_begin(context->queue), STN_ERR_UNSUPPORTED);
    CHECK_STATUS(stn_queue_call(context->queue, add_hundred, NULL), STN_ERR_UNSUPPORTED);
    CHECK_STATUS(stn_host_memory_begin(context), STN_ERR_UNSUPPORTED);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_UNSUPPORTED);
    CHECK_STR(text, "host_memory_begin: device probe gives no memory of the host that its kernels reach");
    stn_context_destroy(&context);
}

/* Two contexts on one stream: what either puts there runs in the order of the calls. */
static void a_queue_runs_on_the_callers_stream(void)
{
    atomic_int n = 0;
    stn_context *first = open_context("probe:0"), *second = NULL;
    if (!first)
        return;
    stn_context_options options = {
        .size = sizeof options,
        .device = "probe:0",
        .module_path = PROBE_FOLDER,
        .queue = {.size = sizeof options.queue, .stream = stn_queue_native(first->queue), .priority = 1}};
    if (!CHECK_STATUS(stn_context_create(&options, &second), STN_OK))
        return;
    CHECK(stn_queue_native(second->queue) == stn_queue_native(first->queue));
    for (int i = 0; i < 20; i++)
        CHECK_STATUS(count(i % 2 ? first : second, &n, i), STN_OK);
    CHECK_STATUS(stn_queue_sync(first->queue), STN_OK);
    CHECK_STATUS(stn_queue_sync(second->queue), STN_OK);
    CHECK_I64(atomic_load(&n), 20);
    stn_context_destroy(&second);
    CHECK_STATUS(count(first, &n, 20), STN_OK);
    CHECK_STATUS(stn_queue_sync(first->queue), STN_OK);
    stn_context_destroy(&first);
}

static void the_cpu_has_no_streams(void)
{
    stn_context_options options = {.size = sizeof options, .queue = {.size = sizeof options.queue, .stream = &options}};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_UNSUPPORTED);
}

/* A caller that was compiled before `stream` was there. */
static void options_of_an_older_size_are_read(void)
{
    stn_context_options options = {.size = sizeof options,
                                   .queue = {.size = offsetof(stn_queue_options, stream), .stream = &options}};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    stn_context_destroy(&context);
    options.queue.size = sizeof options.queue + 8;
    CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_ARGUMENT);
}

static void a_device_that_does_not_open_says_why(void)
{
    stn_context_options options = {.size = sizeof options,
                                   .device = "probe:7",
                                   .module_path = PROBE_FOLDER,
                                   .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_DEVICE);
    CHECK(strstr(text, "module 'probe': device 7 did not open: there are 2 devices") != NULL);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* Lent memory goes back behind the work, without a wait of the host; other waits are counted by their reason. */
static void count_waits(stn_context *context)
{
    const int64_t shape[1] = {3};
    const float host[3] = {1, 2, 3};
    float back[3];
    const stn_spec *spec = NULL;
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 1, shape, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, host);
    stn_tensor *lent = stn_wrap(context, STN_DTYPE_F32, 1, shape, NULL, stn_tensor_data(tensor), nothing, NULL);
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_to_host(tensor, back, sizeof back), STN_OK);
    stn_tensor_release(&lent);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.host_syncs_by[STN_SYNC_VALUES], !context->queue->immediate);
    CHECK_I64(stats.host_syncs_by[STN_SYNC_CALLER], 1);
    CHECK_I64(stats.host_syncs_by[STN_SYNC_MEMORY], 0);
    CHECK_I64(stats.host_syncs, 1 + !context->queue->immediate);
    stn_tensor_release(&tensor);
}

static void waits_of_the_host_are_counted_by_reason(void)
{
    on_devices(count_waits);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"calls_run_behind_what_is_queued", calls_run_behind_what_is_queued},
        {"recorded_work_runs_when_it_is_launched", recorded_work_runs_when_it_is_launched},
        {"what_reads_values_cannot_be_recorded", what_reads_values_cannot_be_recorded},
        {"what_an_older_device_cannot_it_says", what_an_older_device_cannot_it_says},
        {"a_queue_runs_on_the_callers_stream", a_queue_runs_on_the_callers_stream},
        {"the_cpu_has_no_streams", the_cpu_has_no_streams},
        {"options_of_an_older_size_are_read", options_of_an_older_size_are_read},
        {"a_device_that_does_not_open_says_why", a_device_that_does_not_open_says_why},
        {"waits_of_the_host_are_counted_by_reason", waits_of_the_host_are_counted_by_reason},
        {"door_gave_all_memory_back", door_gave_all_memory_back},
    };
    return TEST_MAIN(argc, argv, cases);
}
