/* Reductions over the threads of a warp and of a block, in an order that is the same in every run: values are joined
 * pairwise, lower lanes left, then warps left to right. */
#ifndef STNI_CORE_DEVICE_CUDA_BLOCK_CUH
#define STNI_CORE_DEVICE_CUDA_BLOCK_CUH

#include "core/device/cuda/grid.h"

namespace {

enum { WARP = 32 };
static const unsigned WHOLE_WARP = 0xffffffffu;

/* A value of any size that is a multiple of 4 bytes, of another lane; `shuffle` is a function object
 * uint32_t(uint32_t) that fetches one word. */
template <class T, class F> STNI_DEVICE T shuffled(T value, F shuffle)
{
    enum { WORDS = sizeof(T) / 4 };
    static_assert(sizeof(T) % 4 == 0, "values are shuffled in words of 4 bytes");
    uint32_t words[WORDS];
    memcpy(words, &value, sizeof value);
    for (int i = 0; i < WORDS; i++)
        words[i] = shuffle(words[i]);
    memcpy(&value, words, sizeof value);
    return value;
}

template <class T> STNI_DEVICE T value_below(T value, unsigned by)
{
    return shuffled(value, [by](uint32_t word) { return __shfl_down_sync(WHOLE_WARP, word, by); });
}

template <class T> STNI_DEVICE T value_of_lane(T value, int lane)
{
    return shuffled(value, [lane](uint32_t word) { return __shfl_sync(WHOLE_WARP, word, lane); });
}

/* Of the lane whose number differs in the bits of `by`. */
template <class T> STNI_DEVICE T value_across(T value, int by)
{
    return shuffled(value, [by](uint32_t word) { return __shfl_xor_sync(WHOLE_WARP, word, by); });
}

/* Lane 0 gets join of all 32 values; `join` is a function object T(T, T). All lanes call it. */
template <class T, class J> STNI_DEVICE T reduce_warp(T value, J join)
{
    for (unsigned by = WARP / 2; by > 0; by /= 2)
        value = join(value, value_below(value, by));
    return value;
}

/* As reduce_warp, and every lane gets it; `join` is symmetric. */
template <class T, class J> STNI_DEVICE T reduce_warp_to_all(T value, J join)
{
    STNI_UNROLL
    for (int by = WARP / 2; by > 0; by /= 2)
        value = join(value, value_across(value, by));
    return value;
}

/* Thread 0 of a one-dimensional block of THREADS gets join of all values. All threads call it, in every round of a
 * loop: it ends with a barrier. */
template <int THREADS, class T, class J> STNI_DEVICE T reduce_block(T value, J join)
{
    static_assert(THREADS % WARP == 0, "whole warps");
    STNI_SHARED(T, of_warp, THREADS / WARP);
    value = reduce_warp(value, join);
    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < THREADS / WARP; w++)
            value = join(value, of_warp[w]);
    __syncthreads();
    return value;
}

/* As reduce_block, and every thread gets it. */
template <int THREADS, class T, class J> STNI_DEVICE T reduce_block_to_all(T value, J join)
{
    STNI_SHARED(T, result, 1);
    value = reduce_block<THREADS>(value, join);
    if (threadIdx.x == 0)
        result[0] = value;
    __syncthreads();
    value = result[0];
    __syncthreads();
    return value;
}

}

#endif
