/* A rank that fails while its peers are in a collective: who learns what, how soon, and that nobody's memory is touched
 * after its collective has returned. All ranks free what they gave to a collective as soon as it returns
 * (every_collective.h): run with the address or the thread sanitizer, these cases show that no peer was still
 * copying. */
#include "every_collective.h"
#include "ranks.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { RANKS = 3, ROUNDS = 3 };

/* Where a rank fails: in a phase of its collective, or without calling it. */
enum stage { ABORT_OUTSIDE = STNI_PHASE_COUNT, DESTROY, STAGES };

static const char *const stage_names[] = {"before it arrives",         "after it arrived",
                                          "in its copy phase",         "before it leaves",
                                          "outside of the collective", "by destroying its communicator"};

static const double deadline = 30; /* seconds; none of these cases comes near */
static const char what[] = "the fuse has blown";

struct trial {
    enum stni_coll_kind coll;
    int64_t n;
    int failing, stage; /* the rank, and a phase or one of enum stage */
    int lingering;      /* the rank that stays in its copy phase; -1: none */
    double delay;       /* seconds from when it could fail to when it does */
    stn_comm *comm;     /* the failing rank's */
    atomic_int arrived; /* calls of peers that have come to wait */
    atomic_int failed, inside;
    double began;
    _Atomic(double) known; /* when the last peer knew */
    atomic_int halves; /* ranks that have their subset: nothing may fail before all have */
};

/* Bounded: the ranks that must come first do not wait for this one. */
static void wait_for(const atomic_int *count, int value)
{
    double until = team_seconds() + deadline;
    while (atomic_load(count) < value && team_seconds() < until)
        sched_yield();
    CHECK(atomic_load(count) >= value);
}

static void wait_seconds(double seconds)
{
    double until = team_seconds() + seconds;
    while (team_seconds() < until)
        team_pause();
}

static void fail_now(struct trial *t)
{
    if (t->stage == STNI_PHASE_BEFORE_ARRIVE || t->stage >= ABORT_OUTSIDE)
        wait_for(&t->arrived, RANKS - 1);
    if (t->lingering >= 0 && t->lingering != t->failing)
        wait_for(&t->inside, 1);
    wait_seconds(t->delay);
    t->began = team_seconds();
    if (t->stage != DESTROY)
        stni_comm_abort(t->comm, STN_ERR_DEVICE, what);
    atomic_store(&t->failed, 1);
}

/* Stays in the copy phase until long after the others could have gone. */
static void linger(struct trial *t)
{
    wait_for(&t->failed, 1);
    wait_seconds(0.001);
    atomic_store(&t->inside, 0);
}

static void on_phase(void *arg, int rank, enum stni_coll_kind kind, enum stni_thread_phase phase)
{
    struct trial *t = arg;
    if (kind != t->coll)
        return;
    if (rank != t->failing && phase == STNI_PHASE_AFTER_ARRIVE)
        atomic_fetch_add(&t->arrived, 1);
    int lingers = rank == t->lingering && phase == STNI_PHASE_IN_COPY;
    if (lingers)
        atomic_store(&t->inside, 1);
    if (rank == t->failing && (int)phase == t->stage && !atomic_load(&t->failed))
        fail_now(t);
    if (lingers)
        linger(t);
}

static void peer_knows(struct trial *t)
{
    double now = team_seconds(), known = atomic_load(&t->known);
    while (known < now && !atomic_compare_exchange_weak(&t->known, &known, now))
        ;
}

/* The collective's status; where the failure came too late for it, that of the next. */
static stn_status call_until_it_fails(stn_comm *comm, const struct trial *t)
{
    stn_status status = every_collective_call(comm, t->coll, t->n);
    if (t->lingering >= 0 && stn_comm_rank(comm) != t->lingering)
        CHECK_I64(atomic_load(&t->inside), 0);
    return status == STN_OK ? every_collective_call(comm, t->coll, t->n) : status;
}

static void failing_body(stn_comm *comm, struct trial *t)
{
    t->comm = comm;
    if (t->stage >= ABORT_OUTSIDE)
        fail_now(t);
    if (t->stage == DESTROY)
        return;
    CHECK_STATUS(call_until_it_fails(comm, t), STN_ERR_DEVICE);
    CHECK_STR(stn_comm_error_text(comm), what);
    every_collective_fails(comm, STN_ERR_DEVICE, what);
}

static void peer_body(stn_comm *comm, struct trial *t)
{
    char wanted[STNI_ERROR_TEXT], got[STNI_ERROR_TEXT];
    stn_status status = call_until_it_fails(comm, t);
    peer_knows(t);
    snprintf(wanted, sizeof wanted, t->stage == DESTROY ? "rank %d has destroyed its communicator" : "rank %d: %s",
             t->failing, what);
    snprintf(got, sizeof got, "%s", stn_comm_error_text(comm));
    CHECK_STATUS(status, STN_ERR_PEER);
    if (t->stage == DESTROY)
        CHECK(strstr(got, wanted) != NULL);
    else
        CHECK_STR(got, wanted);
    every_collective_fails(comm, status, got);
}

static void trial_body(stn_comm *comm, void *arg)
{
    struct trial *t = arg;
    (stn_comm_rank(comm) == t->failing ? failing_body : peer_body)(comm, t);
}

/* Seconds from the failure to when the last peer knew. */
static double try_once(struct trial *t)
{
    struct stni_thread_hook hook = {on_phase, t};
    team_run_hooked(RANKS, deadline, &hook, trial_body, t);
    CHECK(t->began > 0);
    double seconds = atomic_load(&t->known) - t->began;
    if (!CHECK(seconds < deadline))
        fprintf(stderr, "%s of %lld elements, rank %d fails %s\n", stni_coll_name(t->coll), (long long)t->n, t->failing,
                stage_names[t->stage]);
    return seconds;
}

static double worst_of(enum stni_coll_kind coll, int64_t n, int stage)
{
    double worst = 0;
    for (int failing = 0; failing < RANKS; failing++)
        for (int round = 0; round < ROUNDS; round++) {
            struct trial t = {
                .coll = coll, .n = n, .failing = failing, .stage = stage, .lingering = -1, .delay = round * 120e-6};
            double seconds = try_once(&t);
            worst = seconds > worst ? seconds : worst;
        }
    return worst;
}

static void worst_of_stage(int stage)
{
    double worst[2] = {0, 0};
    for (int many = 0; many < 2; many++)
        for (int coll = 0; coll < STNI_COLL_COUNT; coll++) {
            double seconds = worst_of((enum stni_coll_kind)coll, many ? MANY_ELEMENTS : FEW_ELEMENTS, stage);
            worst[many] = seconds > worst[many] ? seconds : worst[many];
        }
    printf("a rank fails %-31s  the last peer knows after at most %7.3f ms (few elements) %7.3f ms (many)\n",
           stage_names[stage], worst[0] * 1e3, worst[1] * 1e3);
}

static void who_fails_before_it_arrives_is_named_by_all(void)
{
    worst_of_stage(STNI_PHASE_BEFORE_ARRIVE);
}

static void who_fails_after_it_arrived_is_named_by_all(void)
{
    worst_of_stage(STNI_PHASE_AFTER_ARRIVE);
}

static void who_fails_in_its_copy_phase_is_named_by_all(void)
{
    worst_of_stage(STNI_PHASE_IN_COPY);
}

static void who_fails_before_it_leaves_is_named_by_all(void)
{
    worst_of_stage(STNI_PHASE_BEFORE_LEAVE);
}

static void who_fails_outside_of_the_collective_is_named_by_all(void)
{
    worst_of_stage(ABORT_OUTSIDE);
}

static void who_destroys_its_communicator_is_named_by_all(void)
{
    worst_of_stage(DESTROY);
}

/* Whatever is copied in place by all ranks at once. */
static int has_copy_phase(int coll)
{
    return coll != STNI_COLL_BARRIER && coll != STNI_COLL_GROUP;
}

static void nobody_returns_while_the_failed_rank_copies(void)
{
    for (int coll = 0; coll < STNI_COLL_COUNT; coll++)
        for (int failing = 0; failing < RANKS && has_copy_phase(coll); failing++) {
            struct trial t = {.coll = (enum stni_coll_kind)coll,
                              .n = MANY_ELEMENTS,
                              .failing = failing,
                              .stage = STNI_PHASE_IN_COPY,
                              .lingering = failing};
            try_once(&t);
        }
}

static void nobody_returns_while_a_peer_copies(void)
{
    for (int coll = 0; coll < STNI_COLL_COUNT; coll++)
        for (int failing = 0; failing < RANKS && has_copy_phase(coll); failing++) {
            struct trial t = {.coll = (enum stni_coll_kind)coll,
                              .n = MANY_ELEMENTS,
                              .failing = failing,
                              .stage = STNI_PHASE_BEFORE_LEAVE,
                              .lingering = (failing + 1) % RANKS};
            try_once(&t);
        }
}

/* Rank 1 copies a message of rank 0 while rank 2, which has no part in it, fails. */
static void sender_body(stn_comm *comm, void *arg)
{
    struct trial *t = arg;
    int rank = stn_comm_rank(comm);
    int32_t *data = calloc(MANY_ELEMENTS, sizeof *data);
    stn_message message = {1 - rank, {data, 1, {MANY_ELEMENTS}, {1}}};
    stn_exchange e = {STN_DTYPE_I32, 0, STN_SUM, rank == 0, rank == 1, &message, &message};
    if (rank == 2) {
        t->comm = comm;
        fail_now(t);
    } else {
        stn_status status = stn_comm_group(comm, &e, NULL);
        CHECK(rank == 1 || !atomic_load(&t->inside));
        CHECK(status == STN_OK || status == STN_ERR_PEER);
    }
    memset(data, 0x5a, MANY_ELEMENTS * sizeof *data);
    free(data);
    every_collective_fails(comm, rank == 2 ? STN_ERR_DEVICE : STN_ERR_PEER,
                           rank == 2 ? what : "rank 2: the fuse has blown");
}

static void nobody_returns_while_its_message_is_copied(void)
{
    for (int round = 0; round < 10; round++) {
        struct trial t = {.coll = STNI_COLL_GROUP, .failing = 2, .stage = ABORT_OUTSIDE, .lingering = 1};
        struct stni_thread_hook hook = {on_phase, &t};
        team_run_hooked(RANKS, deadline, &hook, sender_body, &t);
    }
}

/* Rank 0 reports the failure of rank 2's device, as a queue's own thread does, while rank 2 waits. */
static void foreign_body(stn_comm *comm, void *arg)
{
    struct trial *t = arg;
    int rank = stn_comm_rank(comm);
    if (rank == 2)
        t->comm = comm;
    if (rank == 0) {
        wait_for(&t->arrived, RANKS - 1);
        stni_comm_abort(t->comm, STN_ERR_DEVICE, what);
    }
    CHECK_STATUS(stn_comm_barrier(comm, NULL), rank == 2 ? STN_ERR_DEVICE : STN_ERR_PEER);
    every_collective_fails(comm, rank == 2 ? STN_ERR_DEVICE : STN_ERR_PEER,
                           rank == 2 ? what : "rank 2: the fuse has blown");
}

static void any_thread_can_tell_that_a_rank_failed(void)
{
    struct trial t = {.coll = STNI_COLL_BARRIER, .failing = 0, .stage = ABORT_OUTSIDE, .lingering = -1};
    struct stni_thread_hook hook = {on_phase, &t};
    team_run_hooked(RANKS, deadline, &hook, foreign_body, &t);
}

/* Ranks 1 and 2 fail at once; rank 0 waits for them. */
static void two_failures_body(stn_comm *comm, void *arg)
{
    atomic_int *named = arg;
    int rank = stn_comm_rank(comm), by;
    char text[16];
    snprintf(text, sizeof text, "failure %d", rank);
    if (rank > 0)
        stni_comm_abort(comm, STN_ERR_DEVICE, text);
    stn_status status = stn_comm_barrier(comm, NULL);
    const char *digit = strstr(stn_comm_error_text(comm), "failure ");
    if (!CHECK_PTR(digit))
        return;
    by = digit[8] - '0';
    CHECK_STATUS(status, by == rank ? STN_ERR_DEVICE : STN_ERR_PEER);
    int first = 0;
    CHECK(by > 0 && (atomic_compare_exchange_strong(named, &first, by) || first == by));
}

static void of_two_failures_all_ranks_name_the_same(void)
{
    for (int round = 0; round < 100; round++) {
        atomic_int named = 0;
        team_run(RANKS, two_failures_body, &named);
    }
}

/* Rank 0 waits for 2 on one half of the world, 2 for all in the world, 1 for 3 on the other half; 3 fails there.
 * Texts name ranks of the world. */
static void subset_body(stn_comm *comm, void *arg)
{
    struct trial *t = arg;
    int rank = stn_comm_rank(comm);
    const int pair[] = {rank % 2, rank % 2 + 2};
    const char *text = rank == 3 ? what : "rank 3: the fuse has blown";
    stn_comm *half = NULL, *again = NULL;
    if (!CHECK_STATUS(stn_comm_subset(comm, pair, 2, &half), STN_OK))
        return;
    atomic_fetch_add(&t->halves, 1);
    if (rank == 3) {
        wait_for(&t->halves, 4);
        t->comm = half;
        fail_now(t);
    }
    stn_status wanted = rank == 3 ? STN_ERR_DEVICE : STN_ERR_PEER;
    CHECK_STATUS(stn_comm_barrier(rank == 2 ? comm : half, NULL), wanted);
    every_collective_fails(half, wanted, text);
    every_collective_fails(comm, wanted, text);
    CHECK_STATUS(stn_comm_subset(comm, pair, 2, &again), wanted);
    CHECK_STR(stn_comm_error_text(comm), text);
    stn_comm_destroy(&half);
}

static void a_failure_ends_the_collectives_of_all_communicators_of_the_family(void)
{
    struct trial t = {.coll = STNI_COLL_BARRIER, .failing = 3, .stage = ABORT_OUTSIDE, .lingering = -1};
    struct stni_thread_hook hook = {on_phase, &t};
    team_run_hooked(4, deadline, &hook, subset_body, &t);
}

static void request_body(stn_comm *comm, void *arg)
{
    struct trial *t = arg;
    int rank = stn_comm_rank(comm);
    int32_t *data = calloc(MANY_ELEMENTS, sizeof *data);
    if (rank == 2) {
        t->comm = comm;
        fail_now(t);
    }
    stn_request *request = NULL;
    stn_status wanted = rank == 2 ? STN_ERR_DEVICE : STN_ERR_PEER;
    stn_status status = stn_comm_all_reduce(comm, data, data, MANY_ELEMENTS, STN_DTYPE_I32, STN_SUM, &request);
    if (status == STN_OK)
        status = stn_request_wait(&request);
    free(data);
    CHECK(request == NULL);
    CHECK_STATUS(status, wanted);
    CHECK_STR(stn_comm_error_text(comm), rank == 2 ? what : "rank 2: the fuse has blown");
}

static void a_collective_with_a_request_ends_too(void)
{
    for (int round = 0; round < 20; round++) {
        struct trial t = {.coll = STNI_COLL_ALL_REDUCE,
                          .failing = 2,
                          .stage = ABORT_OUTSIDE,
                          .lingering = -1,
                          .delay = round * 20e-6};
        struct stni_thread_hook hook = {on_phase, &t};
        team_run_hooked(RANKS, deadline, &hook, request_body, &t);
    }
}

/* Ranks of stn_launch */

struct launch {
    int failing, keeps_error; /* the rank ends with an error that its context keeps, with its text, or with a bare status */
    char text[STNI_ERROR_TEXT];
};

static stn_status failing_main(stn_context *context, struct launch *launch, stn_tensor *x)
{
    if (!launch->keeps_error) {
        snprintf(launch->text, sizeof launch->text, "%s", stn_status_text(STN_ERR_IO));
        return STN_ERR_IO;
    }
    stn_redistribute(x, NULL);
    snprintf(launch->text, sizeof launch->text, "%s", stn_context_error_text(context));
    return stn_context_status(context);
}

static stn_status rank_main(stn_context *context, void *arg)
{
    struct launch *launch = arg;
    const stn_placement shard = stn_shard(0), replicate = stn_replicate();
    const int64_t shape[] = {7, 5};
    stn_scope_begin(context); /* owns what a failure leaves, and ends with the context */
    stn_tensor *x =
        test_tensor(context, test_mesh(context, RANKS, 0), &shard, STN_DTYPE_F32, 2, shape, NULL, test_value);
    CHECK_PTR(stn_redistribute_to(x, &replicate));
    if (stn_context_rank(context) == launch->failing)
        return failing_main(context, launch, x);
    float data[35];
    CHECK_STATUS(stn_to_host(stn_redistribute_to(stn_add(x, x), &replicate), data, sizeof data), STN_ERR_PEER);
    CHECK_STATUS(stn_context_status(context), STN_ERR_PEER);
    char who[16];
    snprintf(who, sizeof who, "rank %d: ", launch->failing);
    CHECK(strstr(stn_context_error_text(context), who) != NULL);
    CHECK(strstr(stn_context_error_text(context), launch->text) != NULL);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_PEER);
    CHECK_STATUS(stn_comm_barrier(stn_context_comm(context), NULL), STN_ERR_PEER);
    return STN_ERR_PEER;
}

static void launch_returns_the_status_and_text_of_the_rank_that_failed(void)
{
    for (int failing = 0; failing < RANKS; failing++)
        for (int keeps = 0; keeps < 2; keeps++) {
            struct launch launch = {.failing = failing, .keeps_error = keeps};
            char text[STNI_ERROR_TEXT] = "";
            stn_context_options options = {.size = sizeof options, .deadline_seconds = deadline, .error_text = text,
                                           .error_text_size = sizeof text};
            CHECK_STATUS(test_launch(RANKS, &options, rank_main, &launch), keeps ? STN_ERR_ARGUMENT : STN_ERR_IO);
            CHECK(launch.text[0] != '\0');
            CHECK_STR(text, launch.text);
        }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"who_fails_before_it_arrives_is_named_by_all", who_fails_before_it_arrives_is_named_by_all},
        {"who_fails_after_it_arrived_is_named_by_all", who_fails_after_it_arrived_is_named_by_all},
        {"who_fails_in_its_copy_phase_is_named_by_all", who_fails_in_its_copy_phase_is_named_by_all},
        {"who_fails_before_it_leaves_is_named_by_all", who_fails_before_it_leaves_is_named_by_all},
        {"who_fails_outside_of_the_collective_is_named_by_all", who_fails_outside_of_the_collective_is_named_by_all},
        {"who_destroys_its_communicator_is_named_by_all", who_destroys_its_communicator_is_named_by_all},
        {"nobody_returns_while_the_failed_rank_copies", nobody_returns_while_the_failed_rank_copies},
        {"nobody_returns_while_a_peer_copies", nobody_returns_while_a_peer_copies},
        {"nobody_returns_while_its_message_is_copied", nobody_returns_while_its_message_is_copied},
        {"any_thread_can_tell_that_a_rank_failed", any_thread_can_tell_that_a_rank_failed},
        {"of_two_failures_all_ranks_name_the_same", of_two_failures_all_ranks_name_the_same},
        {"a_failure_ends_the_collectives_of_all_communicators_of_the_family",
         a_failure_ends_the_collectives_of_all_communicators_of_the_family},
        {"a_collective_with_a_request_ends_too", a_collective_with_a_request_ends_too},
        {"launch_returns_the_status_and_text_of_the_rank_that_failed",
         launch_returns_the_status_and_text_of_the_rank_that_failed},
    };
    return TEST_MAIN(argc, argv, cases);
}
