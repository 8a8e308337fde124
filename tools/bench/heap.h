/* Counts what goes to the C library's heap, by any code of the process, on the calling thread. */
#ifndef BENCH_HEAP_H
#define BENCH_HEAP_H

#include <stdint.h>

/** Calls of malloc and its kin by this thread so far; -1 where they cannot be counted. */
int64_t heap_calls(void);

/** Bytes that the process holds on the heap now; -1 where that is unknown. */
int64_t heap_bytes(void);

#endif
