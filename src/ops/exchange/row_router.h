/* Routed rows: a table is sharded by rows over some ranks, and every rank has indices of rows that may lie anywhere.
 *
 *     open    each rank sends the numbers of the distinct rows that it requests to their owners (one exchange of counts, one of numbers)
 *     reply   the owners send one row per index back (one exchange)
 *     send    the other way: one row per index goes to its owner, to be added there (one exchange)
 *     close
 *
 * A route that is to last is kept instead of closed, and used again by a later call whose rows lie alike: then there
 * is nothing to plan, no number to exchange and nothing to wait for.
 *
 * A caller that reaches its own rows itself has only the others routed; it takes part in all exchanges in any case.
 *
 * The number of rows that a rank gets depends on data, so open waits for the queue once; all else is queued. Reading
 * and writing of rows is the caller's; the op lists the kernel of plans in its slots. */
#ifndef STNI_OPS_EXCHANGE_ROW_ROUTER_H
#define STNI_OPS_EXCHANGE_ROW_ROUTER_H

#include "core/tensor/tensor.h"
#include "ops/exchange/row_router_kernel.h"

/* The rows that ranks own. */
struct stni_rows_owners {
    const stn_spec *spec; /* of the table */
    int dim;              /* of its rows */
    uint32_t axes;        /* mesh axes to route along; along others that cut `dim` a rank requests rows at its own coordinate only */
    int64_t rows_each;    /* rows per element of `dim`, numbered one element after the other; 0 is 1 */
    int without_own;      /* 1: this rank's own rows are left out, as the caller reaches them itself; on the CPU only */
    int lasts;            /* 1: the route may be kept, in memory of its own */
};

struct stni_rows_route {
    const stn_op_call *call;
    int is_kept;  /* 1: somebody keeps it, and frees it */
    int is_again; /* 1: another call has opened it */
    stn_comm *comm;
    int n_ranks;
    int64_t *host;                      /* what follows lies in it */
    int64_t *send_counts, *recv_counts; /* rows requested of each rank; rows that each requests of this one */
    int64_t *send_sized, *recv_sized;   /* the same in elements, for one exchange */
    int64_t n_asked, n_received;
    /* Device memory that lasts as long as the call, or as the route: then in storages. */
    int64_t *slot;             /* per index: which of `asked` it is, -1: none */
    int64_t *received;         /* rows that ranks request of this one, rank by rank */
    struct stni_storage *slot_memory, *received_memory; /* NULL: they last as long as the call */
    /* Of the call that opened it alone. */
    int64_t *asked, *counts;   /* distinct rows, rank by rank; how many of each rank, and in all */
};

/* Plans, and tells the owners. `plan` is the slot of stni_rows_plan's kind; `args` says what to look up: its
 * fields rows and n. Collective over the owners' axes. On failure nothing is left open. */
stn_status stni_rows_open(const stn_op_call *call, int plan, const struct stni_rows_owners *owners,
                           struct stni_rows_plan_args *args, struct stni_rows_route *route);

/* Dense rows of `width` elements: `rows`, one per `received`, go to `out`, one per `asked`. */
stn_status stni_rows_reply(struct stni_rows_route *route, const void *rows, void *out, int64_t width, stn_dtype dtype);

/* The other way: `rows`, one per `asked`, go to `out`, one per `received`. */
stn_status stni_rows_send(struct stni_rows_route *route, const void *rows, void *out, int64_t width, stn_dtype dtype);

/* How many of `received` come from ranks before this one. */
int64_t stni_rows_received_before(const struct stni_rows_route *route);

/* Frees what it owns; nothing of a route that a call uses again. */
void stni_rows_close(struct stni_rows_route *route);

/* Hands a route that lasts to `kept`, which is closed when it is no longer wanted; the call goes on with `route`. */
void stni_rows_keep(struct stni_rows_route *route, struct stni_rows_route *kept);

/* The route of another call by one that was kept. Local, and no host waits. */
void stni_rows_open_again(const stn_op_call *call, const struct stni_rows_route *kept, struct stni_rows_route *route);

/* Device memory of `n` elements of `size` bytes; at least one element. */
stn_status stni_rows_memory(const stn_op_call *call, int64_t n, size_t size, void *out);

#endif
