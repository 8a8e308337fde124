/* Random meshes and specs, for tests over many pairs of layouts. */
#ifndef SHARDTENSOR_TESTS_SHARD_RANDOM_SPEC_H
#define SHARDTENSOR_TESTS_SHARD_RANDOM_SPEC_H

#include "core/shard/spec.h"

struct random_shape {
    int ndim;
    int64_t shape[STN_MAX_NDIM];
};

/** A shape of 0 to 4 dims of 0 to 9 elements, seldom empty. */
void random_shape(uint64_t *state, struct random_shape *out);

/** A mesh of some ranks of the world: one to three axes, some of size 1, in row-major order, from an offset, or
 * shuffled. */
const stn_mesh *random_mesh(uint64_t *state, stn_context *context);

/** A spec on `mesh`: any placements (Partial of the ops in the mask only), axis order, memory order, balanced or
 * explicit cuts with empty pieces. The caller owns the reference. */
const stn_spec *random_spec(uint64_t *state, stn_context *context, const stn_mesh *mesh,
                            const struct random_shape *shape, stn_dtype dtype, uint32_t ops);

#endif
