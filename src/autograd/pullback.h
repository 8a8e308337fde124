/* Pullbacks: what one call keeps for its backward, apart from what tensors keep. Its inputs are leaves that nobody
 * else knows. */
#ifndef STNI_AUTOGRAD_PULLBACK_H
#define STNI_AUTOGRAD_PULLBACK_H

#include "autograd/leaf.h"
#include "autograd/node.h"

#include <shardtensor/pullback.h>

struct stn_pullback {
    stn_context *context;            /* NULL once it was destroyed */
    struct stn_pullback *next, **at; /* the tape's list: at points to what points here */
    int n_in, n_out;
    struct stni_leaf *leaf[STN_MAX_INPUTS];   /* NULL: no gradient reaches the input. One reference each */
    struct stni_edge out[STN_MAX_OUTPUTS];    /* where the outputs came from. One reference each */
    const stn_spec *out_spec[STN_MAX_OUTPUTS]; /* retained; NULL where there is no output */
};

/* One without inputs and outputs, on the tape's list. */
stn_status stni_pullback_create(stn_context *context, stn_pullback **out);

/* Adds an input: another handle on `tensor` that is a leaf of the pullback's own where `needs` says so and gradients
 * of its dtype exist, else one without history. One reference, the caller's. */
stn_status stni_pullback_add_input(stn_pullback *pullback, stn_tensor *tensor, int needs, stn_tensor **out);

/* The same where the handle is to be changed in place, which a leaf cannot be. */
stn_status stni_pullback_add_changed(stn_pullback *pullback, stn_tensor *tensor, int needs, stn_tensor **out);

/* Adds an output: NULL where there is none. */
void stni_pullback_add_output(stn_pullback *pullback, const stn_tensor *tensor);

/* Another handle on a tensor, without history. */
stn_status stni_pullback_detach(stn_tensor *tensor, stn_tensor **out);

/* Gives up what all pullbacks of a context keep. */
void stni_pullback_clear_all(stn_context *context);

#endif
