/* A CUDA device: memory, streams, events and copies of the runtime. A call works on its own device and leaves the
 * thread's current one as it was, since that belongs to the caller. */
#include "core/device/cuda/library.h"

#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_PEERS = 64 };

/* A queue that runs on a stream of the caller's. */
struct lent {
    struct lent *next;
    cudaStream_t stream;
};

struct device {
    int index;
    uint64_t peers; /* bit i: its kernels may use the memory of device i */
    pthread_mutex_t lock;
    struct lent *lent;
    cudaStream_t memory; /* on which a caller's allocator is asked where no queue can be; NULL: not yet */
    struct stni_cuda_opened *kept[STNI_CUDA_LIBRARIES];
};

struct event {
    cudaEvent_t event;
    int device; /* its index */
};

static stn_status status_of(cudaError_t error)
{
    switch ((int)error) {
    case cudaSuccess: return STN_OK;
    case cudaErrorMemoryAllocation: return STN_ERR_MEMORY;
    default: return STN_ERR_DEVICE;
    }
}

/* Makes the device current; returns the one that was. */
static int enter(void *impl)
{
    const struct device *device = impl;
    int before = device->index;
    if (cudaGetDevice(&before) == cudaSuccess && before != device->index)
        cudaSetDevice(device->index);
    return before;
}

static stn_status leave(void *impl, int before, cudaError_t error)
{
    const struct device *device = impl;
    if (before != device->index)
        cudaSetDevice(before);
    if (error != cudaSuccess)
        cudaGetLastError(); /* it is reported by the status; kept, it would fail the next launch */
    return status_of(error);
}

enum cudaStreamCaptureMode stni_cuda_permit_in_capture(enum cudaStreamCaptureMode mode)
{
    cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static stn_status allocate(void *impl, size_t bytes, void **out)
{
    const int before = enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaMalloc(out, bytes);
    stni_cuda_permit_in_capture(mode);
    return leave(impl, before, error);
}

static void deallocate(void *impl, void *pointer, size_t bytes)
{
    (void)bytes;
    const int before = enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaFree(pointer);
    stni_cuda_permit_in_capture(mode);
    leave(impl, before, error);
}

/* No work is ever put on this stream, so that memory in its order can be used by all. The device is the current one. */
static cudaError_t memory_stream(struct device *device, cudaStream_t *out)
{
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&device->lock);
    if (!device->memory)
        error = cudaStreamCreateWithFlags(&device->memory, cudaStreamNonBlocking);
    *out = device->memory;
    pthread_mutex_unlock(&device->lock);
    return error;
}

/* Asks the caller, whose function may leave another device behind, and with nothing to give an error that the
 * runtime keeps. */
static cudaError_t ask(struct device *device, const stn_device_allocator *allocator, cudaStream_t stream, size_t bytes,
                       void **out)
{
    *out = allocator->allocate(allocator->arg, bytes, stream);
    enter(device);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

static void give(struct device *device, const stn_device_allocator *allocator, cudaStream_t stream, void *pointer,
                 size_t bytes)
{
    allocator->deallocate(allocator->arg, pointer, bytes, stream);
    enter(device);
}

static cudaError_t ask_for_all(struct device *device, const stn_device_allocator *allocator, size_t bytes, void **out)
{
    cudaStream_t stream = NULL;
    cudaError_t error = memory_stream(device, &stream);
    if (error == cudaSuccess)
        error = ask(device, allocator, stream, bytes, out);
    if (error != cudaSuccess)
        return error;
    error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) {
        give(device, allocator, stream, *out, bytes);
        *out = NULL;
    }
    return error;
}

static stn_status allocate_from(void *impl, const stn_device_allocator *allocator, void *queue, size_t bytes,
                                void **out)
{
    const int before = enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    *out = NULL;
    const cudaError_t error =
        queue ? ask(impl, allocator, queue, bytes, out) : ask_for_all(impl, allocator, bytes, out);
    stni_cuda_permit_in_capture(mode);
    return leave(impl, before, error);
}

static void deallocate_to(void *impl, const stn_device_allocator *allocator, void *queue, void *pointer, size_t bytes)
{
    cudaStream_t stream = queue;
    const int before = enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    if (!queue)
        memory_stream(impl, &stream);
    give(impl, allocator, stream, pointer, bytes);
    stni_cuda_permit_in_capture(mode);
    leave(impl, before, cudaSuccess);
}

/* Notes that a queue runs on a stream of the caller's, which queue_destroy has to leave alone. */
static stn_status borrow(struct device *device, cudaStream_t stream, void **out)
{
    struct lent *lent = malloc(sizeof *lent);
    if (!lent)
        return STN_ERR_MEMORY;
    pthread_mutex_lock(&device->lock);
    *lent = (struct lent){device->lent, stream};
    device->lent = lent;
    pthread_mutex_unlock(&device->lock);
    *out = stream;
    return STN_OK;
}

/* 1 where the stream of a queue that goes was the caller's. */
static int give_back(struct device *device, cudaStream_t stream)
{
    pthread_mutex_lock(&device->lock);
    struct lent **at = &device->lent;
    while (*at && (*at)->stream != stream)
        at = &(*at)->next;
    struct lent *lent = *at;
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
    int before = enter(impl);
    stn_status status = leave(impl, before, create_stream(options->priority, &stream));
    if (status == STN_OK)
        *out = stream;
    return status;
}

static void queue_destroy(void *impl, void *queue)
{
    int before = enter(impl);
    cudaStreamSynchronize(queue);
    leave(impl, before, give_back(impl, queue) ? cudaSuccess : cudaStreamDestroy(queue));
}

static stn_status queue_sync(void *impl, void *queue)
{
    int before = enter(impl);
    return leave(impl, before, cudaStreamSynchronize(queue));
}

/* A kernel's function is host code that puts grids on the stream, so it runs at once. */
static stn_status launch(void *impl, void *queue, stn_queue *handle, stn_kernel_fn kernel, const void *args,
                         size_t args_size)
{
    (void)queue, (void)args_size;
    int before = enter(impl);
    stn_status status = stni_cuda_host()->queue_run(handle, kernel, args);
    leave(impl, before, cudaSuccess);
    return status;
}

static stn_status event_create(void *impl, void **out)
{
    const struct device *device = impl;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return STN_ERR_MEMORY;
    event->device = device->index;
    int before = enter(impl);
    stn_status status = leave(impl, before, cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming));
    if (status == STN_OK)
        *out = event;
    else
        free(event);
    return status;
}

static void event_destroy(void *impl, void *handle)
{
    struct event *event = handle;
    int before = enter(impl);
    leave(impl, before, cudaEventDestroy(event->event));
    free(event);
}

static stn_status event_record(void *impl, void *handle, void *queue)
{
    const struct event *event = handle;
    int before = enter(impl);
    return leave(impl, before, cudaEventRecord(event->event, queue));
}

/* Lets kernels of this device, the current one, use another's memory. The runtime's kept error is taken, else it
 * would fail the next launch. */
static stn_status reach(struct device *device, int peer)
{
    int can = 0;
    if (peer == device->index || (peer < MOST_PEERS && device->peers >> peer & 1))
        return STN_OK;
    if (cudaDeviceCanAccessPeer(&can, device->index, peer) != cudaSuccess || !can) {
        cudaGetLastError();
        return STN_ERR_UNSUPPORTED;
    }
    cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error != cudaSuccess)
        cudaGetLastError();
    if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled)
        return status_of(error);
    if (peer < MOST_PEERS)
        device->peers |= (uint64_t)1 << peer;
    return STN_OK;
}

/* Who waits for another device's event is about to use what that has made. */
static stn_status queue_wait(void *impl, void *queue, void *handle)
{
    const struct event *event = handle;
    int before = enter(impl);
    stn_status status = reach(impl, event->device);
    stn_status waited = leave(impl, before, cudaStreamWaitEvent(queue, event->event, 0));
    return status == STN_OK ? waited : status;
}

static stn_status stream_wait(void *impl, void *stream, void *handle)
{
    const struct event *event = handle;
    int before = enter(impl);
    return leave(impl, before, cudaStreamWaitEvent(stream, event->event, 0));
}

static stn_status stream_record(void *impl, void *handle, void *stream)
{
    return event_record(impl, handle, stream);
}

static int event_passed(void *impl, void *handle)
{
    const struct event *event = handle;
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t answer = cudaEventQuery(event->event);
    (void)impl;
    stni_cuda_permit_in_capture(mode);
    return answer != cudaErrorNotReady;
}

static stn_status event_sync(void *impl, void *handle)
{
    const struct event *event = handle;
    int before = enter(impl);
    return leave(impl, before, cudaEventSynchronize(event->event));
}

static stn_status copy(void *impl, void *queue, void *dst, const void *src, size_t bytes, int kind)
{
    static const enum cudaMemcpyKind kinds[] = {cudaMemcpyDeviceToDevice, cudaMemcpyHostToDevice,
                                                cudaMemcpyDeviceToHost};
    int before = enter(impl);
    return leave(impl, before, cudaMemcpyAsync(dst, src, bytes, kinds[kind], queue));
}

/* In every device's address space, at the address that the host has. */
static stn_status host_allocate(void *impl, size_t bytes, void **out)
{
    const int before = enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaHostAlloc(out, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    stni_cuda_permit_in_capture(mode);
    return leave(impl, before, error);
}

static void host_deallocate(void *impl, void *pointer, size_t bytes)
{
    (void)bytes;
    const int before = enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaFreeHost(pointer);
    stni_cuda_permit_in_capture(mode);
    leave(impl, before, error);
}

static stn_status call(void *impl, void *queue, void (*function)(void *arg), void *arg)
{
    int before = enter(impl);
    return leave(impl, before, cudaLaunchHostFunc(queue, function, arg));
}

/* Other threads, which have queues of their own, do as they like meanwhile. */
static stn_status capture_begin(void *impl, void *queue)
{
    int before = enter(impl);
    return leave(impl, before, cudaStreamBeginCapture(queue, cudaStreamCaptureModeThreadLocal));
}

static stn_status capture_end(void *impl, void *queue, void **graph)
{
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t runnable = NULL;
    size_t nodes = 0;
    int before = enter(impl);
    cudaError_t error = cudaStreamEndCapture(queue, &recorded);
    if (error == cudaSuccess)
        error = cudaGraphGetNodes(recorded, NULL, &nodes);
    if (error == cudaSuccess && nodes > 0)
        error = cudaGraphInstantiateWithFlags(&runnable, recorded, 0);
    if (recorded)
        cudaGraphDestroy(recorded);
    if (error == cudaSuccess)
        *graph = runnable;
    return leave(impl, before, error);
}

static stn_status graph_launch(void *impl, void *graph, void *queue)
{
    int before = enter(impl);
    return leave(impl, before, cudaGraphLaunch(graph, queue));
}

static void graph_destroy(void *impl, void *graph)
{
    const int before = enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaGraphExecDestroy(graph);
    stni_cuda_permit_in_capture(mode);
    leave(impl, before, error);
}

struct stni_cuda_opened **stni_cuda_kept(stn_queue *queue, enum stni_cuda_library library)
{
    struct device *device = stni_cuda_host()->queue_device(queue);
    return &device->kept[library];
}

static void close_libraries(struct device *device)
{
    const int before = enter(device);
    for (int i = 0; i < STNI_CUDA_LIBRARIES; i++)
        if (device->kept[i])
            device->kept[i]->destroy(device->kept[i]);
    leave(device, before, cudaSuccess);
}

static void destroy(void *impl)
{
    struct device *device = impl;
    close_libraries(device);
    if (device->memory) {
        const int before = enter(device);
        leave(device, before, cudaStreamDestroy(device->memory));
    }
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static const stn_device_ops device_ops = {
    .size = sizeof device_ops,
    .name = "cuda",
    .allocate = allocate,
    .deallocate = deallocate,
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
    .copy = copy,
    .destroy = destroy,
    .host_allocate = host_allocate,
    .host_deallocate = host_deallocate,
    .call = call,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_launch = graph_launch,
    .graph_destroy = graph_destroy,
    .stream_wait = stream_wait,
    .stream_record = stream_record,
    .allocate_from = allocate_from,
    .deallocate_to = deallocate_to,
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
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return STN_ERR_MEMORY;
    device->index = index;
    pthread_mutex_init(&device->lock, NULL);
    *ops = &device_ops;
    *impl = device;
    return STN_OK;
}
