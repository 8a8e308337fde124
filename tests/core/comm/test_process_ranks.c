/* What ranks of one process can show of their communicator: a barrier, by a number that all see; subsets; counts
 * that ranks give each other and that differ; what is counted. */
#include "team.h"

#include <stdio.h>
#include <string.h>

static void barrier_body(stn_comm *comm, void *arg)
{
    atomic_int *entered = arg;
    for (int i = 1; i <= 50; i++) {
        atomic_fetch_add(entered, 1);
        CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
        CHECK(atomic_load(entered) >= i * stn_comm_size(comm));
    }
}

static void barrier_lets_nobody_pass_before_all_have_come(void)
{
    static const int worlds[] = {1, 2, 3, 5, 8};
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
        atomic_int entered = 0;
        team_run(worlds[w], barrier_body, &entered);
    }
}

static void subset_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int rank = stn_comm_rank(comm);
    static const int odd[] = {5, 1, 3}, even[] = {0, 2, 4};
    const int *mine = rank % 2 ? odd : even;
    for (int round = 0; round < 20; round++) {
        stn_comm *sub = NULL, *pair = NULL;
        if (!CHECK_STATUS(stn_comm_subset(comm, mine, 3, &sub), STN_OK))
            return;
        CHECK_I64(mine[stn_comm_rank(sub)], rank);
        int64_t sum = rank, world = rank;
        CHECK_STATUS(stn_comm_all_reduce(sub, &sum, &sum, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
        CHECK_I64(sum, rank % 2 ? 9 : 6);
        CHECK_STATUS(stn_comm_all_reduce(comm, &world, &world, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
        CHECK_I64(world, 15);
        if (stn_comm_rank(sub) < 2) {
            static const int first[] = {1, 0};
            CHECK_STATUS(stn_comm_subset(sub, first, 2, &pair), STN_OK);
            stn_comm_destroy(&sub); /* the pair does not need it */
            int64_t top = rank;
            CHECK_STATUS(stn_comm_all_reduce(pair, &top, &top, 1, STN_DTYPE_I64, STN_MAX, NULL), STN_OK);
            CHECK_I64(top, rank % 2 ? 5 : 2);
        }
        stn_comm_destroy(&pair);
        stn_comm_destroy(&sub);
    }
}

static void subsets_in_any_order_and_of_subsets(void)
{
    team_run(6, subset_body, NULL);
}

/* Ranks that read each other's counts say so; messages of other processes have lengths. */
static int names_what_differs(const char *text)
{
    return strstr(text, "rank 1 sends 1 elements to rank 0, which wants 2") ||
           strstr(text, "a message from rank 1 has 8 bytes, wanted 16");
}

static void all_to_all_mismatch_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int64_t two[2] = {1, 1}, wrong[2] = {1, 2}, data[4] = {0}, in[4];
    stn_status status =
        stn_comm_all_to_all(comm, data, two, in, stn_comm_rank(comm) == 0 ? wrong : two, STN_DTYPE_I64, NULL);
    CHECK_STATUS(status, stn_comm_rank(comm) == 0 ? STN_ERR_MISMATCH : status == STN_OK ? STN_OK : STN_ERR_PEER);
    if (stn_comm_rank(comm) == 0)
        if (!CHECK(names_what_differs(stn_comm_error_text(comm))))
            fprintf(stderr, "\"%s\"\n", stn_comm_error_text(comm));
}

static void all_to_all_counts_that_differ_are_refused(void)
{
    team_run(2, all_to_all_mismatch_body, NULL);
}

static void stats_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int rank = stn_comm_rank(comm);
    float x[7] = {0}, y[21];
    int64_t counts[3] = {7, 7, 7};
    CHECK_STATUS(stn_comm_all_reduce(comm, x, x, 7, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    CHECK_I64(comm->stats->messages, 4);
    CHECK_I64(comm->stats->bytes_sent, 4 * (7 + (rank == 0 ? 3 : 2)));
    CHECK_STATUS(stn_comm_all_gather(comm, x, y, counts, STN_DTYPE_F32, NULL), STN_OK);
    CHECK_I64(comm->stats->messages, 6);
    CHECK_I64(comm->stats->bytes_sent, 4 * (7 + (rank == 0 ? 3 : 2) + 14));
    CHECK_I64(comm->stats->collectives, 2);
}

static void stats_count_what_peers_take(void)
{
    team_run(3, stats_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"barrier_lets_nobody_pass_before_all_have_come", barrier_lets_nobody_pass_before_all_have_come},
        {"subsets_in_any_order_and_of_subsets", subsets_in_any_order_and_of_subsets},
        {"all_to_all_counts_that_differ_are_refused", all_to_all_counts_that_differ_are_refused},
        {"stats_count_what_peers_take", stats_count_what_peers_take},
    };
    return TEST_MAIN(argc, argv, cases);
}
