/* How the ranks of a job find each other: all call rank 0, which tells each where the others listen; then each pair
 * connects, by local sockets where both are on one machine.
 *
 * A rank may be stopped for a while, and a caller have given up by then and call again. So no call counts before both
 * ends know of it: rank 0 answers and the caller says that it has heard the answer; of a pair that connects the one who
 * listens answers. */
#include "core/comm/tcp/meet.h"

#include "core/base/host_alloc.h"
#include "core/comm/tcp/callers.h"
#include "core/comm/tcp/local.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { HOSTS = 8 /* addresses of one name that are tried */ };
static const double between = 0.02; /* seconds from one round of calls to the next */

enum answer { ANSWER_LATER, ANSWER_WELCOME, ANSWER_OTHER_SIZE, ANSWER_TAKEN };

struct meeting {
    const struct stni_tcp_wish *wish;
    double until;
    int listener;
    struct stni_tcp_callers callers;
    int *called;                   /* rank 0: the connection of each rank; else the first is that to rank 0 */
    struct stni_tcp_place *places; /* where each rank listens */
    int *lanes;
    const char *why; /* rank 0's machine was not found, or nobody answered there */
    struct stni_error *error;
};

static int *lane_of(const struct meeting *m, int rank, int lane)
{
    return &m->lanes[STNI_TCP_LANES * rank + lane];
}

static struct stni_tcp_hello hello_of(const struct meeting *m, int lane)
{
    const struct stni_tcp_wish *wish = m->wish;
    struct stni_tcp_hello hello = {.head = stni_tcp_hello_head(wish->job),
                                   .rank = wish->rank,
                                   .ranks = wish->ranks,
                                   .lane = lane,
                                   .port = stni_tcp_port_of(m->listener)};
    memcpy(hello.name, m->places[wish->rank].name, sizeof hello.name);
    return hello;
}

static struct stni_tcp_answer answer_of(const struct meeting *m, enum answer answer)
{
    return (struct stni_tcp_answer){stni_tcp_answer_head(m->wish->job), m->wish->rank, (int32_t)answer};
}

static void pause_a_little(void)
{
    const struct timespec time = {.tv_nsec = (long)(between * 1e9)};
    nanosleep(&time, NULL);
}

/* Rank 0's listener is at the first free of a few ports, any other rank's at any. */
static stn_status begin_listening(struct meeting *m)
{
    const int first = m->wish->rank == 0 ? m->wish->port : 0, last = first ? first + STNI_TCP_PORTS - 1 : 0;
    for (int port = first; port <= last && m->listener < 0; port++)
        m->listener = stni_tcp_listen(port, STNI_TCP_LANES * m->wish->ranks + 16);
    if (m->listener >= 0)
        return STN_OK;
    return stni_error_set(m->error, STN_ERR_COMM, "rank %d cannot listen: of the ports %d to %d none is free",
                          m->wish->rank, first, last);
}

/* Rank 0 */

/* Two that say they are one rank: which of them stays is known when the first has heard its answer, or has given up.
 * The other calls again. */
static enum answer judge(const struct meeting *m, const struct stni_tcp_hello *hello)
{
    if (hello->ranks != m->wish->ranks || hello->rank < 0 || hello->rank >= m->wish->ranks)
        return ANSWER_OTHER_SIZE;
    if (hello->rank == 0 || m->called[hello->rank] >= 0)
        return ANSWER_TAKEN;
    return stni_tcp_is_answered(&m->callers, hello->rank) ? ANSWER_LATER : ANSWER_WELCOME;
}

/* One who is welcome is waited for until it has heard that. */
static void answer_caller(struct meeting *m, struct stni_tcp_caller *caller)
{
    const enum answer judged = caller->hello.lane == STNI_TCP_MEETING ? judge(m, &caller->hello) : ANSWER_LATER;
    const struct stni_tcp_answer answer = answer_of(m, judged);
    const int has_heard = judged != ANSWER_LATER && stni_tcp_answer_caller(&m->callers, caller, &answer, m->until);
    if (judged == ANSWER_LATER || (has_heard && judged != ANSWER_WELCOME))
        stni_tcp_drop_caller(&m->callers, caller);
}

/* The caller stays from then on. */
static void keep_caller(struct meeting *m, struct stni_tcp_caller *caller)
{
    const int rank = caller->hello.rank;
    m->places[rank] = caller->from;
    m->places[rank].port = (uint16_t)caller->hello.port;
    memcpy(m->places[rank].name, caller->hello.name, sizeof caller->hello.name);
    m->called[rank] = stni_tcp_take_caller(&m->callers, caller);
}

/* Who is missing may have come. */
static const char *why_missing(const struct meeting *m)
{
    return m->callers.is_full ? ": too many files are open" : "";
}

static stn_status fail_missing(struct meeting *m)
{
    char list[128] = "";
    size_t at = 0;
    int n = 0;
    for (int r = 1; r < m->wish->ranks && at + 16 < sizeof list; r++)
        if (m->called[r] < 0)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", n++ ? ", " : "", r);
    return stni_error_set(m->error, STN_ERR_TIMEOUT,
                          "deadline of %g s passed, rank%s %s had not come to rank 0, port %d%s",
                          m->wish->deadline_seconds, n == 1 ? "" : "s", list, stni_tcp_port_of(m->listener),
                          why_missing(m));
}

static stn_status receive_all(struct meeting *m)
{
    for (int come = 1; come < m->wish->ranks;) {
        struct stni_tcp_caller *caller = stni_tcp_next_caller(&m->callers, m->until);
        if (!caller)
            return fail_missing(m);
        come += caller->is_answered;
        if (caller->is_answered)
            keep_caller(m, caller);
        else
            answer_caller(m, caller);
    }
    for (int r = 1; r < m->wish->ranks; r++)
        if (!stni_tcp_put(m->called[r], m->places, (size_t)m->wish->ranks * sizeof *m->places, m->until))
            return stni_error_set(m->error, STN_ERR_PEER, "rank %d: its process or its connection has ended", r);
    return STN_OK;
}

/* The others */

/* @return 0: rank 0 has not answered, or has gone since. Of a welcome it is told that it was heard. */
static int hear(const struct meeting *m, enum answer *answer, double until)
{
    const struct stni_tcp_answer heard = answer_of(m, ANSWER_WELCOME);
    struct stni_tcp_answer said;
    if (!stni_tcp_get_answer(m->called[0], m->wish->job, &said, until) || said.rank != 0)
        return 0;
    *answer = (enum answer)said.answer;
    return *answer != ANSWER_WELCOME || stni_tcp_put(m->called[0], &heard, sizeof heard, until);
}

/* One call. @return 1: rank 0 has answered; the answer is judged by the caller. */
static int call_once(struct meeting *m, const struct stni_tcp_place *place, enum answer *answer)
{
    const double patient = stni_tcp_now() + STNI_TCP_PATIENCE, until = patient < m->until ? patient : m->until;
    const struct stni_tcp_hello hello = hello_of(m, STNI_TCP_MEETING);
    m->called[0] = stni_tcp_connect(place, until);
    if (m->called[0] >= 0 && stni_tcp_put(m->called[0], &hello, sizeof hello, until) && hear(m, answer, until))
        return 1;
    stni_tcp_close(&m->called[0]);
    return 0;
}

static int call_each_port(struct meeting *m, enum answer *answer)
{
    struct stni_tcp_place places[HOSTS];
    const int n = stni_tcp_look_up(m->wish->host, places, HOSTS, &m->why);
    for (int p = 0; p < STNI_TCP_PORTS; p++)
        for (int i = 0; i < n; i++) {
            places[i].port = (uint16_t)(m->wish->port + p);
            if (call_once(m, &places[i], answer))
                return 1;
        }
    return 0;
}

static stn_status refuse(struct meeting *m, enum answer answer)
{
    if (answer == ANSWER_TAKEN)
        return stni_error_set(m->error, STN_ERR_ARGUMENT, "rank got %d, which another process of this job is",
                              m->wish->rank);
    return stni_error_set(m->error, STN_ERR_MISMATCH, "rank %d is one of %d ranks, rank 0 of another number",
                          m->wish->rank, m->wish->ranks);
}

static stn_status call_rank_0(struct meeting *m)
{
    enum answer answer = ANSWER_LATER;
    while (!call_each_port(m, &answer)) {
        if (stni_tcp_now() >= m->until)
            return stni_error_set(m->error, STN_ERR_TIMEOUT,
                                  "deadline of %g s passed, rank %d did not find rank 0 at %s, ports %d to %d: %s",
                                  m->wish->deadline_seconds, m->wish->rank, m->wish->host, m->wish->port,
                                  m->wish->port + STNI_TCP_PORTS - 1, m->why);
        pause_a_little();
    }
    if (answer != ANSWER_WELCOME)
        return refuse(m, answer);
    if (!stni_tcp_get(m->called[0], m->places, (size_t)m->wish->ranks * sizeof *m->places, m->until))
        return stni_error_set(m->error, STN_ERR_TIMEOUT, "rank 0 has given up, or other ranks did not come in %g s",
                              m->wish->deadline_seconds);
    return STN_OK;
}

/* Pairs */

/* Rank 0 is where it was called. A rank that it saw at a loopback address is on its machine. */
static void complete_places(struct meeting *m)
{
    const struct stni_tcp_place home = stni_tcp_peer_of(m->called[0]);
    memcpy(m->places[0].address, home.address, sizeof home.address);
    m->places[0].port = home.port;
    for (int r = 1; r < m->wish->ranks; r++)
        if (stni_tcp_is_loopback(&m->places[r]))
            memcpy(m->places[r].address, home.address, sizeof home.address);
}

/* @return 0: the other took this rank for a stranger, which was late with its hello, or has gone. */
static int introduce(const struct meeting *m, int made, int rank, int lane)
{
    const struct stni_tcp_hello hello = hello_of(m, lane);
    struct stni_tcp_answer answer;
    return stni_tcp_put(made, &hello, sizeof hello, m->until) &&
           stni_tcp_get_answer(made, m->wish->job, &answer, m->until) && answer.rank == rank;
}

/* Once more where the hello may have been late. @return 0: the lane is to be made over TCP. */
static int connect_here(struct meeting *m, int rank, int lane)
{
    enum { TRIES = 2 };
    int *made = lane_of(m, rank, lane);
    for (int i = 0; i < TRIES; i++) {
        *made = stni_tcp_connect_here(&m->places[rank]);
        if (*made < 0)
            return 0;
        if (introduce(m, *made, rank, lane))
            return 1;
        stni_tcp_close(made);
    }
    return 0;
}

static stn_status connect_lane(struct meeting *m, int rank, int lane)
{
    int *made = lane_of(m, rank, lane);
    for (;;) {
        *made = stni_tcp_connect(&m->places[rank], m->until);
        if (*made < 0 || stni_tcp_now() >= m->until)
            return stni_error_set(m->error, STN_ERR_COMM, "rank %d cannot be reached from rank %d", rank,
                                  m->wish->rank);
        if (introduce(m, *made, rank, lane))
            return STN_OK;
        stni_tcp_close(made);
        pause_a_little();
    }
}

/* The lane of messages last, which is a local one only where the others are: what closes it is known at once, and a
 * notice that was sent before has come by then. */
static stn_status connect_to(struct meeting *m, int rank)
{
    int is_here = 1;
    for (int lane = STNI_TCP_LANES - 1; lane >= 0; lane--) {
        is_here = is_here && connect_here(m, rank, lane);
        if (!is_here)
            STNI_TRY(connect_lane(m, rank, lane));
    }
    return STN_OK;
}

static int is_awaited(const struct meeting *m, const struct stni_tcp_hello *hello)
{
    return hello->rank > m->wish->rank && hello->rank < m->wish->ranks && hello->lane >= 0 &&
           hello->lane < STNI_TCP_LANES && *lane_of(m, hello->rank, hello->lane) < 0;
}

static stn_status accept_higher(struct meeting *m)
{
    const struct stni_tcp_answer welcome = answer_of(m, ANSWER_WELCOME);
    for (int left = STNI_TCP_LANES * (m->wish->ranks - 1 - m->wish->rank); left > 0;) {
        struct stni_tcp_caller *caller = stni_tcp_next_caller(&m->callers, m->until);
        if (!caller)
            return stni_error_set(m->error, STN_ERR_TIMEOUT,
                                  "deadline of %g s passed, %d connections to rank %d were not made%s",
                                  m->wish->deadline_seconds, left, m->wish->rank, why_missing(m));
        if (!is_awaited(m, &caller->hello)) {
            stni_tcp_drop_caller(&m->callers, caller);
        } else if (stni_tcp_answer_caller(&m->callers, caller, &welcome, m->until)) {
            int *lane = lane_of(m, caller->hello.rank, caller->hello.lane); /* before another caller takes its place */
            *lane = stni_tcp_take_caller(&m->callers, caller);
            left--;
        }
    }
    return STN_OK;
}

static stn_status meet(struct meeting *m)
{
    STNI_TRY(begin_listening(m));
    if (!stni_tcp_callers_init(&m->callers, m->listener, m->wish->job, m->wish->ranks))
        return stni_error_set(m->error, STN_ERR_MEMORY, "out of memory: %d ranks", m->wish->ranks);
    m->callers.here = stni_tcp_listen_here(&m->places[m->wish->rank], m->wish->ranks + 16);
    STNI_TRY(m->wish->rank == 0 ? receive_all(m) : call_rank_0(m));
    if (m->wish->rank > 0)
        complete_places(m);
    for (int r = 0; r < m->wish->rank; r++)
        STNI_TRY(connect_to(m, r));
    return accept_higher(m);
}

static void fill(int *descriptors, int n)
{
    for (int i = 0; i < n; i++)
        descriptors[i] = -1;
}

static void close_all(int *descriptors, int n)
{
    for (int i = 0; i < n; i++)
        stni_tcp_close(&descriptors[i]);
}

stn_status stni_tcp_meet(const struct stni_tcp_wish *wish, int *lanes, struct stni_error *error)
{
    const double seconds = wish->deadline_seconds, until = seconds < 0 ? 1e18 : stni_tcp_now() + seconds;
    struct meeting m = {
        .wish = wish, .until = until, .listener = -1, .callers.here = -1, .lanes = lanes, .error = error};
    stn_status status = STN_ERR_MEMORY;
    m.called = stni_malloc((size_t)wish->ranks * sizeof *m.called);
    m.places = stni_calloc((size_t)wish->ranks, sizeof *m.places);
    fill(lanes, STNI_TCP_LANES * wish->ranks);
    if (m.called && m.places) {
        fill(m.called, wish->ranks);
        status = meet(&m);
        stni_tcp_callers_fini(&m.callers);
        close_all(m.called, wish->ranks);
    } else {
        stni_error_set(error, status, "out of memory: %d ranks", wish->ranks);
    }
    stni_tcp_close(&m.listener);
    if (status != STN_OK)
        close_all(lanes, STNI_TCP_LANES * wish->ranks);
    stni_free(m.called);
    stni_free(m.places);
    return status;
}
