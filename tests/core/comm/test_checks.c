/* Ranks that call different things learn it, all of them, with the rank that differs named: always among thread
 * ranks, and by checks mode on any communicator. The ring of calls tells what was called before. */
#include "team.h"

#include "core/comm/launch.h"

#include <stdio.h>

enum { RANKS = 3, ODD = 2 };

/* What the odd rank does otherwise. */
enum difference { COUNT, DTYPE, OP, ROOT, COLLECTIVE, NUMBER, DIFFERENCES };

static const char *const texts[DIFFERENCES] = {
    "reduce f32 count 7 sum root 1", "reduce i32 count 6 sum root 1", "reduce f32 count 6 max root 1",
    "reduce f32 count 6 sum root 0", "barrier",                       "reduce f32 count 6 sum root 1",
};

struct trial {
    int difference, checks;
};

static stn_status differ(stn_comm *comm, int difference, void *x, void *y)
{
    switch (difference) {
    case COUNT: return stn_comm_reduce(comm, x, y, 7, STN_DTYPE_F32, STN_SUM, 1, NULL);
    case DTYPE: return stn_comm_reduce(comm, x, y, 6, STN_DTYPE_I32, STN_SUM, 1, NULL);
    case OP: return stn_comm_reduce(comm, x, y, 6, STN_DTYPE_F32, STN_MAX, 1, NULL);
    case ROOT: return stn_comm_reduce(comm, x, y, 6, STN_DTYPE_F32, STN_SUM, 0, NULL);
    case COLLECTIVE: return stn_comm_barrier(comm, NULL);
    case NUMBER: comm->sequence += 5; return stn_comm_reduce(comm, x, y, 6, STN_DTYPE_F32, STN_SUM, 1, NULL);
    }
    return STN_ERR_INTERNAL;
}

static void differ_body(stn_comm *comm, void *arg)
{
    const struct trial *t = arg;
    char wanted[256];
    float x[8] = {0}, y[8];
    comm->checks = t->checks;
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    stn_status status = stn_comm_rank(comm) == ODD ? differ(comm, t->difference, x, y)
                                                   : stn_comm_reduce(comm, x, y, 6, STN_DTYPE_F32, STN_SUM, 1, NULL);
    CHECK_STATUS(status, STN_ERR_MISMATCH);
    if (t->checks)
        snprintf(wanted, sizeof wanted, "rank 2 makes call %d, %s, rank 0 call 2, reduce f32 count 6 sum root 1",
                 t->difference == NUMBER ? 7 : 2, texts[t->difference]);
    else
        snprintf(wanted, sizeof wanted, "collective 2: rank 2 calls %s, rank 0 reduce f32 count 6 sum root 1",
                 texts[t->difference]);
    CHECK_STR(stn_comm_error_text(comm), wanted);
    comm->checks = 0;
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK); /* nobody is lost */
}

static void thread_ranks_always_compare(void)
{
    for (int d = 0; d < NUMBER; d++) {
        struct trial t = {d, 0};
        team_run(RANKS, differ_body, &t);
    }
}

static void checks_mode_names_the_rank_that_differs(void)
{
    for (int d = 0; d < DIFFERENCES; d++) {
        struct trial t = {d, 1};
        team_run(RANKS, differ_body, &t);
    }
}

/* Large data too, where peers would have read beyond the end of a buffer. */
static void large_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int64_t n = stn_comm_rank(comm) == 1 ? 40000 : 30000;
    float *x = calloc((size_t)n, sizeof *x);
    CHECK_STATUS(stn_comm_all_reduce(comm, x, x, n, STN_DTYPE_F32, STN_SUM, NULL), STN_ERR_MISMATCH);
    free(x);
}

static void large_buffers_of_other_sizes_are_not_touched(void)
{
    for (int i = 0; i < 10; i++)
        team_run(RANKS, large_body, NULL);
}

/* Rank 1 sends to rank 2 what that does not wait for, which a later call would take. */
static void astray_body(stn_comm *comm, void *arg)
{
    const int rank = stn_comm_rank(comm), shape_too = arg != NULL;
    float x[4] = {0}, y[4] = {0};
    stn_message to = {(rank + 1) % RANKS, {x, 1, {rank == 1 && shape_too ? 3 : 2}, {1}}};
    stn_message from = {(rank + RANKS - 1) % RANKS, {y, 1, {2}, {1}}};
    stn_exchange ring = {STN_DTYPE_F32, 0, STN_SUM, 1, 1, &to, &from};
    comm->checks = 1;
    CHECK_STATUS(stn_comm_exchange(comm, &ring, NULL), shape_too ? STN_ERR_MISMATCH : STN_OK);
    comm->checks = 0;
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
}

static void checks_mode_finds_messages_that_do_not_meet(void)
{
    int shape_too = 1;
    team_run(RANKS, astray_body, NULL);
    team_run(RANKS, astray_body, &shape_too);
}

/* Checks mode leaves what is right alone, groups among it, which not all ranks call. */
static void right_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int rank = stn_comm_rank(comm);
    int32_t x = rank + 1, sum = 0, got = 0;
    int64_t counts[RANKS] = {1, 1, 1};
    int32_t all[RANKS];
    stn_message to = {1, {&x, 0, {0}, {0}}}, from = {0, {&got, 0, {0}, {0}}};
    stn_exchange send = {STN_DTYPE_I32, 0, STN_SUM, 1, 0, &to, NULL},
                 receive = {STN_DTYPE_I32, 0, STN_SUM, 0, 1, NULL, &from};
    comm->checks = 1;
    CHECK_STATUS(stn_comm_all_reduce(comm, &x, &sum, 1, STN_DTYPE_I32, STN_SUM, NULL), STN_OK);
    CHECK_I64(sum, 6);
    if (rank < 2)
        CHECK_STATUS(stn_comm_group(comm, rank == 0 ? &send : &receive, NULL), STN_OK);
    CHECK_I64(got, rank == 1);
    if (rank == 2)
        CHECK_STATUS(stn_comm_group(comm, &(stn_exchange){STN_DTYPE_I32, 0, STN_SUM, 0, 0, NULL, NULL}, NULL), STN_OK);
    CHECK_STATUS(stn_comm_all_gather(comm, &x, all, counts, STN_DTYPE_I32, NULL), STN_OK);
    CHECK_I64(all[0] * 100 + all[1] * 10 + all[2], 123);
    CHECK_STATUS(stn_comm_all_to_all(comm, all, counts, all, counts, STN_DTYPE_I32, NULL), STN_OK);
    CHECK_I64(comm->stats->collectives, 4); /* comparing is not counted */
}

static void right_calls_pass(void)
{
    team_run(RANKS, right_body, NULL);
}

static void be_late(int milliseconds)
{
    for (int i = 0; i < milliseconds; i++)
        team_pause();
}

/* Rank 0's request is compared beside it, and waits for rank 1, whose own is behind a message that rank 2 sends late.
 * Rank 1 is in an agreement meanwhile, to which rank 0 comes later. */
static void beside_body(stn_comm *comm, void *arg)
{
    static const int all[] = {0, 1, 2};
    const int rank = stn_comm_rank(comm);
    int32_t x = rank + 1, sum = 0, passed = rank;
    int64_t word = rank;
    const stn_message to = {1, {&passed, 0, {0}, {0}}}, from = {2, {&passed, 0, {0}, {0}}};
    const stn_exchange message = {STN_DTYPE_I32, 0, STN_SUM, rank == 2, rank == 1, &to, &from};
    stn_comm *side;
    stn_queue *queue;
    stn_request *passing = NULL, *summing = NULL;
    (void)arg;
    CHECK_STATUS(stn_comm_subset(comm, all, RANKS, &side), STN_OK);
    CHECK_STATUS(stni_comm_main_queue(comm, &queue), STN_OK);
    side->checks = 1;
    if (rank == 2)
        be_late(100);
    CHECK_STATUS(stn_comm_group(side, &message, &passing), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(side, &x, &sum, 1, STN_DTYPE_I32, STN_SUM, &summing), STN_OK);
    if (rank == 0)
        be_late(50);
    CHECK_STATUS(stni_comm_agree(comm, queue, &word, 1, STN_MAX), STN_OK);
    CHECK_I64(word, 2);
    CHECK_STATUS(stn_request_wait(&passing), STN_OK);
    CHECK_STATUS(stn_request_wait(&summing), STN_OK);
    CHECK_I64(sum, 6);
    CHECK_I64(passed, rank > 0 ? 2 : 0);
    stn_comm_destroy(&side);
}

static void a_comparison_beside_an_agreement_is_no_circle(void)
{
    team_run(RANKS, beside_body, NULL);
}

struct lines {
    int n;
    char first[160], last[160];
};

static void keep_line(void *arg, const char *text)
{
    struct lines *lines = arg;
    if (lines->n++ == 0)
        snprintf(lines->first, sizeof lines->first, "%s", text);
    snprintf(lines->last, sizeof lines->last, "%s", text);
}

static void ring_body(stn_comm *comm, void *arg)
{
    (void)arg;
    struct lines lines = {0};
    int64_t x[100] = {0};
    stni_comm_dump_calls(comm, keep_line, &lines);
    CHECK_I64(lines.n, 0);
    CHECK_STATUS(stn_comm_all_reduce(comm, x, x, 9, STN_DTYPE_I64, STN_MIN, NULL), STN_OK);
    for (int i = 0; i < 98; i++)
        CHECK_STATUS(stn_comm_broadcast(comm, x, i, STN_DTYPE_I64, 1, NULL), STN_OK);
    stni_comm_dump_calls(comm, keep_line, &lines);
    CHECK_I64(lines.n, 64);
    CHECK_STR(lines.first, "call 36: broadcast i64 count 34 root 1");
    CHECK_STR(lines.last, "call 99: broadcast i64 count 97 root 1");
}

static void the_last_calls_are_remembered(void)
{
    team_run(2, ring_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"thread_ranks_always_compare", thread_ranks_always_compare},
        {"checks_mode_names_the_rank_that_differs", checks_mode_names_the_rank_that_differs},
        {"checks_mode_finds_messages_that_do_not_meet", checks_mode_finds_messages_that_do_not_meet},
        {"large_buffers_of_other_sizes_are_not_touched", large_buffers_of_other_sizes_are_not_touched},
        {"right_calls_pass", right_calls_pass},
        {"a_comparison_beside_an_agreement_is_no_circle", a_comparison_beside_an_agreement_is_no_circle},
        {"the_last_calls_are_remembered", the_last_calls_are_remembered},
    };
    return TEST_MAIN(argc, argv, cases);
}
