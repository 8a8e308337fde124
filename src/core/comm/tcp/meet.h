/* The beginning of a family: its ranks find and connect to each other. */
#ifndef STNI_CORE_COMM_TCP_MEET_H
#define STNI_CORE_COMM_TCP_MEET_H

#include "core/comm/tcp/socket.h"

enum { STNI_TCP_PORTS = 16 /* that rank 0 may listen at, from the port that was asked for on */ };

struct stni_tcp_wish {
    const char *host; /* rank 0's */
    int port;
    int rank, ranks;
    uint64_t job;     /* known to these ranks alone */
    double deadline_seconds;
};

/* Collective. `lanes`: for each rank, STNI_TCP_LANES descriptors; -1 for this rank's own, and for all where it
 * fails. */
stn_status stni_tcp_meet(const struct stni_tcp_wish *wish, int *lanes, struct stni_error *error);

#endif
