#include "cuda/standin/stream.h"

#include "cuda/standin/faults.h"
#include "cuda/standin/found_by_name.h"
#include "cuda/standin/memory.h"
#include "cuda/standin/settings.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace standin {

namespace {

thread_local bool in_host_function;

}

void forbid_in_host_functions(const char *function)
{
    if (!in_host_function)
        return;
    fprintf(stderr, "stand-in: a host function on a stream calls %s\n", function);
    abort();
}

long marks::record()
{
    std::lock_guard<std::mutex> held(lock);
    return ++recorded;
}

long marks::last()
{
    std::lock_guard<std::mutex> held(lock);
    return recorded;
}

void marks::pass(long mark)
{
    std::lock_guard<std::mutex> held(lock);
    done = mark > done ? mark : done;
    at = std::chrono::steady_clock::now();
    passed.notify_all();
}

void marks::await(long mark)
{
    std::unique_lock<std::mutex> held(lock);
    passed.wait(held, [=] { return done >= mark; });
}

CUstream_st *stream_of(cudaStream_t stream)
{
    if (!stream || stream == cudaStreamLegacy) {
        static CUstream_st legacy(0);
        return &legacy;
    }
    if (stream == cudaStreamPerThread) {
        static thread_local CUstream_st own(0);
        return &own;
    }
    return stream;
}

bool marks::has_passed(long mark)
{
    std::lock_guard<std::mutex> held(lock);
    return done >= mark;
}

}

std::chrono::steady_clock::time_point standin::marks::passed_at()
{
    std::lock_guard<std::mutex> held(lock);
    return at;
}

using standin::failed;
using standin::forbid_in_host_functions;
using standin::stream_of;

/* Streams draw different delays from one seed. */
CUstream_st::CUstream_st(int priority_, int gpu_) : priority(priority_), gpu(gpu_)
{
    static std::atomic<uint64_t> streams;
    standin::explain_faults();
    random = standin::settings().delay ? standin::settings().delay + 0x9e3779b97f4a7c15u * ++streams : 0;
    thread = std::thread([this] { run(); });
}

CUstream_st::~CUstream_st()
{
    {
        std::lock_guard<std::mutex> held(lock);
        stops = true;
    }
    more.notify_one();
    thread.join();
}

void CUstream_st::join(const std::shared_ptr<standin::recording> &recording, const std::set<std::size_t> &behind)
{
    capture = recording;
    lane = recording->streams.size();
    tail = behind;
    recording->streams.push_back(this);
}

void CUstream_st::leave()
{
    capture = nullptr;
    tail.clear();
}

bool CUstream_st::is_of(int other) const
{
    return gpu == standin::ANY_GPU || gpu == other;
}

void CUstream_st::add_made(std::function<std::function<void()>()> make)
{
    if (!capture) {
        add(make());
        return;
    }
    capture->nodes.push_back({std::move(make), lane, tail});
    tail = {capture->nodes.size() - 1};
}

void CUstream_st::add(std::function<void()> work)
{
    if (capture) {
        add_made([work = std::move(work)] { return work; });
        return;
    }
    std::lock_guard<std::mutex> held(lock);
    queued.push_back(std::move(work));
    put++;
    more.notify_one();
}

void CUstream_st::add_on_memory(std::function<void()> work, int of)
{
    add_in_line([work = std::move(work), of] {
        standin::work_begins(of);
        work();
        standin::work_ends();
    });
}

void CUstream_st::add_in_line(std::function<void()> work)
{
    enum { MOST = 512 };
    if (capture) {
        add(std::move(work));
        return;
    }
    {
        std::unique_lock<std::mutex> held(lock);
        ended.wait(held, [this] { return in_line < MOST; });
        in_line++;
    }
    add([this, work = std::move(work)] {
        work();
        std::lock_guard<std::mutex> held(lock);
        in_line--;
    });
}

void CUstream_st::wait()
{
    std::unique_lock<std::mutex> held(lock);
    const long want = put;
    ended.wait(held, [=] { return done >= want; });
}

void CUstream_st::delay()
{
    enum { ONE_IN = 4, MOST = 200 /* microseconds */ };
    if (random == 0)
        return;
    random = random * 6364136223846793005u + 1442695040888963407u;
    if ((random >> 40) % ONE_IN == 0)
        usleep(static_cast<unsigned>((random >> 33) % MOST));
}

bool CUstream_st::take(std::function<void()> &work)
{
    std::unique_lock<std::mutex> held(lock);
    more.wait(held, [this] { return stops || !queued.empty(); });
    if (queued.empty())
        return false;
    work = std::move(queued.front());
    queued.pop_front();
    return true;
}

void CUstream_st::run()
{
    std::function<void()> work;
    while (take(work)) {
        delay();
        work();
        work = nullptr;
        std::lock_guard<std::mutex> held(lock);
        done++;
        ended.notify_all();
    }
}

/* With C's linkage said again, so that a function that is not as the header has it is an error and no overload. */
extern "C" {

/* As many as GPUs of today have. */
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int, int priority)
{
    int least, greatest;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    forbid_in_host_functions("cudaStreamCreateWithPriority");
    if (standin::use_current_gpu() != cudaSuccess)
        return cudaErrorDevicesUnavailable;
    *out = new CUstream_st(priority > least ? least : priority < greatest ? greatest : priority,
                           standin::current_gpu());
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
    return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    stream = stream_of(stream);
    *priority = stream->priority;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    forbid_in_host_functions("cudaStreamDestroy");
    if (stream->capture) {
        stream->capture->is_invalid = true;
        stream->capture->streams[stream->lane] = nullptr;
    }
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    stream = stream_of(stream);
    forbid_in_host_functions("cudaStreamSynchronize");
    if (stream->capture) {
        stream->capture->is_invalid = true;
        return failed(cudaErrorStreamCaptureUnsupported);
    }
    stream->wait();
    return cudaSuccess;
}

namespace {

/* A capture goes on to the stream that waits for an event of it. */
cudaError_t wait_in_capture(cudaStream_t stream, cudaEvent_t event)
{
    if (!event->captured || event->captured->has_ended) {
        if (stream->capture)
            stream->capture->is_invalid = true;
        return failed(cudaErrorStreamCaptureIsolation);
    }
    if (stream->capture && stream->capture != event->captured) {
        stream->capture->is_invalid = event->captured->is_invalid = true;
        return failed(cudaErrorStreamCaptureMerge);
    }
    if (stream->capture)
        stream->tail.insert(event->tail.begin(), event->tail.end());
    else
        stream->join(event->captured, event->tail);
    return cudaSuccess;
}

}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
    stream = stream_of(stream);
    forbid_in_host_functions("cudaStreamWaitEvent");
    if (event->captured || stream->capture)
        return wait_in_capture(stream, event);
    stream->add_in_line([marks = event->marks, mark = event->marks->last()] { marks->await(mark); });
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *arg)
{
    stream = stream_of(stream);
    forbid_in_host_functions("cudaLaunchHostFunc");
    stream->add([=] {
        standin::in_host_function = true;
        function(arg);
        standin::in_host_function = false;
    });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int)
{
    *out = new CUevent_st;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    stream = stream_of(stream);
    forbid_in_host_functions("cudaEventRecord");
    if (!stream->is_of(event->gpu))
        return failed(cudaErrorInvalidResourceHandle);
    event->captured = stream->capture;
    event->tail = stream->tail;
    if (!stream->capture)
        stream->add_in_line([marks = event->marks, mark = event->marks->record()] { marks->pass(mark); });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    forbid_in_host_functions("cudaEventSynchronize");
    if (event->captured)
        return failed(cudaErrorCapturedEvent);
    event->marks->await(event->marks->last());
    return cudaSuccess;
}

/* A bit for each GPU on which a kernel has read what it may not: the error stays. */
static std::atomic<uint64_t> broken;

STANDIN_FOUND_BY_NAME void standin_break_gpu(int gpu)
{
    if (gpu < 0)
        broken = 0;
    else
        broken.fetch_or(uint64_t{1} << gpu);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    forbid_in_host_functions("cudaEventQuery");
    if (broken >> event->gpu & 1)
        return failed(cudaErrorIllegalAddress);
    if (standin::use_current_gpu() != cudaSuccess)
        return cudaErrorDevicesUnavailable;
    if (event->captured)
        return failed(cudaErrorCapturedEvent);
    if (standin::refuse_in_capture() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    return event->marks->has_passed(event->marks->last()) ? cudaSuccess : cudaErrorNotReady;
}

/* Events that were never recorded have passed at the clock's beginning. */
STANDIN_FOUND_BY_NAME cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    forbid_in_host_functions("cudaEventElapsedTime");
    for (const cudaEvent_t event : {start, end})
        if (event->captured || !event->marks->has_passed(event->marks->last()))
            return failed(event->captured ? cudaErrorInvalidValue : cudaErrorNotReady);
    *milliseconds = std::chrono::duration<float, std::milli>(end->marks->passed_at() - start->marks->passed_at()).count();
    return cudaSuccess;
}

}
