/* Non-temporal stores (core/box/nontemporal.h) of results, for loops over dense runs that are compiled once per
 * instruction set. A loop writes one piece after the other into a buffer that stays in the L1 cache, and each piece
 * goes from there to memory while the loop computes the next one. */
#ifndef STNI_OPS_CPU_NONTEMPORAL_BLOCKS_H
#define STNI_OPS_CPU_NONTEMPORAL_BLOCKS_H

#include "core/box/nontemporal_line.h"
#include "core/box/nontemporal.h"

#include <stdint.h>

enum {
    STNI_PIECE = 512,                                   /* bytes */
    STNI_BLOCK_ROOM = STNI_STREAMING_PAGE + STNI_PIECE, /* bytes, at an address that is a multiple of a line */
    STNI_BLOCK_AHEAD = 4096                             /* bytes: how far ahead operands are prefetched */
};

/* Elements of the first piece of a run of n at `to`: pieces end where a multiple of `piece` bytes, a power of two,
 * does. */
static inline int64_t stni_block_length(const void *to, int64_t n, size_t size, size_t piece)
{
    const int64_t most = (int64_t)((piece - ((uintptr_t)to & (piece - 1))) / size);
    return n > most ? most : n;
}

/* Where in the buffer a piece that goes to `to` is put: half a page away from it, as far from pending stores as it
 * can be (core/box/nontemporal.h). */
static inline void *stni_block_place(char *buffer, const void *to)
{
    return buffer + ((uintptr_t)to + STNI_STREAMING_PAGE / 2) % STNI_STREAMING_PAGE;
}

static inline void stni_block_send(void *to, const void *piece, size_t bytes)
{
    char *dst = to;
    const char *src = piece;
    size_t at = -(uintptr_t)dst % STNI_LINE;
    if (at > 0)
        memcpy(dst, src, at < bytes ? at : bytes);
    for (; at + STNI_LINE <= bytes; at += STNI_LINE)
        stni_stream_line(dst + at, src + at);
    if (at < bytes)
        memcpy(dst + at, src + at, bytes - at);
}

/* Prefetches what lies `ahead` bytes after the `bytes` that are read now; nothing where `ahead` is 0. Prefetching
 * past the end of an operand is harmless. */
static inline void stni_block_prefetch(const void *from, size_t bytes, size_t ahead)
{
    if (ahead > 0)
        for (size_t at = 0; at < bytes; at += STNI_LINE)
            stni_prefetch((const void *)((uintptr_t)from + ahead + at));
}

#endif
