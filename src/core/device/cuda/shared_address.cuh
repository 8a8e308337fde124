/* Addresses in a block's shared memory as instructions want them, 32 bits of which additions cost one instruction: a
 * pointer would be converted at each use. Bytes may be added to one. */
#ifndef STNI_CORE_DEVICE_CUDA_SHARED_ADDRESS_CUH
#define STNI_CORE_DEVICE_CUDA_SHARED_ADDRESS_CUH

#include "core/device/cuda/grid.h"

#ifdef __CUDACC__

typedef uint32_t shared_address;

STNI_DEVICE shared_address address_in_shared(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

#else

typedef char *shared_address;

STNI_DEVICE shared_address address_in_shared(const void *at)
{
    return static_cast<char *>(const_cast<void *>(at));
}

#endif

#endif
