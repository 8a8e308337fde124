/* The plan of one exchange: which boxes this rank sends to whom, and which it receives. A pure function of the axis
 * roles, a rank and where the rank's chunks lie in memory, in time proportional to the messages that the rank has.
 *
 * Every element that a rank lacks comes from exactly one rank (per addend), and never from another if it has it
 * itself: a box that a rank has and keeps is a message to itself. Between two ranks there is at most one box, for
 * what a rank holds is a box. */
#ifndef STNI_CORE_REDISTRIBUTE_PLAN_H
#define STNI_CORE_REDISTRIBUTE_PLAN_H

#include "core/redistribute/axis_roles.h"

/* Where a chunk lies in memory. Arrays of ndim entries, borrowed. */
struct stni_frame {
    char *data;             /* element `origin` of the whole */
    const int64_t *origin;
    const int64_t *strides; /* elements */
    int64_t element;        /* bytes */
};

/* Messages of one direction, sorted by peer: where same_grid, its rank in the communicator of route->axes; else its
 * world rank. */
struct stni_plan_messages {
    stn_message *items;
    int n, cap;
};

/* Part of a dim's range, with what its owner's coordinates add to the number of a peer. */
struct stni_plan_entry {
    int64_t offset, length, peer;
};

struct stni_plan {
    struct stni_plan_messages send, recv;
    struct stni_plan_entry *entries; /* while planning */
    int64_t cap_entries;
};

/* The exchange of `route`, whose addends have one op, seen from a world rank. `plan` begins as zeros, and its memory
 * serves again when it is made anew. */
stn_status stni_plan_make(stn_context *context, const struct stni_axis_roles *route, int rank,
                          const struct stni_frame *src, const struct stni_frame *dst, struct stni_plan *plan);
void stni_plan_free(struct stni_plan *plan);

/* This rank's own number among the peers; -1 outside the meshes. */
int stni_plan_self(const struct stni_axis_roles *route, int rank);

#endif
