#include "train/keys.h"

#include "core/base/hash.h"

#include <string.h>

struct stni_key {
    const void *address;
    int at;
    UT_hash_handle hh;
};

static int find(const struct stni_keys *keys, const void *key, size_t bytes)
{
    struct stni_key *found;
    HASH_FIND(hh, keys->table, key, bytes, found);
    return found ? found->at : -1;
}

int stni_keys_find_name(const struct stni_keys *keys, const char *name)
{
    return find(keys, name, strlen(name));
}

int stni_keys_find_address(const struct stni_keys *keys, const void *address)
{
    return find(keys, &address, sizeof address);
}

/* Takes over `key`, whose key are `bytes` bytes at `text`. */
static stn_status add(struct stni_keys *keys, stn_context *context, struct stni_key *key, const void *text,
                      size_t bytes)
{
    const unsigned before = HASH_COUNT(keys->table);
    if (key)
        HASH_ADD_KEYPTR(hh, keys->table, text, bytes, key);
    if (HASH_COUNT(keys->table) > before)
        return STN_OK;
    stni_free(key);
    return stni_fail_memory(context, "the keys of a list", sizeof *key);
}

stn_status stni_keys_add_name(struct stni_keys *keys, stn_context *context, const char *name, int at)
{
    struct stni_key *key = stni_calloc(1, sizeof *key);
    if (key)
        key->at = at;
    return add(keys, context, key, name, strlen(name));
}

stn_status stni_keys_add_address(struct stni_keys *keys, stn_context *context, const void *address, int at)
{
    struct stni_key *key = stni_calloc(1, sizeof *key);
    if (key)
        *key = (struct stni_key){.address = address, .at = at};
    return add(keys, context, key, key ? &key->address : NULL, sizeof address);
}

void stni_keys_cut(struct stni_keys *keys, int n)
{
    struct stni_key *key, *next;
    HASH_ITER(hh, keys->table, key, next)
    if (key->at >= n) {
        HASH_DEL(keys->table, key);
        stni_free(key);
    }
}
