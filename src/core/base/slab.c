/* Slabs of handles. */
#include "core/base/slab.h"

#include "core/base/host_alloc.h"

enum { CHUNK_BYTES = 16384 - 64 }; /* a power of two less what malloc adds */

struct stni_slab_chunk {
    struct stni_slab_chunk *next;
    void *unused; /* objects begin at a multiple of 16 bytes */
};

static size_t objects_per_chunk(const struct stni_slab *slab)
{
    return (CHUNK_BYTES - sizeof(struct stni_slab_chunk)) / slab->object_size;
}

static char *object_at(const struct stni_slab *slab, struct stni_slab_chunk *chunk, size_t i)
{
    return (char *)(chunk + 1) + i * slab->object_size;
}

struct stni_slab *stni_slab_create(size_t object_size)
{
    struct stni_slab *slab = stni_calloc(1, sizeof *slab);
    if (slab != NULL)
        slab->object_size = (object_size + 15) / 16 * 16;
    return slab;
}

void stni_slab_destroy(struct stni_slab **slab)
{
    if (*slab == NULL)
        return;
    struct stni_slab_chunk *chunk = (*slab)->chunks;
    while (chunk != NULL) {
        struct stni_slab_chunk *next = chunk->next;
        stni_unpoison(chunk + 1, CHUNK_BYTES - sizeof *chunk);
        stni_free(chunk);
        chunk = next;
    }
    stni_free(*slab);
    *slab = NULL;
}

int stni_slab_grow(struct stni_slab *slab)
{
    struct stni_slab_chunk *chunk = stni_calloc(1, CHUNK_BYTES);
    if (chunk == NULL)
        return 0;
    chunk->next = slab->chunks;
    slab->chunks = chunk;
    /* Backwards, so that objects are handed out in the order of their addresses. */
    for (size_t i = objects_per_chunk(slab); i-- > 0;)
        stni_slab_put(slab, object_at(slab, chunk, i));
    return 1;
}

void stni_slab_each(struct stni_slab *slab, void (*visit)(void *object, void *arg), void *arg)
{
    size_t n = objects_per_chunk(slab);
    for (struct stni_slab_chunk *chunk = slab->chunks; chunk != NULL; chunk = chunk->next)
        for (size_t i = 0; i < n; i++)
            if (!stni_is_poisoned(object_at(slab, chunk, i)))
                visit(object_at(slab, chunk, i), arg);
}
