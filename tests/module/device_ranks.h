/* Ranks whose data is in a device's memory: collectives of every kind between kernels that write what is sent and
 * read what is received. Each kernel is delayed at random, so that whatever is not ordered by events comes out
 * wrong. */
#ifndef STN_TESTS_MODULE_DEVICE_RANKS_H
#define STN_TESTS_MODULE_DEVICE_RANKS_H

#include "harness.h"

#include <shardtensor/shardtensor.h>

enum { DEVICE_RANKS = 4 }; /* at most */

struct rank {
    stn_context *context;
    stn_comm *comm; /* the context's, unless the body puts another one here */
    stn_queue *queue;
    int rank, size;
    float *send, *recv, *log; /* of the device; log: what each step left in recv */
};

typedef void (*rank_body)(struct rank *rank);

/* Makes a context on the device for one rank, which owns `comm`, and calls the body. */
void device_rank_run(stn_comm *comm, rank_body body);

/* The same on so many thread ranks. */
void device_ranks_run(int size, rank_body body);

/* Steps of all kinds of collectives, which overwrite what was sent as soon as the call has returned; and what they
 * left. */
void device_rank_steps(struct rank *rank, int with_request);
void device_rank_check(const struct rank *rank);

#endif
