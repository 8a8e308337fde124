/* Device memory of the stand-in: an arena that the host may not touch.
 *
 * A piece is inaccessible until the work of a stream touches it, and again once no stream works: a host that reads or
 * writes device memory faults. Each piece ends at a page that nobody may touch, and freed pieces become such pages for
 * good: addresses are not used twice. New memory is filled with NaN. Under the sanitizers pieces come from the C
 * library: the address sanitizer finds what the pages would. */
#ifndef STANDIN_MEMORY_H
#define STANDIN_MEMORY_H

#include <cstddef>

namespace standin {

void *device_allocate(std::size_t bytes); /* NULL where there is none */
bool device_free(void *pointer);          /* false where it is no piece */
bool device_owns(const void *pointer);    /* whether it points into a piece */

/* Memory of the host that devices reach; filled with NaN when it is given out and when it comes back. */
void *pinned_allocate(std::size_t bytes); /* NULL where there is none */
bool pinned_free(void *pointer);          /* false where it is no piece */
bool pinned_owns(const void *pointer);    /* also within a piece */

/* Around the work of a stream, on the thread that does it. A kernel's reaches memory of its GPU, and of others once
 * these are its peers; ANY_GPU: a copy's, which reaches all. */
void work_begins(int gpu);
void work_ends();

/* For the handler of faults: opens the piece that the work of a stream, on this thread, has touched; false where it has
 * not. */
bool device_opens(const void *address);

/* Writes what lies at an address that faulted; false where it is nothing of ours. For the handler of faults. */
bool device_describes(const void *address, char *text, std::size_t size);

}

#endif
