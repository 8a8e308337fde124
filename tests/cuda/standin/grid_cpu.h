/* CUDA's words for kernels without a GPU: the .cu sources, compiled as C++17, run block by block on the thread of a
 * stream.
 *
 * The threads of a block are fibers that switch at barriers and at warp operations only, in an order that is ascending,
 * descending or drawn from a seed, so that a barrier that is missing changes results. Shared memory is filled with NaN
 * at the beginning of each block. What no GPU would forgive ends the program with a text that names the block, the
 * thread and the line: a lane that is missing from a warp operation, an uneven barrier, an access past the end of
 * shared memory.
 *
 * Blocks run one after another: races between blocks are not found here. */
#ifndef STANDIN_GRID_CPU_H
#define STANDIN_GRID_CPU_H

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

/* The toolkit's headers, where they are compiled against, have these too. */
#undef __global__
#undef __device__
#undef __host__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __grid_constant__

namespace standin {

/* STNI_SMALL_COUNT. */
extern const int64_t small_count;

/* Where a thread of the grid is. */
struct place {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
    unsigned lane;
};

/* Of the kernel's thread that runs on this thread; NULL: none does. Kernels read it for each threadIdx: of
 * thread_local each access would ask whether the source that has it initialises it, and with its place known when the
 * module is loaded none calls the loader. */
extern __thread const place *here __attribute__((tls_model("initial-exec")));

struct line {
    const char *file;
    int number;
};

void barrier(line at);

/* All lanes of `mask` meet: each gives 8 bytes and gets those that lane `from` gave. */
uint64_t exchange(unsigned mask, uint64_t value, unsigned from, line at);
/* All lanes of `mask` meet: bit l is whether lane l gave something else than 0. */
unsigned ballot(unsigned mask, int value, line at);

/* All lanes of a warp meet: the last one runs `work` on what each gave, and then all go on. */
typedef void (*warp_work)(void *const (&given)[32]);
void together(warp_work work, void *given, line at);

/* A copy of 4 or 16 bytes, zeros where `from` is NULL, which is made as late as it may be: when its thread waits. */
void copy_late(void *to, const void *from, std::size_t bytes, line at);
void wait_for_copies();

/* Ends the program: no GPU would forgive what the thread does. */
[[noreturn]] void refuse(const char *what, line at);

void *shared(int site, std::size_t bytes, const char *name, const char *file, int number);
void *shared_by_launch(std::size_t bytes, const char *name, line at);

/* A kernel with copies of its arguments, which each thread of a grid calls. std::function's header takes
 * compilers half of a short source's time. */
struct kernel_call {
    std::size_t shared = 0; /* bytes of shared memory that the launch gives a block */
    const void *function = nullptr; /* the kernel */

    virtual void run() const = 0;
    virtual ~kernel_call() = default;
};

template <class... P> struct call_of final : kernel_call {
    void (*kernel)(P...);
    std::tuple<std::decay_t<P>...> args;

    template <class... A> call_of(void (*kernel)(P...), A &&...args) : kernel(kernel), args(std::forward<A>(args)...) {}
    void run() const override { std::apply(kernel, args); }
};

/* Runs a grid on the calling thread. */
void run_grid(dim3 grid, dim3 block, const kernel_call &thread);

/* Puts a grid on a stream, and owns `thread`; a shape that no GPU takes is the error that cudaGetLastError gives. */
void launch_grid(dim3 grid, dim3 block, cudaStream_t stream, std::size_t args_size, const kernel_call *thread);

template <class... P, class... A>
void launch_sharing(std::size_t shared, void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A &&...args)
{
    auto *const call = new call_of<P...>(kernel, std::forward<A>(args)...);
    call->shared = shared;
    call->function = reinterpret_cast<const void *>(kernel);
    launch_grid(grid, block, stream, sizeof call->args, call);
}

template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A &&...args)
{
    launch_sharing(0, kernel, grid, block, stream, std::forward<A>(args)...);
}

template <class T> T shuffle(unsigned mask, T value, unsigned from, line at)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    word = exchange(mask, word, from, at);
    std::memcpy(&value, &word, sizeof value);
    return value;
}

/* What a barrier of a warp is called with. */
inline unsigned lanes_of(unsigned mask = 0xffffffffu)
{
    return mask;
}

inline unsigned lane_below(unsigned by)
{
    return here->lane + by < 32 ? here->lane + by : here->lane;
}

inline unsigned lane_above(unsigned by)
{
    return here->lane >= by ? here->lane - by : here->lane;
}

template <class T> T fetch_add(T *at, T value)
{
    T before, after;
    __atomic_load(at, &before, __ATOMIC_RELAXED);
    do
        after = before + value;
    while (!__atomic_compare_exchange(at, &before, &after, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    return before;
}

template <class T> T compare_and_swap(T *at, T expected, T value)
{
    __atomic_compare_exchange(at, &expected, &value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
}

}

#define threadIdx (standin::here->thread)
#define blockIdx (standin::here->block)
#define blockDim (standin::here->block_dim)
#define gridDim (standin::here->grid_dim)
enum { warpSize = 32 };

#define STANDIN_LINE (standin::line{__FILE__, __LINE__})
#define __syncthreads() standin::barrier(STANDIN_LINE)
#define __syncwarp(...) static_cast<void>(standin::ballot(standin::lanes_of(__VA_ARGS__), 0, STANDIN_LINE))
#define __ballot_sync(mask, value) standin::ballot(mask, (value) != 0, STANDIN_LINE)
#define __any_sync(mask, value) (standin::ballot(mask, (value) != 0, STANDIN_LINE) != 0)
#define __all_sync(mask, value) (standin::ballot(mask, (value) == 0, STANDIN_LINE) == 0)
#define __shfl_sync(mask, value, from) standin::shuffle(mask, value, static_cast<unsigned>(from) & 31, STANDIN_LINE)
#define __shfl_xor_sync(mask, value, by) standin::shuffle(mask, value, standin::here->lane ^ static_cast<unsigned>(by), STANDIN_LINE)
#define __shfl_down_sync(mask, value, by) standin::shuffle(mask, value, standin::lane_below(static_cast<unsigned>(by)), STANDIN_LINE)
#define __shfl_up_sync(mask, value, by) standin::shuffle(mask, value, standin::lane_above(static_cast<unsigned>(by)), STANDIN_LINE)

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
template <class T> inline T __ldg(const T *at) { return *at; }
/* Of all orders of memory that a fence gives; the thread sanitizer knows those of a number, not those of a fence. */
inline void __threadfence()
{
    static int order;
    __atomic_fetch_add(&order, 0, __ATOMIC_SEQ_CST);
}

inline int atomicAdd(int *at, int v) { return standin::fetch_add(at, v); }
inline unsigned atomicAdd(unsigned *at, unsigned v) { return standin::fetch_add(at, v); }
inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long v) { return standin::fetch_add(at, v); }
inline float atomicAdd(float *at, float v) { return standin::fetch_add(at, v); }
inline double atomicAdd(double *at, double v) { return standin::fetch_add(at, v); }
inline unsigned atomicExch(unsigned *at, unsigned v) { return __atomic_exchange_n(at, v, __ATOMIC_ACQ_REL); }
inline int atomicCAS(int *at, int expected, int v) { return standin::compare_and_swap(at, expected, v); }
inline unsigned atomicCAS(unsigned *at, unsigned expected, unsigned v)
{
    return standin::compare_and_swap(at, expected, v);
}
inline unsigned long long atomicCAS(unsigned long long *at, unsigned long long expected, unsigned long long v)
{
    return standin::compare_and_swap(at, expected, v);
}

#endif
