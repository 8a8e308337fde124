/* Ranks of worlds without threads: contexts over communicators that move nothing. */
#ifndef SHARDTENSOR_TESTS_SHARD_WORLD_H
#define SHARDTENSOR_TESTS_SHARD_WORLD_H

#include "core/context/context.h"

/** The context of rank `rank` of a world of `size`; ends the program where there is none. */
stn_context *world_rank(int rank, int size);
void world_end(stn_context *context);

/** Takes the kept error; its text is valid until the next call. */
const char *world_error(stn_context *context);

/** A number below `n` from a 64-bit linear congruential generator (Knuth's MMIX constants). */
uint64_t world_random(uint64_t *state, uint64_t n);

#endif
