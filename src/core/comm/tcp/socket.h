/* Sockets with a deadline, and where a process listens. */
#ifndef STNI_CORE_COMM_TCP_SOCKET_H
#define STNI_CORE_COMM_TCP_SOCKET_H

#include "core/base/status.h"

#include <stdint.h>

enum {
    STNI_TCP_MESSAGES, /* what a connection is for */
    STNI_TCP_NOTICES,
    STNI_TCP_LANES,
    STNI_TCP_MEETING = STNI_TCP_LANES
};

enum { STNI_TCP_NAME = 16 /* bytes */ };

/* An address without the padding and order of sockaddr. */
struct stni_tcp_place {
    uint8_t address[16]; /* an IPv4 address as IPv6 writes it, ::ffff:a.b.c.d */
    uint16_t port;
    uint8_t name[STNI_TCP_NAME]; /* of the local socket there (local.h); zeros: none */
};

/* Seconds of a clock that only goes forward. */
double stni_tcp_now(void);

/* Listens at `port` of every address of this machine; 0: any port. @return a descriptor that does not block, or -1
 * (errno). */
int stni_tcp_listen(int port, int most_waiting);
int stni_tcp_port_of(int listener);

/* The next one who calls; -1 where nobody did until then. `*from` is where the call came from. */
int stni_tcp_accept(int listener, double until, struct stni_tcp_place *from);

/* @return a descriptor, or -1 where nobody listens there, or does not answer until then. */
int stni_tcp_connect(const struct stni_tcp_place *place, double until);

/* All of `size` bytes, or 0: the time is over or the connection has ended. */
int stni_tcp_put(int socket, const void *data, size_t size, double until);
int stni_tcp_get(int socket, void *data, size_t size, double until);

/* The first addresses of a name, at most `n`. @return how many; `*why` says why nobody was found there, if so it is. */
int stni_tcp_look_up(const char *host, struct stni_tcp_place *places, int n, const char **why);

int stni_tcp_is_loopback(const struct stni_tcp_place *place);

/* Where the other end of a connection is, by its address. */
struct stni_tcp_place stni_tcp_peer_of(int socket);

/* Whether both ends of a connection are on this machine: it is a local one, or they have one address. */
int stni_tcp_is_here(int socket);

/* What every socket of ours is: it does not block, and ends with exec. @return `socket`; -1 for -1. */
int stni_tcp_prepare(int socket);

void stni_tcp_close(int *socket);

#endif
