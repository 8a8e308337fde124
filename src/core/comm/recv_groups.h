/* What the two ways of an exchange share: which received messages go to one box, and parts of boxes. */
#ifndef STNI_CORE_COMM_RECV_GROUPS_H
#define STNI_CORE_COMM_RECV_GROUPS_H

#include <shardtensor/comm.h>

/* A received message by the memory it goes to. */
struct stni_recv_group {
    const void *data; /* NULL where there are no elements */
    int index;        /* among messages->recv */
};

/* One entry per received message; those to one box stand together, in the order of their senders. */
void stni_recv_groups_fill(const stn_exchange *messages, struct stni_recv_group *recv_groups);

/* How many messages from `first` on go to the same box. */
int stni_recv_groups_run(const struct stni_recv_group *recv_groups, int first, int n);

/* Visits elements [from, to) of a box in row-major order as at most 2 ndim - 1 boxes; `at`: elements visited before. */
typedef void (*stni_box_visit)(void *arg, const stn_box *part, int64_t at);
void stni_box_range(const stn_box *box, size_t element_size, int64_t from, int64_t to, stni_box_visit visit, void *arg);

#endif
