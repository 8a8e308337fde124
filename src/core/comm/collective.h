/* A collective as a value: which one, and its arguments. It is queued by the launchers, counted, compared (checks
 * mode), and published to other ranks. */
#ifndef STNI_CORE_COMM_COLLECTIVE_H
#define STNI_CORE_COMM_COLLECTIVE_H

#include "core/comm/comm.h"

/* Fields that a collective does not have are zero. A broadcast's buffer is both `send` and `recv`. */
struct stni_coll {
    enum stni_coll_kind kind;
    stn_dtype dtype;
    stn_reduce_op op;
    int root; /* of an agreement of words: which one it is, a stni_agreement */
    int64_t count; /* of one buffer; for collectives with `counts`, their sum */
    const void *send;
    void *recv;
    const int64_t *counts;      /* per rank; of an all_to_all: what is sent */
    const int64_t *recv_counts; /* all_to_all */
    const stn_exchange *messages;
    int host; /* 1: an all_reduce of words or broadcast of bytes in memory of the host, whatever the queue's device */
    int agreement; /* 1: one of agree.c, on the caller's thread, which alone comes to those */
};

/* "all_reduce", … */
const char *stni_coll_name(enum stni_coll_kind kind);

/* "f32", "sum" and so on as far as the collective has them: for texts. As snprintf. */
int stni_coll_describe(const struct stni_coll *coll, char *text, size_t size);

int64_t stni_counts_sum(const int64_t *counts, int n);

/* What rank `rank` of `size` sends to other ranks, whatever the communicator: the model behind stats and the fake's
 * clock. Messages without elements are not counted. With n = count, n_r = what rank r holds under the balanced split, e
 * the element size:
 *     all_reduce      2 (size - 1) messages, n + (size - 2) n_r elements: a reduce-scatter and an all-gather
 *     reduce          1 message, n elements; the root none
 *     all_gather      size - 1 messages, (size - 1) counts[r] elements
 *     gather          1 message, counts[r] elements; the root none
 *     reduce_scatter  a message of counts[s] elements to each other rank s
 *     scatter         the root: the same; others none
 *     broadcast       the root: size - 1 messages, (size - 1) n elements
 *     all_to_all, group, exchange: as the arguments say
 *     barrier         none */
struct stni_comm_stats stni_coll_cost(const struct stni_coll *coll, int rank, int size);

/* Runs the collective through the communicator's table; an exchange that the table lacks, through others of its
 * entries. A stni_comm_run_fn. */
stn_status stni_coll_run(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll);

#endif
