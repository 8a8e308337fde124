/* A call of stn_grad_all_reduce, and what its ranks compare before anything is moved. */
#ifndef STNI_TRAIN_JOINING_H
#define STNI_TRAIN_JOINING_H

#include "autograd/leaf.h"
#include "ops/dist/facts.h"

struct stni_joining {
    stn_context *context;
    const stn_mesh *mesh;
    int axis, n;
    stn_reduce_op op;
    stn_tensor *const *parameters;
    int same_gradients, has_hooks; /* on all ranks, on any: what stni_joining_compare has found */
    int64_t *words; /* STNI_JOINING_WORDS, one for each rank of the mesh, two for each parameter */
};

enum { STNI_JOINING_WORDS = 5 };

/* What this rank can tell alone. The failure is kept. */
stn_status stni_joining_check(const struct stni_joining *j);

/* The call as its ranks name it. */
struct stni_facts stni_joining_facts(const struct stni_joining *j);

/* Dtypes and shapes are alike on all ranks, and parts on ranks in line; finds who has gradients and hooks.
 * All ranks get the same status and text. Collective over the mesh. */
stn_status stni_joining_compare(struct stni_joining *j);

/* The greatest over the ranks of each of the first n words. Collective over the mesh. */
stn_status stni_joining_agree(const struct stni_joining *j, int64_t n);

static inline int stni_joining_has_gradient(const struct stni_joining *j, int i)
{
    return j->parameters[i]->leaf->grad || j->parameters[i]->leaf->pending;
}

#endif
