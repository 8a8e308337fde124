/* The CUDA device's table by itself, on the stand-in's runtime: what its entries leave as it was for the caller, who
 * uses the runtime too. */
#include "harness.h"

#include "core/device/cuda/library.h"

#include "cuda/standin/found_by_name.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static int64_t kernels_run;

static const char *no_name(stn_queue *queue)
{
    (void)queue;
    return NULL;
}

static stn_status run_at_once(stn_queue *queue, stn_kernel_fn kernel, const void *args, const char *name)
{
    (void)name;
    return kernel(queue, args);
}

/* What the module's other file would give. */
const stn_host *stni_cuda_host(void)
{
    static const stn_host host = {.size = sizeof host,
                                  .abi = STN_MODULE_ABI,
                                  .queue_launch_name = no_name,
                                  .queue_run_named = run_at_once};
    return &host;
}

/* The same of what a library or the driver would have. */
int stni_cuda_load(const char *const *files, const struct stni_cuda_symbol *symbols, int n)
{
    CHECK_STR(files[0], "libcuda.so.1");
    for (int i = 0; i < n; i++) {
        const int is_first = strcmp(symbols[i].name, "cuDeviceGet") == 0;
        CHECK(is_first || strcmp(symbols[i].name, "cuDevicePrimaryCtxGetState") == 0);
        if (is_first)
            *(int (**)(int *, int))symbols[i].function = cuDeviceGet;
        else
            *(int (**)(int, unsigned *, int *))symbols[i].function = cuDevicePrimaryCtxGetState;
    }
    return 1;
}

static stn_status count_run(stn_queue *queue, const void *args)
{
    (void)queue, (void)args;
    kernels_run++;
    return STN_OK;
}

static const stn_device_ops *ops;
static void *device;

/* Opens device 0 while the thread's current one is 1. */
static int open_device(void)
{
    char text[128];
    cudaSetDevice(1);
    return CHECK_STATUS(stni_cuda_device_join(0, &ops, &device, text, sizeof text), STN_OK);
}

static void close_device(void)
{
    ops->destroy(device);
    cudaSetDevice(0);
}

static void *create_queue(int priority, void *stream)
{
    const stn_queue_options options = {.size = sizeof options, .priority = priority, .stream = stream};
    void *queue = NULL;
    CHECK_STATUS(ops->queue_create(device, &options, &queue), STN_OK);
    return queue;
}

/* The caller's current device is still 1, and no error is kept that would fail a launch. */
static void check_untouched(const char *entry)
{
    int current = -1;
    cudaGetDevice(&current);
    if (!CHECK_I64(current, 1) || !CHECK_I64(cudaGetLastError(), cudaSuccess))
        fprintf(stderr, "  after %s\n", entry);
    cudaSetDevice(1);
}

#define CHECK_ENTRY(entry, ...)                                 \
    do {                                                        \
        CHECK_STATUS(ops->entry(device, __VA_ARGS__), STN_OK); \
        check_untouched(#entry);                                \
    } while (0)

static void noted(void *arg)
{
    *(int *)arg = 1;
}

static void wait_until_set(void *arg)
{
    while (!atomic_load((atomic_int *)arg))
        sched_yield();
}

static void work_leaves_the_current_device(void *queue)
{
    void *memory = NULL, *pinned = NULL, *event = NULL;
    float host[4] = {1, 2, 3, 4}, back[4] = {0};
    int called = 0;
    atomic_int may_go_on = 0;
    CHECK_ENTRY(allocate, sizeof host, &memory);
    CHECK_ENTRY(host_allocate, sizeof host, &pinned);
    CHECK_I64(ops->reaches(device, memory), 1);
    CHECK_I64(ops->reaches(device, (char *)pinned + sizeof host - 1), 1);
    CHECK_I64(ops->reaches(device, host), 0);
    check_untouched("reaches");
    CHECK_PTR(ops->failure);
    CHECK(ops->failure(device) == NULL);
    CHECK_ENTRY(copy, queue, memory, host, sizeof host, 1);
    CHECK_ENTRY(launch, queue, NULL, count_run, NULL, 0);
    CHECK_ENTRY(event_create, &event);
    CHECK_ENTRY(call, queue, wait_until_set, &may_go_on);
    CHECK_ENTRY(event_record, event, queue);
    CHECK_I64(ops->event_passed(device, event), 0);
    check_untouched("event_passed");
    atomic_store(&may_go_on, 1);
    CHECK_ENTRY(queue_wait, queue, event);
    CHECK_ENTRY(event_sync, event);
    CHECK_I64(ops->event_passed(device, event), 1);
    CHECK_ENTRY(call, queue, noted, &called);
    CHECK_ENTRY(copy, queue, back, memory, sizeof host, 2);
    CHECK_ENTRY(queue_sync, queue);
    CHECK_I64(called, 1);
    CHECK_BYTES(back, host, sizeof host);
    ops->event_destroy(device, event);
    check_untouched("event_destroy");
    ops->deallocate(device, memory, sizeof host);
    check_untouched("deallocate");
    ops->host_deallocate(device, pinned, sizeof host);
    check_untouched("host_deallocate");
}

static void recording_leaves_the_current_device(void *queue)
{
    void *graph = NULL, *memory = NULL;
    CHECK_ENTRY(capture_begin, queue);
    CHECK_ENTRY(launch, queue, NULL, count_run, NULL, 0);
    CHECK_ENTRY(allocate, 64, &memory); /* no work of the stream: allowed */
    CHECK_ENTRY(capture_end, queue, &graph);
    CHECK(graph == NULL); /* nor is there any */
    CHECK_ENTRY(capture_begin, queue);
    CHECK_ENTRY(copy, queue, memory, (char *)memory + 32, 32, 0);
    CHECK_ENTRY(capture_end, queue, &graph);
    CHECK_ENTRY(graph_launch, graph, queue);
    CHECK_ENTRY(queue_sync, queue);
    ops->graph_destroy(device, graph);
    check_untouched("graph_destroy");
    ops->deallocate(device, memory, 64);
}

/* What nobody uses any more goes back, and the recording goes on. */
static void memory_is_given_back_while_a_queue_records(void)
{
    void *memory = NULL, *cached = NULL, *pinned = NULL, *graph = NULL;
    if (!open_device())
        return;
    void *queue = create_queue(0, NULL);
    CHECK_ENTRY(allocate, 64, &memory);
    CHECK_ENTRY(allocate, 64, &cached);
    CHECK_ENTRY(host_allocate, 64, &pinned);
    CHECK_ENTRY(capture_begin, queue);
    CHECK_ENTRY(copy, queue, memory, (char *)memory + 32, 32, 0);
    ops->deallocate(device, cached, 64);
    check_untouched("deallocate");
    ops->host_deallocate(device, pinned, 64);
    check_untouched("host_deallocate");
    CHECK_ENTRY(capture_end, queue, &graph);
    CHECK_I64(cudaFree(cached), cudaErrorInvalidValue); /* it has gone */
    CHECK_I64(cudaFreeHost(pinned), cudaErrorInvalidValue);
    cudaGetLastError();
    if (graph)
        ops->graph_destroy(device, graph);
    ops->deallocate(device, memory, 64);
    ops->queue_destroy(device, queue);
    close_device();
}

static void every_entry_leaves_the_current_device(void)
{
    if (!open_device())
        return;
    check_untouched("device_join");
    void *queue = create_queue(0, NULL);
    check_untouched("queue_create");
    kernels_run = 0;
    work_leaves_the_current_device(queue);
    recording_leaves_the_current_device(queue);
    CHECK_I64(kernels_run, 2); /* launchers are host code, which runs once */
    ops->queue_destroy(device, queue);
    check_untouched("queue_destroy");
    close_device();
}

/* A caller's functions, which note what they find and leave another device and an error behind. */
struct caller {
    int device, fails;
    int ready; /* set by the stream: the memory is there once that has come so far */
    void *stream;
};

static void *callers_memory(void *arg, size_t bytes, void *stream)
{
    struct caller *caller = arg;
    void *memory = NULL;
    cudaGetDevice(&caller->device);
    caller->stream = stream;
    caller->ready = 0;
    cudaMalloc(&memory, bytes);
    cudaLaunchHostFunc(stream, noted, &caller->ready);
    if (caller->fails) {
        cudaFree(memory);
        cudaFree(memory); /* an error that the runtime keeps */
        memory = NULL;
    }
    cudaSetDevice(1);
    return memory;
}

static void callers_free(void *arg, void *pointer, size_t bytes, void *stream)
{
    struct caller *caller = arg;
    (void)bytes;
    cudaGetDevice(&caller->device);
    caller->stream = stream;
    CHECK_I64(cudaFree(pointer), cudaSuccess);
    cudaSetDevice(1);
}

/* On a queue, and while one records, for which the device has a stream of its own. */
static void a_callers_allocator_is_called_on_the_device(void)
{
    struct caller caller = {.device = -1};
    const stn_device_allocator allocator = {sizeof allocator, &caller, callers_memory, callers_free};
    void *memory = NULL, *recorded = NULL, *graph = NULL;
    if (!open_device())
        return;
    void *queue = create_queue(0, NULL);
    CHECK_ENTRY(allocate_from, &allocator, queue, 64, &memory);
    CHECK_I64(caller.device, 0);
    CHECK(memory != NULL && caller.stream == queue);
    CHECK_ENTRY(queue_sync, queue); /* what follows notes in the same place */
    CHECK_ENTRY(capture_begin, queue);
    for (int i = 0; i < 10; i++) {
        CHECK_ENTRY(allocate_from, &allocator, NULL, 64, &recorded);
        CHECK_I64(caller.device, 0);
        CHECK_I64(caller.ready, 1);
        void *const side = caller.stream;
        CHECK(recorded != NULL && side != NULL && side != queue);
        ops->deallocate_to(device, &allocator, NULL, recorded, 64);
        check_untouched("deallocate_to");
        CHECK(caller.stream == side);
    }
    CHECK_ENTRY(copy, queue, memory, (char *)memory + 32, 32, 0);
    CHECK_ENTRY(capture_end, queue, &graph); /* nothing has spoiled it */
    ops->graph_destroy(device, graph);
    caller.device = -1;
    ops->deallocate_to(device, &allocator, queue, memory, 64);
    check_untouched("deallocate_to");
    CHECK_I64(caller.device, 0);
    CHECK(caller.stream == queue);
    caller.fails = 1;
    CHECK_STATUS(ops->allocate_from(device, &allocator, queue, 64, &memory), STN_ERR_MEMORY);
    check_untouched("allocate_from that fails");
    CHECK(memory == NULL);
    ops->queue_destroy(device, queue);
    close_device();
}

static void failures_are_statuses_and_are_not_kept(void)
{
    void *graph = &graph, *const untouched = graph;
    if (!open_device())
        return;
    void *queue = create_queue(0, NULL);
    CHECK_STATUS(ops->capture_end(device, queue, &graph), STN_ERR_DEVICE); /* none began */
    check_untouched("capture_end");
    CHECK_ENTRY(capture_begin, queue);
    CHECK_STATUS(ops->queue_sync(device, queue), STN_ERR_DEVICE);
    check_untouched("queue_sync");
    CHECK_STATUS(ops->capture_end(device, queue, &graph), STN_ERR_DEVICE); /* the wait spoiled it */
    check_untouched("capture_end");
    CHECK(graph == untouched);
    CHECK_ENTRY(queue_sync, queue);
    ops->queue_destroy(device, queue);
    close_device();
}

static void priorities_are_rounded_to_what_the_device_has(void)
{
    static const struct {
        int wanted, got;
    } cases[] = {{0, 0}, {1, -1}, {5, -5}, {6, -5}, {1 << 30, -5}, {-1, 0}, {-(1 << 30), 0}};
    if (!open_device())
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int got = 1;
        void *queue = create_queue(cases[i].wanted, NULL);
        CHECK_I64(cudaStreamGetPriority(queue, &got), cudaSuccess);
        CHECK_I64(got, cases[i].got);
        ops->queue_destroy(device, queue);
    }
    close_device();
}

/* Two queues on it come and go; then it still works. */
static void a_callers_stream_outlives_its_queues(void)
{
    cudaStream_t stream = NULL;
    int called = 0;
    if (!open_device())
        return;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    void *first = create_queue(0, stream), *second = create_queue(3, stream), *own = create_queue(0, NULL);
    CHECK(first == stream);
    CHECK(second == stream);
    CHECK(own != stream);
    ops->queue_destroy(device, first);
    ops->queue_destroy(device, own);
    CHECK_ENTRY(call, second, noted, &called);
    ops->queue_destroy(device, second);
    CHECK_I64(called, 1);
    CHECK_I64(cudaStreamSynchronize(stream), cudaSuccess);
    CHECK_I64(cudaStreamDestroy(stream), cudaSuccess);
    close_device();
}

/* By a thread that has used no GPU, of which the first is the current one. */
static void *ask_whether_passed(void *event)
{
    return ops->event_passed(device, event) ? event : NULL;
}

static int has_passed_elsewhere(void *event)
{
    pthread_t thread;
    void *answer = NULL;
    if (CHECK_I64(pthread_create(&thread, NULL, ask_whether_passed, event), 0))
        pthread_join(thread, &answer);
    return answer != NULL;
}

/* Also where another process has the first GPU to itself. */
static void events_of_the_second_gpu_are_known_to_threads_of_none(void)
{
    char text[128];
    void *event = NULL;
    atomic_int may_go_on = 0;
    if (!CHECK_STATUS(stni_cuda_device_join(1, &ops, &device, text, sizeof text), STN_OK))
        return;
    void *queue = create_queue(0, NULL);
    CHECK_STATUS(ops->event_create(device, &event), STN_OK);
    CHECK_STATUS(ops->call(device, queue, wait_until_set, &may_go_on), STN_OK);
    CHECK_STATUS(ops->event_record(device, event, queue), STN_OK);
    CHECK_I64(has_passed_elsewhere(event), 0);
    atomic_store(&may_go_on, 1);
    CHECK_STATUS(ops->event_sync(device, event), STN_OK);
    CHECK_I64(has_passed_elsewhere(event), 1);
    ops->event_destroy(device, event);
    ops->queue_destroy(device, queue);
    ops->destroy(device);
}

/* Before any other case, while nobody has used the first GPU. */
static void *use_second_gpu(void *arg)
{
    char text[128];
    int current = -1;
    void *memory = NULL;
    (void)arg;
    if (!CHECK_STATUS(stni_cuda_device_join(1, &ops, &device, text, sizeof text), STN_OK))
        return NULL;
    void *queue = create_queue(0, NULL);
    CHECK_STATUS(ops->allocate(device, sizeof memory, &memory), STN_OK);
    CHECK_STATUS(ops->queue_sync(device, queue), STN_OK);
    CHECK_I64(standin_has_context(1), 1);
    CHECK_I64(standin_has_context(0), 0);
    cudaGetDevice(&current);
    CHECK_I64(current, 1);
    cudaSetDevice(0); /* chosen now */
    ops->deallocate(device, memory, sizeof memory);
    cudaGetDevice(&current);
    CHECK_I64(current, 0);
    ops->queue_destroy(device, queue);
    ops->destroy(device);
    return NULL;
}

static void a_thread_that_chose_no_gpu_does_not_begin_to_use_the_first(void)
{
    pthread_t thread;
    CHECK_I64(standin_has_context(0), 0);
    if (CHECK_I64(pthread_create(&thread, NULL, use_second_gpu, NULL), 0))
        pthread_join(thread, NULL);
}

/* As the runtime has them, and not the stand-in alone. */
static void an_event_is_recorded_on_its_own_device(void)
{
    cudaStream_t stream = NULL;
    cudaEvent_t event = NULL;
    cudaSetDevice(1);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaSetDevice(0);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    CHECK_I64(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
    CHECK_I64(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_thread_that_chose_no_gpu_does_not_begin_to_use_the_first",
         a_thread_that_chose_no_gpu_does_not_begin_to_use_the_first},
        {"every_entry_leaves_the_current_device", every_entry_leaves_the_current_device},
        {"memory_is_given_back_while_a_queue_records", memory_is_given_back_while_a_queue_records},
        {"a_callers_allocator_is_called_on_the_device", a_callers_allocator_is_called_on_the_device},
        {"failures_are_statuses_and_are_not_kept", failures_are_statuses_and_are_not_kept},
        {"priorities_are_rounded_to_what_the_device_has", priorities_are_rounded_to_what_the_device_has},
        {"a_callers_stream_outlives_its_queues", a_callers_stream_outlives_its_queues},
        {"events_of_the_second_gpu_are_known_to_threads_of_none",
         events_of_the_second_gpu_are_known_to_threads_of_none},
        {"an_event_is_recorded_on_its_own_device", an_event_is_recorded_on_its_own_device},
    };
    return TEST_MAIN(argc, argv, cases);
}
