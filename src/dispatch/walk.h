/* One call of an op under way, as the steps of its walk hand it on. */
#ifndef STNI_DISPATCH_WALK_H
#define STNI_DISPATCH_WALK_H

#include "dispatch/registry.h"

struct stni_placed;

/* The arrays behind `call` live here, so that a warm call touches no heap but its outputs'. */
struct stni_walk {
    stn_op_call call;
    const stn_op_desc *desc;
    const struct stni_placed *placed;
    size_t attrs_size; /* bytes of the attributes; 0: the caller gave none */
    uint32_t moved; /* bit i: in[i] is a redistributed copy that the walk owns */
    uint32_t flags; /* those of any input */
    stn_tensor *in[STN_MAX_INPUTS], *out[STN_MAX_OUTPUTS];
    const stn_spec *in_spec[STN_MAX_INPUTS];
};

/* check and place, kept in the cache: w->placed. Errors are the same on every rank, and nothing is communicated. */
stn_status stni_place_new(struct stni_walk *w);

/* All inputs are on one mesh, or all are local: STN_ERR_ARGUMENT. A matter of specs alone. */
stn_status stni_check_meshes(const stn_op_call *call);

/* Whether the attributes are what the schema allows. */
stn_status stni_check_attrs(const struct stni_walk *w);

/* What an op's function answered. It is its author's: a failure that it did not report is reported here, and one
 * that it did counts whatever it returned. */
stn_status stni_answer_of(const struct stni_walk *w, const char *function, stn_status status);

/* An op made of others has been refused by one of them: the text begins with its own name, too, "mine: add: …". */
void stni_name_refusal(const struct stni_walk *w);

/* Whether `function` left n_out at what the arrays of a walk have space for. */
stn_status stni_check_n_out(const struct stni_walk *w, const char *function);

#endif
