/* What the two ways of an exchange share: which received messages go to one box. */
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

#endif
