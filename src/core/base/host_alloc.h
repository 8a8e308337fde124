/* The library's own bookkeeping memory. All of it is allocated by these functions, so that a test can make an
 * allocation fail (link with --wrap=stni_malloc and so on). */
#ifndef STNI_CORE_BASE_HOST_ALLOC_H
#define STNI_CORE_BASE_HOST_ALLOC_H

#include <stddef.h>

void *stni_malloc(size_t bytes);
void *stni_calloc(size_t count, size_t bytes);
void *stni_realloc(void *pointer, size_t bytes);
void stni_free(void *pointer);

#endif
