/* Sockets that never block: each wait polls until its deadline. */
#include "core/comm/tcp/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static int is_v4(const struct stni_tcp_place *place)
{
    return memcmp(place->address, mapped, sizeof mapped) == 0;
}

static struct stni_tcp_place place_of(const union address *from)
{
    struct stni_tcp_place place = {.port =
                                       ntohs(from->any.sa_family == AF_INET ? from->v4.sin_port : from->v6.sin6_port)};
    if (from->any.sa_family == AF_INET) {
        memcpy(place.address, mapped, sizeof mapped);
        memcpy(place.address + sizeof mapped, &from->v4.sin_addr, 4);
    } else {
        memcpy(place.address, &from->v6.sin6_addr, 16);
    }
    return place;
}

static socklen_t address_of(const struct stni_tcp_place *place, union address *to)
{
    memset(to, 0, sizeof *to);
    if (is_v4(place)) {
        to->v4.sin_family = AF_INET;
        to->v4.sin_port = htons(place->port);
        memcpy(&to->v4.sin_addr, place->address + sizeof mapped, 4);
        return sizeof to->v4;
    }
    to->v6.sin6_family = AF_INET6;
    to->v6.sin6_port = htons(place->port);
    memcpy(&to->v6.sin6_addr, place->address, 16);
    return sizeof to->v6;
}

int stni_tcp_is_loopback(const struct stni_tcp_place *place)
{
    static const uint8_t one[16] = {[15] = 1};
    return is_v4(place) ? place->address[12] == 127 : memcmp(place->address, one, sizeof one) == 0;
}

double stni_tcp_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Small messages go at once, and a machine that has gone is noticed some time. Local sockets are so anyway, and take
 * no options of TCP. */
int stni_tcp_prepare(int socket)
{
    int on = 1;
    if (socket < 0)
        return -1;
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return socket;
}

static int listen_as(int family, int port, int most_waiting)
{
    union address at = {.any.sa_family = (sa_family_t)family};
    int off = 0, on = 1, made = stni_tcp_prepare(socket(family, SOCK_STREAM, 0));
    if (made < 0)
        return -1;
    if (family == AF_INET6) {
        at.v6.sin6_port = htons((uint16_t)port);
        setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    } else {
        at.v4.sin_port = htons((uint16_t)port);
    }
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(made, &at.any, family == AF_INET6 ? sizeof at.v6 : sizeof at.v4) == 0 && listen(made, most_waiting) == 0)
        return made;
    int failed = errno;
    stni_tcp_close(&made);
    errno = failed;
    return -1;
}

int stni_tcp_listen(int port, int most_waiting)
{
    int made = listen_as(AF_INET6, port, most_waiting);
    return made < 0 && errno != EADDRINUSE ? listen_as(AF_INET, port, most_waiting) : made;
}

int stni_tcp_port_of(int listener)
{
    union address at;
    socklen_t size = sizeof at;
    return getsockname(listener, &at.any, &size) == 0 ? place_of(&at).port : 0;
}

/* 1: the socket is ready for `events` (or has ended, which the next call will say). */
static int is_ready(int socket, short events, double until)
{
    for (;;) {
        double left = until - stni_tcp_now();
        struct pollfd wait = {socket, events, 0};
        int n = poll(&wait, 1, left < 0 ? 0 : left > 1 ? 1000 : (int)(left * 1000) + 1);
        if (n > 0)
            return 1;
        if ((n < 0 && errno != EINTR) || left < 0)
            return 0;
    }
}

int stni_tcp_accept(int listener, double until, struct stni_tcp_place *from)
{
    union address at = {0};
    socklen_t size = sizeof at;
    if (!is_ready(listener, POLLIN, until))
        return -1;
    int made = stni_tcp_prepare(accept(listener, &at.any, &size));
    if (made >= 0)
        *from = place_of(&at);
    return made;
}

struct stni_tcp_place stni_tcp_peer_of(int socket)
{
    union address at = {0};
    socklen_t size = sizeof at;
    getpeername(socket, &at.any, &size);
    return place_of(&at);
}

static struct stni_tcp_place own_end_of(int socket)
{
    union address at = {0};
    socklen_t size = sizeof at;
    getsockname(socket, &at.any, &size);
    return place_of(&at);
}

static int is_local(int socket)
{
    int domain = AF_UNSPEC;
    socklen_t size = sizeof domain;
    return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

int stni_tcp_is_here(int socket)
{
    if (is_local(socket))
        return 1;
    const struct stni_tcp_place here = own_end_of(socket), there = stni_tcp_peer_of(socket);
    return memcmp(here.address, there.address, sizeof here.address) == 0;
}

/* A call to a port of this machine that nobody listens at can meet itself, where the system has given the call that
 * port. */
static int is_own_echo(int socket)
{
    return own_end_of(socket).port == stni_tcp_peer_of(socket).port && stni_tcp_is_here(socket);
}

int stni_tcp_connect(const struct stni_tcp_place *place, double until)
{
    union address at;
    int failed = 0;
    socklen_t size = address_of(place, &at), room = sizeof failed;
    int made = stni_tcp_prepare(socket(at.any.sa_family, SOCK_STREAM, 0));
    if (made < 0)
        return -1;
    const int is_made =
        connect(made, &at.any, size) == 0 || (errno == EINPROGRESS && is_ready(made, POLLOUT, until) &&
                                              getsockopt(made, SOL_SOCKET, SO_ERROR, &failed, &room) == 0 && !failed);
    if (!is_made || is_own_echo(made))
        stni_tcp_close(&made);
    return made;
}

static int is_later(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

int stni_tcp_put(int socket, const void *data, size_t size, double until)
{
    const char *at = data, *end = at + size;
    while (at < end) {
        ssize_t n = send(socket, at, (size_t)(end - at), MSG_NOSIGNAL);
        if (n < 0 && (!is_later(n) || !is_ready(socket, POLLOUT, until)))
            return 0;
        at += n > 0 ? n : 0;
    }
    return 1;
}

int stni_tcp_get(int socket, void *data, size_t size, double until)
{
    char *at = data, *end = at + size;
    while (at < end) {
        ssize_t n = recv(socket, at, (size_t)(end - at), 0);
        if (n == 0 || (n < 0 && (!is_later(n) || !is_ready(socket, POLLIN, until))))
            return 0;
        at += n > 0 ? n : 0;
    }
    return 1;
}

int stni_tcp_look_up(const char *host, struct stni_tcp_place *places, int n, const char **why)
{
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int count = 0, status = getaddrinfo(host, NULL, &wanted, &found);
    *why = status == 0 ? "nobody of this job answers" : gai_strerror(status);
    for (struct addrinfo *at = found; at && count < n; at = at->ai_next) {
        union address address = {0};
        if (at->ai_addrlen > sizeof address)
            continue;
        memcpy(&address, at->ai_addr, at->ai_addrlen);
        places[count++] = place_of(&address);
    }
    if (found)
        freeaddrinfo(found);
    return count;
}

void stni_tcp_close(int *socket)
{
    if (*socket >= 0)
        close(*socket);
    *socket = -1;
}
