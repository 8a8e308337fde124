/* Routes: which ranges along one dim go from rank to rank.
 *
 * Every collective of dist.h but all_reduce is one linear map, which a route says for each rank: what it sends to whom,
 * and what it receives from whom. What several messages bring to one place is combined there, and what none brings
 * is 0. So the adjoint of a route is the same route with both lists exchanged, and sums: the ops need one run and
 * one backward between them. */
#ifndef STNI_OPS_DIST_ROUTE_H
#define STNI_OPS_DIST_ROUTE_H

#include "core/tensor/tensor.h"

/* A message: elements begin … begin + length - 1 along the dim. Three words, so that a list of parts is a list of
 * words. */
struct stni_message_range {
    int64_t peer; /* rank in the communicator of the mesh; may be this rank */
    int64_t begin, length;
};

/* A list of parts in the making. */
struct stni_ranges {
    int64_t n, cap;
    struct stni_message_range *list;
};

/* What a rank sends, then what it receives, each in the order of peers. */
struct stni_route {
    int64_t n_send, n_receive;
    struct stni_message_range parts[];
};

/* What becomes of a gradient under the convention that its route was made with. */
enum stni_route_kind {
    STNI_ROUTE_PLAIN, /* the adjoint is the exchanged route, and plain */
    STNI_ROUTE_SPREADS, /* makes replicas of one loss: each rank takes what it gave from its own cotangent */
    STNI_ROUTE_TAKES, /* the adjoint of one that spreads: only messages from a rank to itself count */
    STNI_ROUTE_SUMS,  /* the ranks' inputs are addends: the adjoint spreads */
    STNI_ROUTE_KINDS
};

struct stni_route_attrs {
    int64_t mesh;   /* its number in the context */
    int64_t dim;    /* 0 where the tensors have none */
    int64_t length; /* elements of the result along the dim */
    int64_t op;     /* stn_reduce_op by which messages to one place are combined; where they overlap in part: SUM */
    int64_t kind;   /* enum stni_route_kind */
    int64_t meets;  /* enum stni_route_meets, the same on all ranks */
    int64_t native; /* enum stni_native: the collective that does the same */
    int64_t root;   /* its root, if it has one */
};

/* Where several messages may come to one place, on some rank: in the route itself, in its reverse. */
enum stni_route_meets { STNI_ROUTE_MEETS = 1, STNI_ROUTE_MEETS_BACK = 2 };

/* Adds a part; one without elements is left out, at its sender and at its receiver alike. @return STN_ERR_MEMORY,
 * kept. */
stn_status stni_ranges_add(stn_context *context, struct stni_ranges *parts, int64_t peer, int64_t begin,
                           int64_t length);

/* By peer; parts of one peer stay in their order. */
void stni_ranges_sort(struct stni_ranges *parts);

void stni_ranges_fini(struct stni_ranges *parts);

/* Lists of numbers that travel with a call as an input of their own: in memory of the host, and counted as any
 * tensor is, so that a node that saves one keeps it as long as it needs it. Attributes hold no pointers, and a table
 * that only grows would keep every distinct list of a training. Only these pages read them. */

/* A copy of n words as such a tensor; one reference, the caller's. */
stn_status stni_words_create(stn_context *context, const int64_t *words, int64_t n, stn_tensor **out);

/* Its words; NULL where the tensor is none of these. */
const int64_t *stni_words_of(const stn_tensor *tensor);

/* A route as words. The parts are sorted by peer, those of one peer stay in their order. */
stn_status stni_route_create(stn_context *context, struct stni_ranges *send, struct stni_ranges *receive,
                             stn_tensor **out);

/* The same route with both lists exchanged. */
stn_status stni_route_reverse(stn_context *context, const struct stni_route *route, stn_tensor **out);

#endif
