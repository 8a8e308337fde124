/* Queues of the CPU: order, copied arguments, kept failures, events across queues, memory. */
#include "harness.h"

#include "core/device/device.h"

#include <shardtensor/spec.h>
#include <shardtensor/tensor.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static stn_device *cpu(void)
{
    stn_device *device = NULL;
    CHECK_STATUS(stni_device_create_cpu(NULL, &device), STN_OK);
    return device;
}

static stn_queue *queue_of(stn_device *device, stn_queue_kind kind, uint64_t seed)
{
    stn_queue_options options = {.size = sizeof options, .kind = kind, .delay_seed = seed};
    stn_queue *queue = NULL;
    CHECK_STATUS(stni_queue_create(device, &options, &queue), STN_OK);
    return queue;
}

/* The queue that this run is about, with delays where it is a worker. */
static stn_queue *queue_of_run(stn_device *device)
{
    return queue_of(device, test_queue() == TEST_QUEUE_WORKER ? STN_QUEUE_WORKER : STN_QUEUE_IMMEDIATE, 11);
}

struct append_args {
    int64_t *list, *n;
    int64_t value;
};

static stn_status append(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct append_args *a = args;
    a->list[(*a->n)++] = a->value;
    return STN_OK;
}

static void kernels_run_in_the_order_of_launch(void)
{
    enum { N = 1000 };
    int64_t list[N], n = 0;
    stn_device *device = cpu();
    stn_queue *queue = queue_of_run(device);
    for (int64_t i = 0; i < N; i++) {
        struct append_args args = {list, &n, i * i};
        CHECK_STATUS(stn_queue_launch(queue, append, &args, sizeof args), STN_OK);
        args.value = -1;
    }
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    CHECK_I64(n, N);
    for (int64_t i = 0; i < n; i++)
        CHECK_I64(list[i], i * i);
    CHECK_I64(atomic_load(&queue->kernels), N);
    stni_queue_destroy(&queue);
    CHECK(queue == NULL);
    stni_device_destroy(&device);
}

struct big_args {
    int64_t *sum;
    unsigned char bytes[STN_MAX_KERNEL_ARGS - sizeof(int64_t *)];
};

static stn_status sum_bytes(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct big_args *a = args;
    for (size_t i = 0; i < sizeof a->bytes; i++)
        *a->sum += a->bytes[i];
    return STN_OK;
}

/* 300 launches of 4 KiB are more than the ring holds, and their size is no divisor of it. */
static void largest_arguments_are_copied_whole_however_often(void)
{
    int64_t sum = 0, want = 0;
    struct big_args args = {.sum = &sum};
    stn_device *device = cpu();
    stn_queue *queue = queue_of_run(device);
    for (int i = 0; i < 300; i++) {
        memset(args.bytes, i % 256, sizeof args.bytes);
        want += (int64_t)sizeof args.bytes * (i % 256);
        CHECK_STATUS(stn_queue_launch(queue, sum_bytes, &args, sizeof args), STN_OK);
    }
    memset(args.bytes, 0, sizeof args.bytes);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    CHECK_I64(sum, want);
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
}

static void arguments_beyond_the_limit_are_refused_with_both_numbers(void)
{
    static const char args[STN_MAX_KERNEL_ARGS + 1];
    stn_device *device = cpu();
    stn_queue *queue = queue_of_run(device);
    CHECK_STATUS(stn_queue_launch(queue, append, args, sizeof args), STN_ERR_ARGUMENT);
    CHECK(strstr(stn_queue_error_text(queue), "4097") != NULL);
    CHECK(strstr(stn_queue_error_text(queue), "4096") != NULL);
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
}

struct fail_args {
    int number;
    int silent; /* returns its status without a text */
};

static stn_status failing(stn_queue *queue, const void *args)
{
    const struct fail_args *a = args;
    if (a->silent)
        return STN_ERR_DEVICE;
    return stn_queue_fail(queue, STN_ERR_MEMORY, "kernel %d failed", a->number);
}

static void failed_queue_keeps_the_first_failure_and_skips_the_rest(void)
{
    int64_t list[2], n = 0;
    stn_device *device = cpu();
    stn_queue *queue = queue_of_run(device);
    CHECK_STR(stn_queue_error_text(queue), "");
    struct append_args args = {list, &n, 5};
    stn_queue_launch(queue, append, &args, sizeof args);
    struct fail_args first = {1, 0}, second = {2, 0};
    stn_queue_launch(queue, failing, &first, sizeof first);
    stn_queue_launch(queue, failing, &second, sizeof second);
    stn_queue_launch(queue, append, &args, sizeof args);
    CHECK_STATUS(stn_queue_sync(queue), STN_ERR_MEMORY);
    CHECK_STR(stn_queue_error_text(queue), "kernel 1 failed");
    CHECK_I64(n, 1);
    CHECK_STATUS(stn_queue_launch(queue, append, &args, sizeof args), STN_ERR_MEMORY);
    int64_t copied = 0, source = 9;
    CHECK_STATUS(stni_queue_copy(queue, &copied, &source, sizeof copied, STNI_COPY_DEVICE), STN_ERR_MEMORY);
    CHECK_I64(n, 1);
    CHECK_I64(copied, 0);
    stni_queue_recover(queue);
    CHECK_STATUS(stn_queue_launch(queue, append, &args, sizeof args), STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    CHECK_STR(stn_queue_error_text(queue), "");
    CHECK_I64(n, 2);
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
}

static void kernel_that_fails_without_a_text_gets_one(void)
{
    stn_device *device = cpu();
    stn_queue *queue = queue_of_run(device);
    struct fail_args args = {0, 1};
    stn_queue_launch(queue, failing, &args, sizeof args);
    CHECK_STATUS(stn_queue_sync(queue), STN_ERR_DEVICE);
    CHECK(strstr(stn_queue_error_text(queue), "device error") != NULL);
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
}

static void immediate_launch_runs_on_the_callers_stack_before_it_returns(void)
{
    int64_t list[1], n = 0;
    stn_device *device = cpu();
    stn_queue *queue = queue_of(device, STN_QUEUE_DEFAULT, 0);
    CHECK_I64(queue->immediate, 1);
    struct append_args args = {list, &n, 3};
    CHECK_STATUS(stn_queue_launch(queue, append, &args, sizeof args), STN_OK);
    CHECK_I64(n, 1);
    struct fail_args fails = {7, 0};
    CHECK_STATUS(stn_queue_launch(queue, failing, &fails, sizeof fails), STN_ERR_MEMORY);
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
}

/* Blocks the worker until the host opens it, so that the order of two queues does not hang on luck. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t opened;
    int open;
};

static stn_status pass_gate(stn_queue *queue, const void *args)
{
    (void)queue;
    struct gate *gate = *(struct gate *const *)args;
    pthread_mutex_lock(&gate->mutex);
    while (!gate->open)
        pthread_cond_wait(&gate->opened, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
    return STN_OK;
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = 1;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->mutex);
}

static void worker_does_not_hold_the_host_and_destruction_runs_what_is_queued(void)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct gate *pointer = &gate;
    int64_t list[1], n = 0;
    stn_device *device = cpu();
    stn_queue *queue = queue_of(device, STN_QUEUE_WORKER, 3);
    CHECK_STATUS(stn_queue_launch(queue, pass_gate, &pointer, sizeof pointer), STN_OK);
    struct append_args args = {list, &n, 8};
    CHECK_STATUS(stn_queue_launch(queue, append, &args, sizeof args), STN_OK);
    open_gate(&gate);
    stni_queue_destroy(&queue);
    CHECK_I64(n, 1);
    CHECK_I64(list[0], 8);
    stni_device_destroy(&device);
}

static void queue_waits_for_an_event_of_another(void)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct gate *pointer = &gate;
    int64_t list[3], n = 0;
    stn_device *device = cpu();
    stn_queue *one = queue_of(device, STN_QUEUE_WORKER, 5), *two = queue_of(device, STN_QUEUE_WORKER, 6);
    stn_event *event = NULL;
    CHECK_STATUS(stni_event_create(device, &event), STN_OK);
    CHECK_STATUS(stni_event_sync(event), STN_OK);
    stn_queue_launch(one, pass_gate, &pointer, sizeof pointer);
    struct append_args args = {list, &n, 1};
    stn_queue_launch(one, append, &args, sizeof args);
    CHECK_STATUS(stni_event_record(event, one), STN_OK);
    CHECK_STATUS(stni_queue_wait(two, event), STN_OK);
    args.value = 2;
    stn_queue_launch(two, append, &args, sizeof args);
    open_gate(&gate);
    stn_queue_sync(two);
    CHECK_I64(n, 2);
    CHECK_I64(list[0], 1);
    CHECK_I64(list[1], 2);
    CHECK_STATUS(stni_event_sync(event), STN_OK);
    stni_event_destroy(&event);
    stni_queue_destroy(&one);
    stni_queue_destroy(&two);
    stni_device_destroy(&device);
}

/* What comes after the record does not count. */
static void event_sync_waits_for_its_point_only(void)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct gate *pointer = &gate;
    int64_t list[1], n = 0;
    stn_device *device = cpu();
    stn_queue *queue = queue_of(device, STN_QUEUE_WORKER, 9);
    stn_event *event = NULL;
    stni_event_create(device, &event);
    struct append_args args = {list, &n, 4};
    stn_queue_launch(queue, append, &args, sizeof args);
    stni_event_record(event, queue);
    stn_queue_launch(queue, pass_gate, &pointer, sizeof pointer);
    CHECK_STATUS(stni_event_sync(event), STN_OK);
    CHECK_I64(n, 1);
    open_gate(&gate);
    stni_queue_destroy(&queue);
    CHECK_STATUS(stni_event_sync(event), STN_OK); /* an event may outlive its queue */
    stni_event_destroy(&event);
    stni_device_destroy(&device);
}

static void failed_queue_still_lets_waiters_pass(void)
{
    int64_t list[1], n = 0;
    stn_device *device = cpu();
    stn_queue *one = queue_of(device, STN_QUEUE_WORKER, 21), *two = queue_of(device, STN_QUEUE_WORKER, 22);
    stn_event *event = NULL;
    stni_event_create(device, &event);
    struct fail_args fails = {1, 0};
    stn_queue_launch(one, failing, &fails, sizeof fails);
    stni_event_record(event, one);
    stni_queue_wait(two, event);
    struct append_args args = {list, &n, 4};
    stn_queue_launch(two, append, &args, sizeof args);
    CHECK_STATUS(stn_queue_sync(two), STN_OK);
    CHECK_STATUS(stn_queue_sync(one), STN_ERR_MEMORY);
    CHECK_I64(n, 1);
    stni_event_destroy(&event);
    stni_queue_destroy(&one);
    stni_queue_destroy(&two);
    stni_device_destroy(&device);
}

static void copies_keep_their_place_among_kernels(void)
{
    enum { N = 100 };
    int64_t list[N], n = 0, copies[N] = {0};
    stn_device *device = cpu();
    stn_queue *queue = queue_of_run(device);
    for (int64_t i = 0; i < N; i++) {
        struct append_args args = {list, &n, i + 1};
        stn_queue_launch(queue, append, &args, sizeof args);
        stni_queue_copy(queue, &copies[i], &n, sizeof n, STNI_COPY_TO_HOST);
    }
    CHECK_STATUS(stni_queue_copy(queue, NULL, NULL, 0, STNI_COPY_TO_HOST), STN_OK);
    stn_queue_sync(queue);
    for (int64_t i = 0; i < N; i++)
        CHECK_I64(copies[i], i + 1);
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
}

struct bank {
    int64_t live, calls, alignment;
};

static void *bank_allocate(void *arg, size_t bytes, size_t alignment)
{
    struct bank *bank = arg;
    if (bytes > 1000000)
        return NULL;
    bank->live += (int64_t)bytes;
    bank->calls++;
    bank->alignment = (int64_t)alignment;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void bank_deallocate(void *arg, void *pointer, size_t bytes)
{
    struct bank *bank = arg;
    bank->live -= (int64_t)bytes;
    free(pointer);
}

static void memory_comes_from_the_callers_allocator(void)
{
    struct bank bank = {0};
    stn_allocator allocator = {sizeof allocator, &bank, bank_allocate, bank_deallocate};
    stn_device *device = NULL;
    void *pointer = NULL;
    CHECK_STATUS(stni_device_create_cpu(&allocator, &device), STN_OK);
    memset(&allocator, 0, sizeof allocator);
    CHECK_STATUS(stni_device_allocate(device, 100, &pointer), STN_OK);
    CHECK_I64(bank.live, 100);
    CHECK_I64(bank.alignment, 64);
    stni_device_deallocate(device, pointer, 100);
    stni_device_deallocate(device, NULL, 0);
    CHECK_I64(bank.live, 0);
    CHECK_STATUS(stni_device_allocate(device, 1000001, &pointer), STN_ERR_MEMORY);
    stni_device_destroy(&device);
    stn_allocator incomplete = {sizeof incomplete, &bank, bank_allocate, NULL};
    CHECK_STATUS(stni_device_create_cpu(&incomplete, &device), STN_ERR_ARGUMENT);
}

static void *odd_allocate(void *arg, size_t bytes, size_t alignment)
{
    char *pointer = bank_allocate(arg, bytes + alignment, alignment);
    return pointer ? pointer + 1 : NULL;
}

static void odd_deallocate(void *arg, void *pointer, size_t bytes)
{
    bank_deallocate(arg, (char *)pointer - 1, bytes + 64);
}

static void memory_at_odd_addresses_goes_back_and_is_refused(void)
{
    struct bank bank = {0};
    const stn_allocator allocator = {sizeof allocator, &bank, odd_allocate, odd_deallocate};
    const stn_context_options options = {.size = sizeof options, .allocator = &allocator};
    const int64_t n = 100;
    const stn_spec *spec;
    stn_context *context = NULL;
    if (!CHECK_STATUS(stn_context_create(&options, &context), STN_OK))
        return;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, &n, NULL, &spec), STN_OK);
    CHECK(stn_tensor_is_error(stn_empty(context, spec)));
    CHECK_STATUS(stn_context_status(context), STN_ERR_CALLBACK);
    CHECK(strncmp(stn_context_error_text(context), "allocator: the address of 4", 27) == 0);
    CHECK(strstr(stn_context_error_text(context), ", wanted a multiple of 64") != NULL);
    CHECK_I64(bank.live, 0);
    stn_spec_release(&spec);
    stn_context_destroy(&context);
}

static void memory_is_aligned_to_64_bytes_and_too_much_is_a_status(void)
{
    stn_device *device = cpu();
    void *pointer = NULL;
    for (size_t bytes = 1; bytes < 20000000; bytes = bytes * 3 + 1) {
        CHECK_STATUS(stni_device_allocate(device, bytes, &pointer), STN_OK);
        CHECK_I64((int64_t)((uintptr_t)pointer % 64), 0);
        memset(pointer, 1, bytes);
        stni_device_deallocate(device, pointer, bytes);
    }
    CHECK_STATUS(stni_device_allocate(device, SIZE_MAX, &pointer), STN_ERR_MEMORY);
    stni_device_destroy(&device);
    stni_device_destroy(&device);
}

static void device_whose_table_lacks_entries_is_refused(void)
{
    stn_device_ops ops = {.size = offsetof(stn_device_ops, destroy), .name = "short"};
    stn_device *device = NULL;
    CHECK_STATUS(stni_device_create(&ops, NULL, "short", &device), STN_ERR_VERSION);
    CHECK(device == NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"kernels_run_in_the_order_of_launch", kernels_run_in_the_order_of_launch},
        {"largest_arguments_are_copied_whole_however_often", largest_arguments_are_copied_whole_however_often},
        {"arguments_beyond_the_limit_are_refused_with_both_numbers",
         arguments_beyond_the_limit_are_refused_with_both_numbers},
        {"failed_queue_keeps_the_first_failure_and_skips_the_rest",
         failed_queue_keeps_the_first_failure_and_skips_the_rest},
        {"kernel_that_fails_without_a_text_gets_one", kernel_that_fails_without_a_text_gets_one},
        {"immediate_launch_runs_on_the_callers_stack_before_it_returns",
         immediate_launch_runs_on_the_callers_stack_before_it_returns},
        {"worker_does_not_hold_the_host_and_destruction_runs_what_is_queued",
         worker_does_not_hold_the_host_and_destruction_runs_what_is_queued},
        {"queue_waits_for_an_event_of_another", queue_waits_for_an_event_of_another},
        {"event_sync_waits_for_its_point_only", event_sync_waits_for_its_point_only},
        {"failed_queue_still_lets_waiters_pass", failed_queue_still_lets_waiters_pass},
        {"copies_keep_their_place_among_kernels", copies_keep_their_place_among_kernels},
        {"memory_comes_from_the_callers_allocator", memory_comes_from_the_callers_allocator},
        {"memory_at_odd_addresses_goes_back_and_is_refused", memory_at_odd_addresses_goes_back_and_is_refused},
        {"memory_is_aligned_to_64_bytes_and_too_much_is_a_status",
         memory_is_aligned_to_64_bytes_and_too_much_is_a_status},
        {"device_whose_table_lacks_entries_is_refused", device_whose_table_lacks_entries_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
