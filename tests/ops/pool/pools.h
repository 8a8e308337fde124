/* Drawn pools, and what they are by plain loops. */
#ifndef SHARDTENSOR_TESTS_OPS_POOL_POOLS_H
#define SHARDTENSOR_TESTS_OPS_POOL_POOLS_H

#include "core/shard/world.h"
#include "ops/against_one.h"

struct pool_case {
    int dims, adaptive, max;
    stn_pool_attrs attrs;
    int64_t size[3]; /* of adaptive ones */
    int picks;       /* pool_call gives the indices, as f64 */
};

/** A pool of 1 to 3 dims and an input for it, batched or not; chunks are often narrower than a window. */
void pool_draw(uint64_t *state, struct random_shape *shape, struct pool_case *c);

/** n distinct values 1/16 apart, shuffled: the largest of some stays so where they change a little. The caller frees
 * them. */
double *pool_values(uint64_t *state, int64_t n);

/** The pool by its typed function. @param arg a pool_case. */
stn_tensor *pool_call(stn_tensor *const *in, const void *arg);

/** The result's shape, and its values and places by plain loops. The caller frees both. */
void pool_plain(const struct pool_case *c, const struct random_shape *shape, const double *in, struct random_shape *out,
                double **values, double **places);

#endif
