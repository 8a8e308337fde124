/* Local sockets (AF_UNIX) between the ranks of one machine: a message has no TCP to go through.
 *
 * A rank listens under a name of random bytes in Linux's abstract namespace, which is one network namespace's. So who
 * calls a name that it was told meets that rank, or nobody, wherever it is; files are none left over. */
#ifndef STNI_CORE_COMM_TCP_LOCAL_H
#define STNI_CORE_COMM_TCP_LOCAL_H

#include "core/comm/tcp/socket.h"

/* Makes up `place`'s name and listens there. @return a descriptor that does not block; -1, and no name: it cannot. */
int stni_tcp_listen_here(struct stni_tcp_place *place, int most_waiting);

/* Never waits. @return -1: nobody listens under its name here (or there is none), its line is full, or another user's
 * process does. */
int stni_tcp_connect_here(const struct stni_tcp_place *place);

/* Whether a local connection may be used: the other end belongs to a process of this one's user. (Names can be seen by
 * all, in /proc/net/unix.) One that may is made ready for large messages. */
int stni_tcp_use_here(int socket);

#endif
