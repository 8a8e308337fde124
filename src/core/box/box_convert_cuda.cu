/* Copies of boxes between f32, bf16 and f16: a thread converts several fours of elements, which it reads before it
 * writes one. A four is 16 bytes of f32 and 8 of the others, so that a warp reads and writes without gaps on both
 * sides; with packs of 16 bytes of both it would read or write every other 16 bytes. */
#include "core/box/box_convert_cuda.h"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/pack_dims.cuh"
#include "core/device/cuda/packs.cuh"

namespace {

enum { THREADS = 256, FOURS = 4 /* of a thread */, FOUR = 4 };
enum { DST, SRC, SIDES };

template <class S> struct alignas(FOUR * sizeof(S)) four {
    S v[FOUR];
};

template <class To, class From> struct conversion {
    operands<SIDES> fours;
    To *dst;
    const From *src;
    int64_t left_at; /* of a run: the elements after its last four */
    int left;
};

template <class S> STNI_DEVICE four<float> widened(const four<S> &from)
{
    four<float> to;
    STNI_UNROLL
    for (int k = 0; k < FOUR; k += 2) {
        uint32_t word;
        memcpy(&word, &from.v[k], sizeof word);
        load_two(S{}, word, to.v[k], to.v[k + 1]);
    }
    return to;
}

STNI_DEVICE four<float> widened(const four<float> &from)
{
    return from;
}

template <class S> STNI_DEVICE four<S> rounded(S, const four<float> &from)
{
    four<S> to;
    STNI_UNROLL
    for (int k = 0; k < FOUR; k += 2) {
        const uint32_t word = store_two(S{}, from.v[k], from.v[k + 1]);
        memcpy(&to.v[k], &word, sizeof word);
    }
    return to;
}

STNI_DEVICE four<float> rounded(float, const four<float> &from)
{
    return from;
}

template <class To, class From>
__global__ void __launch_bounds__(THREADS) convert_fours(const __grid_constant__ conversion<To, From> c)
{
    const int64_t first = (int64_t)blockIdx.x * (THREADS * FOURS) + threadIdx.x;
    int64_t at[FOURS][SIDES];
    four<From> read[FOURS];
    STNI_UNROLL
    for (int u = 0; u < FOURS; u++)
        if (first + u * THREADS < c.fours.count) {
            offsets_of(c.fours, (uint32_t)(first + u * THREADS), at[u]);
            read[u] = *reinterpret_cast<const four<From> *>(c.src + at[u][SRC]);
        }
    STNI_UNROLL
    for (int u = 0; u < FOURS; u++)
        if (first + u * THREADS < c.fours.count)
            *reinterpret_cast<four<To> *>(c.dst + at[u][DST]) = rounded(To{}, widened(read[u]));
    if (first < c.left)
        store(c.dst[c.left_at + first], load(c.src[c.left_at + first]));
}

/* In elements, the result's neighbours last. */
operands<SIDES> elements_of(const stn_box &dst, const stn_box &src)
{
    operands<SIDES> all = no_dims<SIDES>();
    int order[STN_MAX_BOX_NDIM];
    order_by_strides(dst, order);
    for (int i = 0; i < dst.ndim; i++)
        add_dim(all, dst.shape[order[i]], {dst.strides[order[i]], src.strides[order[i]]});
    return all;
}

template <class To, class From> bool find_fours(conversion<To, From> &c)
{
    operands<SIDES> &all = c.fours;
    if (all.ndim < 1 || (uintptr_t)c.dst % sizeof(four<To>) != 0 || (uintptr_t)c.src % sizeof(four<From>) != 0)
        return false;
    if (all.ndim == 1) {
        c.left = (int)(all.count % FOUR);
        all.count = all.shape[0] -= c.left;
        c.left_at = all.count;
    }
    if (!divide_in_packs(all, 1 << DST | 1 << SRC, FOUR))
        return false;
    end_dims(all);
    return is_small(all);
}

template <class To, class From> bool launch_of(const stn_box &dst, const stn_box &src, cudaStream_t stream)
{
    conversion<To, From> c = {};
    c.fours = elements_of(dst, src);
    c.dst = static_cast<To *>(dst.data);
    c.src = static_cast<const From *>(src.data);
    if (!find_fours(c))
        return false;
    STNI_LAUNCH((convert_fours<To, From>), blocks_for(c.fours.count, THREADS * FOURS), THREADS, stream, c);
    return true;
}

template <class To> bool launch_to(const stn_box &dst, const stn_box &src, stn_dtype from, cudaStream_t stream)
{
    bool served = false;
    dispatch<float, bf16, f16>(from, [&](auto element) {
        typedef decltype(element) From;
        if constexpr (!is_same<To, From>)
            served = launch_of<To, From>(dst, src, stream);
    });
    return served;
}

}

bool stni_box_convert_launch(const stn_box &dst, stn_dtype to, const stn_box &src, stn_dtype from, cudaStream_t stream)
{
    bool served = false;
    dispatch<float, bf16, f16>(
        to, [&](auto element) { served = launch_to<decltype(element)>(dst, src, from, stream); });
    return served;
}
