/* Any collective of a communicator by its kind, on memory that lives no longer than the call: for the tests of
 * failures. */
#ifndef SHARDTENSOR_TESTS_EVERY_COLLECTIVE_H
#define SHARDTENSOR_TESTS_EVERY_COLLECTIVE_H

#include "team.h"

enum {
    FEW_ELEMENTS = 5,      /* a rank's part travels in the slots (where the collective has slots) */
    MANY_ELEMENTS = 3000   /* peers copy it in place */
};

/** Calls the collective with parts of `n` int32 for each rank; its root is rank 1. All that the collective was given
 * (buffers, counts, messages) is freed as soon as it returns, so that a peer that still reads or writes any of it is
 * seen by a sanitizer. Where it returns STN_OK, what it received is checked. */
stn_status every_collective_call(stn_comm *comm, enum stni_coll_kind kind, int64_t n);

/** Calls all collectives, each of which must return `status` and leave `text`. */
void every_collective_fails(stn_comm *comm, stn_status status, const char *text);

#endif
