/* Slabs: objects of one size, carved from chunks and kept on a free list, so that making and dropping a handle calls
 * no allocator. Used by the context's thread only. Chunks are freed when the slab is destroyed. */
#ifndef STNI_CORE_BASE_SLAB_H
#define STNI_CORE_BASE_SLAB_H

#include "core/base/cold.h"
#include "core/base/poison.h"

#include <stddef.h>

struct stni_slab_chunk;

struct stni_slab {
    void *free; /* the first word of a free object is the next one */
    size_t object_size; /* a multiple of 16 */
    struct stni_slab_chunk *chunks;
};

/* NULL when there is no memory. */
struct stni_slab *stni_slab_create(size_t object_size);
void stni_slab_destroy(struct stni_slab **slab);

/* A further chunk on the free list; 0 when there is no memory. */
STNI_COLD int stni_slab_grow(struct stni_slab *slab);

/* Calls `visit` on every live object, and on free ones too except under the address sanitizer, where free ones can
 * be told apart. Beyond its first word an object that was never handed out is zero, and a free one is as it was when
 * it was put back. `visit` may put objects back, and may take none. */
void stni_slab_each(struct stni_slab *slab, void (*visit)(void *object, void *arg), void *arg);

/* A free object: there is one (`free`). Its contents are those of stni_slab_each. */
static inline void *stni_slab_pop(struct stni_slab *slab)
{
    void *object = slab->free;
    stni_unpoison(object, slab->object_size);
    slab->free = *(void **)object;
    return object;
}

/* An object; NULL when there is no memory. */
static inline void *stni_slab_take(struct stni_slab *slab)
{
    return slab->free != NULL || stni_slab_grow(slab) ? stni_slab_pop(slab) : NULL;
}

static inline void stni_slab_put(struct stni_slab *slab, void *object)
{
    *(void **)object = slab->free;
    slab->free = object;
    stni_poison(object, slab->object_size);
}

#endif
