/* A text that is written piece by piece, as snprintf writes one: what has no space is counted all the same, so that a
 * first pass without a buffer tells how much is needed. */
#ifndef STNI_CORE_BASE_TEXT_H
#define STNI_CORE_BASE_TEXT_H

#include <shardtensor/status.h>

#include <stddef.h>

struct stni_text {
    char *to; /* NULL: only counts */
    size_t size, length; /* length may go beyond size, and is without the zero at the end */
};

void stni_text_put(struct stni_text *text, const char *format, ...) STN_PRINTF(2, 3);

#endif
