/* FNV-1a of 64 bits (Fowler, Noll and Vo): of texts and of a few words. */
#ifndef STNI_CORE_BASE_FNV_H
#define STNI_CORE_BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

#define STNI_FNV_EMPTY UINT64_C(14695981039346656037)

/* The hash of what `hash` is of, and of these bytes behind it; of nothing it is STNI_FNV_EMPTY. */
static inline uint64_t stni_fnv(uint64_t hash, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(1099511628211);
    return hash;
}

#endif
