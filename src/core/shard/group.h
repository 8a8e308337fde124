/* Communicators of groups of ranks, shared by all meshes of a context. */
#ifndef STNI_CORE_SHARD_GROUP_H
#define STNI_CORE_SHARD_GROUP_H

#include "core/comm/comm.h"
#include "core/hash.h"

struct stni_group_comm {
    UT_hash_handle hh;
    stn_comm *comm;
    int n;
    int ranks[]; /* world ranks, the key */
};

/* The communicator of the given world ranks, in that order; the world's own where they are the world. Takes over `ranks` (of
 * stni_malloc). Collective over them at its first use. Borrowed. */
stn_status stni_group_comm(stn_context *context, int *ranks, int n, stn_comm **out);

void stni_groups_destroy(stn_context *context);

#endif
