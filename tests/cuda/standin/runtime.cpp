/* The CUDA runtime without a GPU: devices, memory, copies; streams are in stream.cpp. Copies check on which side each
 * address lies. Copies from the host read its memory when they run, which is later than CUDA promises: memory that the
 * host gives up too soon is found. */
#include "cuda/standin/found_by_name.h"
#include "cuda/standin/grid_cpu.h"
#include "cuda/standin/memory.h"
#include "cuda/standin/settings.h"
#include "cuda/standin/stream.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace standin {

namespace {

thread_local int current_device;
thread_local cudaError_t last_error = cudaSuccess;

uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

}

cudaError_t failed(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

enum { MOST_GPUS = 64 };
std::atomic<uint64_t> enabled[MOST_GPUS]; /* bit i: kernels may use memory of GPU i, too */

bool are_peers(int gpu, int other)
{
    return gpu == ANY_GPU || gpu == other || gpu >= MOST_GPUS || (enabled[gpu] >> other & 1) != 0;
}

int current_gpu()
{
    return current_device;
}

static std::atomic<uint64_t> begun; /* bit i: this process has a context on GPU i */

static void begin_context(int gpu)
{
    if (gpu < MOST_GPUS)
        begun.fetch_or(uint64_t{1} << gpu);
}

cudaError_t use_current_gpu()
{
    if (current_device == settings().taken)
        return failed(cudaErrorDevicesUnavailable);
    begin_context(current_device);
    return cudaSuccess;
}

const settings_of_environment &settings()
{
    static const settings_of_environment all = {static_cast<int>(number_from("STANDIN_DEVICES", 1)),
                                                number_from("STANDIN_SEED", 0),
                                                number_from("STANDIN_DELAY", 0),
                                                static_cast<int>(number_from("STANDIN_DRIVER", CUDART_VERSION)),
                                                static_cast<int>(number_from("STANDIN_CAPABILITY", 90)),
                                                static_cast<int>(number_from("STANDIN_TAKEN", UINT64_MAX)),
                                                static_cast<int>(number_from("STANDIN_PEERS", 1)),
                                                static_cast<int64_t>(number_from("STANDIN_SMALL", 1ULL << 31)),
                                                static_cast<int>(number_from("STANDIN_LIBRARIES", SERVING))};
    return all;
}

const int64_t small_count = settings().small;

namespace {

/* The limits of every GPU that CUDA 13 knows and that is not older than compute capability 8.0; of arguments, those of
 * a driver before 530. */
bool is_launchable(dim3 grid, dim3 block, std::size_t args_size, std::size_t shared)
{
    const uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
    return grid.x > 0 && grid.x <= 0x7fffffff && grid.y > 0 && grid.y < 65536 && grid.z > 0 && grid.z < 65536 &&
           threads > 0 && threads <= 1024 && block.z <= 64 && args_size <= 4096 && shared <= 96 << 10;
}

}

namespace {

/* Kernels that are on a GPU, and how many came there by their first launch. */
std::mutex kernels_lock;
std::set<std::pair<int, const void *>> loaded_kernels;
int loaded_by_launches;

bool load_kernel(const void *kernel)
{
    return loaded_kernels.emplace(current_device, kernel).second;
}

void launched_kernel(const void *kernel)
{
    const std::lock_guard<std::mutex> guard(kernels_lock);
    loaded_by_launches += load_kernel(kernel);
}

}

void launch_grid(dim3 grid, dim3 block, cudaStream_t stream, std::size_t args_size, const kernel_call *thread)
{
    const std::shared_ptr<const kernel_call> owned(thread); /* also by each launch of a graph */
    if (!is_launchable(grid, block, args_size, thread->shared))
        failed(cudaErrorInvalidConfiguration);
    else if (!stream_of(stream)->is_of(current_device))
        failed(cudaErrorInvalidResourceHandle);
    else {
        launched_kernel(thread->function);
        stream_of(stream)->add_on_memory([=] { run_grid(grid, block, *owned); }, current_device);
    }
}

}

using standin::failed;
using standin::forbid_in_host_functions;

/* With C's linkage said again, so that a function that is not as the header has it is an error and no overload. */
extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = standin::settings().driver < CUDART_VERSION / 1000 * 1000 ? 0 : standin::settings().devices;
    return *count > 0 ? cudaSuccess : failed(cudaErrorInsufficientDriver);
}

/* Without a driver: 0, and no error. */
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = standin::settings().devices > 0 ? standin::settings().driver : 0;
    return cudaSuccess;
}

/* A GPU of four multiprocessors at 1 GHz. */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    if (device < 0 || device >= standin::settings().devices)
        return failed(cudaErrorInvalidDevice);
    const struct {
        int attribute, value;
    } known[] = {{cudaDevAttrComputeCapabilityMajor, standin::settings().capability / 10},
                 {cudaDevAttrComputeCapabilityMinor, standin::settings().capability % 10},
                 {cudaDevAttrPageableMemoryAccess, 0},
                 {standin::CLOCK_RATE, 1000000},
                 {standin::MULTIPROCESSORS, 4}};
    for (const auto &row : known)
        if (row.attribute == static_cast<int>(attribute)) {
            *value = row.value;
            return cudaSuccess;
        }
    return failed(cudaErrorInvalidValue);
}

STANDIN_FOUND_BY_NAME int standin_has_context(int gpu)
{
    return gpu < standin::MOST_GPUS && (standin::begun >> gpu & 1) != 0;
}

/* Loads the kernel, as it has to in order to know them. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *kernel)
{
    const std::lock_guard<std::mutex> guard(standin::kernels_lock);
    *out = {};
    standin::load_kernel(kernel);
    return cudaSuccess;
}

STANDIN_FOUND_BY_NAME int standin_loaded_by_launches(void)
{
    const std::lock_guard<std::mutex> guard(standin::kernels_lock);
    return standin::loaded_by_launches;
}

/* The driver's. */
int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active)
{
    *flags = 0;
    *is_active = standin_has_context(device);
    return 0;
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
    if (device == standin::settings().taken)
        return failed(cudaErrorDevicesUnavailable);
    standin::current_device = device;
    standin::begin_context(device);
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    const int devices = standin::settings().devices;
    if (device < 0 || device >= devices || peer < 0 || peer >= devices)
        return failed(cudaErrorInvalidDevice);
    *can = device != peer && standin::settings().peers != 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    using standin::enabled;
    const int device = standin::current_device;
    int can = 0;
    if (cudaDeviceCanAccessPeer(&can, device, peer) != cudaSuccess || !can || device >= standin::MOST_GPUS ||
        peer >= standin::MOST_GPUS)
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
    case cudaErrorDevicesUnavailable: return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorIllegalState: return "the operation cannot be performed in the present state";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge: return "operation would make a merge of two separate capture sequences";
    case cudaErrorStreamCaptureUnmatched: return "capture was not initiated in this stream";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
    case cudaErrorCapturedEvent: return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorStreamCaptureWrongThread:
        return "attempt to terminate a thread-local capture sequence from another thread";
    default: return "unrecognized error code";
    }
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    forbid_in_host_functions("cudaMalloc");
    if (standin::refuse_in_capture() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    if (standin::use_current_gpu() != cudaSuccess)
        return cudaErrorDevicesUnavailable;
    *out = standin::device_allocate(bytes);
    return *out ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *pointer)
{
    forbid_in_host_functions("cudaFree");
    if (standin::refuse_in_capture() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    return !pointer || standin::device_free(pointer) ? cudaSuccess : failed(cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer)
{
    *out = {};
    if (standin::device_owns(pointer))
        out->type = cudaMemoryTypeDevice;
    else if (standin::pinned_owns(pointer))
        out->type = cudaMemoryTypeHost;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int)
{
    forbid_in_host_functions("cudaHostAlloc");
    if (standin::refuse_in_capture() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    *out = standin::pinned_allocate(bytes);
    return *out ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *pointer)
{
    forbid_in_host_functions("cudaFreeHost");
    if (standin::refuse_in_capture() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    return !pointer || standin::pinned_free(pointer) ? cudaSuccess : failed(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    forbid_in_host_functions("cudaMemcpyAsync");
    if (bytes == 0)
        return cudaSuccess;
    if (!dst || !src)
        return failed(cudaErrorInvalidValue);
    if (kind != cudaMemcpyDefault &&
        (standin::device_owns(dst) != to_device || standin::device_owns(src) != from_device))
        return failed(cudaErrorInvalidValue);
    standin::stream_of(stream)->add_on_memory([=] { std::memcpy(dst, src, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *at, int byte, size_t bytes, cudaStream_t stream)
{
    if (bytes == 0)
        return cudaSuccess;
    if (!standin::device_owns(at) && !standin::pinned_owns(at))
        return failed(cudaErrorInvalidValue);
    standin::stream_of(stream)->add_on_memory([=] { std::memset(at, byte, bytes); });
    return cudaSuccess;
}

}
