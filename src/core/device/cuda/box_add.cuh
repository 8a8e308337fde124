/* dst += src for boxes of one shape. Along dims in which dst has stride 0 one thread adds all elements up, in order,
 * so that no number is added to by two threads. */
#ifndef STNI_CORE_DEVICE_CUDA_BOX_ADD_CUH
#define STNI_CORE_DEVICE_CUDA_BOX_ADD_CUH

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/joins.cuh"

namespace {

/* The dims along which dst goes on, and those along which elements of src are added to one. */
enum { ADD_DST, ADD_SRC, ADD_SIDES };
enum { ADD_THREADS = 256 };

struct addition {
    operands<ADD_SIDES> elements;
    operands<1> repeated;
};

/* As the CPU's kernels do, 16-bit floats are added up in f32 and rounded once. */
template <class S, class I> __global__ void __launch_bounds__(ADD_THREADS)
add_box(const __grid_constant__ addition a, S *__restrict__ dst, const S *__restrict__ src)
{
    const int64_t i = (int64_t)blockIdx.x * ADD_THREADS + threadIdx.x;
    int64_t at[ADD_SIDES], from[1];
    if (i >= a.elements.count)
        return;
    offsets_of(a.elements, (I)i, at);
    typename computed<S>::type sum = load(dst[at[ADD_DST]]);
    for (int64_t r = 0; r < a.repeated.count; r++) {
        offsets_of(a.repeated, (I)r, from);
        sum = sum_of(sum, load(src[at[ADD_SRC] + from[0]]));
    }
    store(dst[at[ADD_DST]], sum);
}

/* A bool, 0 or 1, whose sum is "or". */
struct bit_of_bool {
    uint8_t bits;
};

STNI_DEVICE bit_of_bool sum_of(bit_of_bool a, bit_of_bool b)
{
    return {(uint8_t)(a.bits | b.bits)};
}

inline addition addition_of(const stn_box &dst, const stn_box &src)
{
    int order[STN_MAX_BOX_NDIM];
    addition a = {no_dims<ADD_SIDES>(), no_dims<1>()};
    order_by_strides(dst, order);
    for (int i = 0; i < dst.ndim; i++) {
        const int d = order[i];
        if (dst.strides[d] != 0)
            add_dim(a.elements, dst.shape[d], {dst.strides[d], src.strides[d]});
    }
    /* These keep their order, in which elements are added. */
    for (int d = 0; d < dst.ndim; d++)
        if (dst.strides[d] == 0)
            add_dim(a.repeated, dst.shape[d], {src.strides[d]});
    end_dims(a.elements);
    end_dims(a.repeated);
    return a;
}

template <class S> void launch_box_add_of(const stn_box &dst, const stn_box &src, cudaStream_t stream)
{
    const addition a = addition_of(dst, src);
    const unsigned blocks = blocks_for(a.elements.count, ADD_THREADS);
    if (a.elements.count == 0)
        return;
    if (is_small(a.elements) && is_small(a.repeated))
        STNI_LAUNCH((add_box<S, uint32_t>), blocks, ADD_THREADS, stream, a, static_cast<S *>(dst.data),
                    static_cast<const S *>(src.data));
    else
        STNI_LAUNCH((add_box<S, int64_t>), blocks, ADD_THREADS, stream, a, static_cast<S *>(dst.data),
                    static_cast<const S *>(src.data));
}

inline void launch_box_add(const stn_box &dst, const stn_box &src, stn_dtype dtype, cudaStream_t stream)
{
    if (dtype == STN_DTYPE_BOOL)
        launch_box_add_of<bit_of_bool>(dst, src, stream);
    else
        dispatch_all(dtype, [&](auto element) { launch_box_add_of<decltype(element)>(dst, src, stream); });
}

}

#endif
