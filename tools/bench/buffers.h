/* Host memory for the collectives: aligned, and every page touched. */
#ifndef BENCH_BUFFERS_H
#define BENCH_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

/** `bytes` bytes filled with floats below 2 in magnitude; NULL when there are none. Freed with free. */
void *buffer_make(size_t bytes);

/** `bytes` bytes of zeros on large pages where the system has them, as a fast copy wants them; NULL when there are
 * none. Freed with free. */
void *buffer_make_large(size_t bytes);

/** "64 KiB", "1 MiB". */
void buffer_describe(int64_t bytes, char *text, size_t size);

#endif
