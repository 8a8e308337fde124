/* A CUDA device: streams, events, copies and graphs of the runtime. */
#include "core/device/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_PEERS = 64 };

struct event {
    cudaEvent_t event;
    int device; /* its index */
};

static const char *failure(void *impl)
{
    struct stni_cuda_device *device = impl;
    return atomic_load(&device->failure);
}

enum cudaStreamCaptureMode stni_cuda_permit_in_capture(enum cudaStreamCaptureMode mode)
{
    cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

/* Notes that a queue runs on a stream of the caller's, which queue_destroy has to leave alone. */
static stn_status borrow(struct stni_cuda_device *device, cudaStream_t stream, void **out)
{
    struct stni_cuda_lent *lent = malloc(sizeof *lent);
    if (!lent)
        return STN_ERR_MEMORY;
    pthread_mutex_lock(&device->lock);
    *lent = (struct stni_cuda_lent){device->lent, stream};
    device->lent = lent;
    pthread_mutex_unlock(&device->lock);
    *out = stream;
    return STN_OK;
}

/* 1 where the stream of a queue that goes was the caller's. */
static int give_back(struct stni_cuda_device *device, cudaStream_t stream)
{
    pthread_mutex_lock(&device->lock);
    struct stni_cuda_lent **at = &device->lent;
    while (*at && (*at)->stream != stream)
        at = &(*at)->next;
    struct stni_cuda_lent *lent = *at;
    if (lent)
        *at = lent->next;
    pthread_mutex_unlock(&device->lock);
    free(lent);
    return lent != NULL;
}

/* CUDA's numbers of higher priority are lower, and their default is 0, the least. */
static cudaError_t create_stream(int priority, cudaStream_t *out)
{
    int least = 0, greatest = 0;
    const cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (error != cudaSuccess)
        return error;
    const int wanted = priority > -greatest ? greatest : priority < -least ? least : -priority;
    return cudaStreamCreateWithPriority(out, cudaStreamNonBlocking, wanted);
}

static stn_status queue_create(void *impl, const stn_queue_options *options, void **out)
{
    cudaStream_t stream = NULL;
    if (options->stream)
        return borrow(impl, options->stream, out);
    int before = stni_cuda_enter(impl);
    stn_status status = stni_cuda_leave(impl, before, create_stream(options->priority, &stream));
    if (status == STN_OK)
        *out = stream;
    return status;
}

static void queue_destroy(void *impl, void *queue)
{
    int before = stni_cuda_enter(impl);
    cudaStreamSynchronize(queue);
    stni_cuda_leave(impl, before, give_back(impl, queue) ? cudaSuccess : cudaStreamDestroy(queue));
}

static stn_status queue_sync(void *impl, void *queue)
{
    int before = stni_cuda_enter(impl);
    return stni_cuda_leave(impl, before, cudaStreamSynchronize(queue));
}

/* A kernel's function is host code that puts grids on the stream, so it runs at once. */
static stn_status launch(void *impl, void *queue, stn_queue *handle, stn_kernel_fn kernel, const void *args,
                         size_t args_size)
{
    (void)queue, (void)args_size;
    int before = stni_cuda_enter(impl);
    const stn_host *host = stni_cuda_host();
    stn_status status = host->queue_run_named(handle, kernel, args, host->queue_launch_name(handle));
    stni_cuda_leave(impl, before, cudaSuccess);
    return status;
}

static stn_status event_create(void *impl, void **out)
{
    const struct stni_cuda_device *device = impl;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return STN_ERR_MEMORY;
    event->device = device->index;
    int before = stni_cuda_enter(impl);
    stn_status status = stni_cuda_leave(impl, before, cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming));
    if (status == STN_OK)
        *out = event;
    else
        free(event);
    return status;
}

static void event_destroy(void *impl, void *handle)
{
    struct event *event = handle;
    int before = stni_cuda_enter(impl);
    stni_cuda_leave(impl, before, cudaEventDestroy(event->event));
    free(event);
}

static stn_status event_record(void *impl, void *handle, void *queue)
{
    const struct event *event = handle;
    int before = stni_cuda_enter(impl);
    return stni_cuda_leave(impl, before, cudaEventRecord(event->event, queue));
}

/* Lets kernels of this device, the current one, use another's memory. The runtime's kept error is taken, else it
 * would fail the next launch. */
static stn_status reach(struct stni_cuda_device *device, int peer)
{
    int can = 0;
    if (peer == device->index || (peer < MOST_PEERS && device->peers >> peer & 1))
        return STN_OK;
    if (cudaDeviceCanAccessPeer(&can, device->index, peer) != cudaSuccess || !can) {
        cudaGetLastError();
        atomic_store(&device->failure, "the GPUs have no peer access, by which each reads the other's memory");
        return STN_ERR_UNSUPPORTED;
    }
    cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error != cudaSuccess)
        cudaGetLastError();
    if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled)
        return stni_cuda_status_of(error);
    if (peer < MOST_PEERS)
        device->peers |= (uint64_t)1 << peer;
    return STN_OK;
}

/* Who waits for another device's event is about to use what that has made. */
static stn_status queue_wait(void *impl, void *queue, void *handle)
{
    const struct event *event = handle;
    int before = stni_cuda_enter(impl);
    stn_status status = reach(impl, event->device);
    stn_status waited = stni_cuda_leave(impl, before, cudaStreamWaitEvent(queue, event->event, 0));
    return status == STN_OK ? waited : status;
}

static stn_status stream_wait(void *impl, void *stream, void *handle)
{
    const struct event *event = handle;
    int before = stni_cuda_enter(impl);
    return stni_cuda_leave(impl, before, cudaStreamWaitEvent(stream, event->event, 0));
}

static stn_status stream_record(void *impl, void *handle, void *stream)
{
    return event_record(impl, handle, stream);
}

static int event_passed(void *impl, void *handle)
{
    const struct event *event = handle;
    const int before = stni_cuda_enter(impl); /* else the runtime begins to use the thread's device */
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t answer = cudaEventQuery(event->event);
    if (answer == cudaErrorNotReady)
        cudaGetLastError(); /* which may keep it, as it would an error, for the next launch */
    stni_cuda_permit_in_capture(mode);
    stni_cuda_leave(impl, before, answer == cudaErrorNotReady ? cudaSuccess : answer);
    return answer != cudaErrorNotReady;
}

static stn_status event_sync(void *impl, void *handle)
{
    const struct event *event = handle;
    int before = stni_cuda_enter(impl);
    return stni_cuda_leave(impl, before, cudaEventSynchronize(event->event));
}

static stn_status copy(void *impl, void *queue, void *dst, const void *src, size_t bytes, int kind)
{
    (void)kind; /* what is the device's may lie in memory of the host: the addresses tell */
    int before = stni_cuda_enter(impl);
    return stni_cuda_leave(impl, before, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, queue));
}

static stn_status call(void *impl, void *queue, void (*function)(void *arg), void *arg)
{
    int before = stni_cuda_enter(impl);
    return stni_cuda_leave(impl, before, cudaLaunchHostFunc(queue, function, arg));
}

/* Other threads, which have queues of their own, do as they like meanwhile. */
static stn_status capture_begin(void *impl, void *queue)
{
    int before = stni_cuda_enter(impl);
    return stni_cuda_leave(impl, before, cudaStreamBeginCapture(queue, cudaStreamCaptureModeThreadLocal));
}

static stn_status capture_end(void *impl, void *queue, void **graph)
{
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t runnable = NULL;
    size_t nodes = 0;
    int before = stni_cuda_enter(impl);
    cudaError_t error = cudaStreamEndCapture(queue, &recorded);
    if (error == cudaSuccess)
        error = cudaGraphGetNodes(recorded, NULL, &nodes);
    if (error == cudaSuccess && nodes > 0)
        error = cudaGraphInstantiateWithFlags(&runnable, recorded, 0);
    if (recorded)
        cudaGraphDestroy(recorded);
    if (error == cudaSuccess)
        *graph = runnable;
    return stni_cuda_leave(impl, before, error);
}

static stn_status graph_launch(void *impl, void *graph, void *queue)
{
    int before = stni_cuda_enter(impl);
    return stni_cuda_leave(impl, before, cudaGraphLaunch(graph, queue));
}

static void graph_destroy(void *impl, void *graph)
{
    const int before = stni_cuda_enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaGraphExecDestroy(graph);
    stni_cuda_permit_in_capture(mode);
    stni_cuda_leave(impl, before, error);
}

struct stni_cuda_opened **stni_cuda_kept(stn_queue *queue, enum stni_cuda_library library)
{
    struct stni_cuda_device *device = stni_cuda_host()->queue_device(queue);
    return &device->kept[library];
}

static void close_libraries(struct stni_cuda_device *device)
{
    const int before = stni_cuda_enter(device);
    for (int i = 0; i < STNI_CUDA_LIBRARIES; i++)
        if (device->kept[i])
            device->kept[i]->destroy(device->kept[i]);
    stni_cuda_leave(device, before, cudaSuccess);
}

static void destroy(void *impl)
{
    struct stni_cuda_device *device = impl;
    close_libraries(device);
    if (device->memory) {
        const int before = stni_cuda_enter(device);
        stni_cuda_leave(device, before, cudaStreamDestroy(device->memory));
    }
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static const stn_device_ops device_ops = {
    .size = sizeof device_ops,
    .name = "cuda",
    .allocate = stni_cuda_allocate,
    .deallocate = stni_cuda_deallocate,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_sync = queue_sync,
    .launch = launch,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .queue_wait = queue_wait,
    .event_sync = event_sync,
    .event_passed = event_passed,
    .reaches = stni_cuda_reaches,
    .failure = failure,
    .copy = copy,
    .destroy = destroy,
    .host_allocate = stni_cuda_host_allocate,
    .host_deallocate = stni_cuda_host_deallocate,
    .call = call,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_launch = graph_launch,
    .graph_destroy = graph_destroy,
    .stream_wait = stream_wait,
    .stream_record = stream_record,
    .allocate_from = stni_cuda_allocate_from,
    .deallocate_to = stni_cuda_deallocate_to,
};

int stni_cuda_device_count(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess)
        return n;
    cudaGetLastError(); /* else it would fail the first launch of whoever asks after us */
    return 0;
}

stn_status stni_cuda_device_join(int index, const stn_device_ops **ops, void **impl, char *text, size_t text_size)
{
    const stn_status status = stni_cuda_device_check(index, text, text_size);
    if (status != STN_OK)
        return status;
    struct stni_cuda_device *device = calloc(1, sizeof *device);
    if (!device)
        return STN_ERR_MEMORY;
    device->index = index;
    if (cudaDeviceGetAttribute(&device->reaches_all, cudaDevAttrPageableMemoryAccess, index) != cudaSuccess)
        cudaGetLastError();
    pthread_mutex_init(&device->lock, NULL);
    *ops = &device_ops;
    *impl = device;
    return STN_OK;
}
