/* A copy by non-temporal stores. Included by sources that are compiled once per instruction set. */
#ifndef STNI_CORE_BOX_COPY_STREAM_H
#define STNI_CORE_BOX_COPY_STREAM_H

#include "core/box/nontemporal_line.h"

#include <stdint.h>

static void copy_stream(char *dst, const char *src, int64_t bytes)
{
    int64_t head = (int64_t)(-(uintptr_t)dst % STNI_LINE);
    if (head >= bytes)
        head = bytes;
    memcpy(dst, src, (size_t)head);
    int64_t at = head;
    for (; at + 4 * STNI_LINE <= bytes; at += 4 * STNI_LINE) {
        stni_stream_line(dst + at, src + at);
        stni_stream_line(dst + at + STNI_LINE, src + at + STNI_LINE);
        stni_stream_line(dst + at + 2 * STNI_LINE, src + at + 2 * STNI_LINE);
        stni_stream_line(dst + at + 3 * STNI_LINE, src + at + 3 * STNI_LINE);
    }
    for (; at + STNI_LINE <= bytes; at += STNI_LINE)
        stni_stream_line(dst + at, src + at);
    memcpy(dst + at, src + at, (size_t)(bytes - at));
}

#endif
