/* What check and place found for a call, by op, attributes and input specs. Bounded: the oldest quarter goes when it is full. */
#ifndef STNI_DISPATCH_PLACE_CACHE_H
#define STNI_DISPATCH_PLACE_CACHE_H

#include <shardtensor/op.h>

#include "core/context.h"

#include "core/hash.h"

enum { STNI_PLACE_CACHE_MAX = 4096 };

/* Specs are retained: in_spec so that a pointer in a key cannot come to mean another spec. */
struct stni_placed {
    int n_in, n_out;
    int no_rule; /* place had none: the fallback serves */
    uint64_t note; /* what place left for run */
    const stn_spec **in_spec, **want, **out_spec;
    UT_hash_handle hh;
    size_t key_size;
    uint64_t key[];
};

stn_status stni_place_cache_create(stn_context *context);
void stni_place_cache_destroy(stn_context *context);
void stni_place_cache_clear(stn_context *context);

/* Finds the entry of a call; NULL if there is none. */
const struct stni_placed *stni_place_cache_find(const stn_op_call *call, size_t attrs_size);

/* Keeps what `call` holds now. STN_ERR_MEMORY leaves the cache as it was. */
stn_status stni_place_cache_add(const stn_op_call *call, size_t attrs_size, int no_rule, const struct stni_placed **out);

#endif
