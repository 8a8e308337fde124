/* A program of another kind that listens where a rank would: for tests that ranks pass it by. */
#ifndef SHARDTENSOR_TESTS_OTHER_SERVICE_H
#define SHARDTENSOR_TESTS_OTHER_SERVICE_H

#include "harness.h"

#include <sys/socket.h>
#include <unistd.h>

/* Says this to all who call until its listener is shut down; NULL: what they have said. */
struct service {
    const char *text;
    size_t size;
    int listener, heard;
};

static inline void *serve(void *arg)
{
    struct service *service = arg;
    char said[256];
    for (int call; (call = accept(service->listener, NULL, NULL)) >= 0; close(call)) {
        const ssize_t n = recv(call, said, sizeof said, 0);
        if (n <= 0)
            continue;
        service->heard++;
        if (service->text)
            CHECK(send(call, service->text, service->size, MSG_NOSIGNAL) > 0);
        else
            CHECK(send(call, said, (size_t)n, MSG_NOSIGNAL) > 0);
        while (recv(call, said, sizeof said, 0) > 0)
            ;
    }
    return NULL;
}

#endif
