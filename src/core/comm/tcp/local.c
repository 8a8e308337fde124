#include "core/comm/tcp/local.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const uint8_t no_name[STNI_TCP_NAME];
static const int buffer = 1 << 19; /* bytes that may be on their way; the system doubles them and has a limit */

/* Behind the 0 that an abstract name begins with, for those who list a machine's sockets. */
static socklen_t address_of(const struct stni_tcp_place *place, struct sockaddr_un *to)
{
    static const char ours[] = "shardtensor-";
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    char *at = to->sun_path + 1;
    memcpy(at, ours, sizeof ours);
    at += sizeof ours - 1;
    for (int i = 0; i < STNI_TCP_NAME; i++)
        at += snprintf(at, 3, "%02x", place->name[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)(at - to->sun_path));
}

int stni_tcp_listen_here(struct stni_tcp_place *place, int most_waiting)
{
    struct sockaddr_un at;
    int made = -1;
    if (getrandom(place->name, sizeof place->name, GRND_NONBLOCK) == (ssize_t)sizeof place->name)
        made = stni_tcp_prepare(socket(AF_UNIX, SOCK_STREAM, 0));
    const socklen_t size = address_of(place, &at);
    if (made >= 0 && (bind(made, (const struct sockaddr *)&at, size) != 0 || listen(made, most_waiting) != 0))
        stni_tcp_close(&made);
    if (made < 0)
        memcpy(place->name, no_name, sizeof no_name);
    return made;
}

int stni_tcp_connect_here(const struct stni_tcp_place *place)
{
    struct sockaddr_un at;
    const socklen_t size = address_of(place, &at);
    if (memcmp(place->name, no_name, sizeof no_name) == 0)
        return -1;
    int made = stni_tcp_prepare(socket(AF_UNIX, SOCK_STREAM, 0));
    if (made >= 0 && (connect(made, (const struct sockaddr *)&at, size) != 0 || !stni_tcp_use_here(made)))
        stni_tcp_close(&made);
    return made;
}

int stni_tcp_use_here(int socket)
{
    struct ucred other;
    socklen_t size = sizeof other;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0 || other.uid != geteuid())
        return 0;
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    return 1;
}
