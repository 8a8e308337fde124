/* A rank that does not come: who waits for it is told after the deadline, by the rank that is missing. */
#include "every_collective.h"
#include "ranks.h"

#include <stdatomic.h>
#include <stdio.h>

enum { RANKS = 3 };

static const double patience = 60; /* seconds: more than any of these cases takes */

struct late {
    enum stni_coll_kind coll;
    int64_t n;
    int rank; /* who is late */
    double deadline;
    atomic_int told;      /* ranks that no longer wait */
    atomic_int timed_out; /* of them, those whose own deadline passed */
    int32_t *data[RANKS]; /* of the ranks, longer-lived than their collectives */
    stn_message messages[RANKS];
};

/* Until all others have been told. */
static void be_late(struct late *late)
{
    double until = team_seconds() + patience;
    while (atomic_load(&late->told) < RANKS - 1 && team_seconds() < until)
        team_pause();
    CHECK_I64(atomic_load(&late->told), RANKS - 1);
}

static void be_late_for(double seconds)
{
    double until = team_seconds() + seconds;
    while (team_seconds() < until)
        team_pause();
}

/* Whether a text says that a deadline passed and lists the rank among those that `have_not` done something. On a
 * machine that is busy, others can be late beside it. */
static int names(const char *text, int rank, const char *have_not)
{
    const char *list = strstr(text, " s passed, rank"), *end = list ? strstr(list, have_not) : NULL;
    const char *digit = end ? strchr(list, '0' + rank) : NULL;
    if (!strstr(text, "deadline of ") || !digit || digit > end) {
        fprintf(stderr, "got \"%s\", wanted rank %d: %s\n", text, rank, have_not);
        return 0;
    }
    return 1;
}

/* The status is the rank's own, or a peer's where that one's deadline passed first. */
static void check_told(stn_comm *comm, struct late *late, stn_status status)
{
    if (status == STN_ERR_TIMEOUT)
        atomic_fetch_add(&late->timed_out, 1);
    CHECK(status == STN_ERR_TIMEOUT || status == STN_ERR_PEER);
    CHECK(names(stn_comm_error_text(comm), late->rank,
                late->coll == STNI_COLL_GROUP ? "have not sent" : "had not arrived"));
}

static void late_body(stn_comm *comm, void *arg)
{
    struct late *late = arg;
    int rank = stn_comm_rank(comm);
    if (rank == late->rank)
        be_late(late);
    double began = team_seconds();
    stn_status status = every_collective_call(comm, late->coll, late->n);
    double took = team_seconds() - began;
    check_told(comm, late, status);
    CHECK(rank == late->rank ? status == STN_ERR_PEER : status == STN_ERR_PEER || took >= late->deadline);
    CHECK(took < late->deadline + patience / 2);
    char text[STNI_ERROR_TEXT];
    snprintf(text, sizeof text, "%s", stn_comm_error_text(comm));
    every_collective_fails(comm, status, text);
    if (rank != late->rank)
        atomic_fetch_add(&late->told, 1);
}

static void miss(enum stni_coll_kind coll, int64_t n, int rank, double deadline)
{
    struct late late = {.coll = coll, .n = n, .rank = rank, .deadline = deadline};
    team_run_hooked(RANKS, deadline, NULL, late_body, &late);
    CHECK(atomic_load(&late.timed_out) >= 1);
}

static void the_missing_rank_is_named_after_the_deadline(void)
{
    for (int rank = 0; rank < RANKS; rank++)
        miss(STNI_COLL_ALL_REDUCE, MANY_ELEMENTS, rank, 0.3);
}

static void every_collective_has_the_deadline(void)
{
    for (int coll = 0; coll < STNI_COLL_COUNT; coll++)
        for (int many = 0; many < 2; many++)
            miss((enum stni_coll_kind)coll, many ? MANY_ELEMENTS : FEW_ELEMENTS, coll % RANKS, 0.05);
}

/* Ranks 0 and 1 do not come: both are named. */
static void two_missing_body(stn_comm *comm, void *arg)
{
    struct late *late = arg;
    int waits = stn_comm_rank(comm) == 2;
    if (!waits)
        be_late(late);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), waits ? STN_ERR_TIMEOUT : STN_ERR_PEER);
    CHECK(strstr(stn_comm_error_text(comm), "barrier: deadline of 0.1 s passed, ranks 0, 1 had not arrived") != NULL);
    if (waits)
        atomic_store(&late->told, RANKS - 1);
}

static void all_missing_ranks_are_named(void)
{
    struct late late = {.deadline = 0.1};
    team_run_hooked(RANKS, late.deadline, NULL, two_missing_body, &late);
}

/* Stays in the copy phase until the others have given up on it; only then does it copy. */
static void stay_in_copy(void *arg, int rank, enum stni_coll_kind kind, enum stni_thread_phase phase)
{
    struct late *late = arg;
    if (kind == late->coll && rank == late->rank && phase == STNI_PHASE_IN_COPY)
        be_late(late);
}

/* Memory that may still be touched is freed when all is over. */
static void stuck_body(stn_comm *comm, void *arg)
{
    struct late *late = arg;
    int rank = stn_comm_rank(comm);
    int32_t *data = late->data[rank];
    double began = team_seconds();
    stn_status status = stn_comm_all_reduce(comm, data, data, MANY_ELEMENTS, STN_DTYPE_I32, STN_SUM, NULL);
    double took = team_seconds() - began;
    CHECK_STATUS(status, STN_ERR_PEER);
    if (rank != late->rank) {
        CHECK(names(stn_comm_error_text(comm), 1, "were still copying"));
        CHECK(strstr(stn_comm_error_text(comm), "rank 1 is still in its copy phase after a second deadline") != NULL);
        CHECK(took >= late->deadline && took < patience / 2);
        atomic_fetch_add(&late->told, 1);
    }
}

static void who_stays_in_its_copy_phase_is_given_up_after_a_second_deadline(void)
{
    struct late late = {.coll = STNI_COLL_ALL_REDUCE, .rank = 1, .deadline = 1};
    struct stni_thread_hook hook = {stay_in_copy, &late};
    for (int r = 0; r < RANKS; r++)
        late.data[r] = calloc(MANY_ELEMENTS, sizeof *late.data[r]);
    team_run_hooked(RANKS, late.deadline, &hook, stuck_body, &late);
    for (int r = 0; r < RANKS; r++)
        free(late.data[r]);
}

/* Rank 1 takes rank 0's message and does not finish. */
static void stuck_message_body(stn_comm *comm, void *arg)
{
    struct late *late = arg;
    int rank = stn_comm_rank(comm);
    stn_message *message = &late->messages[rank];
    *message = (stn_message){1 - rank, {late->data[rank], 1, {MANY_ELEMENTS}, {1}}};
    stn_exchange e = {STN_DTYPE_I32, 0, STN_SUM, rank == 0, rank == 1, message, message};
    stn_status status = stn_comm_group(comm, &e, NULL);
    if (rank == 0) {
        CHECK_STATUS(status, STN_ERR_PEER);
        CHECK(strstr(stn_comm_error_text(comm), "still being copied after a second deadline") != NULL);
        atomic_store(&late->told, RANKS - 1);
    }
}

static void a_message_that_stays_taken_is_given_up_after_a_second_deadline(void)
{
    struct late late = {.coll = STNI_COLL_GROUP, .rank = 1, .deadline = 0.5};
    struct stni_thread_hook hook = {stay_in_copy, &late};
    for (int r = 0; r < 2; r++)
        late.data[r] = calloc(MANY_ELEMENTS, sizeof *late.data[r]);
    team_run_hooked(2, late.deadline, &hook, stuck_message_body, &late);
    for (int r = 0; r < 2; r++)
        free(late.data[r]);
}

/* Rank 0 is late by a fifth of a second, once for each collective. */
static void in_time_body(stn_comm *comm, void *arg)
{
    (void)arg;
    for (int coll = 0; coll < STNI_COLL_COUNT; coll++) {
        if (stn_comm_rank(comm) == 0)
            be_late_for(0.2);
        CHECK_STATUS(every_collective_call(comm, (enum stni_coll_kind)coll, MANY_ELEMENTS), STN_OK);
    }
}

/* Each collective has the whole deadline, not what its predecessors left of it. */
static void who_comes_in_time_is_no_error(void)
{
    team_run_hooked(RANKS, 2, NULL, in_time_body, NULL);
}

static void negative_is_no_deadline(void)
{
    team_run_hooked(RANKS, -1, NULL, in_time_body, NULL);
}

static void zero_is_five_minutes(void)
{
    stn_comm *comms[2];
    if (!CHECK_STATUS(stni_comm_create_threads(2, 0, comms), STN_OK))
        return;
    for (int r = 0; r < 2; r++) {
        CHECK(((struct stni_thread_member *)comms[r]->impl)->deadline_seconds == 300);
        stn_comm_destroy(&comms[r]);
    }
}

/* Without a deadline an abort still ends the wait. */
static void no_deadline_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int fails = stn_comm_rank(comm) == 1;
    if (fails) {
        be_late_for(0.05);
        stni_comm_abort(comm, STN_ERR_DEVICE, "out of coal");
    }
    CHECK_STATUS(stn_comm_barrier(comm, NULL), fails ? STN_ERR_DEVICE : STN_ERR_PEER);
    CHECK_STR(stn_comm_error_text(comm), fails ? "out of coal" : "rank 1: out of coal");
}

static void a_failure_ends_a_wait_without_deadline(void)
{
    team_run_hooked(RANKS, -1, NULL, no_deadline_body, NULL);
}

/* A context's deadline; rank 2 leaves out one op. */
static stn_status rank_main(stn_context *context, void *arg)
{
    struct late *late = arg;
    const stn_placement shard = stn_shard(0), replicate = stn_replicate();
    const int64_t shape[] = {7, 5};
    int rank = stn_context_rank(context);
    float data[35];
    stn_scope_begin(context); /* owns what a failure leaves, and ends with the context */
    stn_tensor *x =
        test_tensor(context, test_mesh(context, RANKS, 0), &shard, STN_DTYPE_F32, 2, shape, NULL, test_value);
    if (rank == late->rank)
        be_late(late);
    stn_status status = stn_to_host(stn_redistribute_to(x, &replicate), data, sizeof data);
    CHECK(status == STN_ERR_PEER || (status == STN_ERR_TIMEOUT && rank != late->rank));
    CHECK(names(stn_context_error_text(context), 2, "had not arrived"));
    if (status == STN_ERR_TIMEOUT)
        atomic_fetch_add(&late->timed_out, 1);
    atomic_fetch_add(&late->told, 1);
    return status;
}

static void launched_ranks_have_the_deadline_of_their_options(void)
{
    struct late late = {.rank = 2};
    char text[STNI_ERROR_TEXT] = "";
    stn_context_options options = {
        .size = sizeof options, .deadline_seconds = 1, .error_text = text, .error_text_size = sizeof text};
    CHECK_STATUS(test_launch(RANKS, &options, rank_main, &late), STN_ERR_TIMEOUT);
    CHECK(names(text, 2, "had not arrived"));
    CHECK(atomic_load(&late.timed_out) >= 1);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"the_missing_rank_is_named_after_the_deadline", the_missing_rank_is_named_after_the_deadline},
        {"every_collective_has_the_deadline", every_collective_has_the_deadline},
        {"all_missing_ranks_are_named", all_missing_ranks_are_named},
        {"who_stays_in_its_copy_phase_is_given_up_after_a_second_deadline",
         who_stays_in_its_copy_phase_is_given_up_after_a_second_deadline},
        {"a_message_that_stays_taken_is_given_up_after_a_second_deadline",
         a_message_that_stays_taken_is_given_up_after_a_second_deadline},
        {"who_comes_in_time_is_no_error", who_comes_in_time_is_no_error},
        {"negative_is_no_deadline", negative_is_no_deadline},
        {"zero_is_five_minutes", zero_is_five_minutes},
        {"a_failure_ends_a_wait_without_deadline", a_failure_ends_a_wait_without_deadline},
        {"launched_ranks_have_the_deadline_of_their_options", launched_ranks_have_the_deadline_of_their_options},
    };
    return TEST_MAIN(argc, argv, cases);
}
