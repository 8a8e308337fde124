/* Storage: bytes of a device that tensors share. Counted; freed in the order of the context's queue. */
#ifndef STNI_CORE_STORAGE_H
#define STNI_CORE_STORAGE_H

#include "core/context.h"

struct stni_storage {
    atomic_int refs;
    atomic_int views;   /* live tensors flagged as views on it */
    uint32_t version;   /* counts changes in place */
    stn_context *context; /* NULL while the slab holds it */
    void *data;
    size_t bytes, capacity;      /* asked for; what the pool wants back (0: not the pool's) */
    void (*release)(void *arg);  /* caller's memory: called on the queue's behalf once earlier work has ended */
    void *release_arg;
};

/* One reference, the caller's. Contents are whatever was there. A failure is a rank error, kept by the context. */
stn_status stni_storage_create(stn_context *context, size_t bytes, struct stni_storage **out);

/* The caller's memory; `release` may be NULL, and is not called where this fails. */
stn_status stni_storage_wrap(stn_context *context, void *data, size_t bytes, void (*release)(void *), void *arg,
                             struct stni_storage **out);

struct stni_storage *stni_storage_retain(struct stni_storage *storage); /* any thread */
void stni_storage_release(struct stni_storage *storage);                /* on the context's thread; accepts NULL */

/* Frees a storage whatever its references: for the end of a context. */
void stni_storage_free(struct stni_storage *storage);

#endif
