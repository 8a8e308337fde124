/* Ops in random layouts against one process: the same op on whole local tensors. Values, gradients and second
 * derivatives.
 *
 * A test draws from a state that starts alike on every rank, so that all ranks make the same calls. */
#ifndef SHARDTENSOR_TESTS_OPS_AGAINST_ONE_H
#define SHARDTENSOR_TESTS_OPS_AGAINST_ONE_H

#include "core/shard/random_spec.h"

#include <shardtensor/shardtensor.h>

enum { AGAINST_ONE_MAX_INPUTS = 4 };

/** One input: a tensor of a shape and its values, whole. */
struct against_one_input {
    stn_dtype dtype; /* F64, F32 or I64 */
    struct random_shape shape;
    const double *values; /* row-major */
    uint32_t ops;         /* which Partial placements it may be drawn with; 0 where integers */
};

struct against_one_op {
    stn_tensor *(*call)(stn_tensor *const *in, const void *arg);
    const void *arg;
    int n_in;
    struct against_one_input in[AGAINST_ONE_MAX_INPUTS];
    double tolerance; /* of the largest difference, relative to the largest value, or to 1e-6 where all are less */
    int first_order;  /* 1: gradients alone */
    uint32_t still;   /* bit i: input i requires no gradient; against_one_check draws more of them */
};

/** Runs the op on whole local tensors, and on `mesh` in layouts drawn from `state`; compares the output, the
 * gradients of the F64 and F32 inputs, of some of them alone every other time, for a drawn cotangent in a drawn
 * layout, and the derivatives of those gradients. Collective. Ranks outside the mesh take part. */
void against_one_check(stn_context *context, uint64_t *state, const stn_mesh *mesh, const struct against_one_op *op);

/** The same for `rounds` drawn F64 tensors, meshes and layouts with pending sums, of a call with one input whose
 * `arg` is a drawn uint64_t, to draw more from. */
void against_one_check_drawn(stn_context *context, uint64_t state, int rounds,
                             stn_tensor *(*call)(stn_tensor *const *in, const void *arg));

/** Compares gradients, and the derivatives of gradients, of the op on whole local F64 tensors with central
 * differences along drawn directions: what against_one_check cannot see is an error that layouts share. Local. */
void against_one_differences(stn_context *context, uint64_t *state, const struct against_one_op *op);

/** A tensor of `spec` whose whole has the given values. Addends of a pending sum differ from rank to rank. */
stn_tensor *against_one_tensor(stn_context *context, const stn_spec *spec, const double *values);

/** A whole local tensor. */
stn_tensor *against_one_local(stn_context *context, stn_dtype dtype, const struct random_shape *shape,
                              const double *values);

/** Compares the whole of a tensor with values: on the ranks of its mesh. */
void against_one_compare(stn_tensor *tensor, const double *want, double tolerance);

/** n values between -1 and 1, multiples of 2^-20, so that sums with the small integers of pending sums are exact. The
 * caller frees them. */
double *against_one_draw(uint64_t *state, int64_t n);

int64_t against_one_numel(const struct random_shape *shape);

#endif
