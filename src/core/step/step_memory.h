/* The memory of a captured step: what it makes comes from a pool of its own, and what was there before is held. */
#ifndef STNI_CORE_STEP_STEP_MEMORY_H
#define STNI_CORE_STEP_STEP_MEMORY_H

#include "core/tensor/storage.h"

/* A storage that recorded work may name. */
struct stni_held {
    struct stni_storage *storage; /* retained */
    uint32_t version;             /* when the capture began */
    int is_written;
};

struct stni_step_memory {
    stn_context *context;
    struct stni_mempool *pool, *host_pool; /* the context's list has them too */
    struct stni_held *held;
    int64_t n, n_written, cap; /* once the capture has ended, those that it writes come first */
};

/* Holds all storages that live, and gives the context a pool for what is made from now on. */
stn_status stni_step_memory_begin(struct stni_step_memory *memory, stn_context *context);

/* Holds one that was made since and that is no pool's. */
stn_status stni_step_memory_hold(struct stni_step_memory *memory, struct stni_storage *storage);

/* The context has its own pool again. */
void stni_step_memory_leave(struct stni_step_memory *memory);

/* Which storages the step has written: those changed in place, and those that it made and that still live. */
stn_status stni_step_memory_note_written(struct stni_step_memory *memory);

/* They were changed once more. */
void stni_step_memory_changed(struct stni_step_memory *memory);

/* A storage that the step writes and nobody may change any more; NULL: none. */
const struct stni_storage *stni_step_memory_frozen(const struct stni_step_memory *memory);

/* Gives everything back; what handles still need goes when they do. Waits for the queue. */
void stni_step_memory_fini(struct stni_step_memory *memory);

#endif
