/* What check and place found for a call, by op, attributes and input specs. Bounded: between ops the oldest go when it is full. */
#ifndef STNI_DISPATCH_PLACE_CACHE_H
#define STNI_DISPATCH_PLACE_CACHE_H

#include <shardtensor/op.h>

#include "core/context/context.h"

#include "core/base/hash.h"

enum { STNI_PLACE_CACHE_MAX = 4096, STNI_PLACE_CACHE_RECENT = 64 };

/* Specs are retained: in_spec so that a pointer in a key cannot come to mean another spec. */
struct stni_placed {
    int n_in, n_out;
    int no_rule; /* place had none: the fallback serves */
    uint32_t moves; /* bit i: want[i] is not in_spec[i] */
    uint64_t note; /* what place left for run */
    const stn_spec **in_spec, **want, **out_spec;
    UT_hash_handle hh;
    uint64_t key[];
};

struct stni_place_cache {
    struct stni_placed *entries;
    /* What was found last for an op, by its index: most calls are like the one before, and a few comparisons cost half of a look-up. */
    struct stni_placed *recent[STNI_PLACE_CACHE_RECENT];
};

stn_status stni_place_cache_create(stn_context *context);
void stni_place_cache_destroy(stn_context *context);

static inline int stni_place_cache_is_full(const struct stni_place_cache *cache)
{
    return HASH_COUNT(cache->entries) > STNI_PLACE_CACHE_MAX;
}

/* Drops the oldest entries. Between ops only: an op under way reads its entry. */
void stni_place_cache_trim(struct stni_place_cache *cache);

/* Finds the entry of a call; NULL if there is none. It stays at least until the op that called this has ended. `attrs_size` 0: the call's attributes
 * are the op's defaults. */
const struct stni_placed *stni_place_cache_find(const stn_op_call *call, size_t attrs_size);

/* Keeps what `call` holds now. STN_ERR_MEMORY leaves the cache as it was. */
stn_status stni_place_cache_add(const stn_op_call *call, size_t attrs_size, int no_rule, const struct stni_placed **out);

#endif
