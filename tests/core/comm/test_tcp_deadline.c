/* Ranks over TCP of which one does not come: all others are told of that one, also those that wait for another, which
 * waits for it. */
#include "team.h"

#include <stdatomic.h>
#include <stdio.h>

enum { RANKS = 4 };

static const double deadline = 0.5, patience = 60; /* seconds */

struct late {
    void (*call)(stn_comm *comm, stn_status *status);
    const char *name; /* of what is waited in */
    int rank;
    atomic_int told, timed_out;
};

static void barrier(stn_comm *comm, stn_status *status)
{
    *status = stn_comm_barrier(comm, NULL);
}

/* Rank 0 has the sum, and tells it: the others wait for rank 0 alone. */
static void all_reduce(stn_comm *comm, stn_status *status)
{
    int64_t value = 1;
    *status = stn_comm_all_reduce(comm, &value, &value, 1, STN_DTYPE_I64, STN_SUM, NULL);
}

static void send_on(stn_comm *comm, int from, int to, stn_status *status)
{
    int32_t value = 7;
    const stn_message message = {from < 0 ? to : from, {&value, 1, {1}, {1}}};
    const stn_exchange exchange = {
        .dtype = STN_DTYPE_I32, .n_send = to >= 0, .n_recv = from >= 0, .send = &message, .recv = &message};
    *status = stn_comm_group(comm, &exchange, NULL);
}

/* Each rank sends to the next what it had from the one before. */
static void chain(stn_comm *comm, stn_status *status)
{
    const int rank = stn_comm_rank(comm);
    *status = STN_OK;
    if (rank > 0)
        send_on(comm, rank - 1, -1, status);
    if (*status == STN_OK && rank + 1 < RANKS)
        send_on(comm, -1, rank + 1, status);
    if (*status == STN_OK) /* who has sent waits like the others */
        send_on(comm, (rank + RANKS - 1) % RANKS, -1, status);
}

static void be_late(struct late *late)
{
    const double until = team_seconds() + patience;
    while (atomic_load(&late->told) < RANKS - 1 && team_seconds() < until)
        team_pause();
    CHECK_I64(atomic_load(&late->told), RANKS - 1);
}

static void late_body(stn_comm *comm, void *arg)
{
    struct late *late = arg;
    char wanted[128];
    stn_status status;
    const int is_late = stn_comm_rank(comm) == late->rank;
    if (is_late)
        be_late(late);
    late->call(comm, &status);
    atomic_fetch_add(&late->told, !is_late);
    atomic_fetch_add(&late->timed_out, status == STN_ERR_TIMEOUT);
    CHECK(status == STN_ERR_PEER || (status == STN_ERR_TIMEOUT && !is_late));
    snprintf(wanted, sizeof wanted, "%s: deadline of %g s passed, rank %d had not arrived", late->name, deadline,
             late->rank);
    const char *text = stn_comm_error_text(comm), *said = status == STN_ERR_PEER ? strstr(text, ": ") : NULL;
    CHECK_STR(said ? said + 2 : text, wanted);
}

static void who_waits_for_one_that_waits_names_the_one_that_does_not_come(void)
{
    for (int rank = 0; rank < RANKS; rank++) {
        struct late calls[] = {{.call = all_reduce, .name = "all_reduce", .rank = rank},
                               {.call = barrier, .name = "barrier", .rank = rank},
                               {.call = chain, .name = "group", .rank = rank}};
        for (int i = 0; i < 3; i++) {
            team_run_hooked(RANKS, deadline, NULL, late_body, &calls[i]);
            CHECK(atomic_load(&calls[i].timed_out) >= 1);
        }
    }
}

/* Each wants something of the next, and none sends. */
static void circle_body(stn_comm *comm, void *arg)
{
    const int next = (stn_comm_rank(comm) + 1) % stn_comm_size(comm);
    stn_status status;
    char text[STNI_ERROR_TEXT];
    (void)arg;
    send_on(comm, next, -1, &status);
    CHECK(status == STN_ERR_PEER || status == STN_ERR_TIMEOUT);
    snprintf(text, sizeof text, "group: deadline of %g s passed, waiting for rank %d, which waits too", deadline, next);
    if (status == STN_ERR_TIMEOUT)
        CHECK_STR(stn_comm_error_text(comm), text);
    else
        CHECK(strstr(stn_comm_error_text(comm), ", which waits too") != NULL);
}

static void of_a_circle_all_are_said_to_wait(void)
{
    for (int ranks = 2; ranks <= RANKS; ranks++)
        team_run_hooked(ranks, deadline, NULL, circle_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"who_waits_for_one_that_waits_names_the_one_that_does_not_come",
         who_waits_for_one_that_waits_names_the_one_that_does_not_come},
        {"of_a_circle_all_are_said_to_wait", of_a_circle_all_are_said_to_wait},
    };
    return TEST_MAIN(argc, argv, cases);
}
