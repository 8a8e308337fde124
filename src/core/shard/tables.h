/* What the interning tables of splits and specs share. */
#ifndef STNI_CORE_SHARD_TABLES_H
#define STNI_CORE_SHARD_TABLES_H

#include "core/base/hash.h"

#include <stdint.h>

/* One step of a multiplicative hash over 8-byte words; 2^64 / golden ratio spreads neighbouring values (Knuth, TAOCP
 * 3, section 6.4). */
static inline uint64_t stni_hash_step(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static inline unsigned stni_hash_end(uint64_t hash)
{
    return (unsigned)(hash ^ hash >> 32);
}

#endif
