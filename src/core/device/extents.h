/* Memory that is divided: segments, each a row of extents without gaps, and which of these are free. Metadata alone:
 * nothing here touches the memory or asks a device for any.
 *
 * An extent that is taken is cut from the lowest free one of the nearest size that holds it; one that is released
 * becomes one with its free neighbours. Used by one thread at a time. */
#ifndef STNI_CORE_DEVICE_EXTENTS_H
#define STNI_CORE_DEVICE_EXTENTS_H

#include "core/base/hash.h"
#include "core/base/slab.h"
#include "core/device/size_class.h"

#include <stdint.h>

enum stni_extent_state {
    STNI_EXTENT_LIVE,
    STNI_EXTENT_FREE,  /* its neighbours are not */
    STNI_EXTENT_ABSENT /* addresses without memory behind them; its neighbours have some */
};

struct stni_extent {
    char *pointer;
    size_t bytes;
    enum stni_extent_state state;
    int is_reserved;                    /* its segment is one of addresses, which get their memory piece by piece */
    struct stni_extent *lower, *upper;   /* neighbours in the segment; NULL: it ends here */
    struct stni_extent *previous, *next; /* FREE: in its bin */
    struct stni_extent *next_segment;    /* of a segment's lowest extent, which stays its lowest */
    UT_hash_handle hh;                  /* LIVE: by its pointer */
};

struct stni_extents {
    struct stni_extent *bins[STNI_SIZE_CLASSES];    /* the free extents, by their size's class; what came last first */
    uint64_t filled[(STNI_SIZE_CLASSES + 63) / 64]; /* which bins are not empty */
    struct stni_extent *live;                       /* the table */
    struct stni_extent *segments;                   /* their lowest extents */
    struct stni_slab *slab;                        /* NULL: no extent was made yet */
};

void stni_extents_fini(struct stni_extents *extents);

/* A new segment, all of it one extent, FREE or ABSENT. NULL where there is no memory for the record. */
struct stni_extent *stni_extents_add(struct stni_extents *extents, void *pointer, size_t bytes,
                                     enum stni_extent_state state, int is_reserved);

/* Forgets a segment that is one extent, not LIVE. `at`: the place in the list that points to it. */
void stni_extents_drop(struct stni_extents *extents, struct stni_extent **at);

/* An extent of at least `bytes` bytes, LIVE; what is left of a larger one stays free. NULL: none is free, or the host
 * has no memory for the table. */
struct stni_extent *stni_extents_take(struct stni_extents *extents, size_t bytes);

/* The live extent that begins there; there is one. */
struct stni_extent *stni_extents_find(const struct stni_extents *extents, const void *pointer);

/* A live extent becomes free. */
void stni_extents_release(struct stni_extents *extents, struct stni_extent *extent);

/* An absent extent that with its free neighbours has `bytes` bytes, the lowest of its segment; NULL: there is none.
 * `*missing`: how many of the absent ones, the lower ones, that takes. */
struct stni_extent *stni_extents_room(const struct stni_extents *extents, size_t bytes, size_t *missing);

/* Of an extent that is not LIVE, the `bytes` bytes from `offset` on become the other of FREE and ABSENT: the extent
 * that they are then in. NULL where there is no memory for the records, and nothing has changed. */
struct stni_extent *stni_extents_turn(struct stni_extents *extents, struct stni_extent *extent, size_t offset,
                                      size_t bytes);

#endif
