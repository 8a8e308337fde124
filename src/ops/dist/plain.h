/* What the forms without gradients share: collectives in the memory that the caller has, at once or as a request.
 *
 * A form begins with stni_plain_enter, checks what this rank passes, lists what all ranks must pass alike, and calls
 * stni_plain_ready; then it hands its communicator's call to stni_plain_end. */
#ifndef STNI_OPS_DIST_PLAIN_H
#define STNI_OPS_DIST_PLAIN_H

#include "core/tensor/tensor.h"
#include "ops/dist/facts.h"
#include "ops/dist/route.h"

#include <shardtensor/dist.h>

/* Messages that overlap in part: they come beside the result and are added into it once all are there. */
struct stni_plain_overlap {
    struct stni_ranges parts; /* what each brings */
    stn_box *boxes;           /* where each came */
    stn_tensor *memory;       /* of the boxes; NULL: nothing overlaps */
};

struct stn_dist_request {
    stn_request *inner;
    stn_context *context;
    stn_tensor *in, *out; /* held until it has ended; NULL: none on this rank */
    const char *name;
    stn_comm *comm; /* lives as long as the context */
    struct stni_plain_overlap overlap;
};

/* One call. */
struct stni_plain {
    const char *name;
    stn_context *context;
    const stn_mesh *mesh;
    int had_failed;        /* the context had kept an error before */
    int me;                /* this rank's place in the mesh; -1 outside */
    stn_tensor *in, *out;  /* the same tensor where in place; NULL: this rank gives or gets nothing */
    stn_dist_request **request;
    stn_dist_request *begun;
    stn_comm *comm; /* NULL outside of the mesh */
    struct stni_facts facts;
    int64_t *counts; /* owned: two lists of one number per rank */
    struct stni_plain_overlap overlap; /* owned */
};

/* Once p has name, mesh, tensors and request as the caller passed them. Without a mesh the context of a tensor keeps
 * an error (stni_dist_no_mesh). */
stn_status stni_plain_enter(struct stni_plain *p);

/* Takes the tensors that this rank gives and gets; with `gives` or `gets` 0 it is not looked at. Adds their facts,
 * from that dim on. */
stn_status stni_plain_begin(struct stni_plain *p, int gives, int gets, int from_dim);

/* The op and the root, as all ranks name them. */
stn_status stni_plain_check_op(struct stni_plain *p, stn_reduce_op op);
stn_status stni_plain_check_root(struct stni_plain *p, int root);

/* The ranks agree, unless the call is a request. STN_OK with p->comm NULL: this rank has no part in it. */
stn_status stni_plain_ready(struct stni_plain *p, stn_status status);

/* Where the communicator's call puts its request; NULL: it blocks. */
stn_request **stni_plain_inner(const struct stni_plain *p);

/* After the communicator's call. */
stn_status stni_plain_end(struct stni_plain *p, stn_status status);

/* Of a call that moves nothing on this rank. */
stn_status stni_plain_leave(struct stni_plain *p, stn_status status);

/* Forms whose parts stand one behind the other along the first dim */

/* Elements of one row: of all dims but the first. */
int64_t stni_plain_row(const stn_tensor *t);
int64_t stni_plain_rows(const stn_tensor *t);

/* Input and result are row-major, of one dtype and alike but for the first dim; where this rank has one alone, that
 * is row-major. */
stn_status stni_plain_check_rows(const struct stni_plain *p);

/* The dtype of the tensors. */
stn_dtype stni_plain_dtype(const struct stni_plain *p);

#endif
