/* A caller's allocator of a CUDA device for tests: memory of the module under test, which every rank may ask for,
 * counted and checked. It can run out, and give addresses that are not aligned. */
#ifndef STN_TESTS_CUDA_LENT_MEMORY_H
#define STN_TESTS_CUDA_LENT_MEMORY_H

#include <shardtensor/context.h>

/** Memory of GPU number `arg`. */
extern const stn_device_allocator lent_allocator;

/** Opens GPU 0; 0 and a failed check where it cannot be had. */
int lent_begin(void);

/** Closes those that were asked. Checks that all memory has come back, and nothing that was not given. */
void lent_end(void);

struct lent_counts {
    int64_t live, bytes;    /* pieces that are lent now, and theirs */
    int64_t asked;          /* calls of allocate since lent_begin */
    int64_t given, returned;
};
struct lent_counts lent_counts(void);

/** The n-th call of allocate from now on gives nothing, n = 1, 2, …, and with `for_ever` those after it; 0: none. */
void lent_fail_at(int64_t n, int for_ever);

/** The n-th call of allocate from now on gives an address 64 bytes behind a multiple of 256. */
void lent_misalign_at(int64_t n);

/** 1 where the address lies in memory that is lent. */
int lent_owns(const void *address);

/** How many pieces were asked for on a stream, since lent_begin; how many came back there. */
int64_t lent_given_on(const void *stream);
int64_t lent_returned_on(const void *stream);

/** From here on `context` has no memory but this: the module's own is counted and refused. */
void lent_alone(stn_context *context);

/** How often the module's own was asked for since. */
int64_t lent_elsewhere(void);

#endif
