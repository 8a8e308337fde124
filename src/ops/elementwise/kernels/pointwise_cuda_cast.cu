/* Casts of dense tensors between f32, bf16 and f16: a thread reads and writes 16 bytes at a time, as kernels of one
 * dtype do. Bits are those of casts of other layouts. */
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/packs.cuh"
#include "ops/elementwise/kernels/pointwise_cuda.h"

namespace {

enum { THREADS = 256, RUN = 8 /* elements that a thread converts together */, RUNS = 2 /* of a thread */ };
constexpr int64_t CAST_AT_ONCE = 1 << 30; /* elements of a launch, so that 32-bit indices serve */

template <class S> struct run_of {
    enum { PACKS = RUN / pack<S>::SIZE };
    pack<S> packs[PACKS];
};

template <class S> STNI_DEVICE void load_run(const run_of<S> &from, float (&to)[RUN])
{
    STNI_UNROLL
    for (int p = 0; p < run_of<S>::PACKS; p++) {
        float part[pack<S>::SIZE];
        load_pack(from.packs[p], part);
        STNI_UNROLL
        for (int k = 0; k < pack<S>::SIZE; k++)
            to[p * pack<S>::SIZE + k] = part[k];
    }
}

template <class S> STNI_DEVICE void store_run(run_of<S> &to, const float (&from)[RUN])
{
    STNI_UNROLL
    for (int p = 0; p < run_of<S>::PACKS; p++) {
        float part[pack<S>::SIZE];
        STNI_UNROLL
        for (int k = 0; k < pack<S>::SIZE; k++)
            part[k] = from[p * pack<S>::SIZE + k];
        store_pack(to.packs[p], part);
    }
}

/* What is left over is an element each for the first threads. */
template <class FROM, class TO>
__global__ void __launch_bounds__(THREADS) cast_runs(const FROM *from, TO *to, uint32_t n)
{
    const uint32_t runs = n / RUN, first = blockIdx.x * (THREADS * RUNS) + threadIdx.x;
    run_of<FROM> in[RUNS];
    STNI_UNROLL
    for (uint32_t u = 0; u < RUNS; u++)
        if (first + u * THREADS < runs)
            in[u] = reinterpret_cast<const run_of<FROM> *>(from)[first + u * THREADS];
    STNI_UNROLL
    for (uint32_t u = 0; u < RUNS; u++)
        if (first + u * THREADS < runs) {
            float value[RUN];
            run_of<TO> out;
            load_run(in[u], value);
            store_run(out, value);
            reinterpret_cast<run_of<TO> *>(to)[first + u * THREADS] = out;
        }
    const uint32_t left = runs * RUN + first;
    if (left < n && first < RUN)
        store(to[left], load(from[left]));
}

template <class FROM, class TO> void launch_cast(const struct stni_pointwise_args &args, cudaStream_t stream)
{
    const FROM *from = static_cast<const FROM *>(args.in[0].data);
    TO *to = static_cast<TO *>(args.out.data);
    const int64_t n = args.ndim ? args.shape[0] : 1;
    for (int64_t done = 0; done < n; done += CAST_AT_ONCE) {
        const uint32_t count = (uint32_t)(n - done < CAST_AT_ONCE ? n - done : CAST_AT_ONCE);
        STNI_LAUNCH((cast_runs<FROM, TO>), blocks_for(count, THREADS * RUN * RUNS), THREADS, stream, from + done,
                    to + done, count);
    }
}

template <class TO> bool launch_cast_to(const struct stni_pointwise_args &args, cudaStream_t stream)
{
    switch ((int)args.in[0].dtype) {
    case STN_DTYPE_F32: launch_cast<float, TO>(args, stream); return true;
    case STN_DTYPE_BF16: launch_cast<bf16, TO>(args, stream); return true;
    case STN_DTYPE_F16: launch_cast<f16, TO>(args, stream); return true;
    }
    return false;
}

bool is_run(const struct stni_pointwise_args &args, const struct stni_pointwise_operand &operand)
{
    return operand.data && (args.ndim == 0 || operand.strides[0] == 1) && is_pack_aligned((uintptr_t)operand.data);
}

}

bool stni_pointwise_launch_cast(const struct stni_pointwise_args &args, cudaStream_t stream)
{
    if (args.op != STNI_POINTWISE_cast || args.ndim > 1 || args.compute != STN_DTYPE_F32 || !is_run(args, args.out) ||
        !is_run(args, args.in[0]))
        return false;
    switch ((int)args.out.dtype) {
    case STN_DTYPE_F32: return launch_cast_to<float>(args, stream);
    case STN_DTYPE_BF16: return launch_cast_to<bf16>(args, stream);
    case STN_DTYPE_F16: return launch_cast_to<f16>(args, stream);
    }
    return false;
}
