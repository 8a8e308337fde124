/* Memory of the CPU. */
#ifndef STNI_CORE_DEVICE_CPU_MEMORY_H
#define STNI_CORE_DEVICE_CPU_MEMORY_H

#include <shardtensor/device.h>

struct stni_cpu {
    stn_allocator allocator; /* allocate NULL: the C library */
};

/* Of the C library, for free(); NULL: there is none. */
void *stni_cpu_memory(size_t bytes);

/* Entries of the device's table; `impl` is a struct stni_cpu. */
stn_status stni_cpu_allocate(void *impl, size_t bytes, void **out);
void stni_cpu_deallocate(void *impl, void *pointer, size_t bytes);
stn_status stni_cpu_reserve(void *impl, size_t *bytes, void **out);
void stni_cpu_unreserve(void *impl, void *pointer, size_t bytes);
stn_status stni_cpu_commit(void *impl, void *pointer, size_t bytes);
void stni_cpu_decommit(void *impl, void *pointer, size_t bytes);

#endif
