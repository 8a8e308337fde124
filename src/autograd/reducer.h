/* Reductions of what leaves hold pending, many gradients in one message.
 *
 * Gradients are added in an order that every rank of their mesh has, to buckets of one mesh, axes and dtype each; so
 * a bucket holds the same on all of its ranks, whatever a rank has on other meshes. A full bucket is reduced at
 * once, or, beside the caller, begun. */
#ifndef STNI_AUTOGRAD_REDUCER_H
#define STNI_AUTOGRAD_REDUCER_H

#include "autograd/leaf.h"

struct stni_grad_reduction;

struct stni_reducer {
    stn_context *context;
    int beside; /* reductions that were begun go on until the end */
    struct stni_grad_reduction *filling, *begun; /* in the order of beginning */
};

/* Takes what the leaf holds pending. Where the reducer fails the leaf is given back what it had `before`. */
stn_status stni_reducer_add(struct stni_reducer *reducer, struct stni_leaf *leaf,
                            const struct stni_leaf_before *before);

/* Brings a cotangent to the layout of the leaf's complete gradient, `whole`, beside the caller; the leaf takes it at
 * the end. */
stn_status stni_reducer_move(struct stni_reducer *reducer, struct stni_leaf *leaf, stn_tensor *gradient,
                             const stn_spec *whole);

/* Begins what is left, waits, and adds results to the leaves' gradients. With a `status` that is a failure, or one
 * of its own, leaves have what they had before; returns it. */
stn_status stni_reducer_end(struct stni_reducer *reducer, stn_status status);

#endif
