/* Work on the stand-in with one fault each, and the same work without it. */
#include "cuda/planted.h"

#include "core/device/cuda/large_shared.cuh"
#include "core/device/cuda/late_copies.cuh"
#include "core/device/cuda/tensor_cores.cuh"
#include "cuda/standin/sanitizer.h"

#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <vector>

namespace {

enum { THREADS = 128, WARP = 32, COUNT = 1024, ROUNDS = 40 };

/* Kernels */

template <bool WAITS> __global__ void sum_block(int n, const float *x, float *out)
{
    STNI_SHARED(float, of_warp, THREADS / WARP);
    float part = 0;
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        part += x[i];
    for (int by = WARP / 2; by > 0; by /= 2)
        part += __shfl_xor_sync(0xffffffffu, part, by);
    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = part;
    if (WAITS)
        __syncthreads();
    if (threadIdx.x == THREADS / 2)
        *out = of_warp[0] + of_warp[1] + of_warp[2] + of_warp[3];
}

__global__ void half_a_warp_shuffles(float *out)
{
    if (threadIdx.x < WARP / 2)
        out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}

__global__ void shuffles_outside_of_its_mask(float *out)
{
    out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 1);
}

/* Works on `x` from when it says so until it is told. */
__global__ void works_until_told(float *x, int *says, const int *told)
{
    *x = 1;
    __atomic_store_n(says, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(told, __ATOMIC_SEQ_CST))
        sched_yield();
}

__global__ void waits_after_some_left(float *out)
{
    if (threadIdx.x < THREADS / 2)
        return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void waits_at_two_places(float *out)
{
    if (threadIdx.x < THREADS / 2)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void sums_what_nobody_wrote(float *out)
{
    STNI_SHARED(float, values, WARP);
    if (threadIdx.x < WARP - 1)
        values[threadIdx.x] = 1;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < WARP; i++)
        sum += values[i];
    *out = sum;
}

template <bool WAITS> __global__ void copies_late(float *out)
{
    STNI_SHARED(float, values, WARP);
    copy_late<4>(address_in_shared(values), (int)(threadIdx.x * sizeof(float)), out + threadIdx.x, true);
    if (WAITS)
        wait_for_copies();
    __syncthreads();
    *out = values[WARP - 1 - threadIdx.x];
}

template <int LANES, int OFF> __global__ void reads_squares(float *out)
{
    struct alignas(16) square {
        bf16 elements[SQUARE * SQUARE + 8];
    };
    STNI_SHARED(square, ones, 1);
    for (int k = (int)threadIdx.x; k < SQUARE * SQUARE + 8; k += WARP)
        store(ones->elements[k], 1);
    __syncthreads();
    if (threadIdx.x >= LANES)
        return;
    product sum;
    clear_product(sum);
    const shared_address lane = lane_of_squares(ones->elements, SQUARE);
    multiply_add(bf16{}, sum, read_left(lane, OFF), read_right(lane, 0));
    *out = sum.v[0][0] / SQUARE;
}

template <int PAST> __global__ void writes_shared(float *out)
{
    STNI_SHARED(float, values, WARP);
    values[(int)threadIdx.x + PAST] = 1;
    __syncthreads();
    out[threadIdx.x] = values[0];
}

/* More than STNI_SHARED has. */
struct large {
    float values[16 << 10];
};

__global__ void writes_large_shared(float *out)
{
    STNI_SHARED_BY_LAUNCH(large, shared);
    enum { LAST = sizeof shared->values / sizeof(float) - 1 };
    shared->values[LAST - threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = shared->values[LAST];
}

template <int PAST> __global__ void copies(int n, const float *from, float *to)
{
    for (int i = (int)threadIdx.x; i < n + PAST; i += THREADS)
        to[i < n ? i : 0] = from[i];
}

__global__ void counts(int n, float value, float *to)
{
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        to[i] = value;
}

/* What each piece of work needs: two streams, device memory, its way back. */
struct stage {
    cudaStream_t stream, other;
    cudaEvent_t event;
    float *x, *y;
};

stage stage_create()
{
    stage s;
    std::vector<float> ones(COUNT, 1.0f);
    cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&s.other, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&s.event, cudaEventDisableTiming);
    cudaMalloc(reinterpret_cast<void **>(&s.x), COUNT * sizeof(float));
    cudaMalloc(reinterpret_cast<void **>(&s.y), COUNT * sizeof(float));
    cudaMemcpyAsync(s.x, ones.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice, s.stream);
    cudaMemcpyAsync(s.y, ones.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice, s.stream);
    cudaStreamSynchronize(s.stream);
    return s;
}

/* The first element of y. */
float first_of_y(stage &s, cudaStream_t stream)
{
    float value = 0;
    cudaMemcpyAsync(&value, s.y, sizeof value, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    return value;
}

void stage_destroy(stage &s)
{
    cudaStreamSynchronize(s.stream);
    cudaStreamSynchronize(s.other);
    cudaFree(s.x);
    cudaFree(s.y);
    cudaEventDestroy(s.event);
    cudaStreamDestroy(s.stream);
    cudaStreamDestroy(s.other);
}

int report(float got, float wanted)
{
    if (got == wanted)
        return 0;
    fprintf(stderr, "planted: got %g, wanted %g\n", static_cast<double>(got), static_cast<double>(wanted));
    return 1;
}

/* Work */

template <bool WAITS> int sum_of_block(stage &s)
{
    STNI_LAUNCH(sum_block<WAITS>, 1, THREADS, s.stream, COUNT, s.x, s.y);
    return report(first_of_y(s, s.stream), COUNT);
}

template <void (*KERNEL)(float *), int THREADS_OF_BLOCK> int one_block(stage &s)
{
    STNI_LAUNCH(KERNEL, 1, THREADS_OF_BLOCK, s.stream, s.y);
    return report(first_of_y(s, s.stream), 1);
}

template <int LACKING> int large_shared_memory(stage &s)
{
    STNI_LAUNCH_SHARING(writes_large_shared, sizeof(large) - LACKING, 1, WARP, s.stream, s.y);
    return report(first_of_y(s, s.stream), 1);
}

template <int PAST> int copy_of_device_memory(stage &s)
{
    STNI_LAUNCH(copies<PAST>, 1, THREADS, s.stream, COUNT, s.x, s.y);
    return report(first_of_y(s, s.stream), 1);
}

template <bool EARLY> int free_of_device_memory(stage &s)
{
    float *x = s.x;
    STNI_LAUNCH(counts, 1, THREADS, s.stream, COUNT, 2.0f, s.y);
    if (EARLY)
        cudaFree(s.x);
    STNI_LAUNCH(copies<0>, 1, THREADS, s.stream, COUNT, x, s.y);
    const float got = first_of_y(s, s.stream);
    return report(got, 1);
}

int host_reads_device_memory(stage &s)
{
    cudaStreamSynchronize(s.stream);
    return report(*static_cast<volatile float *>(s.x), 1);
}

/* While a kernel works on y. */
int host_reads_beside_work(stage &s)
{
    int says = 0, told = 0;
    cudaStreamSynchronize(s.stream);
    STNI_LAUNCH(works_until_told, 1, 1, s.other, s.y, &says, &told);
    while (!__atomic_load_n(&says, __ATOMIC_SEQ_CST))
        sched_yield();
    const float read = *static_cast<volatile float *>(s.x);
    __atomic_store_n(&told, 1, __ATOMIC_SEQ_CST);
    cudaStreamSynchronize(s.other);
    return report(read, 1);
}

/* A kernel reads what lies on the second GPU. Copies may, peer or not. */
template <bool IS_PEER> int memory_of_another_gpu(stage &s)
{
    void *there = nullptr;
    cudaSetDevice(1);
    cudaMalloc(&there, COUNT * sizeof(float));
    cudaSetDevice(0);
    float *const far = static_cast<float *>(there);
    cudaMemcpyAsync(far, s.x, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, s.stream);
    cudaStreamSynchronize(s.stream);
    if (IS_PEER)
        cudaDeviceEnablePeerAccess(1, 0);
    STNI_LAUNCH(copies<0>, 1, THREADS, s.stream, COUNT, far, s.y);
    const int wrong = report(first_of_y(s, s.stream), 1);
    cudaFree(far);
    return wrong;
}

/* Each round writes x on one stream and copies it on the other, which has to wait. */
template <bool WAITS> int copy_after_its_source(stage &s)
{
    for (int round = 1; round <= ROUNDS; round++) {
        STNI_LAUNCH(counts, 1, THREADS, s.stream, COUNT, static_cast<float>(round), s.x);
        if (WAITS) {
            cudaEventRecord(s.event, s.stream);
            cudaStreamWaitEvent(s.other, s.event, 0);
        }
        cudaMemcpyAsync(s.y, s.x, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, s.other);
        if (report(first_of_y(s, s.other), static_cast<float>(round)))
            return 1;
        cudaStreamSynchronize(s.stream);
    }
    return 0;
}

/* Each round copies x on the other stream while this one is about to write it again, and has to wait. */
template <bool WAITS> int source_after_its_copy(stage &s)
{
    for (int round = 1; round <= ROUNDS; round++) {
        STNI_LAUNCH(counts, 1, THREADS, s.stream, COUNT, static_cast<float>(round), s.x);
        cudaStreamSynchronize(s.stream);
        cudaMemcpyAsync(s.y, s.x, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, s.other);
        if (WAITS) {
            cudaEventRecord(s.event, s.other);
            cudaStreamWaitEvent(s.stream, s.event, 0);
        }
        STNI_LAUNCH(counts, 1, THREADS, s.stream, COUNT, -1.0f, s.x);
        if (report(first_of_y(s, s.other), static_cast<float>(round)))
            return 1;
        cudaStreamSynchronize(s.stream);
    }
    return 0;
}

/* Both answers are wanted: a copy from the wrong side, a grid that no GPU takes. */
int runtime_refuses(stage &s)
{
    float host = 0;
    const cudaError_t side = cudaMemcpyAsync(&host, s.x, sizeof host, cudaMemcpyDeviceToDevice, s.stream), kept = cudaGetLastError();
    STNI_LAUNCH(counts, 1, 2048, s.stream, COUNT, 2.0f, s.y);
    const cudaError_t shape = cudaGetLastError();
    const bool refused = side == cudaErrorInvalidValue && kept == side && shape == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess;
    return report(refused ? first_of_y(s, s.stream) : 0, 1);
}

/* A graph that writes 2 to x and copies it; x may be freed before it runs. */
template <bool EARLY> int replay_of_a_graph(stage &s)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t runnable = nullptr;
    cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal);
    STNI_LAUNCH(counts, 1, THREADS, s.stream, COUNT, 2.0f, s.x);
    cudaMemcpyAsync(s.y, s.x, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, s.stream);
    cudaStreamEndCapture(s.stream, &graph);
    cudaGraphInstantiateWithFlags(&runnable, graph, 0);
    cudaGraphDestroy(graph);
    if (report(first_of_y(s, s.stream), 1)) /* nothing has run */
        return 1;
    if (EARLY)
        cudaFree(s.x);
    cudaGraphLaunch(runnable, s.stream);
    cudaGraphExecDestroy(runnable);
    return report(first_of_y(s, s.stream), 2);
}

/* A capture that goes on to another stream, which writes 2 to x and comes back; the first copies x. Without the join in
 * the middle the copy may be early. */
template <bool JOINS> int replay_of_two_streams(stage &s)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t runnable = nullptr;
    std::size_t nodes = 0;
    cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(s.event, s.stream);
    cudaStreamWaitEvent(s.other, s.event, 0);
    STNI_LAUNCH(counts, 1, THREADS, s.other, COUNT, 2.0f, s.x);
    cudaEventRecord(s.event, s.other);
    if (JOINS)
        cudaStreamWaitEvent(s.stream, s.event, 0);
    cudaMemcpyAsync(s.y, s.x, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, s.stream);
    if (!JOINS)
        cudaStreamWaitEvent(s.stream, s.event, 0);
    cudaStreamEndCapture(s.stream, &graph);
    if (cudaGraphGetNodes(graph, nullptr, &nodes) != cudaSuccess || nodes != 2)
        return report(0, 1);
    cudaGraphInstantiateWithFlags(&runnable, graph, 0);
    cudaGraphDestroy(graph);
    if (report(first_of_y(s, s.stream), 1)) /* nothing has run, on either */
        return 1;
    int wrong = 0;
    for (int round = 0; round < ROUNDS && !wrong; round++) {
        STNI_LAUNCH(counts, 1, THREADS, s.stream, COUNT, 1.0f, s.x);
        cudaGraphLaunch(runnable, s.stream);
        wrong = report(first_of_y(s, s.stream), 2);
    }
    cudaGraphExecDestroy(runnable);
    return wrong;
}

void keeps_off_the_runtime(void *at)
{
    *static_cast<float *>(at) += 1;
}

cudaStream_t touched;

void waits_for_its_stream(void *at)
{
    cudaStreamSynchronize(touched);
    keeps_off_the_runtime(at);
}

/* The function runs behind the copy before it and ahead of the copy behind it. */
template <cudaHostFn_t FUNCTION> int host_function(stage &s)
{
    float *pinned = nullptr;
    touched = s.stream;
    cudaHostAlloc(reinterpret_cast<void **>(&pinned), COUNT * sizeof(float), cudaHostAllocPortable | cudaHostAllocMapped);
    cudaMemcpyAsync(pinned, s.x, COUNT * sizeof(float), cudaMemcpyDeviceToHost, s.stream);
    cudaLaunchHostFunc(s.stream, FUNCTION, pinned);
    cudaMemcpyAsync(s.y, pinned, COUNT * sizeof(float), cudaMemcpyHostToDevice, s.stream);
    const float got = first_of_y(s, s.stream);
    if (cudaFreeHost(pinned) != cudaSuccess || cudaFreeHost(pinned) != cudaErrorInvalidValue)
        return report(0, 1);
    cudaGetLastError();
    return report(got, 2);
}

/* Whether a capture in which this is done is refused, and by which error. */
template <class F> bool capture_refuses(cudaStream_t stream, cudaError_t error, F what)
{
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    const bool refused = what() == error && cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && !graph;
    cudaGetLastError();
    return refused;
}

/* Whether a capture is refused that another stream has not come back to; both streams run again behind it. */
bool is_unjoined(stage &s)
{
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(s.event, s.stream);
    cudaStreamWaitEvent(s.other, s.event, 0);
    STNI_LAUNCH(counts, 1, THREADS, s.other, COUNT, 2.0f, s.x);
    const bool refused = cudaStreamEndCapture(s.stream, &graph) == cudaErrorStreamCaptureUnjoined && !graph;
    cudaGetLastError();
    return refused && cudaStreamSynchronize(s.stream) == cudaSuccess && cudaStreamSynchronize(s.other) == cudaSuccess;
}

int capture_refusals(stage &s)
{
    void *memory = nullptr;
    bool right = capture_refuses(s.stream, cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(s.stream); }) &&
                 capture_refuses(s.stream, cudaErrorStreamCaptureUnsupported, [&] { return cudaMalloc(&memory, 1); }) &&
                 capture_refuses(s.stream, cudaErrorStreamCaptureIsolation, [&] {
                     cudaEventRecord(s.event, s.other);
                     return cudaStreamWaitEvent(s.stream, s.event, 0);
                 });
    right = right && capture_refuses(s.stream, cudaErrorStreamCaptureUnsupported, [&] {
                cudaEventRecord(s.event, s.stream);
                cudaStreamWaitEvent(s.other, s.event, 0);
                return cudaStreamSynchronize(s.other);
            }) && capture_refuses(s.stream, cudaErrorStreamCaptureUnmatched, [&] {
                cudaGraph_t none = nullptr;
                cudaEventRecord(s.event, s.stream);
                cudaStreamWaitEvent(s.other, s.event, 0);
                return cudaStreamEndCapture(s.other, &none);
            });
    cudaGraph_t graph = nullptr;
    right = right && is_unjoined(s);
    right = right && cudaStreamEndCapture(s.stream, &graph) == cudaErrorIllegalState;
    cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeRelaxed);
    right = right && cudaMalloc(&memory, 1) == cudaSuccess && cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeRelaxed) == cudaErrorIllegalState;
    cudaEventRecord(s.event, s.stream);
    right = right && cudaEventSynchronize(s.event) == cudaErrorCapturedEvent && cudaStreamWaitEvent(s.stream, s.event, 0) == cudaSuccess;
    right = right && cudaStreamEndCapture(s.stream, &graph) == cudaSuccess && graph;
    cudaGraphDestroy(graph);
    cudaFree(memory);
    return report(right ? first_of_y(s, s.stream) : 0, 1);
}

const struct work {
    const char *name;
    int (*run)(stage &);
} works[] = {
    {"sum", sum_of_block<true>},
    {"sum without a barrier", sum_of_block<false>},
    {"shuffle without half of its lanes", one_block<half_a_warp_shuffles, WARP>},
    {"shuffle outside of its mask", one_block<shuffles_outside_of_its_mask, WARP>},
    {"barrier after an exit", one_block<waits_after_some_left, THREADS>},
    {"two barriers at once", one_block<waits_at_two_places, THREADS>},
    {"uninitialised shared memory", one_block<sums_what_nobody_wrote, WARP>},
    {"late copy", one_block<copies_late<true>, WARP>},
    {"late copy that is not waited for", one_block<copies_late<false>, WARP>},
    {"squares", one_block<reads_squares<WARP, 0>, WARP>},
    {"squares by half a warp", one_block<reads_squares<WARP / 2, 0>, WARP>},
    {"squares at no multiple of 16 bytes", one_block<reads_squares<WARP, 4>, WARP>},
    {"shared memory", one_block<writes_shared<0>, WARP>},
    {"past the end of shared memory", one_block<writes_shared<1>, WARP>},
    {"large shared memory", large_shared_memory<0>},
    {"less shared memory than a kernel takes", large_shared_memory<1>},
    {"device memory", copy_of_device_memory<0>},
    {"past the end of device memory", copy_of_device_memory<1>},
    {"free", free_of_device_memory<false>},
    {"early free", free_of_device_memory<true>},
    {"memory of a peer", memory_of_another_gpu<true>},
    {"memory of another GPU", memory_of_another_gpu<false>},
    {"host reads device memory", host_reads_device_memory},
    {"host reads device memory beside work", host_reads_beside_work},
    {"copy after its source", copy_after_its_source<true>},
    {"copy without waiting for its source", copy_after_its_source<false>},
    {"source after its copy", source_after_its_copy<true>},
    {"source without waiting for its copy", source_after_its_copy<false>},
    {"refusals", runtime_refuses},
    {"replay", replay_of_a_graph<false>},
    {"replay after a free", replay_of_a_graph<true>},
    {"replay of two streams", replay_of_two_streams<true>},
    {"replay without a join", replay_of_two_streams<false>},
    {"host function", host_function<keeps_off_the_runtime>},
    {"host function that waits for its stream", host_function<waits_for_its_stream>},
    {"capture refusals", capture_refusals},
};

}

int planted_run(const char *name)
{
    for (const work &w : works) {
        if (strcmp(w.name, name) != 0)
            continue;
        stage s = stage_create();
        const int wrong = w.run(s);
        stage_destroy(s);
        return wrong;
    }
    fprintf(stderr, "planted: nothing is called \"%s\"\n", name);
    return 2;
}

int planted_has_address_sanitizer(void)
{
    return standin::ADDRESS_SANITIZER;
}

int planted_has_thread_sanitizer(void)
{
    return standin::THREAD_SANITIZER;
}
