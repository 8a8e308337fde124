/* Communicators of groups of ranks, shared by all meshes of a context. */
#ifndef STNI_CORE_SHARD_GROUP_H
#define STNI_CORE_SHARD_GROUP_H

#include "core/comm/comm.h"
#include "core/base/hash.h"
#include "core/shard/mesh.h"

struct stni_group_comm {
    UT_hash_handle hh;
    stn_comm *comm;
    int n;
    int ranks[]; /* world ranks, the key; none where the group is the world */
};

/* The ranks of both meshes, sorted, and their communicator. Collective over them at its first use. Borrowed. */
stn_status stni_mesh_group_union(const stn_mesh *a, const stn_mesh *b, const struct stni_group_comm **out);

/* The communicator of the ranks r with marked[r] == 1, one entry per rank of the world, sorted. Collective over them
 * at its first use. Borrowed. */
stn_status stni_mesh_group_marked(stn_context *context, const uint8_t *marked, const struct stni_group_comm **out);

void stni_groups_destroy(stn_context *context);

#endif
