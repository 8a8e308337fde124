/* Elements of one line that change places among the ranks that share it: each rank ends with as many as it has.
 *
 *     begin   the pieces of all ranks
 *     counts  each rank tells each other how many elements it has for it; the host waits for it
 *     send    an exchange, once for each array
 *     end
 *
 * What goes to a rank, and what comes from one, lies in the order of the ranks' pieces. */
#ifndef STNI_OPS_SORT_LINE_EXCHANGE_H
#define STNI_OPS_SORT_LINE_EXCHANGE_H

#include "ops/sort/sort_family.h"

struct stni_sort_swap {
    const stn_op_call *call;
    const stn_spec *spec;
    stn_comm *comm;
    int p, dim;
    /* On the device: where pieces begin (p + 1), the piece of each rank, how many elements come from each. */
    int64_t *begins, *pieces, *theirs;
    /* On the host; what the first are copied from lasts until counts has waited. */
    void *host;
    int64_t *host_begins, *host_pieces, *send, *recv;
    stn_message *messages; /* 2 p */
};

/* On failure, as at the end, stni_sort_swap_end is called. */
stn_status stni_sort_swap_begin(struct stni_sort_swap *swap, const stn_op_call *call, const stn_spec *spec, int dim,
                                uint32_t axes);

/* `counts`: this rank's for each rank, on the device. */
stn_status stni_sort_swap_counts(struct stni_sort_swap *swap, const int64_t *counts);

stn_status stni_sort_swap_send(const struct stni_sort_swap *swap, stn_dtype dtype, void *from, void *to);

/* Returns `status`. */
stn_status stni_sort_swap_end(struct stni_sort_swap *swap, stn_status status);

/* Copies an array to the device, where it lasts as long as the call. The host's is not touched before the queue was
 * waited for. */
stn_status stni_sort_copy_in(const stn_op_call *call, const void *from, size_t bytes, void *out);

#endif
