/* Memory that is counted and can run out: the library's host memory (this program's own stni_malloc and its kin take
 * the place of the archive's) and an allocator for the device's. One count of calls for both. Any thread. */
#ifndef SHARDTENSOR_TESTS_CORE_COUNTED_H
#define SHARDTENSOR_TESTS_CORE_COUNTED_H

#include <shardtensor/device.h>

#include <stdint.h>

extern const stn_allocator counted_allocator;

int64_t counted_live(void);         /* allocations not yet freed, of both kinds */
int64_t counted_calls(void);        /* allocations asked for since the start */
int64_t counted_device_bytes(void); /* live in the allocator */
int64_t counted_host_bytes(void);   /* asked of the host since the start */

/* The n-th allocation from now on fails, n = 1, 2, …, and with `for_ever` all after it; 0: none. */
void counted_fail_at(int64_t n, int for_ever);

#endif
