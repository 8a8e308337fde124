/* Tables and indices of a dim that one axis cuts, and what accesses by them cost: for tests of kept routes. */
#ifndef SHARDTENSOR_TESTS_OPS_ROUTED_H
#define SHARDTENSOR_TESTS_OPS_ROUTED_H

#include "ops/layouts.h"

enum { ROUTED_ROWS = 12, ROUTED_MANY = 30 };

/** The tensor of these elements, cut along dim 0 by all ranks. */
stn_tensor *routed_tensor(stn_context *context, const struct elements *e);

/** Small numbers in `rows` rows of `columns`; 0: of no second dim. */
stn_tensor *routed_numbers(stn_context *context, stn_dtype dtype, int64_t rows, int64_t columns);

/** ROUTED_MANY rows of ROUTED_ROWS, the same for the same seed. */
void routed_draw(struct elements *e, uint64_t seed);

/** An index of these, which keeps its routes or does not. */
stn_tensor *routed_index(stn_context *context, uint64_t seed, int keep);

/** Collectives since the last reset, among them those of a call that gave `result`. */
int64_t routed_exchanges(stn_context *context, stn_tensor *result);

/** The same of a read of a table of `rows` rows. */
int64_t routed_visit(stn_context *context, stn_tensor *index, int64_t rows);

/** Of tensors and routes, once the queue has given back what it can. */
int64_t routed_live_bytes(stn_context *context);

#endif
