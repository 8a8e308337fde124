/* uthash as the library uses it: through our allocator, and a table that cannot grow is a status, never exit().
 * After an add, look whether HASH_COUNT grew. */
#ifndef STNI_CORE_BASE_HASH_H
#define STNI_CORE_BASE_HASH_H

#include "core/base/host_alloc.h"

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(bytes) stni_malloc(bytes)
#define uthash_free(pointer, bytes) stni_free(pointer)

#include <uthash.h>

#endif
