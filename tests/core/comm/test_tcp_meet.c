/* How ranks find each other over TCP, and what each is told where they do not. */
#include "harness.h"
#include "other_service.h"

#include <shardtensor/tcp.h>

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16 };

/* One process of a job, as far as this test is concerned. */
struct caller {
    stn_tcp_options options;
    char why[512];
    stn_status status;
    int64_t sum; /* of the ranks' numbers, plus one each */
};

static int port(void)
{
    return 10000 + 32 * (getpid() % 300);
}

static void *call(void *arg)
{
    struct caller *caller = arg;
    stn_comm *comm = NULL;
    int64_t mine = caller->options.rank + 1;
    caller->options.error_text = caller->why;
    caller->options.error_text_size = sizeof caller->why;
    caller->status = stn_comm_create_tcp(&caller->options, &comm);
    if (caller->status == STN_OK && CHECK_I64(stn_comm_rank(comm), caller->options.rank))
        CHECK_STATUS(stn_comm_all_reduce(comm, &mine, &caller->sum, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    stn_comm_destroy(&comm);
    return NULL;
}

static struct caller caller_of(int rank, int ranks, const char *job, double deadline)
{
    return (struct caller){.options = {.size = sizeof(stn_tcp_options),
                                       .host = "localhost",
                                       .port = port(),
                                       .rank = rank,
                                       .ranks = ranks,
                                       .job = job,
                                       .deadline_seconds = deadline}};
}

/* Which send of the calling thread, counted from 0, comes when others have lost their patience. Negative: none. */
static _Thread_local int late_send = -1;
enum { LATE = 1300000 /* microseconds */ };

/* In place of the C library's, for the library under test too. */
ssize_t send(int to, const void *data, size_t size, int flags)
{
    if (late_send >= 0 && late_send-- == 0)
        usleep(LATE);
    return sendto(to, data, size, flags, NULL, 0);
}

enum { STRANGERS = 12 /* of each listener; as many as wait at one */ };
static int strangers_come; /* while it is set, each listener has its strangers before anybody else can call */
static atomic_int n_strangers;
static int guests[3 * STRANGERS];

static int is_local(int listener)
{
    int domain = 0;
    socklen_t size = sizeof domain;
    return getsockopt(listener, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

/* Most say nothing, some a little, and all stay. */
static void meet_strangers(int listener)
{
    static const char greeting[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    struct sockaddr_in6 bound;
    socklen_t size = sizeof bound;
    CHECK_I64(getsockname(listener, (struct sockaddr *)&bound, &size), 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = bound.sin6_port; /* which both families have at one place */
    for (int i = 0; i < STRANGERS; i++) {
        const int stranger = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_I64(connect(stranger, (const struct sockaddr *)&at, sizeof at), 0);
        if (i % 4 == 3)
            CHECK(send(stranger, greeting, i % 8 == 3 ? 1 : sizeof greeting, MSG_NOSIGNAL) > 0);
        guests[atomic_fetch_add(&n_strangers, 1)] = stranger;
    }
}

enum { DESCRIPTORS = 256 /* as many as the process may have for a while */ };
static int run_out; /* while it is set, no descriptor is free once a listener is there */
static struct rlimit limit;
static int spare[DESCRIPTORS], n_spare;
static atomic_int n_refused; /* calls that were not accepted for want of one */

static void use_up_descriptors(void)
{
    CHECK_I64(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit few = limit;
    few.rlim_cur = DESCRIPTORS;
    CHECK_I64(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n_spare < DESCRIPTORS && (spare[n_spare] = dup(0)) >= 0)
        n_spare++;
}

static void give_descriptors_back(void)
{
    CHECK_I64(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (n_spare > 0)
        close(spare[--n_spare]);
}

/* In place of the C library's, too. */
int listen(int listener, int most_waiting)
{
    const int status = (int)syscall(SYS_listen, listener, most_waiting);
    if (status == 0 && strangers_come && !is_local(listener))
        meet_strangers(listener);
    if (status == 0 && run_out)
        use_up_descriptors();
    return status;
}

/* And this. */
int accept(int listener, struct sockaddr *restrict at, socklen_t *restrict size)
{
    const int made = (int)syscall(SYS_accept4, listener, at, size, 0);
    if (made < 0 && errno == EMFILE)
        atomic_fetch_add(&n_refused, 1);
    return made;
}

/* Each on a thread, the last first where `reversed`. */
static void call_all(struct caller *callers, int n, int reversed)
{
    pthread_t threads[2 * MOST];
    for (int i = 0; i < n; i++) {
        pthread_create(&threads[i], NULL, call, &callers[reversed ? n - 1 - i : i]);
        if (reversed)
            usleep(3000);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void check_sums(const struct caller *callers, int n)
{
    for (int r = 0; r < n; r++) {
        CHECK_STR(callers[r].why, "");
        CHECK_I64(callers[r].sum, n * (n + 1) / 2);
    }
}

static void ranks_meet_in_any_order_of_coming(void)
{
    static const int sizes[] = {1, 2, 3, 7, MOST};
    for (int i = 0; i < 10; i++) {
        const int n = sizes[i / 2];
        struct caller callers[MOST];
        for (int r = 0; r < n; r++)
            callers[r] = caller_of(r, n, "in any order", 60);
        call_all(callers, n, i % 2);
        check_sums(callers, n);
    }
}

/* Both begin at one port: the second takes the next. */
static void two_jobs_of_one_machine_find_their_own(void)
{
    struct caller callers[8];
    for (int i = 0; i < 8; i++)
        callers[i] = caller_of(i % 4, 4, i < 4 ? "one" : "two", 60);
    call_all(callers, 8, 0);
    check_sums(callers, 4);
    check_sums(callers + 4, 4);
}

static void call_rank_0(int stranger)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port()), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 500 && connect(stranger, (const struct sockaddr *)&at, sizeof at) != 0; i++)
        usleep(2000);
}

static int find_rank_0(void)
{
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    call_rank_0(stranger);
    return stranger;
}

/* Connects to rank 0's port, says nothing or nonsense, and stays. */
static void *disturb(void *arg)
{
    const char *nonsense = arg;
    const int stranger = find_rank_0();
    if (*nonsense)
        CHECK(send(stranger, nonsense, strlen(nonsense), MSG_NOSIGNAL) > 0);
    usleep(200000);
    close(stranger);
    return NULL;
}

static void strangers_do_not_disturb(void)
{
    static char nothing[] = "", nonsense[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\nand more that nobody has asked for";
    struct caller callers[3];
    pthread_t strangers[2], first;
    for (int r = 0; r < 3; r++)
        callers[r] = caller_of(r, 3, "strangers", 60);
    pthread_create(&first, NULL, call, &callers[0]);
    pthread_create(&strangers[0], NULL, disturb, nothing);
    pthread_create(&strangers[1], NULL, disturb, nonsense);
    usleep(50000);
    call_all(callers + 1, 2, 0);
    pthread_join(first, NULL);
    pthread_join(strangers[0], NULL);
    pthread_join(strangers[1], NULL);
    check_sums(callers, 3);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One after the other they would take 12 seconds of rank 0 and 12 of rank 1. */
static void strangers_that_stay_keep_nobody_out(void)
{
    struct caller callers[3];
    for (int r = 0; r < 3; r++)
        callers[r] = caller_of(r, 3, "strangers that stay", 10);
    const double began = now();
    strangers_come = 1;
    call_all(callers, 3, 0);
    strangers_come = 0;
    check_sums(callers, 3);
    CHECK(now() - began < 10);
    CHECK_I64(atomic_load(&n_strangers), 3 * STRANGERS);
    for (int i = 0; i < atomic_load(&n_strangers); i++)
        close(guests[i]);
}

/* Somebody calls when no descriptor is free: the listener tries again now and then, and the job meets when some are. */
static void a_listener_without_descriptors_rests_between_tries(void)
{
    enum { REST = 300000 /* microseconds */, MOST_TRIES = 60 };
    struct caller callers[2] = {caller_of(0, 2, "no descriptors", 20), caller_of(1, 2, "no descriptors", 20)};
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t first;
    run_out = 1;
    pthread_create(&first, NULL, call, &callers[0]);
    call_rank_0(stranger);
    for (int i = 0; i < 1000 && atomic_load(&n_refused) == 0; i++)
        usleep(2000);
    const int before = atomic_load(&n_refused);
    usleep(REST);
    CHECK(before > 0);
    if (!CHECK(atomic_load(&n_refused) - before < MOST_TRIES))
        fprintf(stderr, "%d tries\n", atomic_load(&n_refused) - before);
    run_out = 0;
    give_descriptors_back();
    call(&callers[1]);
    pthread_join(first, NULL);
    check_sums(callers, 2);
    close(stranger);
}

/* The deadline's text says why who has come is missing. */
static void who_cannot_be_accepted_is_missing_for_want_of_descriptors(void)
{
    struct caller caller = caller_of(0, 2, "no descriptors", 0.5);
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t first;
    run_out = 1;
    pthread_create(&first, NULL, call, &caller);
    call_rank_0(stranger);
    pthread_join(first, NULL);
    run_out = 0;
    give_descriptors_back();
    CHECK_STATUS(caller.status, STN_ERR_TIMEOUT);
    if (!CHECK(strstr(caller.why, "rank 1 had not come to rank 0") && strstr(caller.why, ": too many files are open")))
        fprintf(stderr, "\"%s\"\n", caller.why);
    close(stranger);
}

static int open_service(void)
{
    const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    at.sin_port = htons((uint16_t)port());
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    CHECK_I64(bind(listener, (const struct sockaddr *)&at, sizeof at), 0);
    CHECK_I64(listen(listener, 16), 0);
    return listener;
}

/* Numbers alone, as rank 0 has for its answers, are none. */
static void another_service_at_rank_0s_port_is_passed_by(void)
{
    static const char banner[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    static const int32_t numbers[] = {1, 2, 3, 0};
    struct service services[] = {{banner, sizeof banner, -1, 0}, {NULL, 0, -1, 0}, {banner, 3, -1, 0},
                                 {(const char *)&numbers[0], 4, -1, 0}, {(const char *)&numbers[1], 4, -1, 0},
                                 {(const char *)&numbers[2], 4, -1, 0}, {(const char *)&numbers[3], 4, -1, 0}};
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        struct caller callers[3];
        pthread_t thread;
        services[i].listener = open_service();
        pthread_create(&thread, NULL, serve, &services[i]);
        for (int r = 0; r < 3; r++)
            callers[r] = caller_of(r, 3, "another service", 20);
        call_all(callers, 3, 0);
        check_sums(callers, 3);
        shutdown(services[i].listener, SHUT_RDWR);
        pthread_join(thread, NULL);
        close(services[i].listener);
        CHECK(services[i].heard >= 1); /* a rank that this process was slow to answer has asked elsewhere since */
    }
}

static void *answer_late(void *arg)
{
    late_send = 0;
    call(arg);
    CHECK_I64(late_send, -1);
    return NULL;
}

/* Rank 0 is late with its answer, and the other calls once more. */
static void who_calls_again_is_no_second_one(void)
{
    struct caller callers[2] = {caller_of(0, 2, "held up", 20), caller_of(1, 2, "held up", 20)};
    pthread_t first;
    pthread_create(&first, NULL, answer_late, &callers[0]);
    call(&callers[1]);
    pthread_join(first, NULL);
    check_sums(callers, 2);
}

/* Whichever of what it says in the meeting: the other takes it for a stranger, and it comes again. */
static void a_rank_that_stands_still_for_a_while_is_waited_for(void)
{
    enum { SENDS = 4 };
    for (int i = 0; i < SENDS; i++) {
        struct caller callers[2] = {caller_of(0, 2, "late", 10), caller_of(1, 2, "late", 10)};
        pthread_t first;
        pthread_create(&first, NULL, call, &callers[0]);
        late_send = i;
        call(&callers[1]);
        CHECK_I64(late_send, -1); /* it was one of those */
        pthread_join(first, NULL);
        check_sums(callers, 2);
    }
}

static void who_does_not_come_is_named(void)
{
    struct caller callers[3];
    for (int r = 0; r < 3; r++)
        callers[r] = caller_of(r < 2 ? r : 3, 4, "somebody is missing", 0.5);
    call_all(callers, 3, 0);
    CHECK_STATUS(callers[0].status, STN_ERR_TIMEOUT);
    CHECK(strstr(callers[0].why, "deadline of 0.5 s passed, rank 2 had not come to rank 0, port "));
    for (int i = 1; i < 3; i++) {
        CHECK_STATUS(callers[i].status, STN_ERR_TIMEOUT);
        CHECK(strstr(callers[i].why, "rank 0 has given up, or other ranks did not come") ||
              strstr(callers[i].why, "did not find rank 0"));
    }
}

static void without_rank_0_the_place_is_named(void)
{
    char wanted[256];
    struct caller caller = caller_of(1, 2, "nobody", 0.3);
    call(&caller);
    snprintf(
        wanted, sizeof wanted,
        "deadline of 0.3 s passed, rank 1 did not find rank 0 at localhost, ports %d to %d: nobody of this job answers",
        port(), port() + 15);
    CHECK_STATUS(caller.status, STN_ERR_TIMEOUT);
    CHECK_STR(caller.why, wanted);
    caller = caller_of(1, 2, "nobody", 0.3);
    caller.options.host = "no-such-host.invalid";
    call(&caller);
    CHECK_STATUS(caller.status, STN_ERR_TIMEOUT);
    CHECK(strstr(caller.why, "did not find rank 0 at no-such-host.invalid"));
    CHECK(!strstr(caller.why, "nobody of this job"));
}

static void a_rank_twice_and_another_number_of_ranks_are_refused(void)
{
    struct caller callers[4] = {caller_of(0, 3, "twice", 1), caller_of(1, 3, "twice", 1), caller_of(1, 3, "twice", 1),
                                caller_of(2, 4, "twice", 1)};
    call_all(callers, 4, 0);
    const int second = callers[1].status == STN_ERR_ARGUMENT ? 1 : 2;
    CHECK_STATUS(callers[second].status, STN_ERR_ARGUMENT);
    CHECK_STR(callers[second].why, "rank got 1, which another process of this job is");
    CHECK_STATUS(callers[3].status, STN_ERR_MISMATCH);
    CHECK_STR(callers[3].why, "rank 2 is one of 4 ranks, rank 0 of another number");
    CHECK_STATUS(callers[0].status, STN_ERR_TIMEOUT);
}

static void options_that_cannot_be_are_refused(void)
{
    struct caller callers[] = {caller_of(0, 1, NULL, 1), caller_of(0, 1, NULL, 1), caller_of(0, 1, NULL, 1),
                               caller_of(2, 2, NULL, 1), caller_of(0, 0, NULL, 1), caller_of(1, 2, NULL, NAN)};
    static const char *const wanted[] = {"host got NULL, wanted the name or address of rank 0's machine",
                                         "port got 0, wanted 1 to 65520", "port got 65521, wanted 1 to 65520",
                                         "rank got 2 of 2 ranks, wanted 0 <= rank < ranks",
                                         "rank got 0 of 0 ranks, wanted 0 <= rank < ranks",
                                         "deadline_seconds got nan, wanted a finite number"};
    callers[0].options.host = NULL;
    callers[1].options.port = 0;
    callers[2].options.port = 65521;
    for (int i = 0; i < 6; i++) {
        call(&callers[i]);
        CHECK_STATUS(callers[i].status, STN_ERR_ARGUMENT);
        CHECK_STR(callers[i].why, wanted[i]);
    }
    stn_comm *comm = NULL;
    CHECK_STATUS(stn_comm_create_tcp(NULL, &comm), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_create_tcp(&callers[3].options, NULL), STN_ERR_ARGUMENT);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"ranks_meet_in_any_order_of_coming", ranks_meet_in_any_order_of_coming},
        {"two_jobs_of_one_machine_find_their_own", two_jobs_of_one_machine_find_their_own},
        {"strangers_do_not_disturb", strangers_do_not_disturb},
        {"strangers_that_stay_keep_nobody_out", strangers_that_stay_keep_nobody_out},
        {"a_listener_without_descriptors_rests_between_tries", a_listener_without_descriptors_rests_between_tries},
        {"who_cannot_be_accepted_is_missing_for_want_of_descriptors",
         who_cannot_be_accepted_is_missing_for_want_of_descriptors},
        {"another_service_at_rank_0s_port_is_passed_by", another_service_at_rank_0s_port_is_passed_by},
        {"who_calls_again_is_no_second_one", who_calls_again_is_no_second_one},
        {"a_rank_that_stands_still_for_a_while_is_waited_for", a_rank_that_stands_still_for_a_while_is_waited_for},
        {"who_does_not_come_is_named", who_does_not_come_is_named},
        {"without_rank_0_the_place_is_named", without_rank_0_the_place_is_named},
        {"a_rank_twice_and_another_number_of_ranks_are_refused", a_rank_twice_and_another_number_of_ranks_are_refused},
        {"options_that_cannot_be_are_refused", options_that_cannot_be_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
