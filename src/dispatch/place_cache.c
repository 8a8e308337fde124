/* What check and place found, kept by op, attributes and input specs. */
#include "dispatch/place_cache.h"

#include "core/base/host_alloc.h"
#include "dispatch/registry.h"

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

enum { KEY_WORDS = 1 + STN_MAX_INPUTS + 128 }; /* op, specs, attributes (STNI_MAX_ATTRS_SIZE bytes) */

/* Keys are whole words, so a rotate and a multiply per word mix them well enough and cost less than the general
 * hash. */
static inline uint64_t mix(uint64_t hash, uint64_t word)
{
    return ((hash << 5 | hash >> 59) ^ word) * 0xff51afd7ed558ccdu;
}

/* A multiplication carries to higher bits only: the upper half is folded into the lower half, from which the table
 * takes its bits. */
static inline unsigned mixed(uint64_t hash)
{
    return (unsigned)(mix(hash, hash >> 32) >> 32);
}

/* Writes the key and returns its words; hashes it on the way. */
static inline size_t make_key(const stn_op_call *call, size_t attrs_size, uint64_t *key, unsigned *hash)
{
    size_t n = 0;
    uint64_t h = key[n++] = stni_place_cache_first_word(call->op, attrs_size);
    for (int i = 0; i < call->n_in; i++)
        h = mix(h, key[n++] = (uintptr_t)call->in_spec[i]);
    for (size_t at = 0; at < attrs_size; at += 8, n++) { /* whole words: registration saw to it */
        memcpy(&key[n], (const char *)call->attrs + at, 8);
        h = mix(h, key[n]);
    }
    *hash = mixed(h);
    return n;
}

/* As memcmp tells equal keys: most have under ten words, for which a call costs more than the comparison. */
static inline int differ(const uint64_t *a, const uint64_t *b, size_t bytes)
{
    for (size_t i = 0; i < bytes / 8; i++)
        if (a[i] != b[i])
            return 1;
    return 0;
}

#undef HASH_KEYCMP
#define HASH_KEYCMP(a, b, bytes) differ(a, b, bytes)

const struct stni_placed *stni_place_cache_find(const stn_op_call *call, size_t attrs_size)
{
    struct stni_place_cache *cache = call->context->places;
    uint64_t key[KEY_WORDS];
    unsigned hash;
    size_t n = make_key(call, attrs_size, key, &hash);
    struct stni_placed *found;
    HASH_FIND_BYHASHVALUE(hh, cache->entries, key, n * 8, hash, found);
    if (found)
        *stni_place_cache_recent(cache, (unsigned)call->op->index, call->n_in > 0 ? call->in_spec[0] : NULL) = found;
    return found;
}

static void retain_all(const stn_spec *const *specs, int n)
{
    for (int i = 0; i < n; i++)
        if (specs[i])
            stni_spec_retain(specs[i]);
}

static void release_all(const stn_spec **specs, int n)
{
    for (int i = 0; i < n; i++)
        if (specs[i])
            stni_spec_release(specs[i]);
}

/* in_spec, want and out_spec stand behind each other. */
static int n_specs(const stn_op_call *call)
{
    return 2 * call->n_in + call->n_out;
}

static void entry_free(struct stni_place_cache *cache, struct stni_placed *entry)
{
    HASH_DELETE(hh, cache->entries, entry);
    release_all((const stn_spec **)entry->call.in_spec, n_specs(&entry->call));
    stni_free(entry);
}

/* uthash iterates in the order of insertion. */
static void drop_oldest(struct stni_place_cache *cache, unsigned n)
{
    struct stni_placed *entry, *next;
    memset(cache->recent, 0, sizeof cache->recent);
    HASH_ITER(hh, cache->entries, entry, next)
    {
        if (n-- == 0)
            return;
        entry_free(cache, entry);
    }
}

static int is_whole(const stn_spec *spec)
{
    for (int a = 0; a < spec->layout.mesh->ndim; a++)
        if (spec->layout.placement[a].kind != STN_PLACE_REPLICATE && spec->layout.mesh->sizes[a] > 1)
            return 0;
    return 1;
}

/* Whether all ranks run it, and one may meet a value that another does not. What each has whole one rank may work with
 * alone, and of the others none knows. */
static int is_everyones(const stn_op_call *call)
{
    int differs = 0;
    for (int i = 0; i < call->n_in; i++) {
        const stn_spec *spec = call->in_spec[i];
        if (spec && (!spec->layout.mesh || spec->layout.mesh->size < call->context->size))
            return 0;
        differs |= spec && !is_whole(spec);
    }
    return differs;
}

static unsigned steps_of(const stn_op_call *call, int no_rule, uint32_t moves)
{
    const unsigned flags = call->op->desc->flags;
    unsigned steps = moves ? STNI_STEP_MOVE : 0;
    steps |= flags & STN_OP_IN_PLACE ? STNI_STEP_IN_PLACE : 0;
    steps |= flags & STN_OP_ALIAS ? STNI_STEP_ALIAS : 0;
    steps |= flags & STN_OP_PER_RANK ? STNI_STEP_PER_RANK : 0;
    steps |= no_rule ? STNI_STEP_FALLBACK : 0;
    steps |= call->reports && is_everyones(call) ? STNI_STEP_REPORTS : 0;
    if (steps & (STNI_STEP_IN_PLACE | STNI_STEP_ALIAS | STNI_STEP_FALLBACK))
        return steps;
    const int one = call->n_out == 1 && call->out_spec[0] && call->op->desc->n_private == 0;
    return steps | STNI_STEP_MAKE | (one ? STNI_STEP_ONE : 0);
}

/* Copies the specs that the call points to. */
static void copy_specs(struct stni_placed *entry, const stn_op_call *call, const stn_spec **specs)
{
    const stn_spec **want = specs + call->n_in, **out_spec = want + call->n_in;
    memcpy(specs, call->in_spec, (size_t)call->n_in * sizeof *specs);
    memcpy(want, call->want, (size_t)call->n_in * sizeof *specs);
    memcpy(out_spec, call->out_spec, (size_t)call->n_out * sizeof *specs);
    entry->call.in_spec = specs;
    entry->call.want = want;
    entry->call.out_spec = out_spec;
    for (int i = 0; i < call->n_in; i++)
        entry->moves |= (uint32_t)(want[i] != specs[i]) << i;
}

/* One block: entry, key, specs, what the op keeps. */
static struct stni_placed *entry_create(const stn_op_call *call, size_t attrs_size, const uint64_t *key, size_t size,
                                        int no_rule)
{
    const size_t kept_size = call->op->impl.kept_size,
                 end = sizeof(struct stni_placed) + size + (size_t)n_specs(call) * sizeof(stn_spec *);
    const size_t kept_at = (end + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    struct stni_placed *entry = stni_malloc(kept_at + kept_size);
    if (!entry)
        return NULL;
    *entry = (struct stni_placed){.call = *call};
    entry->call.in = NULL;
    entry->call.out = NULL;
    entry->call.out_meta = NULL;
    entry->call.kept = kept_size > 0 ? memset((char *)entry + kept_at, 0, kept_size) : NULL;
    if (attrs_size > 0)
        entry->call.attrs = NULL;
    memcpy(entry->key, key, size);
    copy_specs(entry, call, (const stn_spec **)((char *)entry->key + size));
    entry->steps = steps_of(call, no_rule, entry->moves);
    return entry;
}

stn_status stni_place_cache_add(const stn_op_call *call, size_t attrs_size, int no_rule, const struct stni_placed **out)
{
    struct stni_place_cache *cache = call->context->places;
    uint64_t key[KEY_WORDS];
    unsigned hash;
    size_t size = 8 * make_key(call, attrs_size, key, &hash);
    struct stni_placed *entry = entry_create(call, attrs_size, key, size, no_rule);
    if (!entry)
        return stni_fail_memory(call->context, "place cache entry", sizeof *entry);
    unsigned added = HASH_COUNT(cache->entries);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, cache->entries, entry->key, size, hash, entry);
    if (HASH_COUNT(cache->entries) == added) { /* uthash had no memory */
        stni_free(entry);
        return stni_fail_memory(call->context, "place cache table", sizeof *entry);
    }
    retain_all(entry->call.in_spec, n_specs(call));
    cache->full = added >= STNI_PLACE_CACHE_MAX;
    *out = entry;
    return STN_OK;
}

stn_status stni_place_cache_create(stn_context *context)
{
    context->places = stni_calloc(1, sizeof *context->places);
    return context->places ? STN_OK : stni_fail_memory(context, "place cache", sizeof *context->places);
}

void stni_place_cache_trim(struct stni_place_cache *cache)
{
    unsigned n = HASH_COUNT(cache->entries), kept = STNI_PLACE_CACHE_MAX / 4 * 3;
    drop_oldest(cache, n > kept ? n - kept : 0);
    cache->full = 0;
}

void stni_place_cache_clear(struct stni_place_cache *cache)
{
    drop_oldest(cache, HASH_COUNT(cache->entries));
    cache->full = 0;
}

void stni_place_cache_destroy(stn_context *context)
{
    if (!context->places)
        return;
    stni_place_cache_clear(context->places);
    stni_free(context->places);
    context->places = NULL;
}
