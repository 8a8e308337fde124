/* Copies from the device's memory into shared memory that go on while their thread computes. A thread that has waited
 * for its copies sees what they brought; others see it behind the next barrier. For compute capability 8.0 and later.
 *
 *   copy_late<BYTES>(to, offset, from, is_there)   4 or 16 bytes at a multiple of that, `offset` bytes behind `to`;
 *                                                  zeros unless `is_there`
 *   wait_for_copies()                              for all that the thread has begun
 *
 * Source: PTX ISA, "cp.async". */
#ifndef STNI_CORE_DEVICE_CUDA_LATE_COPIES_CUH
#define STNI_CORE_DEVICE_CUDA_LATE_COPIES_CUH

#include "core/device/cuda/shared_address.cuh"

#ifdef __CUDACC__

namespace {

/* Packs of 16 bytes pass by the first cache, which no other block of theirs would find them in. */
template <int BYTES> STNI_DEVICE void copy_late(shared_address to, int offset, const void *from, bool is_there)
{
    static_assert(BYTES == 4 || BYTES == 16, "a copy has 4 or 16 bytes");
    const shared_address at = to + (uint32_t)offset;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     ::"r"(at), "l"(__cvta_generic_to_global(from)), "r"(is_there ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                     ::"r"(at), "l"(__cvta_generic_to_global(from)), "r"(is_there ? 4 : 0)
                     : "memory");
}

STNI_DEVICE void wait_for_copies()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

}

#else

namespace {

template <int BYTES> STNI_DEVICE void copy_late(shared_address to, int offset, const void *from, bool is_there)
{
    standin::copy_late(to + offset, is_there ? from : nullptr, BYTES, STANDIN_LINE);
}

STNI_DEVICE void wait_for_copies()
{
    standin::wait_for_copies();
}

}

#endif

#endif
