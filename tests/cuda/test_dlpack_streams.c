/* DLPack between a context on a CUDA device and somebody else's stream, which here is that of another context: what one
 * side has queued is seen by what the other queues next, and no host waits. Streams are late at random. */
#include "both.h"

#include "harness.h"

#include "core/context/context.h"
#include "core/tensor/dlpack.h"

#include <shardtensor/autograd.h>

#include <string.h>

enum { N = 1000, ROUNDS = 20, STEPS = 25 };

static int64_t address_of(stn_context *context)
{
    return (int64_t)(intptr_t)stn_queue_native(stn_context_queue(context));
}

static int64_t host_syncs(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.host_syncs;
}

static stn_tensor *constant(stn_context *context, float value)
{
    const int64_t shape[1] = {N};
    float host[N];
    for (int i = 0; i < N; i++)
        host[i] = value;
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, host);
    stn_spec_release(&spec);
    return tensor;
}

/* x = x + STEPS, in as many kernels: what reads x too early finds less. */
static void count_up(stn_tensor *x, stn_tensor *one)
{
    for (int i = 0; i < STEPS; i++)
        stn_add_(x, one, 1);
}

static void check_all(stn_tensor *tensor, float value)
{
    float host[N];
    int wrong = 0;
    CHECK_STATUS(stn_to_host(tensor, host, sizeof host), STN_OK);
    for (int i = 0; i < N; i++)
        wrong += host[i] < value || host[i] > value;
    CHECK_I64(wrong, 0);
}

/* How the memory goes over: ordered by the producer on the consumer's stream, or by the consumer on the producer's. */
typedef stn_tensor *(*hand_over)(stn_tensor *x, stn_context *to, int64_t stream);

static stn_tensor *by_the_producer(stn_tensor *x, stn_context *to, int64_t stream)
{
    struct DLManagedTensorVersioned *managed = NULL;
    CHECK_STATUS(stn_tensor_to_dlpack_on(x, stream, &managed), STN_OK);
    return stn_tensor_from_dlpack_on(to, managed, STN_DLPACK_NO_STREAM);
}

static stn_tensor *by_the_consumer(stn_tensor *x, stn_context *to, int64_t stream)
{
    struct DLManagedTensorVersioned *managed = NULL;
    (void)stream;
    CHECK_STATUS(stn_tensor_to_dlpack_on(x, STN_DLPACK_NO_STREAM, &managed), STN_OK);
    return stn_tensor_from_dlpack_on(to, managed, address_of(stn_tensor_context(x)));
}

static void rounds(stn_context *from, stn_context *to, int64_t stream, hand_over passes)
{
    stn_tensor *one = constant(from, 1);
    for (int round = 0; round < ROUNDS; round++) {
        stn_tensor *x = constant(from, (float)round);
        const int64_t syncs = host_syncs(from) + host_syncs(to);
        count_up(x, one);
        stn_tensor *y = passes(x, to, stream), *z = stn_mul_number(y, 2);
        CHECK_I64(host_syncs(from) + host_syncs(to) - syncs, 0);
        check_all(z, 2 * (float)(round + STEPS));
        stn_tensor_release(&z);
        stn_tensor_release(&y);
        stn_tensor_release(&x);
    }
    stn_tensor_release(&one);
}

/* `stream`: the consumer's by DLPack's number; 0: one of its own. */
static void between_contexts(int64_t stream, hand_over passes)
{
    stn_context *from = both_open((stn_context_options){.device = "cuda:0"});
    const stn_queue_options options = {.size = sizeof options, .stream = (void *)(intptr_t)stream};
    stn_context *to = from ? both_open((stn_context_options){.device = "cuda:0", .queue = options}) : NULL;
    if (to)
        rounds(from, to, stream ? stream : address_of(to), passes);
    stn_context_destroy(&to);
    stn_context_destroy(&from);
}

static void what_goes_out_is_waited_for_by_the_consumers_stream(void)
{
    between_contexts(0, by_the_producer);
}

static void the_default_streams_wait_too(void)
{
    between_contexts(STN_DLPACK_LEGACY, by_the_producer);
    between_contexts(STN_DLPACK_PER_THREAD, by_the_producer);
}

static void what_comes_in_is_waited_for(void)
{
    between_contexts(0, by_the_consumer);
}

static void check_kept(stn_context *context, stn_status status, const char *text)
{
    char got[512] = "";
    CHECK_STATUS(stn_context_take_error(context, got, sizeof got), status);
    CHECK_STR(got, text);
}

static void streams_that_cannot_be_meant_are_refused(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda:0"});
    struct DLManagedTensorVersioned *managed = NULL;
    stn_graph *graph = NULL;
    int32_t type = 0, index = 0;
    if (!context)
        return;
    stn_tensor *x = constant(context, 1);
    CHECK_STATUS(stn_context_dlpack_device(context, &type, &index), STN_OK);
    CHECK(type == STNI_DL_CUDA && index == 0);
    CHECK_STATUS(stn_tensor_to_dlpack_on(x, 0, &managed), STN_ERR_ARGUMENT);
    check_kept(context, STN_ERR_ARGUMENT,
               "to_dlpack: stream got 0, wanted -1, 1 (the legacy default stream), 2 (the thread's) or an address");
    CHECK_STATUS(stn_queue_capture_begin(stn_context_queue(context)), STN_OK);
    CHECK_STATUS(stn_tensor_to_dlpack_on(x, STN_DLPACK_LEGACY, &managed), STN_ERR_STATE);
    CHECK_STATUS(stn_queue_capture_end(stn_context_queue(context), &graph), STN_ERR_STATE);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    CHECK(managed == NULL);
    CHECK_STATUS(stn_tensor_to_dlpack_on(x, STN_DLPACK_LEGACY, &managed), STN_OK);
    if (managed) {
        CHECK(stn_tensor_is_error(stn_tensor_from_dlpack_on(context, managed, 0)));
        check_kept(
            context, STN_ERR_ARGUMENT,
            "from_dlpack: stream got 0, wanted -1, 1 (the legacy default stream), 2 (the thread's) or an address");
        managed->deleter(managed);
    }
    stn_tensor_release(&x);
    stn_context_destroy(&context);
}

/* What ends meanwhile gives its memory up with the last tensor on it: not on the thread on which the device calls the
 * host, where it may not. */
static void the_memory_of_a_context_that_ended_goes_back(void)
{
    stn_context *from = both_open((stn_context_options){.device = "cuda:0"});
    stn_context *to = both_open((stn_context_options){.device = "cuda:0"});
    struct DLManagedTensorVersioned *managed = NULL;
    if (!from || !to)
        return;
    stn_tensor *x = constant(from, 3);
    CHECK_STATUS(stn_tensor_to_dlpack(x, &managed), STN_OK);
    stn_tensor *y = stn_tensor_from_dlpack(to, managed);
    stn_tensor_release(&x);
    stn_context_destroy(&from);
    stn_tensor *z = stn_mul_number(y, 2);
    stn_tensor_release(&y);
    check_all(z, 6);
    stn_tensor_release(&z);
    stn_context_destroy(&to);
}

/* A caller's memory, which it gives back to the device. */
struct lent {
    stn_device *device;
    void *memory;
    int n;
};

static void take_back(void *arg)
{
    struct lent *lent = arg;
    stni_device_deallocate(lent->device, lent->memory, N * sizeof(float));
    lent->n++;
}

/* By the next action that finds the work ended, or by the end of the context. */
static void an_owner_may_call_the_device(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda:0"});
    enum { ROUNDS_BUT_LAST = 3 };
    const int64_t shape[1] = {N};
    struct lent lent = {.device = context ? context->device : NULL};
    if (!context)
        return;
    for (int round = 0; round <= ROUNDS_BUT_LAST; round++) {
        CHECK_STATUS(stni_device_allocate(lent.device, N * sizeof(float), &lent.memory), STN_OK);
        stn_tensor *x = stn_wrap(context, STN_DTYPE_F32, 1, shape, NULL, lent.memory, take_back, &lent);
        stn_tensor *one = constant(context, 1);
        stn_fill_(x, 1);
        count_up(x, one);
        stn_tensor_release(&x);
        if (round < ROUNDS_BUT_LAST) {
            CHECK(host_syncs(context) >= 0); /* an action, which frees it behind the work */
            check_all(one, 1);               /* waits */
            CHECK(host_syncs(context) > 0);
            CHECK_I64(lent.n, round + 1);
        }
        stn_tensor_release(&one);
    }
    stn_context_destroy(&context);
    CHECK_I64(lent.n, 4);
}

/* What it asks of the device would end the recording. */
static void no_owner_is_called_while_a_queue_records(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda:0"});
    const int64_t shape[1] = {N};
    struct lent lent = {.device = context ? context->device : NULL};
    stn_graph *graph = NULL;
    if (!context)
        return;
    stn_queue *queue = stn_context_queue(context);
    CHECK_STATUS(stni_device_allocate(lent.device, N * sizeof(float), &lent.memory), STN_OK);
    stn_tensor *x = stn_wrap(context, STN_DTYPE_F32, 1, shape, NULL, lent.memory, take_back, &lent);
    stn_fill_(x, 1);
    stn_tensor_release(&x);
    stn_tensor *one = constant(context, 1); /* an action, which frees it behind the work */
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    CHECK_STATUS(stn_queue_capture_begin(queue), STN_OK);
    CHECK(host_syncs(context) > 0);
    CHECK_I64(lent.n, 0);
    CHECK_STATUS(stn_queue_capture_end(queue, &graph), STN_OK);
    CHECK(host_syncs(context) > 0);
    CHECK_I64(lent.n, 1);
    stn_graph_destroy(&graph);
    stn_tensor_release(&one);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"what_goes_out_is_waited_for_by_the_consumers_stream", what_goes_out_is_waited_for_by_the_consumers_stream},
        {"the_default_streams_wait_too", the_default_streams_wait_too},
        {"what_comes_in_is_waited_for", what_comes_in_is_waited_for},
        {"streams_that_cannot_be_meant_are_refused", streams_that_cannot_be_meant_are_refused},
        {"the_memory_of_a_context_that_ended_goes_back", the_memory_of_a_context_that_ended_goes_back},
        {"an_owner_may_call_the_device", an_owner_may_call_the_device},
        {"no_owner_is_called_while_a_queue_records", no_owner_is_called_while_a_queue_records},
    };
    return TEST_MAIN(argc, argv, cases);
}
