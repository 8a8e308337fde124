/* What check and place found, kept by op, attributes and input specs. */
#include "dispatch/place_cache.h"

#include "core/host_alloc.h"

#include <string.h>

enum { KEY_WORDS = 1 + STN_MAX_INPUTS + 128 }; /* op, specs, attributes (STNI_MAX_ATTRS_SIZE bytes) */

struct stni_place_cache {
    struct stni_placed *entries;
};

/* Keys are whole words, so a multiply and a rotation per word mix them well enough and cost less than the general hash. */
static unsigned hash_words(const uint64_t *key, size_t bytes)
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < bytes / 8; i++) {
        h = (h ^ key[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return (unsigned)h;
}

/* Writes the key and returns its bytes. */
static size_t make_key(const stn_op_call *call, size_t attrs_size, uint64_t *key)
{
    int n = call->n_in;
    key[0] = (uint64_t)(uintptr_t)call->op;
    for (int i = 0; i < n; i++)
        key[1 + i] = (uint64_t)(uintptr_t)call->in_spec[i];
    if (attrs_size)
        memcpy(key + 1 + n, call->attrs, attrs_size);
    return (size_t)(1 + n) * 8 + attrs_size;
}

const struct stni_placed *stni_place_cache_find(const stn_op_call *call, size_t attrs_size)
{
    uint64_t key[KEY_WORDS];
    size_t size = make_key(call, attrs_size, key);
    struct stni_placed *found;
    HASH_FIND_BYHASHVALUE(hh, call->context->places->entries, key, size, hash_words(key, size), found);
    return found;
}

static void retain_all(const stn_spec *const *specs, int n)
{
    for (int i = 0; i < n; i++)
        if (specs[i])
            stn_spec_retain(specs[i]);
}

static void release_all(const stn_spec **specs, int n)
{
    for (int i = 0; i < n; i++)
        stn_spec_release(&specs[i]);
}

static void entry_free(struct stni_place_cache *cache, struct stni_placed *entry)
{
    HASH_DELETE(hh, cache->entries, entry);
    release_all(entry->in_spec, 2 * entry->n_in + entry->n_out);
    stni_free(entry);
}

/* uthash iterates in the order of insertion. */
static void drop_oldest(struct stni_place_cache *cache, unsigned n)
{
    struct stni_placed *entry, *next;
    HASH_ITER(hh, cache->entries, entry, next)
    {
        if (n-- == 0)
            return;
        entry_free(cache, entry);
    }
}

/* One block: entry, key, then in_spec, want and out_spec behind each other. */
static struct stni_placed *entry_create(const stn_op_call *call, size_t attrs_size)
{
    uint64_t key[KEY_WORDS];
    size_t size = make_key(call, attrs_size, key);
    int n_specs = 2 * call->n_in + call->n_out;
    struct stni_placed *entry = stni_malloc(sizeof *entry + size + (size_t)n_specs * sizeof(stn_spec *));
    if (!entry)
        return NULL;
    *entry = (struct stni_placed){.n_in = call->n_in, .n_out = call->n_out, .note = call->note, .key_size = size};
    memcpy(entry->key, key, size);
    entry->in_spec = (const stn_spec **)((char *)entry->key + size);
    entry->want = entry->in_spec + call->n_in;
    entry->out_spec = entry->want + call->n_in;
    memcpy(entry->in_spec, call->in_spec, (size_t)call->n_in * sizeof(stn_spec *));
    memcpy(entry->want, call->want, (size_t)call->n_in * sizeof(stn_spec *));
    memcpy(entry->out_spec, call->out_spec, (size_t)call->n_out * sizeof(stn_spec *));
    return entry;
}

stn_status stni_place_cache_add(const stn_op_call *call, size_t attrs_size, int no_rule, const struct stni_placed **out)
{
    struct stni_place_cache *cache = call->context->places;
    if (HASH_COUNT(cache->entries) >= STNI_PLACE_CACHE_MAX)
        drop_oldest(cache, STNI_PLACE_CACHE_MAX / 4);
    struct stni_placed *entry = entry_create(call, attrs_size);
    if (!entry)
        return stni_fail_memory(call->context, "place cache entry", sizeof *entry);
    entry->no_rule = no_rule;
    unsigned added = HASH_COUNT(cache->entries);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, cache->entries, entry->key, entry->key_size, hash_words(entry->key, entry->key_size), entry);
    if (HASH_COUNT(cache->entries) == added) { /* uthash had no memory */
        stni_free(entry);
        return stni_fail_memory(call->context, "place cache table", sizeof *entry);
    }
    retain_all(entry->in_spec, 2 * entry->n_in + entry->n_out);
    *out = entry;
    return STN_OK;
}

stn_status stni_place_cache_create(stn_context *context)
{
    context->places = stni_calloc(1, sizeof *context->places);
    return context->places ? STN_OK : stni_fail_memory(context, "place cache", sizeof *context->places);
}

void stni_place_cache_clear(stn_context *context)
{
    drop_oldest(context->places, HASH_COUNT(context->places->entries));
}

void stni_place_cache_destroy(stn_context *context)
{
    if (!context->places)
        return;
    stni_place_cache_clear(context);
    stni_free(context->places);
    context->places = NULL;
}
