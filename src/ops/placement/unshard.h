/* Layouts in which a dim is whole: the axes that cut it cut another dim instead, so that one all-to-all of the data
 * leads there and every rank keeps as much as it had. */
#ifndef STNI_OPS_PLACEMENT_UNSHARD_H
#define STNI_OPS_PLACEMENT_UNSHARD_H

#include <shardtensor/op.h>

#include "core/shard/spec.h"

/* How many ranks cut the dim: the product of the axes that do. 1 where none does. */
int stni_dim_ranks(const struct stni_layout *layout, int dim, uint32_t *axes);

/* The longest dim to cut instead, by what each rank has of it, that is not in `kept` (bits); -1 where there is none.
 * `*length` elements a rank. */
int stni_longest_dim(const struct stni_layout *layout, uint32_t kept, int64_t *length);

/* Each axis that cuts `dim` cuts `other` instead, as the minor one, balanced within each piece. */
stn_status stni_layout_recut(stn_context *context, struct stni_layout *layout, int dim, int other);

/* Dims that some axis cuts, as bits. */
uint32_t stni_cut_dims(const struct stni_layout *layout);

/* Makes at least one of the dims in `wanted` whole, and all of them where that leaves each rank elements: the axes
 * that cut them cut the longest of the other dims. Where no other dim has more than one element they become
 * Replicate. */
stn_status stni_layout_unshard(stn_context *context, struct stni_layout *layout, uint32_t wanted);

#endif
