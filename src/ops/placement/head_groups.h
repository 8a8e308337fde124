/* Placement of heads that share others: `group` consecutive heads of queries have one head of keys and values.
 * Metadata only. */
#ifndef STNI_OPS_PLACEMENT_HEAD_GROUPS_H
#define STNI_OPS_PLACEMENT_HEAD_GROUPS_H

#include "core/shard/spec.h"

/* Cuts dim `head` of the leader's queries by whole groups where each rank can have one. */
stn_status stni_head_groups_cut(stn_context *context, struct stni_layout *leader, int head, int64_t group);

/* Dim `own` of the keys' layout, which follows the leader (ops/placement/follow.h), is sharded as the leader's dim
 * `head` is where that is cut by whole groups; elsewhere it stays as it is. */
stn_status stni_head_groups_follow(stn_context *context, const struct stni_layout *leader, int head, int64_t group,
                              struct stni_layout *layout, int own);

#endif
