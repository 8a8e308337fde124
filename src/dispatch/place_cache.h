/* What check and place found for a call, by op, attributes and input specs. Bounded: between ops the oldest go when
 * it is full. */
#ifndef STNI_DISPATCH_PLACE_CACHE_H
#define STNI_DISPATCH_PLACE_CACHE_H

#include <shardtensor/op.h>

#include "core/context/context.h"

#include "core/base/hash.h"

enum { STNI_PLACE_CACHE_MAX = 4096, STNI_PLACE_CACHE_RECENT = 256 };

/* What a call has to do beside running the op: most have to do nothing, and see that at once. */
enum stni_placed_steps {
    STNI_STEP_MOVE = 1,      /* an input is not where it is wanted */
    STNI_STEP_MAKE = 2,      /* outputs are made before the op runs, which else makes them itself or changes an input */
    STNI_STEP_IN_PLACE = 4,
    STNI_STEP_ALIAS = 8,     /* run makes the outputs */
    STNI_STEP_FALLBACK = 16, /* place had no rule */
    STNI_STEP_PER_RANK = 32, /* is recorded whatever requires grad here */
    STNI_STEP_ONE = 64,      /* beside MAKE: there is one output, which the caller gets, as of most ops */
    STNI_STEP_REPORTS = 128  /* every rank of the world runs it, and the kernels of one may report a value error */
};

/* Specs are retained: in_spec so that a pointer in a key cannot come to mean another spec. */
struct stni_placed {
    stn_op_call call; /* as run gets it, but for `in`, `out` and attributes that the caller gives */
    unsigned steps;
    uint32_t moves; /* bit i: want[i] is not in_spec[i] */
    UT_hash_handle hh;
    uint64_t key[];
};

struct stni_place_cache {
    struct stni_placed *entries;
    int full; /* there are more than STNI_PLACE_CACHE_MAX */
    /* What was found last for an op with this first input: a program makes few calls that meet here, and a few
     * comparisons cost a tenth of a look-up. */
    struct stni_placed *recent[STNI_PLACE_CACHE_RECENT];
};

stn_status stni_place_cache_create(stn_context *context);
void stni_place_cache_destroy(stn_context *context);

/* Drops the oldest entries where there are too many. Between ops only: an op under way reads its entry. */
void stni_place_cache_trim(struct stni_place_cache *cache);

/* Drops all: what place asks of the context beside specs and attributes is about to change. Between ops only. */
void stni_place_cache_clear(struct stni_place_cache *cache);

/* The first word of a key. The op's lowest bit, which is none of the pointer's, tells keys with and without
 * attributes apart. */
static inline uint64_t stni_place_cache_first_word(const stn_op *op, size_t attrs_size)
{
    return (uintptr_t)op | (attrs_size == 0);
}

/* Where what was found last for an op and the spec of its first input (NULL: it has none) is kept. Specs are larger
 * than the 64 bytes that the shift takes for one. */
static inline struct stni_placed **stni_place_cache_recent(struct stni_place_cache *cache, unsigned op_index,
                                                           const stn_spec *first)
{
    return &cache->recent[(op_index + ((uintptr_t)first >> 6)) % STNI_PLACE_CACHE_RECENT];
}

/* Finds the entry of a call; NULL if there is none. It stays at least until the op that called this has ended.
 * `attrs_size` 0: the call's attributes are the op's defaults. */
const struct stni_placed *stni_place_cache_find(const stn_op_call *call, size_t attrs_size);

/* Keeps what `call` holds now. STN_ERR_MEMORY leaves the cache as it was. */
stn_status stni_place_cache_add(const stn_op_call *call, size_t attrs_size, int no_rule,
                                const struct stni_placed **out);

#endif
