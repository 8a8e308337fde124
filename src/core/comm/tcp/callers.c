#include "core/comm/tcp/callers.h"

#include "core/base/host_alloc.h"
#include "core/comm/tcp/local.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { STRANGERS = 64 /* that are listened to beside the ranks */, LISTENERS = 2 };
static const double rest = 0.02; /* seconds */

/* The same words in another order of bytes are another number, so that machines which cannot understand each other do
 * not try. */
struct stni_tcp_head stni_tcp_hello_head(uint64_t job)
{
    return (struct stni_tcp_head){UINT64_C(0x53544e2d54435033), job};
}

struct stni_tcp_head stni_tcp_answer_head(uint64_t job)
{
    return (struct stni_tcp_head){UINT64_C(0x53544e2d54434133), job};
}

int stni_tcp_get_answer(int socket, uint64_t job, struct stni_tcp_answer *answer, double until)
{
    const struct stni_tcp_head head = stni_tcp_answer_head(job);
    return stni_tcp_get(socket, &answer->head, sizeof head, until) && memcmp(&answer->head, &head, sizeof head) == 0 &&
           stni_tcp_get(socket, &answer->rank, sizeof *answer - sizeof head, until);
}

/* Callers that were answered are ranks, one call each: they leave room for strangers. */
int stni_tcp_callers_init(struct stni_tcp_callers *callers, int listener, uint64_t job, int ranks)
{
    *callers = (struct stni_tcp_callers){.listener = listener, .here = -1, .job = job, .most = ranks + STRANGERS};
    callers->at = stni_malloc((size_t)callers->most * sizeof *callers->at);
    callers->polled = stni_malloc((size_t)(callers->most + LISTENERS) * sizeof *callers->polled);
    return callers->at && callers->polled;
}

void stni_tcp_callers_fini(struct stni_tcp_callers *callers)
{
    while (callers->n > 0)
        stni_tcp_drop_caller(callers, &callers->at[callers->n - 1]);
    stni_tcp_close(&callers->here);
    stni_free(callers->at);
    stni_free(callers->polled);
}

int stni_tcp_take_caller(struct stni_tcp_callers *callers, struct stni_tcp_caller *caller)
{
    const int socket = caller->socket;
    *caller = callers->at[--callers->n];
    return socket;
}

void stni_tcp_drop_caller(struct stni_tcp_callers *callers, struct stni_tcp_caller *caller)
{
    int socket = stni_tcp_take_caller(callers, caller);
    stni_tcp_close(&socket);
}

int stni_tcp_answer_caller(struct stni_tcp_callers *callers, struct stni_tcp_caller *caller,
                           const struct stni_tcp_answer *answer, double until)
{
    if (!stni_tcp_put(caller->socket, answer, sizeof *answer, stni_tcp_now() + STNI_TCP_PATIENCE)) {
        stni_tcp_drop_caller(callers, caller);
        return 0;
    }
    caller->is_answered = 1;
    caller->got = 0;
    caller->until = until;
    return 1;
}

int stni_tcp_is_answered(const struct stni_tcp_callers *callers, int rank)
{
    for (int i = 0; i < callers->n; i++)
        if (callers->at[i].is_answered && callers->at[i].hello.rank == rank)
            return 1;
    return 0;
}

static size_t wanted(const struct stni_tcp_caller *caller)
{
    return caller->is_answered ? sizeof caller->heard : sizeof caller->hello;
}

/* Known by the first byte that is another. */
static int is_stranger(const struct stni_tcp_callers *callers, const struct stni_tcp_caller *caller)
{
    const uint64_t job = callers->job;
    const struct stni_tcp_head head = caller->is_answered ? stni_tcp_answer_head(job) : stni_tcp_hello_head(job);
    const void *said = caller->is_answered ? (const void *)&caller->heard : &caller->hello;
    return memcmp(said, &head, caller->got < sizeof head ? caller->got : sizeof head) != 0;
}

/* @return 0: the call has ended, or a stranger's should. */
static int listen_to(const struct stni_tcp_callers *callers, struct stni_tcp_caller *caller)
{
    char *to = caller->is_answered ? (char *)&caller->heard : (char *)&caller->hello;
    const ssize_t n = recv(caller->socket, to + caller->got, wanted(caller) - caller->got, 0);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    caller->got += (size_t)n;
    return !is_stranger(callers, caller);
}

/* Whoever has waited longest to say who it is. A rank that loses its place so calls again. */
static void make_room(struct stni_tcp_callers *callers)
{
    struct stni_tcp_caller *longest = NULL;
    for (int i = 0; i < callers->n; i++)
        if (!callers->at[i].is_answered && (!longest || callers->at[i].until < longest->until))
            longest = &callers->at[i];
    if (longest)
        stni_tcp_drop_caller(callers, longest);
}

/* Who cannot be accepted still waits at the listener, which would be ready again at once. Local calls that cannot be
 * for another reason than want of descriptors have an end: those who called come over TCP. */
static void refuse(struct stni_tcp_callers *callers, int *listener)
{
    callers->is_full = errno == EMFILE || errno == ENFILE;
    callers->rests_until = stni_tcp_now() + rest;
    if (listener == &callers->here && !callers->is_full)
        stni_tcp_close(listener);
}

static void admit(struct stni_tcp_callers *callers, int *listener)
{
    struct stni_tcp_caller caller = {.until = stni_tcp_now() + STNI_TCP_PATIENCE};
    caller.socket = stni_tcp_accept(*listener, 0, &caller.from);
    if (caller.socket < 0) {
        refuse(callers, listener);
        return;
    }
    callers->is_full = 0;
    if (listener == &callers->here && !stni_tcp_use_here(caller.socket)) {
        stni_tcp_close(&caller.socket);
        return;
    }
    if (callers->n == callers->most)
        make_room(callers);
    callers->at[callers->n++] = caller;
}

/* When the next of them has to have spoken, or the listener has rested. */
static double next_end(const struct stni_tcp_callers *callers, int rests, double until)
{
    if (rests && callers->rests_until < until)
        until = callers->rests_until;
    for (int i = 0; i < callers->n; i++)
        until = callers->at[i].until < until ? callers->at[i].until : until;
    return until;
}

/* Hears those who speak, drops who has had its time, and lets the next one in. From the last on: dropping one moves the
 * last into its place. */
static void listen_to_all(struct stni_tcp_callers *callers, double until)
{
    int *const listeners[LISTENERS] = {&callers->listener, &callers->here};
    const int n = callers->n, rests = stni_tcp_now() < callers->rests_until;
    const double left = next_end(callers, rests, until) - stni_tcp_now();
    for (int i = 0; i < n; i++)
        callers->polled[i] = (struct pollfd){callers->at[i].socket, POLLIN, 0};
    for (int i = 0; i < LISTENERS; i++)
        callers->polled[n + i] = (struct pollfd){rests ? -1 : *listeners[i], POLLIN, 0};
    if (poll(callers->polled, (nfds_t)(n + LISTENERS), left < 0 ? 0 : left > 1 ? 1000 : (int)(left * 1000) + 1) < 0)
        return;
    const double now = stni_tcp_now();
    for (int i = n - 1; i >= 0; i--) {
        struct stni_tcp_caller *caller = &callers->at[i];
        const int is_there = !callers->polled[i].revents || listen_to(callers, caller);
        if (!is_there || (now > caller->until && caller->got < wanted(caller)))
            stni_tcp_drop_caller(callers, caller);
    }
    for (int i = 0; i < LISTENERS; i++)
        if (callers->polled[n + i].revents)
            admit(callers, listeners[i]);
}

struct stni_tcp_caller *stni_tcp_next_caller(struct stni_tcp_callers *callers, double until)
{
    for (;;) {
        for (int i = 0; i < callers->n; i++)
            if (callers->at[i].got == wanted(&callers->at[i]))
                return &callers->at[i];
        if (stni_tcp_now() >= until)
            return NULL;
        listen_to_all(callers, until);
    }
}
