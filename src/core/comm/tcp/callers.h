/* What is said while ranks meet, and those who call a listener then: each says who it is in its own time, and holds up
 * nobody else.
 *
 * Every message begins with a head that no other program and no other job sends. Who begins otherwise is a stranger:
 * its call ends, without a word, and nothing else follows from it. */
#ifndef STNI_CORE_COMM_TCP_CALLERS_H
#define STNI_CORE_COMM_TCP_CALLERS_H

#include "core/comm/tcp/socket.h"

/* Seconds that a caller has to say who it is, and that who calls waits for an answer. */
#define STNI_TCP_PATIENCE 1.0

/* The number differs between the two directions, so that a service which sends back what it is sent is a stranger. */
struct stni_tcp_head {
    uint64_t magic, job;
};

struct stni_tcp_hello {
    struct stni_tcp_head head;
    int32_t rank, ranks, lane, port;
    uint8_t name[STNI_TCP_NAME]; /* port and name: where it listens */
};

struct stni_tcp_answer {
    struct stni_tcp_head head;
    int32_t rank, answer; /* whose, and what */
};

/* The heads of a job's hellos and of its answers. */
struct stni_tcp_head stni_tcp_hello_head(uint64_t job);
struct stni_tcp_head stni_tcp_answer_head(uint64_t job);

/* An answer, or what is said back to one. @return 0 where something else came, or nothing until then. */
int stni_tcp_get_answer(int socket, uint64_t job, struct stni_tcp_answer *answer, double until);

struct stni_tcp_caller {
    int socket;
    struct stni_tcp_place from;
    struct stni_tcp_hello hello;
    struct stni_tcp_answer heard; /* what the caller says when it has been answered */
    int is_answered;
    size_t got; /* bytes of hello; of heard where it was answered */
    double until;
};

struct stni_tcp_callers {
    int listener;
    int here;           /* a listener for local calls, which is the callers'; -1: none */
    int is_full;        /* no descriptor was free for the last one who called */
    double rests_until; /* then the listener is looked at again */
    uint64_t job;
    int n, most;
    struct stni_tcp_caller *at;
    struct pollfd *polled;
};

/* For a job of so many ranks; none can call by a local socket yet. @return 0: no memory. */
int stni_tcp_callers_init(struct stni_tcp_callers *callers, int listener, uint64_t job, int ranks);

/* Ends the calls of all who are left, and of those who wait at the local listener. */
void stni_tcp_callers_fini(struct stni_tcp_callers *callers);

/* Waits until somebody has said all that is to be said before an answer, or after it. @return NULL: nobody has until
 * then. It is to be answered, taken or dropped before the next one is asked for. */
struct stni_tcp_caller *stni_tcp_next_caller(struct stni_tcp_callers *callers, double until);

/* Tells a caller, which has until then to say that it has heard. @return 0: it has gone, and is dropped. */
int stni_tcp_answer_caller(struct stni_tcp_callers *callers, struct stni_tcp_caller *caller,
                           const struct stni_tcp_answer *answer, double until);

/* Whether some caller of this rank has been answered and not said yet that it has heard. */
int stni_tcp_is_answered(const struct stni_tcp_callers *callers, int rank);

/* @return the caller's connection, which is no longer one of the callers'. */
int stni_tcp_take_caller(struct stni_tcp_callers *callers, struct stni_tcp_caller *caller);

void stni_tcp_drop_caller(struct stni_tcp_callers *callers, struct stni_tcp_caller *caller);

#endif
