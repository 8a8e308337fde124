/* Extents of segments: bins of free ones, and a table of those that are taken. */
#include "core/device/extents.h"

void stni_extents_fini(struct stni_extents *extents)
{
    HASH_CLEAR(hh, extents->live);
    if (extents->slab)
        stni_slab_destroy(&extents->slab);
}

static struct stni_extent *new_extent(struct stni_extents *extents, const struct stni_extent *like)
{
    if (!extents->slab)
        extents->slab = stni_slab_create(sizeof(struct stni_extent));
    struct stni_extent *extent = extents->slab ? stni_slab_take(extents->slab) : NULL;
    if (extent)
        *extent = *like;
    return extent;
}

static void bin_add(struct stni_extents *extents, struct stni_extent *extent)
{
    const int c = stni_size_class(extent->bytes);
    extent->previous = NULL;
    extent->next = extents->bins[c];
    if (extent->next)
        extent->next->previous = extent;
    extents->bins[c] = extent;
    extents->filled[c / 64] |= UINT64_C(1) << c % 64;
}

static void bin_remove(struct stni_extents *extents, struct stni_extent *extent)
{
    const int c = stni_size_class(extent->bytes);
    if (extent->next)
        extent->next->previous = extent->previous;
    if (extent->previous)
        extent->previous->next = extent->next;
    else
        extents->bins[c] = extent->next;
    if (!extents->bins[c])
        extents->filled[c / 64] &= ~(UINT64_C(1) << c % 64);
}

/* The lowest class from `c` on that has a free extent; -1: none. */
static int filled_from(const struct stni_extents *extents, int c)
{
    for (int word = c / 64; word < (int)(sizeof extents->filled / sizeof *extents->filled); word++) {
        const uint64_t mask = word == c / 64 ? ~UINT64_C(0) << c % 64 : ~UINT64_C(0);
        if (extents->filled[word] & mask)
            return 64 * word + __builtin_ctzll(extents->filled[word] & mask);
    }
    return -1;
}

/* Of the class itself an extent may be too small, so that a few are looked at; of any class above, none is. */
static struct stni_extent *find_free(const struct stni_extents *extents, size_t bytes)
{
    enum { LOOKED_AT = 16 };
    const int c = stni_size_class(bytes);
    struct stni_extent *extent = extents->bins[c];
    for (int i = 0; extent && i < LOOKED_AT; i++, extent = extent->next)
        if (extent->bytes >= bytes)
            return extent;
    const int above = c + 1 < STNI_SIZE_CLASSES ? filled_from(extents, c + 1) : -1;
    return above < 0 ? NULL : extents->bins[above];
}

/* Cuts an extent, which is in no bin, behind its first `bytes` bytes. The upper part, of the same state; NULL where
 * there is no memory for its record. */
static struct stni_extent *cut(struct stni_extents *extents, struct stni_extent *extent, size_t bytes)
{
    const struct stni_extent like = {.pointer = extent->pointer + bytes,
                                     .bytes = extent->bytes - bytes,
                                     .state = extent->state,
                                     .is_reserved = extent->is_reserved,
                                     .lower = extent,
                                     .upper = extent->upper};
    struct stni_extent *upper = new_extent(extents, &like);
    if (!upper)
        return NULL;
    if (upper->upper)
        upper->upper->lower = upper;
    extent->upper = upper;
    extent->bytes = bytes;
    return upper;
}

/* An extent and its upper neighbour, neither of which is in a bin, become one. */
static void join(struct stni_extents *extents, struct stni_extent *extent)
{
    struct stni_extent *upper = extent->upper;
    extent->bytes += upper->bytes;
    extent->upper = upper->upper;
    if (extent->upper)
        extent->upper->lower = extent;
    stni_slab_put(extents->slab, upper);
}

/* Makes an extent, which is in no bin, one with its neighbours of the same state. */
static struct stni_extent *settle(struct stni_extents *extents, struct stni_extent *extent)
{
    const int is_free = extent->state == STNI_EXTENT_FREE;
    if (extent->upper && extent->upper->state == extent->state) {
        if (is_free)
            bin_remove(extents, extent->upper);
        join(extents, extent);
    }
    if (extent->lower && extent->lower->state == extent->state) {
        extent = extent->lower;
        if (is_free)
            bin_remove(extents, extent);
        join(extents, extent);
    }
    if (is_free)
        bin_add(extents, extent);
    return extent;
}

struct stni_extent *stni_extents_add(struct stni_extents *extents, void *pointer, size_t bytes,
                                     enum stni_extent_state state, int is_reserved)
{
    const struct stni_extent like = {.pointer = pointer,
                                     .bytes = bytes,
                                     .state = state,
                                     .is_reserved = is_reserved,
                                     .next_segment = extents->segments};
    struct stni_extent *extent = new_extent(extents, &like);
    if (!extent)
        return NULL;
    extents->segments = extent;
    return settle(extents, extent);
}

void stni_extents_drop(struct stni_extents *extents, struct stni_extent **at)
{
    struct stni_extent *extent = *at;
    *at = extent->next_segment;
    if (extent->state == STNI_EXTENT_FREE)
        bin_remove(extents, extent);
    stni_slab_put(extents->slab, extent);
}

/* 0 where the table cannot grow. */
static int table_add(struct stni_extents *extents, struct stni_extent *extent)
{
    const unsigned before = HASH_COUNT(extents->live);
    HASH_ADD_PTR(extents->live, pointer, extent);
    return HASH_COUNT(extents->live) > before;
}

/* Where what is left of it would get no record it is handed out whole. */
struct stni_extent *stni_extents_take(struct stni_extents *extents, size_t bytes)
{
    struct stni_extent *extent = find_free(extents, bytes);
    if (!extent)
        return NULL;
    bin_remove(extents, extent);
    struct stni_extent *rest = extent->bytes > bytes ? cut(extents, extent, bytes) : NULL;
    if (rest)
        bin_add(extents, rest);
    extent->state = STNI_EXTENT_LIVE;
    if (table_add(extents, extent))
        return extent;
    extent->state = STNI_EXTENT_FREE;
    settle(extents, extent);
    return NULL;
}

struct stni_extent *stni_extents_find(const struct stni_extents *extents, const void *pointer)
{
    struct stni_extent *extent;
    HASH_FIND_PTR(extents->live, &pointer, extent);
    return extent;
}

void stni_extents_release(struct stni_extents *extents, struct stni_extent *extent)
{
    HASH_DEL(extents->live, extent);
    extent->state = STNI_EXTENT_FREE;
    settle(extents, extent);
}

static size_t free_bytes(const struct stni_extent *neighbour)
{
    return neighbour && neighbour->state == STNI_EXTENT_FREE ? neighbour->bytes : 0;
}

/* How many bytes of an absent extent make so many free ones in one piece; 0: it is too small. */
static size_t missing_of(const struct stni_extent *absent, size_t bytes)
{
    const size_t below = free_bytes(absent->lower), missing = bytes > below ? bytes - below : 0;
    if (missing <= absent->bytes)
        return missing;
    return missing - absent->bytes <= free_bytes(absent->upper) ? absent->bytes : 0;
}

/* Walks all extents: this is asked before a device is, which takes longer. */
struct stni_extent *stni_extents_room(const struct stni_extents *extents, size_t bytes, size_t *missing)
{
    for (struct stni_extent *segment = extents->segments; segment; segment = segment->next_segment)
        for (struct stni_extent *extent = segment->is_reserved ? segment : NULL; extent; extent = extent->upper)
            if (extent->state == STNI_EXTENT_ABSENT && (*missing = missing_of(extent, bytes)) > 0)
                return extent;
    return NULL;
}

static struct stni_extent *keep_whole(struct stni_extents *extents, struct stni_extent *extent)
{
    settle(extents, extent);
    return NULL;
}

struct stni_extent *stni_extents_turn(struct stni_extents *extents, struct stni_extent *extent, size_t offset,
                                      size_t bytes)
{
    struct stni_extent *turned = extent, *rest = NULL;
    if (extent->state == STNI_EXTENT_FREE)
        bin_remove(extents, extent);
    if (offset + bytes < extent->bytes && !(rest = cut(extents, extent, offset + bytes)))
        return keep_whole(extents, extent);
    if (offset > 0 && !(turned = cut(extents, extent, offset))) {
        if (rest)
            join(extents, extent);
        return keep_whole(extents, extent);
    }
    if (extent->state == STNI_EXTENT_FREE) {
        if (turned != extent)
            bin_add(extents, extent);
        if (rest)
            bin_add(extents, rest);
    }
    turned->state = turned->state == STNI_EXTENT_FREE ? STNI_EXTENT_ABSENT : STNI_EXTENT_FREE;
    return settle(extents, turned);
}
