/* Lookup: elements chosen by index. */
#ifndef SHARDTENSOR_OPS_INDEX_H
#define SHARDTENSOR_OPS_INDEX_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Rows of a table: y[i…, :] = weight[input[i…], :].
 *
 * Shapes:     input (i0, …) of i64 or i32, weight (v, d) -> (i0, …, d).
 * Placement:  input's Shards stay; d sharded stays sharded; where one axis has both, the smaller operand is gathered. v sharded: indices
 *             are routed to the owners of their rows, and the rows come back, one exchange each way. Partial(sum) of weight is
 *             kept where input is Replicate.
 * Collective: over the mesh where v is sharded; the host then waits once, since the amount of data depends on values.
 * Gradient:   of weight: rows of the cotangent added up by index, except at `padding_index`. Twice differentiable.
 * @param padding_index  NULL: none; else -v <= *padding_index < v.
 * @return new tensor; an index outside 0 … v-1 reads 0 and is STN_ERR_VALUE at the next agreement (stn_agree). */
STN_API stn_tensor *stn_embedding(stn_tensor *input, stn_tensor *weight, const int64_t *padding_index);

STN_END_DECLS
#endif
