/* What a rank sends and what its peer expects, compared without moving it: each end hashes its list of a pair's
 * messages, the sender's counts positive and the receiver's negative, so that the sum over the ranks is 0 where all
 * lists meet. */
#ifndef STNI_OPS_DIST_PAIRS_H
#define STNI_OPS_DIST_PAIRS_H

#include "core/shard/mesh.h"
#include "ops/dist/route.h"

/* This rank's part of that sum. @return STN_ERR_MEMORY, kept. */
stn_status stni_pairs_balance(const stn_mesh *mesh, const struct stni_ranges *send, const struct stni_ranges *receive,
                              int64_t *out);

/* Where the sum was not 0: all ranks keep STN_ERR_MISMATCH with the first pair that differs. `comm` NULL: this rank
 * alone. Collective. */
stn_status stni_pairs_explain(const stn_mesh *mesh, stn_comm *comm, const char *collective,
                              const struct stni_ranges *send, const struct stni_ranges *receive);

#endif
