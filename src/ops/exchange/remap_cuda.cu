/* Filling and adding boxes on a CUDA device (remap_kernel.h). */
#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/joins.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/exchange/remap_kernel.h"

namespace {

enum { THREADS = 256, PER_THREAD = 4 };

struct alignas(16) unit16 {
    uint64_t low, high;
};

template <class W, class I> __global__ void __launch_bounds__(THREADS) fill_box(const __grid_constant__ operands<1> box, W *dst, W value)
{
    const int64_t first = (int64_t)blockIdx.x * THREADS * PER_THREAD + threadIdx.x;
    for (int k = 0; k < PER_THREAD; k++) {
        const int64_t i = first + k * THREADS;
        int64_t at[1];
        if (i >= box.count)
            return;
        offsets_of(box, (I)i, at);
        dst[at[0]] = value;
    }
}

template <class W> void launch_fill_of(const stni_remap_fill_args &a, cudaStream_t stream)
{
    int order[STN_MAX_BOX_NDIM];
    W value;
    memcpy(&value, a.value, sizeof value);
    order_by_strides(a.box, order);
    operands<1> box = no_dims<1>();
    for (int i = 0; i < a.box.ndim; i++)
        add_dim(box, a.box.shape[order[i]], {a.box.strides[order[i]]});
    end_dims(box);
    const unsigned blocks = blocks_for(box.count, THREADS * PER_THREAD);
    if (box.count == 0)
        return;
    if (is_small(box))
        STNI_LAUNCH((fill_box<W, uint32_t>), blocks, THREADS, stream, box, static_cast<W *>(a.box.data), value);
    else
        STNI_LAUNCH((fill_box<W, int64_t>), blocks, THREADS, stream, box, static_cast<W *>(a.box.data), value);
}

void launch_fill(const stni_remap_fill_args &a, cudaStream_t stream)
{
    switch (a.element_size) {
    case 1: return launch_fill_of<uint8_t>(a, stream);
    case 2: return launch_fill_of<uint16_t>(a, stream);
    case 4: return launch_fill_of<uint32_t>(a, stream);
    case 8: return launch_fill_of<uint64_t>(a, stream);
    default: return launch_fill_of<unit16>(a, stream);
    }
}

/* The dims along which dst goes on, and those along which elements of src are added to one. */
enum { DST, SRC, SIDES };
struct addition {
    operands<SIDES> elements;
    operands<1> repeated;
};

/* As the CPU's kernels do, a sum of 16-bit floats is rounded at every element that is added. */
template <class S, class I> __global__ void __launch_bounds__(THREADS)
add_box(const __grid_constant__ addition a, S *__restrict__ dst, const S *__restrict__ src)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[SIDES], from[1];
    if (i >= a.elements.count)
        return;
    offsets_of(a.elements, (I)i, at);
    S sum = dst[at[DST]];
    for (int64_t r = 0; r < a.repeated.count; r++) {
        offsets_of(a.repeated, (I)r, from);
        store(sum, sum_of(load(sum), load(src[at[SRC] + from[0]])));
    }
    dst[at[DST]] = sum;
}

/* A bool, 0 or 1, whose sum is "or". */
struct bit_of_bool {
    uint8_t bits;
};

STNI_DEVICE bit_of_bool sum_of(bit_of_bool a, bit_of_bool b)
{
    return {(uint8_t)(a.bits | b.bits)};
}

addition addition_of(const stni_remap_add_args &args)
{
    int order[STN_MAX_BOX_NDIM];
    addition a = {no_dims<SIDES>(), no_dims<1>()};
    order_by_strides(args.dst, order);
    for (int i = 0; i < args.dst.ndim; i++) {
        const int d = order[i];
        if (args.dst.strides[d] != 0)
            add_dim(a.elements, args.dst.shape[d], {args.dst.strides[d], args.src.strides[d]});
    }
    /* These keep their order, in which elements are added. */
    for (int d = 0; d < args.dst.ndim; d++)
        if (args.dst.strides[d] == 0)
            add_dim(a.repeated, args.dst.shape[d], {args.src.strides[d]});
    end_dims(a.elements);
    end_dims(a.repeated);
    return a;
}

template <class S> void launch_add_of(const stni_remap_add_args &args, cudaStream_t stream)
{
    const addition a = addition_of(args);
    const unsigned blocks = blocks_for(a.elements.count, THREADS);
    if (a.elements.count == 0)
        return;
    if (is_small(a.elements) && is_small(a.repeated))
        STNI_LAUNCH((add_box<S, uint32_t>), blocks, THREADS, stream, a, static_cast<S *>(args.dst.data), static_cast<const S *>(args.src.data));
    else
        STNI_LAUNCH((add_box<S, int64_t>), blocks, THREADS, stream, a, static_cast<S *>(args.dst.data), static_cast<const S *>(args.src.data));
}

void launch_add(const stni_remap_add_args &a, cudaStream_t stream)
{
    switch (a.dtype) {
    case STN_DTYPE_F32: return launch_add_of<float>(a, stream);
    case STN_DTYPE_F64: return launch_add_of<double>(a, stream);
    case STN_DTYPE_BF16: return launch_add_of<bf16>(a, stream);
    case STN_DTYPE_F16: return launch_add_of<f16>(a, stream);
    case STN_DTYPE_I64: return launch_add_of<int64_t>(a, stream);
    case STN_DTYPE_I32: return launch_add_of<int32_t>(a, stream);
    case STN_DTYPE_U8: return launch_add_of<uint8_t>(a, stream);
    case STN_DTYPE_BOOL: return launch_add_of<bit_of_bool>(a, stream);
    case STN_DTYPE_C64: return launch_add_of<stni_complex<float>>(a, stream);
    case STN_DTYPE_C128: return launch_add_of<stni_complex<double>>(a, stream);
    case STN_DTYPE_COUNT: return;
    }
}

}

#define REMAP(op)                                                                   \
    STNI_CUDA_KERNEL(op ".fill", ALL_DTYPES, stni_remap_fill_args, launch_fill),     \
    STNI_CUDA_KERNEL(op ".add", ALL_DTYPES, stni_remap_add_args, launch_add)

STNI_CUDA_KERNELS(remap) = {
    REMAP("cat"), REMAP("flip"), REMAP("pad"), REMAP("pad_backward"), REMAP("roll"), REMAP("slice_backward"),
    STNI_CUDA_KERNEL("diagonal_backward.fill", ALL_DTYPES, stni_remap_fill_args, launch_fill),
    STNI_CUDA_KERNEL("one_hot.fill", dtype_bit(STN_DTYPE_I64), stni_remap_fill_args, launch_fill),
    STNI_CUDA_KERNELS_END
};
