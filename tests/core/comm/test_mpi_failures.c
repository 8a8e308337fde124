/* Failures of ranks of MPI: who fails, does not come or calls something else is known to all others, by any
 * collective. */
#include "every_collective.h"

#include <stdio.h>

static const char what[] = "the fuse has blown";
static const double deadline = 30; /* seconds; no case that does not wait for it comes near */

static void wait_seconds(double seconds)
{
    double until = team_seconds() + seconds;
    while (team_seconds() < until)
        team_pause();
}

struct trial {
    int coll;
    int64_t n;
    int failing;
    double delay;
};

/* Collectives whose other end is not the failed rank may well succeed, for a while. */
static stn_status call_until_it_fails(stn_comm *comm, const struct trial *t)
{
    double until = team_seconds() + deadline / 2;
    stn_status status = STN_OK;
    while (status == STN_OK && team_seconds() < until)
        status = every_collective_call(comm, (enum stni_coll_kind)t->coll, t->n);
    return status;
}

static void abort_body(stn_comm *comm, void *arg)
{
    const struct trial *t = arg;
    char text[STNI_ERROR_TEXT];
    int fails = stn_comm_rank(comm) == t->failing;
    if (fails) {
        wait_seconds(t->delay);
        stni_comm_abort(comm, STN_ERR_DEVICE, what);
    }
    snprintf(text, sizeof text, "rank %d: %s", t->failing, what);
    if (fails)
        snprintf(text, sizeof text, "%s", what);
    CHECK_STATUS(call_until_it_fails(comm, t), fails ? STN_ERR_DEVICE : STN_ERR_PEER);
    CHECK_STR(stn_comm_error_text(comm), text);
    every_collective_fails(comm, fails ? STN_ERR_DEVICE : STN_ERR_PEER, text);
}

static void who_fails_is_named_by_all_in_every_collective(void)
{
    for (int coll = 0; coll < STNI_COLL_COUNT; coll++)
        for (int i = 0; i < 4; i++) {
            struct trial t = {coll, i % 2 ? MANY_ELEMENTS : FEW_ELEMENTS, i / 2, 0.002 * (i % 2)};
            team_run_hooked(4, deadline, NULL, abort_body, &t);
        }
}

/* Collectives in which each rank waits for each other. */
static const enum stni_coll_kind waiting[] = {STNI_COLL_ALL_REDUCE, STNI_COLL_ALL_GATHER, STNI_COLL_REDUCE_SCATTER,
                                              STNI_COLL_ALL_TO_ALL, STNI_COLL_GROUP,      STNI_COLL_EXCHANGE,
                                              STNI_COLL_BARRIER};

static void late_body(stn_comm *comm, void *arg)
{
    const struct trial *t = arg;
    const int late = stn_comm_rank(comm) == t->failing;
    char named[32], text[STNI_ERROR_TEXT];
    if (late)
        wait_seconds(t->delay + 1);
    double began = team_seconds();
    stn_status status = every_collective_call(comm, (enum stni_coll_kind)t->coll, t->n);
    double took = team_seconds() - began;
    if (late && status == STN_OK) /* its peers' messages were there already */
        status = call_until_it_fails(comm, t);
    snprintf(text, sizeof text, "%s", stn_comm_error_text(comm));
    snprintf(named, sizeof named, " s passed, rank %d ha", t->failing);
    CHECK(late ? status == STN_ERR_PEER : status == STN_ERR_PEER || (status == STN_ERR_TIMEOUT && took >= t->delay));
    CHECK(took < t->delay + 10);
    /* On a busy machine others can be late beside it. */
    if (!CHECK(strstr(text, named) || strstr(text, " s passed, ranks ")))
        fprintf(stderr, "\"%s\"\n", text);
    every_collective_fails(comm, status, text);
}

static void who_does_not_come_is_named_after_the_deadline(void)
{
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++) {
        struct trial t = {(int)waiting[i], i % 2 ? MANY_ELEMENTS : FEW_ELEMENTS, (int)i % 2, 0.3};
        team_run_hooked(4, t.delay, NULL, late_body, &t);
    }
}

/* Rank 0 calls one collective with other sizes than its peers. */
static void misfit_body(stn_comm *comm, void *arg)
{
    int kind = *(int *)arg, odd = stn_comm_rank(comm) == 0, peer = 1 - stn_comm_rank(comm);
    int64_t data[8] = {0}, in[16], counts[2] = {1, 1}, wrong[2] = {1, 2};
    stn_message send = {peer, {data, 1, {3}, {1}}}, recv = {peer, {in, 1, {odd ? 4 : 3}, {1}}};
    stn_exchange e = {STN_DTYPE_I64, 0, STN_SUM, 1, 1, &send, &recv};
    stn_status status = STN_OK;
    if (kind == 0)
        status = stn_comm_all_to_all(comm, data, counts, in, odd ? wrong : counts, STN_DTYPE_I64, NULL);
    else if (kind == 1)
        status = stn_comm_group(comm, &e, NULL);
    else if (kind == 2)
        status = stn_comm_all_reduce(comm, data, data, odd ? 2 : 5, STN_DTYPE_I64, STN_SUM, NULL);
    else
        status =
            odd ? stn_comm_barrier(comm, NULL) : stn_comm_all_reduce(comm, data, data, 5, STN_DTYPE_I64, STN_SUM, NULL);
    if (status == STN_OK)
        status = call_until_it_fails(comm, &(struct trial){STNI_COLL_BARRIER, FEW_ELEMENTS, 0, 0});
    CHECK(status == STN_ERR_MISMATCH || status == STN_ERR_PEER);
    if (!CHECK(strstr(stn_comm_error_text(comm), "a message from rank") &&
               strstr(stn_comm_error_text(comm), "bytes, wanted")))
        fprintf(stderr, "kind %d: \"%s\"\n", kind, stn_comm_error_text(comm));
}

static void messages_of_other_lengths_are_refused(void)
{
    for (int kind = 0; kind < 4; kind++)
        team_run_hooked(2, deadline, NULL, misfit_body, &kind);
}

/* Rank 1 fails on a pair of ranks; the others wait in the world. */
static void subset_body(stn_comm *comm, void *arg)
{
    (void)arg;
    static const int pair[] = {1, 0};
    int rank = stn_comm_rank(comm);
    stn_comm *sub = NULL;
    if (rank < 2)
        CHECK_STATUS(stn_comm_subset(comm, pair, 2, &sub), STN_OK);
    if (rank < 2)
        CHECK_I64(stn_comm_rank(sub), 1 - rank);
    if (rank == 1)
        stni_comm_abort(sub, STN_ERR_DEVICE, what);
    stn_status wanted = rank == 1 ? STN_ERR_DEVICE : STN_ERR_PEER;
    CHECK_STATUS(stn_comm_barrier(rank == 0 ? sub : comm, NULL), wanted);
    CHECK_STR(stn_comm_error_text(rank == 0 ? sub : comm), rank == 1 ? what : "rank 1: the fuse has blown");
    CHECK_STATUS(stn_comm_barrier(comm, NULL), wanted);
    stn_comm *again = NULL;
    if (rank < 2)
        CHECK_STATUS(stn_comm_subset(comm, pair, 2, &again), wanted);
    CHECK(again == NULL);
    stn_comm_destroy(&sub);
}

static void a_failure_on_a_subset_ends_the_whole_family(void)
{
    team_run_hooked(4, deadline, NULL, subset_body, NULL);
}

/* Messages longer than what MPI carries in its envelope: what is wanted, on a stack, is shorter than what is sent,
 * or longer, or as long but for one element. */
static void large_misfit_body(stn_comm *comm, void *arg)
{
    enum { LARGE = 1200, SMALL = 4 };
    static const int64_t lengths[][2] = {
        {SMALL, LARGE}, {LARGE, LARGE - 1}, {LARGE - 1, LARGE}, {SMALL, SMALL + 1}, {LARGE, SMALL}};
    static _Thread_local int64_t out[LARGE]; /* ranks may be threads */
    struct {
        int64_t in[LARGE], behind[LARGE];
    } here = {{0}, {0}};
    const int rank = stn_comm_rank(comm), peer = 1 - rank;
    const int64_t n = lengths[*(int *)arg][rank]; /* each rank wants as much as it sends */
    for (int i = 0; i < LARGE; i++)
        out[i] = 7;
    const stn_message send = {peer, {out, 1, {n}, {1}}}, recv = {peer, {here.in, 1, {n}, {1}}};
    const stn_exchange e = {STN_DTYPE_I64, 0, STN_SUM, 1, 1, &send, &recv};
    double began = team_seconds();
    stn_status status = stn_comm_group(comm, &e, NULL);
    if (status == STN_OK)
        status = call_until_it_fails(comm, &(struct trial){STNI_COLL_BARRIER, FEW_ELEMENTS, 0, 0});
    CHECK(status == STN_ERR_MISMATCH || status == STN_ERR_PEER);
    CHECK(team_seconds() - began < deadline / 2);
    if (!CHECK(strstr(stn_comm_error_text(comm), "a message from rank") &&
               strstr(stn_comm_error_text(comm), "bytes, wanted")))
        fprintf(stderr, "lengths %d: \"%s\"\n", *(int *)arg, stn_comm_error_text(comm));
    for (int i = 0; i < LARGE; i++)
        CHECK_I64(here.behind[i], 0);
    for (int64_t i = n; i < LARGE; i++)
        CHECK_I64(here.in[i], 0);
}

static void large_messages_of_other_lengths_are_refused_and_write_nothing_behind_the_buffer(void)
{
    for (int kind = 0; kind < 5; kind++)
        team_run_hooked(2, deadline, NULL, large_misfit_body, &kind);
}

enum { MIXED = 12, MOST = 4096 };

/* What one rank sends and receives: ranks may be threads, which share what is static. */
struct mixed {
    int32_t out[MIXED][MOST], in[MIXED][MOST];
};

static stn_status mixed_round(stn_comm *comm, int round, struct mixed *m)
{
    const int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    stn_message send[MIXED], recv[MIXED];
    for (int i = 0; i < MIXED; i++) {
        int64_t n = (i * 7 + round) % 3 ? 1 + (i + round) % 5 : 1000 + (i * 37 + round) % 3000;
        send[i] = (stn_message){to, {m->out[i], 1, {n}, {1}}};
        recv[i] = (stn_message){from, {m->in[i], 1, {n}, {1}}};
        memset(m->in[i], 0, sizeof m->in[i]);
        for (int k = 0; k < n; k++)
            m->out[i][k] = rank + 100 * i + 10000 * round + k;
    }
    const stn_exchange e = {STN_DTYPE_I32, 0, STN_SUM, MIXED, MIXED, send, recv};
    const stn_status status = stn_comm_group(comm, &e, NULL);
    for (int i = 0; i < MIXED && status == STN_OK; i++)
        for (int64_t k = recv[i].box.shape[0] - 1; k >= 0; k -= 500)
            CHECK_I64(m->in[i][k], from + 100 * i + 10000 * round + k);
    return status;
}

/* Small and large messages of one group collective, in every order: each meets its own, also where the other end is
 * a collective ahead. */
static void mixed_body(stn_comm *comm, void *arg)
{
    struct mixed *m = malloc(sizeof *m);
    (void)arg;
    for (int round = 0; round < 40 && CHECK_STATUS(mixed_round(comm, round, m), STN_OK); round++)
        continue;
    free(m);
}

static void small_and_large_messages_of_one_collective_meet_their_own(void)
{
    team_run_hooked(4, deadline, NULL, mixed_body, NULL);
}

/* The lists differ, so that the ranks mean different subsets. */
static void lists_body(stn_comm *comm, void *arg)
{
    (void)arg;
    static const int ranks[] = {0, 1}, other[] = {1, 0};
    stn_comm *sub = NULL;
    stn_status status = stn_comm_subset(comm, stn_comm_rank(comm) ? other : ranks, 2, &sub);
    CHECK(status == STN_ERR_MISMATCH || status == STN_ERR_PEER);
    CHECK(strstr(stn_comm_error_text(comm), "different lists of ranks") != NULL);
}

static void subsets_that_differ_are_refused(void)
{
    team_run_hooked(2, deadline, NULL, lists_body, NULL);
}

static void request_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int32_t data[FEW_ELEMENTS] = {0};
    int fails = stn_comm_rank(comm) == 1;
    stn_request *request = NULL;
    if (fails)
        stni_comm_abort(comm, STN_ERR_DEVICE, what);
    stn_status status = stn_comm_all_reduce(comm, data, data, FEW_ELEMENTS, STN_DTYPE_I32, STN_SUM, &request);
    if (status == STN_OK)
        status = stn_request_wait(&request);
    CHECK_STATUS(status, fails ? STN_ERR_DEVICE : STN_ERR_PEER);
    CHECK_STR(stn_comm_error_text(comm), fails ? what : "rank 1: the fuse has blown");
}

static void a_collective_with_a_request_ends_too(void)
{
    team_run_hooked(4, deadline, NULL, request_body, NULL);
}

/* Subsets whose tags must not meet, of ranks that have taken part in different numbers of them. */
static void tags_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    for (int round = 0; round < 6; round++) {
        stn_comm *left = NULL, *right = NULL;
        int low[] = {rank - 1, rank}, high[] = {rank, rank + 1};
        int64_t a = rank, b = rank;
        /* A chain: each rank is in a pair with its neighbour below and in one with its neighbour above. */
        if (rank > 0)
            CHECK_STATUS(stn_comm_subset(comm, low, 2, &left), STN_OK);
        if (rank + 1 < size)
            CHECK_STATUS(stn_comm_subset(comm, high, 2, &right), STN_OK);
        if (right)
            CHECK_STATUS(stn_comm_all_reduce(right, &b, &b, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
        if (left)
            CHECK_STATUS(stn_comm_all_reduce(left, &a, &a, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
        CHECK_I64(a, left ? 2 * rank - 1 : rank);
        CHECK_I64(b, right ? 2 * rank + 1 : rank);
        stn_comm_destroy(&left);
        stn_comm_destroy(&right);
    }
}

static void chains_of_subsets_keep_their_messages_apart(void)
{
    team_run_hooked(4, deadline, NULL, tags_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"chains_of_subsets_keep_their_messages_apart", chains_of_subsets_keep_their_messages_apart},
        {"who_fails_is_named_by_all_in_every_collective", who_fails_is_named_by_all_in_every_collective},
        {"who_does_not_come_is_named_after_the_deadline", who_does_not_come_is_named_after_the_deadline},
        {"messages_of_other_lengths_are_refused", messages_of_other_lengths_are_refused},
        {"large_messages_of_other_lengths_are_refused_and_write_nothing_behind_the_buffer",
         large_messages_of_other_lengths_are_refused_and_write_nothing_behind_the_buffer},
        {"small_and_large_messages_of_one_collective_meet_their_own",
         small_and_large_messages_of_one_collective_meet_their_own},
        {"a_failure_on_a_subset_ends_the_whole_family", a_failure_on_a_subset_ends_the_whole_family},
        {"subsets_that_differ_are_refused", subsets_that_differ_are_refused},
        {"a_collective_with_a_request_ends_too", a_collective_with_a_request_ends_too},
    };
    return TEST_MAIN(argc, argv, cases);
}
