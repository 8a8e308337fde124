/* The communicator that moves nothing counts what each rank of any world would send, and runs a clock by it. */
#include "harness.h"

#include "core/comm/collective.h"

#include <stdlib.h>
#include <string.h>

static stn_comm *fake(int rank, int size)
{
    stn_comm *comm = NULL;
    CHECK_STATUS(stn_comm_create_fake(rank, size, 1e-6, 1e-9, &comm), STN_OK);
    return comm;
}

static void expect(stn_comm *comm, int64_t messages, int64_t bytes)
{
    CHECK_I64(comm->stats->messages, messages);
    CHECK_I64(comm->stats->bytes_sent, bytes);
    CHECK_NEAR(stn_comm_fake_seconds(comm), (double)messages * 1e-6 + (double)bytes * 1e-9, 1e-12);
    *comm->stats = (struct stni_comm_stats){0};
}

/* The clock is compared from zero: each collective gets a communicator of its own. */
static void each_collective_costs_what_its_model_says(void)
{
    static const int64_t counts[4] = {7, 0, 5, 2}, in[4] = {1, 2, 3, 4};
    double send[14] = {0}, recv[14];
    for (int rank = 0; rank < 4; rank++) {
        stn_comm *c = fake(rank, 4);
        CHECK_STATUS(stn_comm_all_reduce(c, send, recv, 10, STN_DTYPE_F64, STN_SUM, NULL), STN_OK);
        expect(c, 6, 8 * (10 + 2 * (rank < 2 ? 3 : 2)));
        stn_comm_destroy(&c);

        c = fake(rank, 4);
        CHECK_STATUS(stn_comm_reduce(c, send, recv, 10, STN_DTYPE_F64, STN_SUM, 2, NULL), STN_OK);
        expect(c, rank != 2, rank == 2 ? 0 : 80);
        stn_comm_destroy(&c);

        c = fake(rank, 4);
        CHECK_STATUS(stn_comm_all_gather(c, send, recv, counts, STN_DTYPE_F64, NULL), STN_OK);
        expect(c, rank == 1 ? 0 : 3, 3 * 8 * counts[rank]);
        stn_comm_destroy(&c);

        c = fake(rank, 4);
        CHECK_STATUS(stn_comm_gather(c, send, recv, counts, STN_DTYPE_F64, 3, NULL), STN_OK);
        expect(c, rank != 3 && rank != 1, rank == 3 ? 0 : 8 * counts[rank]);
        stn_comm_destroy(&c);

        c = fake(rank, 4);
        CHECK_STATUS(stn_comm_reduce_scatter(c, send, recv, counts, STN_DTYPE_F64, STN_SUM, NULL), STN_OK);
        expect(c, rank == 1 ? 3 : 2, 8 * (14 - counts[rank]));
        stn_comm_destroy(&c);

        c = fake(rank, 4);
        CHECK_STATUS(stn_comm_scatter(c, send, recv, counts, STN_DTYPE_F64, 0, NULL), STN_OK);
        expect(c, rank == 0 ? 2 : 0, rank == 0 ? 56 : 0);
        stn_comm_destroy(&c);

        c = fake(rank, 4);
        CHECK_STATUS(stn_comm_broadcast(c, send, 10, STN_DTYPE_F64, 1, NULL), STN_OK);
        expect(c, rank == 1 ? 3 : 0, rank == 1 ? 240 : 0);
        stn_comm_destroy(&c);

        c = fake(rank, 4);
        CHECK_STATUS(stn_comm_all_to_all(c, send, counts, recv, in, STN_DTYPE_F64, NULL), STN_OK);
        expect(c, rank == 1 ? 3 : 2, 8 * (14 - counts[rank]));
        stn_comm_destroy(&c);

        c = fake(rank, 4);
        CHECK_STATUS(stn_comm_barrier(c, NULL), STN_OK);
        expect(c, 0, 0);
        stn_comm_destroy(&c);
    }
}

static void messages_to_itself_are_copied_and_the_rest_is_left(void)
{
    stn_comm *c = fake(1, 3);
    int32_t send[6] = {1, 2, 3, 4, 5, 6}, recv[6] = {0};
    static const int64_t counts[3] = {1, 2, 3};
    static const int32_t own[6] = {0, 1, 2, 0, 0, 0}, turned[6] = {0, 2, 3, 0, 0, 0}, exchanged[6] = {6, 0, 0, 0, 0, 5};
    CHECK_STATUS(stn_comm_all_gather(c, send, recv, counts, STN_DTYPE_I32, NULL), STN_OK);
    CHECK_BYTES(recv, own, sizeof own);
    memset(recv, 0, sizeof recv);
    CHECK_STATUS(stn_comm_all_to_all(c, send, counts, recv, counts, STN_DTYPE_I32, NULL), STN_OK);
    CHECK_BYTES(recv, turned, sizeof turned);
    memset(recv, 0, sizeof recv);
    stn_message out[] = {{0, {send, 1, {2}, {1}}}, {1, {send + 4, 1, {2}, {1}}}},
                in[] = {{1, {recv + 5, 1, {2}, {-5}}}, {2, {recv + 2, 1, {2}, {1}}}};
    stn_exchange e = {STN_DTYPE_I32, 0, STN_SUM, 2, 2, out, in};
    CHECK_STATUS(stn_comm_exchange(c, &e, NULL), STN_OK);
    CHECK_BYTES(recv, exchanged, sizeof exchanged);
    stn_comm_destroy(&c);
    c = fake(1, 3);
    CHECK_STATUS(stn_comm_exchange(c, &e, NULL), STN_OK);
    expect(c, 1, 8);
    stn_comm_destroy(&c);
}

/* So that nobody who plans believes in numbers that nobody wrote. */
static void integers_from_others_are_0(void)
{
    enum { N = 6 };
    static const int64_t counts[3] = {1, 2, 3};
    static const int64_t gathered[N] = {0, 1, 2, 0, 0, 0}, turned[N] = {0, 2, 3, 0, 0, 0}, none[N] = {0};
    int64_t send[N] = {1, 2, 3, 4, 5, 6}, recv[N];
    stn_comm *c = fake(1, 3);
    memset(recv, 9, sizeof recv);
    CHECK_STATUS(stn_comm_all_gather(c, send, recv, counts, STN_DTYPE_I64, NULL), STN_OK);
    CHECK_BYTES(recv, gathered, sizeof recv);
    memset(recv, 9, sizeof recv);
    CHECK_STATUS(stn_comm_gather(c, send, recv, counts, STN_DTYPE_I64, 1, NULL), STN_OK);
    CHECK_BYTES(recv, gathered, sizeof recv);
    memset(recv, 9, sizeof recv);
    CHECK_STATUS(stn_comm_all_to_all(c, send, counts, recv, counts, STN_DTYPE_I64, NULL), STN_OK);
    CHECK_BYTES(recv, turned, sizeof recv);
    memset(recv, 9, sizeof recv);
    CHECK_STATUS(stn_comm_all_reduce(c, send, recv, N, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    CHECK_BYTES(recv, send, sizeof recv);
    memset(recv, 9, sizeof recv);
    CHECK_STATUS(stn_comm_reduce_scatter(c, send, recv, counts, STN_DTYPE_I64, STN_MAX, NULL), STN_OK);
    CHECK_BYTES(recv, send + 1, 2 * sizeof *recv);
    memset(recv, 9, sizeof recv);
    CHECK_STATUS(stn_comm_reduce(c, send, recv, N, STN_DTYPE_I64, STN_SUM, 0, NULL), STN_OK);
    CHECK_I64(recv[0] == send[0], 0); /* the root's alone */
    CHECK_STATUS(stn_comm_reduce(c, send, recv, N, STN_DTYPE_I64, STN_SUM, 1, NULL), STN_OK);
    CHECK_BYTES(recv, send, sizeof recv);
    CHECK_STATUS(stn_comm_scatter(c, NULL, recv, counts, STN_DTYPE_I64, 0, NULL), STN_OK);
    CHECK_BYTES(recv, none, 2 * sizeof *recv);
    memset(recv, 9, sizeof recv);
    CHECK_STATUS(stn_comm_broadcast(c, recv, N, STN_DTYPE_I64, 2, NULL), STN_OK);
    CHECK_BYTES(recv, none, sizeof recv);
    memset(recv, 9, sizeof recv);
    stn_message in[] = {{0, {recv, 2, {2, 2}, {3, 1}}}, {2, {recv + 2, 1, {2}, {3}}}};
    const stn_exchange e = {STN_DTYPE_I64, 0, STN_SUM, 0, 2, NULL, in};
    CHECK_STATUS(stn_comm_exchange(c, &e, NULL), STN_OK);
    CHECK_BYTES(recv, none, sizeof recv);
    stn_comm_destroy(&c);
}

static void subsets_share_the_clock(void)
{
    stn_comm *c = fake(70000, 100000), *sub = NULL;
    enum { N = 50000 };
    int *ranks = malloc(N * sizeof *ranks);
    for (int i = 0; i < N; i++)
        ranks[i] = 2 * i;
    CHECK_STATUS(stn_comm_subset(c, ranks, N, &sub), STN_OK);
    CHECK_I64(stn_comm_rank(sub), 35000);
    CHECK_I64(stn_comm_size(sub), N);
    float x = 0;
    CHECK_STATUS(stn_comm_reduce(sub, &x, &x, 1, STN_DTYPE_F32, STN_SUM, 0, NULL), STN_OK);
    CHECK_NEAR(stn_comm_fake_seconds(c), 1e-6 + 4e-9, 1e-12);
    stn_comm_destroy(&c);
    CHECK_NEAR(stn_comm_fake_seconds(sub), 1e-6 + 4e-9, 1e-12);
    CHECK_STATUS(stn_comm_barrier(sub, NULL), STN_OK);
    stn_comm_destroy(&sub);
    ranks[0] = 1;
    c = fake(1, 2);
    CHECK_STATUS(stn_comm_subset(c, (const int[]){0}, 1, &sub), STN_ERR_ARGUMENT);
    CHECK_STR(stn_comm_error_text(c), "subset: ranks lack the calling rank, 1");
    CHECK_STATUS(stn_comm_subset(c, (const int[]){1, 0, 1}, 3, &sub), STN_ERR_ARGUMENT);
    CHECK_STR(stn_comm_error_text(c), "subset: ranks[2] got 1, which comes before");
    stn_comm_destroy(&c);
    free(ranks);
}

static void worlds_of_100000_ranks_cost_no_more_than_their_counts(void)
{
    enum { SIZE = 100000 };
    stn_comm *c = fake(99999, SIZE);
    int64_t *counts = malloc(SIZE * sizeof *counts);
    for (int r = 0; r < SIZE; r++)
        counts[r] = r == SIZE - 1 ? 3 : r == 17;
    uint16_t send[4] = {9, 9, 9, 9}, recv[4] = {0};
    c->checks = 1; /* there is nobody to ask */
    CHECK_STATUS(stn_comm_all_to_all(c, send, counts, recv, counts, STN_DTYPE_BF16, NULL), STN_OK);
    CHECK_I64(recv[0] * 1000 + recv[1] * 100 + recv[2] * 10 + recv[3], 999);
    expect(c, 1, 2);
    free(counts);
    stn_comm_destroy(&c);
}

static void abort_is_kept(void)
{
    stn_comm *c = fake(0, 8);
    stni_comm_abort(c, STN_ERR_IO, "disk");
    CHECK_STATUS(stn_comm_barrier(c, NULL), STN_ERR_IO);
    CHECK_STR(stn_comm_error_text(c), "disk");
    CHECK_STATUS(stn_comm_barrier(c, NULL), STN_ERR_IO);
    stn_comm_destroy(&c);
    CHECK_STATUS(stn_comm_create_fake(8, 8, 0, 0, &c), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_create_fake(0, 8, -1, 0, &c), STN_ERR_ARGUMENT);
    CHECK(c == NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"each_collective_costs_what_its_model_says", each_collective_costs_what_its_model_says},
        {"messages_to_itself_are_copied_and_the_rest_is_left", messages_to_itself_are_copied_and_the_rest_is_left},
        {"integers_from_others_are_0", integers_from_others_are_0},
        {"subsets_share_the_clock", subsets_share_the_clock},
        {"worlds_of_100000_ranks_cost_no_more_than_their_counts",
         worlds_of_100000_ranks_cost_no_more_than_their_counts},
        {"abort_is_kept", abort_is_kept},
    };
    return TEST_MAIN(argc, argv, cases);
}
