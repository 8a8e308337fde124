/* Messages between the ranks of some axes of a mesh, collected in the order in which an op meets them and exchanged
 * at once. */
#ifndef STNI_OPS_EXCHANGE_MESSAGES_H
#define STNI_OPS_EXCHANGE_MESSAGES_H

#include <shardtensor/op.h>

#include "core/shard/mesh.h"

/* Of one direction, in the order of addition until they are sorted by peer. */
struct stni_message_list {
    int n, cap;
    struct stni_message_entry *entries;
};

/* All zero but context, mesh (NULL: of a local tensor) and axes (bit a: axis a) is an empty set. */
struct stni_messages {
    stn_context *context;
    const stn_mesh *mesh;
    uint32_t axes;
    struct stni_message_list send, recv;
};

/* Adds a box that goes to, or comes from, the rank at the coordinates; `list` is one of the set's. */
stn_status stni_messages_add(const struct stni_messages *messages, struct stni_message_list *list,
                             const int *coordinate, const stn_box *box);

/* Adds a copy from one box of this rank's to another. It is made with the exchange, so that all copies of ranks that
 * read each other's memory are one list. */
stn_status stni_messages_add_own(struct stni_messages *messages, const stn_box *to, const stn_box *from);

/* What this rank sends to others and receives from them, bytes. */
int64_t stni_messages_bytes(const struct stni_messages *messages, stn_dtype dtype);

/* Exchanges them all beside the caller, until `*request` has been waited for. A failure is the context's queue's.
 * Collective over the axes, together with stni_messages_exchange on other ranks. The lists cannot be added to after
 * it, and may go. */
stn_status stni_messages_begin(struct stni_messages *messages, stn_dtype dtype, stn_request **request);

/* Exchanges them all, on the context's queue. Collective over the axes; without any the copies are made. The lists
 * cannot be added to after it. */
stn_status stni_messages_exchange(struct stni_messages *messages, stn_dtype dtype);

void stni_messages_fini(struct stni_messages *messages);

#endif
