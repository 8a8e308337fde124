/* Ranks of one machine talk through local sockets, and over TCP where one of them cannot. */
#include "descriptors.h"
#include "harness.h"
#include "other_service.h"

#include "core/comm/tcp/callers.h"
#include "core/comm/tcp/tcp.h"

#include <shardtensor/tcp.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 7, SERVICES = 2 };

/* What is another than it should be, on one rank. */
enum fault {
    NONE,
    NO_RANDOM_BYTES,
    NO_SOCKET,
    NO_DESCRIPTOR,
    NO_NAME,
    NO_LISTENER,
    NO_ACCEPT,
    NO_CALL,
    NO_SECOND_CALL,
    LATE_ACCEPT,   /* no descriptor is free for the first few tries */
    LATE_WORD,     /* the first one, when the other has lost its patience */
    OTHER_USER,    /* at the other end */
    NO_USER,       /* of the other end is known */
    ECHO,          /* who listens sends back what it is sent */
    BANNER,        /* who listens says something else */
    DIES_CALLING,
    DIES_SPEAKING, /* before its first word */
    DIES_ASKED,    /* behind its first word */
    DIES_ACCEPTING
};

static _Thread_local enum fault fault;
static _Thread_local int calls; /* for local sockets, those that are counted */

/* One process of a job, as far as this test is concerned. */
struct caller {
    stn_tcp_options options;
    enum fault fault;
    char why[512];
    stn_status status;
    int64_t sum;                         /* of the ranks' numbers, plus one each */
    int is_local[MOST][STNI_TCP_LANES];
    int is_elsewhere;                    /* to this rank some other is */
};

static int is_local(int socket)
{
    int domain = 0;
    socklen_t size = sizeof domain;
    CHECK_I64(syscall(SYS_getsockopt, socket, SOL_SOCKET, SO_DOMAIN, &domain, &size), 0);
    return domain == AF_UNIX;
}

static int fail(int why)
{
    errno = why;
    return -1;
}

/* In place of the C library's, for the library under test. */
ssize_t getrandom(void *to, size_t size, unsigned flags)
{
    return fault == NO_RANDOM_BYTES ? fail(EAGAIN) : syscall(SYS_getrandom, to, size, flags);
}

int socket(int domain, int type, int protocol)
{
    if (domain == AF_UNIX && (fault == NO_SOCKET || fault == NO_DESCRIPTOR))
        return fail(fault == NO_SOCKET ? EAFNOSUPPORT : EMFILE);
    return (int)syscall(SYS_socket, domain, type, protocol);
}

int bind(int to, const struct sockaddr *at, socklen_t size)
{
    return at->sa_family == AF_UNIX && fault == NO_NAME ? fail(EACCES) : (int)syscall(SYS_bind, to, at, size);
}

enum { GUESTS = 5 };
static int strangers_come; /* while it is set, each local listener has its strangers before anybody else can call */
static atomic_int n_guests;
static int guests[MOST * GUESTS];

/* One says nothing, one nonsense, one a little, one is of another job, and one claims to be a rank that it cannot be.
 * All stay. */
static void meet_strangers(int listener)
{
    static const char greeting[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    const struct stni_tcp_hello hello = {stni_tcp_hello_head(12345), 1, 2, STNI_TCP_MESSAGES, 1, {0}};
    const void *const words[GUESTS] = {NULL, greeting, &hello, &hello, greeting};
    const size_t sizes[GUESTS] = {0, sizeof greeting, 3, sizeof hello, 1};
    struct sockaddr_un at;
    socklen_t size = sizeof at;
    CHECK_I64(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    for (int i = 0; i < GUESTS; i++) {
        const int stranger = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK_I64(syscall(SYS_connect, stranger, &at, size), 0);
        if (words[i])
            CHECK(send(stranger, words[i], sizes[i], MSG_NOSIGNAL) > 0);
        guests[atomic_fetch_add(&n_guests, 1)] = stranger;
    }
}

int listen(int listener, int most_waiting)
{
    if (fault == NO_LISTENER && is_local(listener))
        return fail(EOPNOTSUPP);
    const int status = (int)syscall(SYS_listen, listener, most_waiting);
    if (status == 0 && strangers_come && is_local(listener))
        meet_strangers(listener);
    return status;
}

int accept(int listener, struct sockaddr *restrict at, socklen_t *restrict size)
{
    enum { TRIES = 3 };
    const int here = is_local(listener);
    if (here && fault == DIES_ACCEPTING)
        _exit(0);
    if (here && fault == NO_ACCEPT)
        return fail(EPERM);
    if (here && fault == LATE_ACCEPT && calls++ < TRIES)
        return fail(EMFILE);
    return (int)syscall(SYS_accept4, listener, at, size, 0);
}

/* What listens in another's place: an echo, and one with a banner. */
static struct sockaddr_un service_at[SERVICES];
static socklen_t service_size[SERVICES];

int connect(int from, const struct sockaddr *at, socklen_t size)
{
    if (at->sa_family != AF_UNIX)
        return (int)syscall(SYS_connect, from, at, size);
    if (fault == DIES_CALLING)
        _exit(0);
    if (fault == NO_CALL || (fault == NO_SECOND_CALL && calls++ == 1))
        return fail(EACCES);
    if (fault == ECHO || fault == BANNER)
        return (int)syscall(SYS_connect, from, &service_at[fault - ECHO], service_size[fault - ECHO]);
    return (int)syscall(SYS_connect, from, at, size);
}

ssize_t send(int to, const void *data, size_t size, int flags)
{
    if (fault == LATE_WORD && is_local(to) && calls++ == 0)
        usleep((useconds_t)(1.3e6 * STNI_TCP_PATIENCE));
    if (fault == DIES_SPEAKING && is_local(to))
        _exit(0);
    const ssize_t n = sendto(to, data, size, flags, NULL, 0);
    if (fault == DIES_ASKED && is_local(to))
        _exit(0);
    return n;
}

int getsockopt(int of, int level, int name, void *restrict value, socklen_t *restrict size)
{
    if (name == SO_PEERCRED && level == SOL_SOCKET && fault == NO_USER)
        return fail(ENOPROTOOPT);
    const int status = (int)syscall(SYS_getsockopt, of, level, name, value, size);
    if (name == SO_PEERCRED && level == SOL_SOCKET && fault == OTHER_USER)
        ((struct ucred *)value)->uid++;
    return status;
}

static void look_at(const stn_comm *comm, struct caller *caller)
{
    const struct stni_tcp_family *family = ((const struct stni_tcp_member *)comm->impl)->family;
    for (int r = 0; r < family->size; r++)
        for (int lane = 0; lane < STNI_TCP_LANES && r != family->rank; lane++)
            caller->is_local[r][lane] = is_local(family->peers[r].lanes[lane]);
    caller->is_elsewhere = comm->ops->beside(comm->impl);
}

static void *call(void *arg)
{
    struct caller *caller = arg;
    stn_comm *comm = NULL;
    int64_t mine = caller->options.rank + 1;
    fault = caller->fault;
    calls = 0;
    caller->options.error_text = caller->why;
    caller->options.error_text_size = sizeof caller->why;
    caller->status = stn_comm_create_tcp(&caller->options, &comm);
    fault = NONE;
    if (caller->status == STN_OK && CHECK_I64(stn_comm_rank(comm), caller->options.rank)) {
        look_at(comm, caller);
        CHECK_STATUS(stn_comm_all_reduce(comm, &mine, &caller->sum, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    }
    stn_comm_destroy(&comm);
    return NULL;
}

static const double deadline = 20, soon = 10; /* seconds */

static struct caller caller_of(int rank, int ranks, const char *job, double seconds)
{
    return (struct caller){.options = {.size = sizeof(stn_tcp_options),
                                       .host = "127.0.0.1",
                                       .port = 10000 + 32 * (getpid() % 300),
                                       .rank = rank,
                                       .ranks = ranks,
                                       .job = job,
                                       .deadline_seconds = seconds}};
}

/* Each on a thread; all meet soon, and leave no descriptor. */
static void call_all(struct caller *callers, int n)
{
    pthread_t threads[MOST];
    const int open = open_descriptors();
    const double began = stni_tcp_now();
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, call, &callers[i]);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    CHECK(stni_tcp_now() - began < soon);
    if (!strangers_come)
        CHECK_I64(open_descriptors(), open);
    for (int i = 0; i < n; i++) {
        CHECK_STR(callers[i].why, "");
        CHECK_I64(callers[i].sum, n * (n + 1) / 2);
        CHECK_I64(callers[i].is_elsewhere, 0);
    }
}

static void check_all_local(const struct caller *callers, int n)
{
    for (int i = 0; i < n; i++)
        for (int r = 0; r < n; r++)
            for (int lane = 0; lane < STNI_TCP_LANES; lane++)
                CHECK_I64(callers[i].is_local[r][lane], r != i);
}

static void ranks_of_one_machine_talk_through_local_sockets(void)
{
    for (int n = 1; n <= MOST; n += 2) {
        struct caller callers[MOST];
        for (int r = 0; r < n; r++)
            callers[r] = caller_of(r, n, "local", deadline);
        call_all(callers, n);
        check_all_local(callers, n);
    }
}

/* By what the faulty rank cannot do: be called, as each is by those above it, or call those below. */
static int goes_over_tcp(enum fault fault_is, int faulty, int a, int b, int lane)
{
    const int lower = a < b ? a : b, upper = a < b ? b : a;
    if (fault_is == LATE_ACCEPT || fault_is == LATE_WORD)
        return 0;
    if (fault_is == NO_SECOND_CALL) /* which is that for messages to rank 0 */
        return upper == faulty && lower == 0 && lane == STNI_TCP_MESSAGES;
    const int cannot_call = fault_is == NO_CALL || fault_is == ECHO || fault_is == BANNER,
              cannot_be_called = fault_is == NO_RANDOM_BYTES || fault_is == NO_NAME || fault_is == NO_LISTENER ||
                                 fault_is == NO_ACCEPT;
    return (lower == faulty && !cannot_call) || (upper == faulty && !cannot_be_called);
}

static void who_cannot_is_met_over_tcp(enum fault fault_is, int faulty)
{
    enum { RANKS = 3 };
    struct caller callers[RANKS];
    for (int r = 0; r < RANKS; r++) {
        callers[r] = caller_of(r, RANKS, "a fault", deadline);
        callers[r].fault = r == faulty ? fault_is : NONE;
    }
    call_all(callers, RANKS);
    for (int a = 0; a < RANKS; a++)
        for (int b = 0; b < RANKS; b++)
            for (int lane = 0; lane < STNI_TCP_LANES && a != b; lane++)
                if (!CHECK_I64(callers[a].is_local[b][lane], !goes_over_tcp(fault_is, faulty, a, b, lane)))
                    fprintf(stderr, "fault %d of rank %d: lane %d of ranks %d and %d\n", fault_is, faulty, lane, a, b);
}

static void each_pair_that_cannot_takes_tcp_and_no_other(void)
{
    for (int fault_is = NO_RANDOM_BYTES; fault_is <= NO_USER; fault_is++)
        for (int faulty = 0; faulty < 3; faulty++)
            who_cannot_is_met_over_tcp((enum fault)fault_is, faulty);
}

static void one_that_answers_as_no_rank_does_is_left(void)
{
    static const char banner[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n and as much as an answer has";
    struct service services[SERVICES];
    pthread_t threads[SERVICES];
    for (int i = 0; i < SERVICES; i++) {
        services[i] = (struct service){i == 0 ? NULL : banner, sizeof banner, socket(AF_UNIX, SOCK_STREAM, 0), 0};
        service_at[i].sun_family = AF_UNIX; /* a name of the system's choice */
        service_size[i] = sizeof service_at[i];
        CHECK_I64(bind(services[i].listener, (struct sockaddr *)&service_at[i], sizeof(sa_family_t)), 0);
        CHECK_I64(listen(services[i].listener, 8), 0);
        CHECK_I64(getsockname(services[i].listener, (struct sockaddr *)&service_at[i], &service_size[i]), 0);
        pthread_create(&threads[i], NULL, serve, &services[i]);
        who_cannot_is_met_over_tcp((enum fault)(ECHO + i), 1);
        who_cannot_is_met_over_tcp((enum fault)(ECHO + i), 2);
    }
    for (int i = 0; i < SERVICES; i++) {
        shutdown(services[i].listener, SHUT_RDWR);
        pthread_join(threads[i], NULL);
        close(services[i].listener);
        CHECK_I64(services[i].heard, 2 * 3); /* twice each: rank 0 by rank 1, ranks 0 and 1 by rank 2 */
    }
}

static void strangers_that_know_the_name_keep_nobody_out(void)
{
    struct caller callers[3];
    for (int r = 0; r < 3; r++)
        callers[r] = caller_of(r, 3, "strangers", deadline);
    strangers_come = 1;
    call_all(callers, 3);
    strangers_come = 0;
    check_all_local(callers, 3);
    CHECK_I64(atomic_load(&n_guests), 3 * GUESTS);
    for (int i = 0; i < atomic_load(&n_guests); i++)
        close(guests[i]);
}

/* A process that ends while the two meet, as this rank. @return what the other was told. */
static struct caller meet_one_that_dies(enum fault fault_is, int dies, double seconds)
{
    struct caller other = caller_of(1 - dies, 2, "dies", seconds), caller = caller_of(dies, 2, "dies", seconds);
    caller.options.port = other.options.port;
    caller.fault = fault_is;
    const int open = open_descriptors();
    const pid_t child = fork();
    if (child == 0) {
        call(&caller);
        _exit(1);
    }
    int status = -1;
    const double began = stni_tcp_now();
    call(&other);
    CHECK(stni_tcp_now() - began < seconds + soon);
    CHECK_I64(waitpid(child, &status, 0), child);
    CHECK_I64(status, 0); /* it died where it was to */
    CHECK_I64(open_descriptors(), open);
    return other;
}

/* Who listens waits for another call until its deadline; who calls hears that nobody listens any more. */
static void of_one_that_dies_the_other_is_told(void)
{
    static const double seconds = 1;
    for (int fault_is = DIES_CALLING; fault_is <= DIES_ASKED; fault_is++) {
        const struct caller told = meet_one_that_dies((enum fault)fault_is, 1, seconds);
        CHECK_STATUS(told.status, STN_ERR_TIMEOUT);
        if (!CHECK(strstr(told.why, "deadline of 1 s passed, ") && strstr(told.why, " connections to rank 0")))
            fprintf(stderr, "\"%s\"\n", told.why);
    }
    const struct caller told = meet_one_that_dies(DIES_ACCEPTING, 0, deadline);
    CHECK_STATUS(told.status, STN_ERR_COMM);
    CHECK_STR(told.why, "rank 0 cannot be reached from rank 1");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"ranks_of_one_machine_talk_through_local_sockets", ranks_of_one_machine_talk_through_local_sockets},
        {"each_pair_that_cannot_takes_tcp_and_no_other", each_pair_that_cannot_takes_tcp_and_no_other},
        {"one_that_answers_as_no_rank_does_is_left", one_that_answers_as_no_rank_does_is_left},
        {"strangers_that_know_the_name_keep_nobody_out", strangers_that_know_the_name_keep_nobody_out},
        {"of_one_that_dies_the_other_is_told", of_one_that_dies_the_other_is_told},
    };
    return TEST_MAIN(argc, argv, cases);
}
