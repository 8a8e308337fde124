/* Verbs as requests (contract 20) and checks mode (contract 22). */
#include "team.h"

#include "core/comm/comm.h"

enum { N = 1000, VERBS = 8 };

/* Several verbs under way at once, waited for in another order, blocking ones between: each gives what it gives alone. */
static void requests_body(stn_comm *comm, void *arg)
{
    static float in[2][VERBS][N], out[2][VERBS][N];
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    stn_request *request[VERBS];
    (void)arg;
    for (int v = 0; v < VERBS; v++) {
        for (int i = 0; i < N; i++)
            in[rank][v][i] = (float)(v * N + i + rank);
        CHECK_STATUS(stn_comm_all_reduce(comm, in[rank][v], out[rank][v], N, STN_DTYPE_F32, STN_SUM, &request[v]), STN_OK);
    }
    int64_t one = rank + 1, sum = 0;
    CHECK_STATUS(stn_comm_all_reduce(comm, &one, &sum, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    CHECK_I64(sum, 3);
    for (int v = VERBS - 1; v >= 0; v--) {
        CHECK_STATUS(stn_request_wait(&request[v]), STN_OK);
        CHECK(request[v] == NULL);
        int right = 0;
        for (int i = 0; i < N; i++)
            right += out[rank][v][i] == (float)(size * (v * N + i) + 1);
        CHECK_I64(right, N);
    }
}

static void requests_run_in_order_and_may_be_waited_for_in_any(void)
{
    team_run(2, requests_body, NULL);
}

static void other_bodies(stn_comm *comm, void *arg)
{
    int rank = stn_comm_rank(comm);
    const int64_t counts[] = {2, 0, 3};
    double send[3] = {10.0 * rank, 10.0 * rank + 1, 10.0 * rank + 2}, all[5] = {0}, root = rank;
    stn_request *gather, *broadcast, *barrier;
    (void)arg;
    CHECK_STATUS(stn_comm_all_gather(comm, send, all, counts, STN_DTYPE_F64, &gather), STN_OK);
    CHECK_STATUS(stn_comm_broadcast(comm, &root, 1, STN_DTYPE_F64, 2, &broadcast), STN_OK);
    CHECK_STATUS(stn_comm_barrier(comm, &barrier), STN_OK);
    CHECK_STATUS(stn_request_wait(&barrier), STN_OK);
    CHECK_STATUS(stn_request_wait(&broadcast), STN_OK);
    CHECK_STATUS(stn_request_wait(&gather), STN_OK);
    const double want[] = {0, 1, 20, 21, 22};
    for (int i = 0; i < 5; i++)
        CHECK_NEAR(all[i], want[i], 0);
    CHECK_NEAR(root, 2, 0);
}

static void uneven_gather_broadcast_and_barrier_work_as_requests(void)
{
    team_run(3, other_bodies, NULL);
}

/* Rank 1 sums where the others take the maximum. Every rank is told, by name, and nothing was reduced. */
static void mismatch_body(stn_comm *comm, void *arg)
{
    int rank = stn_comm_rank(comm);
    int64_t x = rank, y = -7;
    (void)arg;
    comm->checks = 1;
    CHECK_STATUS(stn_comm_all_reduce(comm, &x, &y, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    CHECK_I64(y, 3);
    y = -7;
    CHECK_STATUS(stn_comm_all_reduce(comm, &x, &y, 1, STN_DTYPE_I64, rank == 1 ? STN_SUM : STN_MAX, NULL), STN_ERR_MISMATCH);
    CHECK_I64(y, -7);
    CHECK(strstr(stn_comm_error_text(comm), "rank 1") != NULL);
}

static void checks_mode_names_the_rank_that_differs(void)
{
    team_run(3, mismatch_body, NULL);
}

/* A rank that calls another verb with another count is found before anybody waits for its data. */
static void other_verb_body(stn_comm *comm, void *arg)
{
    int rank = stn_comm_rank(comm);
    float x[4] = {0};
    (void)arg;
    comm->checks = 1;
    stn_status status = rank == 2 ? stn_comm_broadcast(comm, x, 4, STN_DTYPE_F32, 0, NULL) : stn_comm_barrier(comm, NULL);
    CHECK_STATUS(status, STN_ERR_MISMATCH);
    CHECK(strstr(stn_comm_error_text(comm), "rank 2") != NULL);
}

static void checks_mode_finds_another_verb(void)
{
    team_run(3, other_verb_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"requests_run_in_order_and_may_be_waited_for_in_any", requests_run_in_order_and_may_be_waited_for_in_any},
        {"uneven_gather_broadcast_and_barrier_work_as_requests", uneven_gather_broadcast_and_barrier_work_as_requests},
        {"checks_mode_names_the_rank_that_differs", checks_mode_names_the_rank_that_differs},
        {"checks_mode_finds_another_verb", checks_mode_finds_another_verb},
    };
    return TEST_MAIN(argc, argv, cases);
}
