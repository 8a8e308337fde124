/* Memory that ends where nothing may be read or written: shared memory of blocks. */
#ifndef STANDIN_GUARD_H
#define STANDIN_GUARD_H

#include <cstddef>

namespace standin {

struct guarded {
    char *data;
    std::size_t bytes;
    char *pages;        /* what was mapped; NULL: the address sanitizer watches */
    std::size_t mapped; /* bytes */
};

/* `name`, `file` and `number` are where it was declared, for the text of a fault. */
guarded guarded_allocate(std::size_t bytes, const char *name, const char *file, int number);
void guarded_free(guarded &memory);

/* Whether the few bytes between the end and the guard, which alignment leaves, are as they were. */
bool guarded_is_intact(const guarded &memory);

/* Writes what lies at an address that faulted; false where it is nothing of ours. For the handler of faults. */
bool guarded_describes(const void *address, char *text, std::size_t size);

}

#endif
