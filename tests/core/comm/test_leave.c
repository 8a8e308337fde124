/* A thread rank that leaves with an error which its peers may find, too: what they can complete without it completes,
 * and only who waits for what it does not bring hears of it, by its rank and text. */
#include "every_collective.h"
#include "ranks.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { RANKS = 3, LEAVER = 0, SLOW = 1 };

static const double deadline = 60; /* seconds; none of these cases comes near */
static const char what[] = "the shapes differ";

static struct stni_thread_group *group_of(const stn_comm *comm)
{
    return ((const struct stni_thread_member *)comm->impl)->group;
}

static void wait_for(const atomic_int *count, int value)
{
    const double until = team_seconds() + deadline;
    while (atomic_load(count) < value && team_seconds() < until)
        sched_yield();
    CHECK(atomic_load(count) >= value);
}

static void wait_until_left(const stn_comm *comm)
{
    wait_for(&group_of(comm)->slots[LEAVER].gone, 1);
}

static void check_told(const stn_comm *comm, stn_status status)
{
    char wanted[STNI_ERROR_TEXT];
    snprintf(wanted, sizeof wanted, "rank %d: %s", LEAVER, what);
    CHECK_STATUS(status, STN_ERR_PEER);
    CHECK_STR(stn_comm_error_text(comm), wanted);
}

struct trial {
    enum stni_coll_kind coll;
    int64_t n;
    enum stni_thread_phase phase; /* in which the slow rank stays until its peer has left */
    stn_comm *slow;
    atomic_int waiting; /* calls that wait for the leaver */
    int late;           /* they begin when it has left */
    int fails;          /* it leaves with an error */
};

/* What they have all come to */

static void stay_until_left(void *arg, int rank, enum stni_coll_kind kind, enum stni_thread_phase phase)
{
    const struct trial *t = arg;
    if (rank == SLOW && kind == t->coll && phase == t->phase)
        wait_until_left(t->slow);
}

static void complete_without_it(stn_comm *comm)
{
    static const int others[] = {1, 2};
    stn_comm *pair = NULL;
    int64_t sum = stn_comm_rank(comm);
    CHECK_STATUS(stn_comm_subset(comm, others, 2, &pair), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(pair, &sum, &sum, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    CHECK_I64(sum, 3);
    stn_comm_destroy(&pair);
}

static void slower_body(stn_comm *comm, void *arg)
{
    struct trial *t = arg;
    if (stn_comm_rank(comm) == SLOW)
        t->slow = comm;
    CHECK_STATUS(every_collective_call(comm, t->coll, t->n), STN_OK);
    if (stn_comm_rank(comm) == LEAVER) {
        stni_comm_leave(comm, STN_ERR_SHAPE, what);
        return;
    }
    complete_without_it(comm);
    check_told(comm, every_collective_call(comm, t->coll, t->n));
    every_collective_fails(comm, STN_ERR_PEER, stn_comm_error_text(comm));
}

/* Of small data nobody waits for the rank's copy. */
static void what_all_have_come_to_completes_when_a_peer_has_left(void)
{
    for (int coll = 0; coll < STNI_COLL_COUNT; coll++)
        for (int large = 0; large < 2; large++) {
            struct trial t = {.coll = (enum stni_coll_kind)coll, .n = large ? MANY_ELEMENTS : FEW_ELEMENTS,
                              .phase = STNI_PHASE_BEFORE_LEAVE};
            const struct stni_thread_hook hook = {stay_until_left, &t};
            team_run_hooked(RANKS, deadline, &hook, slower_body, &t);
        }
}

/* What it does not bring */

static void count_waiting(void *arg, int rank, enum stni_coll_kind kind, enum stni_thread_phase phase)
{
    struct trial *t = arg;
    (void)rank;
    if (kind == t->coll && phase == STNI_PHASE_AFTER_ARRIVE)
        atomic_fetch_add(&t->waiting, 1);
}

static void missing_body(stn_comm *comm, void *arg)
{
    struct trial *t = arg;
    if (stn_comm_rank(comm) == LEAVER) {
        if (!t->late)
            wait_for(&t->waiting, RANKS - 1);
        stni_comm_leave(comm, STN_ERR_SHAPE, what);
        return;
    }
    if (t->late)
        wait_until_left(comm);
    const double began = team_seconds();
    check_told(comm, every_collective_call(comm, t->coll, t->n));
    CHECK(team_seconds() - began < deadline / 2);
}

static void who_waits_for_a_rank_that_has_left_is_told_why(void)
{
    for (int coll = 0; coll < STNI_COLL_COUNT; coll++)
        for (int i = 0; i < 4; i++) {
            struct trial t = {.coll = (enum stni_coll_kind)coll, .n = i % 2 ? MANY_ELEMENTS : FEW_ELEMENTS,
                              .late = i / 2};
            const struct stni_thread_hook hook = {count_waiting, &t};
            team_run_hooked(RANKS, deadline, &hook, missing_body, &t);
        }
}

/* The leaver joins no subset. */
static void subset_body(stn_comm *comm, void *arg)
{
    struct trial *t = arg;
    static const int pair[] = {SLOW, LEAVER};
    stn_comm *sub = NULL;
    if (stn_comm_rank(comm) == LEAVER) {
        if (!t->late)
            wait_for(&t->waiting, 1);
        if (t->fails)
            stni_comm_leave(comm, STN_ERR_SHAPE, what);
    }
    if (stn_comm_rank(comm) != SLOW)
        return;
    if (t->late)
        wait_until_left(comm);
    CHECK_STATUS(stn_comm_subset(comm, pair, 2, &sub), STN_OK);
    const stn_status status = stn_comm_barrier(sub, NULL);
    CHECK_STATUS(status, STN_ERR_PEER);
    if (t->fails)
        check_told(sub, status);
    else
        CHECK_STR(stn_comm_error_text(sub), "barrier: rank 0 has destroyed its communicator");
    stn_comm_destroy(&sub);
}

static void who_has_left_is_not_waited_for_in_a_subset_that_it_never_joins(void)
{
    for (int i = 0; i < 4; i++) {
        struct trial t = {.coll = STNI_COLL_BARRIER, .late = i % 2, .fails = i / 2};
        const struct stni_thread_hook hook = {count_waiting, &t};
        team_run_hooked(RANKS, deadline, &hook, subset_body, &t);
    }
}

/* A launch whose ranks all find one metadata error, one of them when the others have ended. */

static stn_status launched_main(stn_context *context, void *arg)
{
    const int64_t shape[] = {4}, other[] = {5};
    stn_comm *comm = stn_context_comm(context);
    (void)arg;
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    if (stn_context_rank(context) == SLOW)
        wait_until_left(comm);
    if (stn_context_rank(context) != LEAVER)
        complete_without_it(comm);
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    stn_scope_begin(context);
    stn_add(stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F32, "R", 1, shape)),
            stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F32, "R", 1, other)));
    const stn_status status = stn_scope_end(context);
    CHECK_STATUS(status, STN_ERR_SHAPE);
    return status;
}

static void a_slower_rank_of_a_launch_ends_with_its_own_error(void)
{
    char text[256] = "";
    const stn_context_options options = {.size = sizeof options, .error_text = text, .error_text_size = sizeof text};
    CHECK_STATUS(test_launch(RANKS, &options, launched_main, NULL), STN_ERR_SHAPE);
    if (!CHECK(strncmp(text, "add: ", 5) == 0))
        fprintf(stderr, "\"%s\"\n", text);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"what_all_have_come_to_completes_when_a_peer_has_left", what_all_have_come_to_completes_when_a_peer_has_left},
        {"who_waits_for_a_rank_that_has_left_is_told_why", who_waits_for_a_rank_that_has_left_is_told_why},
        {"who_has_left_is_not_waited_for_in_a_subset_that_it_never_joins",
         who_has_left_is_not_waited_for_in_a_subset_that_it_never_joins},
        {"a_slower_rank_of_a_launch_ends_with_its_own_error", a_slower_rank_of_a_launch_ends_with_its_own_error},
    };
    return TEST_MAIN(argc, argv, cases);
}
