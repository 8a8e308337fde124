/* The CUDA runtime without a GPU: streams are threads, which begin each piece of work after a random delay if the settings ask for it; events are
 * counters. Copies check on which side each address lies. Copies from the host read its memory when they run, which is later than CUDA
 * promises: memory that the host gives up too soon is found. */
#include "cuda/standin/faults.h"
#include "cuda/standin/grid_cpu.h"
#include "cuda/standin/memory.h"
#include "cuda/standin/settings.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace standin {

namespace {

thread_local int current_device;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

/* How often an event was recorded, and which of the records streams have passed. */
struct marks {
    std::mutex lock;
    std::condition_variable passed;
    long recorded = 0, done = 0;

    long record()
    {
        std::lock_guard<std::mutex> held(lock);
        return ++recorded;
    }
    long last()
    {
        std::lock_guard<std::mutex> held(lock);
        return recorded;
    }
    void pass(long mark)
    {
        std::lock_guard<std::mutex> held(lock);
        done = mark > done ? mark : done;
        passed.notify_all();
    }
    void await(long mark)
    {
        std::unique_lock<std::mutex> held(lock);
        passed.wait(held, [=] { return done >= mark; });
    }
};

}

const settings_of_environment &settings()
{
    static const settings_of_environment all = {static_cast<int>(number_from("STANDIN_DEVICES", 1)), number_from("STANDIN_SEED", 0),
                                                number_from("STANDIN_DELAY", 0)};
    return all;
}

}

using standin::failed;

struct CUevent_st {
    std::shared_ptr<standin::marks> marks = std::make_shared<standin::marks>();
};

struct CUstream_st {
    CUstream_st();
    ~CUstream_st();
    void add(std::function<void()> work);
    void add_on_memory(std::function<void()> work); /* work that touches device memory */
    void wait();

private:
    void run();
    void delay();
    bool take(std::function<void()> &work);

    std::mutex lock;
    std::condition_variable more, ended;
    std::deque<std::function<void()>> queued;
    bool stops = false;
    long put = 0, done = 0;
    uint64_t random;
    std::thread thread;
};

/* Streams draw different delays from one seed. */
CUstream_st::CUstream_st()
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

void CUstream_st::add(std::function<void()> work)
{
    std::lock_guard<std::mutex> held(lock);
    queued.push_back(std::move(work));
    put++;
    more.notify_one();
}

void CUstream_st::add_on_memory(std::function<void()> work)
{
    add([work = std::move(work)] {
        standin::device_memory_opens();
        work();
        standin::device_memory_closes();
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

namespace standin {

namespace {

/* The limits of every GPU that CUDA 13 knows. */
bool is_launchable(dim3 grid, dim3 block, std::size_t args_size)
{
    const uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
    return grid.x > 0 && grid.x <= 0x7fffffff && grid.y > 0 && grid.y < 65536 && grid.z > 0 && grid.z < 65536 && threads > 0 &&
           threads <= 1024 && block.z <= 64 && args_size <= 32764;
}

}

void launch_grid(dim3 grid, dim3 block, cudaStream_t stream, std::size_t args_size, std::function<void()> thread)
{
    if (!is_launchable(grid, block, args_size))
        failed(cudaErrorInvalidConfiguration);
    else
        stream->add_on_memory([=] { run_grid(grid, block, thread); });
}

}

/* With C's linkage said again, so that a function that is not as the header has it is an error and no overload. */
extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = standin::settings().devices;
    return *count > 0 ? cudaSuccess : failed(cudaErrorInsufficientDriver);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = standin::current_device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= standin::settings().devices)
        return failed(cudaErrorInvalidDevice);
    standin::current_device = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    const int devices = standin::settings().devices;
    if (device < 0 || device >= devices || peer < 0 || peer >= devices)
        return failed(cudaErrorInvalidDevice);
    *can = device != peer;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    static std::atomic<uint64_t> enabled[64];
    const int device = standin::current_device;
    int can = 0;
    if (cudaDeviceCanAccessPeer(&can, device, peer) != cudaSuccess || !can || device >= 64 || peer >= 64)
        return failed(cudaErrorInvalidDevice);
    const uint64_t bit = uint64_t{1} << peer;
    return enabled[device].fetch_or(bit) & bit ? failed(cudaErrorPeerAccessAlreadyEnabled) : cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = standin::last_error;
    standin::last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (static_cast<int>(error)) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    default: return "unrecognized error code";
    }
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = standin::device_allocate(bytes);
    return *out ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *pointer)
{
    return !pointer || standin::device_free(pointer) ? cudaSuccess : failed(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (bytes == 0)
        return cudaSuccess;
    if (standin::device_owns(dst) != to_device || standin::device_owns(src) != from_device)
        return failed(cudaErrorInvalidValue);
    stream->add_on_memory([=] { std::memcpy(dst, src, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *at, int byte, size_t bytes, cudaStream_t stream)
{
    if (bytes == 0)
        return cudaSuccess;
    if (!standin::device_owns(at))
        return failed(cudaErrorInvalidValue);
    stream->add_on_memory([=] { std::memset(at, byte, bytes); });
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int)
{
    *out = new CUstream_st;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    stream->wait();
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
    stream->add([marks = event->marks, mark = event->marks->last()] { marks->await(mark); });
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
    stream->add([marks = event->marks, mark = event->marks->record()] { marks->pass(mark); });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    event->marks->await(event->marks->last());
    return cudaSuccess;
}

}
