/* Results of redistributions that go on beside the caller: what is waited for before their elements are used, and
 * what is held until then. */
#ifndef STNI_CORE_TENSOR_UNDER_WAY_H
#define STNI_CORE_TENSOR_UNDER_WAY_H

#include "core/tensor/tensor.h"

enum { STNI_STEPS_UNDER_WAY = 2 };

struct stni_under_way {
    int n_steps;
    stn_request *step[STNI_STEPS_UNDER_WAY]; /* each behind the one before */
    stn_comm *comm[STNI_STEPS_UNDER_WAY];    /* theirs, which live as long as the context */
    stn_tensor *source;  /* retained, as it must not change: its version was this */
    uint32_t version;
    stn_tensor *between; /* what an earlier exchange gave; NULL: none */
    int waited;          /* by the caller */
};

/* Begins a collective as the next step; a failure is kept. */
stn_status stni_under_way_exchange(stn_context *context, struct stni_under_way *way, stn_comm *comm,
                                   const stn_exchange *messages);
stn_status stni_under_way_all_reduce(stn_context *context, struct stni_under_way *way, stn_comm *comm, const void *send,
                                     void *recv, int64_t n, stn_dtype dtype, stn_reduce_op op);

/* Waits for the steps, whatever they return: the first failure, kept as a rank error. */
stn_status stni_under_way_finish(stn_context *context, struct stni_under_way *way);

/* The tensor, a handle that nobody else has, is the result of `source` by `way`, which is its own from now on. */
void stni_tensor_set_under_way(stn_tensor *tensor, stn_tensor *source, struct stni_under_way *way);

/* `to` is what `from`, which has no other handle, was the result of. */
void stni_tensor_hand_over_way(stn_tensor *from, stn_tensor *to);

/* Waits as the above, and frees `way`. Accepts NULL. */
void stni_under_way_drop(stn_context *context, struct stni_under_way *way);

#endif
