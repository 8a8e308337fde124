/* Filling and adding boxes on a CUDA device (remap_kernel.h). */
#include "core/device/cuda/box_add.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/exchange/remap_kernel.h"

namespace {

enum { THREADS = 256, PER_THREAD = 4 };

template <class W, class I>
__global__ void __launch_bounds__(THREADS) fill_box(const __grid_constant__ operands<1> box, W *dst, W value)
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
    dispatch_unit(a.element_size, [&](auto unit) { launch_fill_of<decltype(unit)>(a, stream); });
}

void launch_add(const stni_remap_add_args &a, cudaStream_t stream)
{
    launch_box_add(a.dst, a.src, a.dtype, stream);
}

}

#define REMAP(op)                                                                   \
    STNI_CUDA_KERNEL(op ".fill", ALL_DTYPES, stni_remap_fill_args, launch_fill),     \
    STNI_CUDA_KERNEL(op ".add", ALL_DTYPES, stni_remap_add_args, launch_add)

#define KEPT_STREAM(op) STNI_CUDA_KERNEL(op ".stream", dtype_bit(STN_DTYPE_I64), stni_remap_fill_args, launch_fill)

STNI_CUDA_KERNELS(remap) = {
    REMAP("cat"),
    REMAP("flip"),
    REMAP("pad"),
    REMAP("pad_backward"),
    REMAP("pad_sphere"),
    REMAP("pad_sphere_backward"),
    REMAP("roll"),
    REMAP("slice_backward"),
    STNI_CUDA_KERNEL("diagonal_backward.fill", ALL_DTYPES, stni_remap_fill_args, launch_fill),
    STNI_CUDA_KERNEL("index_write.fill", ALL_DTYPES, stni_remap_fill_args, launch_fill),
    STNI_CUDA_KERNEL("one_hot_of.fill", dtype_bit(STN_DTYPE_I64), stni_remap_fill_args, launch_fill),
    KEPT_STREAM("dropout"),
    KEPT_STREAM("dropout_backward"),
    KEPT_STREAM("dropout_channels"),
    KEPT_STREAM("scaled_dot_product_attention"),
    STNI_CUDA_KERNELS_END};
