/* Collectives with a request run beside the caller, in the order of calls; collectives on a queue that runs later
 * take their arrays along. */
#include "team.h"

#include "core/device/trace.h"

#include <stdio.h>
#include <unistd.h>

enum { RANKS = 3, N = 700 };

static void fill(int64_t *x, int64_t n, int64_t value)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = value + i;
}

static void check_all(const int64_t *x, int64_t n, int64_t first, int64_t step)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++)
        wrong += x[i] != first + i * step;
    CHECK_I64(wrong, 0);
}

/* Each result is the next collective's input: any other order gives other numbers. */
static void chain_body(stn_comm *comm, void *arg)
{
    enum { LINKS = 12 };
    (void)arg;
    stn_request *requests[LINKS];
    int64_t *x = malloc(N * sizeof *x);
    fill(x, N, 1);
    for (int i = 0; i < LINKS; i++)
        CHECK_STATUS(i % 2 ? stn_comm_broadcast(comm, x, N, STN_DTYPE_I64, i % RANKS, &requests[i])
                           : stn_comm_all_reduce(comm, x, x, N, STN_DTYPE_I64, STN_SUM, &requests[i]), STN_OK);
    /* A blocking collective comes after them all. */
    CHECK_STATUS(stn_comm_all_reduce(comm, x, x, N, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    check_all(x, N, 2187, 2187); /* 3 to the 7th */
    for (int i = LINKS - 1; i >= 0; i--) {
        CHECK_STATUS(stn_request_wait(&requests[i]), STN_OK);
        CHECK(requests[i] == NULL);
    }
    free(x);
}

static void requests_and_blocking_collectives_run_in_the_order_of_calls(void)
{
    for (int i = 0; i < 10; i++)
        team_run(RANKS, chain_body, NULL);
}

/* The arrays may go as soon as the call is back. */
static stn_status start_all_gather(stn_comm *comm, const int64_t *send, int64_t *recv, stn_request **request)
{
    int64_t *counts = malloc(RANKS * sizeof *counts);
    for (int r = 0; r < RANKS; r++)
        counts[r] = N + r;
    stn_status status = stn_comm_all_gather(comm, send, recv, counts, STN_DTYPE_I64, request);
    memset(counts, 0x5a, RANKS * sizeof *counts);
    free(counts);
    return status;
}

/* `n` messages from each rank to the next: with many, more than fits into kernel arguments. */
static stn_status start_exchange(stn_comm *comm, int64_t *send, int64_t *recv, int n, stn_request **request)
{
    int rank = stn_comm_rank(comm);
    stn_message *messages = calloc(2 * (size_t)n, sizeof *messages);
    for (int i = 0; i < n; i++) {
        messages[i] = (stn_message){(rank + 1) % RANKS, {send + i, 1, {1}, {1}}};
        messages[n + i] = (stn_message){(rank + RANKS - 1) % RANKS, {recv + n - 1 - i, 1, {1}, {1}}};
    }
    stn_exchange e = {STN_DTYPE_I64, 0, STN_SUM, n, n, messages, messages + n};
    stn_status status = stn_comm_exchange(comm, &e, request);
    memset(messages, 0x5a, 2 * (size_t)n * sizeof *messages);
    free(messages);
    return status;
}

static void arrays_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int rank = stn_comm_rank(comm);
    int64_t total = RANKS * N + 3, *send = malloc((N + RANKS) * sizeof *send),
            *all = malloc((size_t)total * sizeof *all);
    int64_t *few = malloc(N * sizeof *few), *many = malloc(N * sizeof *many);
    stn_request *requests[3] = {0};
    fill(send, N + RANKS, rank * 10000);
    CHECK_STATUS(start_all_gather(comm, send, all, &requests[0]), STN_OK);
    CHECK_STATUS(start_exchange(comm, send, few, 2, &requests[1]), STN_OK);
    CHECK_STATUS(start_exchange(comm, send, many, N, &requests[2]), STN_OK);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(stn_request_wait(&requests[i]), STN_OK);
    for (int r = 0, at = 0; r < RANKS; at += N + r++)
        check_all(all + at, N + r, r * 10000, 1);
    int64_t from = (rank + RANKS - 1) % RANKS * 10000;
    check_all(few, 2, from + 1, -1);
    check_all(many, N, from + N - 1, -1);
    CHECK(comm->blocks == NULL);
    free(send);
    free(all);
    free(few);
    free(many);
}

static void arrays_are_free_when_a_request_has_begun(void)
{
    for (int i = 0; i < 10; i++)
        team_run(RANKS, arrays_body, NULL);
}

/* A context's queue, which runs its kernels late. */
struct context {
    stn_device *device;
    stn_queue *queue;
};

static void queue_body(stn_comm *comm, void *arg)
{
    int rank = stn_comm_rank(comm);
    stn_queue *queue = ((struct context *)arg)[rank].queue;
    struct stni_comm_stats stats = {0};
    stni_comm_adopt(comm, queue, &stats, 0, 60);
    int64_t *x = malloc(N * sizeof *x), *all = malloc(RANKS * N * sizeof *all), counts[RANKS] = {N, N, N};
    stn_request *request;
    fill(x, N, rank);
    CHECK_STATUS(stni_comm_all_reduce(comm, queue, x, x, N, STN_DTYPE_I64, STN_SUM), STN_OK);
    CHECK_STATUS(stni_comm_all_gather(comm, queue, x, all, counts, STN_DTYPE_I64), STN_OK);
    memset(counts, 0x5a, sizeof counts);
    /* Beside the queue, and yet after what is on it; then on it, and yet after the request. */
    CHECK_STATUS(stn_comm_all_reduce(comm, x, x, N, STN_DTYPE_I64, STN_SUM, &request), STN_OK);
    CHECK_STATUS(stni_comm_all_reduce(comm, queue, x, x, N, STN_DTYPE_I64, STN_MAX), STN_OK);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    check_all(x, N, 9, 9);
    for (int r = 0; r < RANKS; r++)
        check_all(all + r * N, N, 3, 3);
    CHECK_STATUS(stn_request_wait(&request), STN_OK);
    CHECK_I64(stats.collectives, 5);
    CHECK_I64(comm->own_stats.collectives, 0);

    static const int ranks[] = {2, 0, 1};
    stn_comm *sub;
    CHECK_STATUS(stni_comm_subset(comm, queue, ranks, RANKS, &sub), STN_OK);
    int64_t own = rank, sum = 0;
    CHECK_STATUS(stni_comm_all_reduce(sub, queue, &own, &sum, 1, STN_DTYPE_I64, STN_SUM), STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    CHECK_I64(sum, 3);
    CHECK_I64(stats.collectives, 6); /* the family's, of this rank */
    stn_comm_destroy(&sub);
    free(x);
    free(all);
}

static void adopted_communicators_run_on_the_queue_and_count_there(void)
{
    stn_queue_options options = {.size = sizeof options,
                                 .kind = test_queue() == TEST_QUEUE_WORKER ? STN_QUEUE_WORKER : STN_QUEUE_IMMEDIATE,
                                 .delay_seed = 7};
    struct context contexts[RANKS];
    for (int i = 0; i < 5; i++) {
        for (int r = 0; r < RANKS; r++) {
            CHECK_STATUS(stni_device_create_cpu(NULL, &contexts[r].device), STN_OK);
            CHECK_STATUS(stni_queue_create(contexts[r].device, &options, &contexts[r].queue), STN_OK);
        }
        team_run(RANKS, queue_body, contexts);
        for (int r = 0; r < RANKS; r++) {
            stni_queue_destroy(&contexts[r].queue);
            stni_device_destroy(&contexts[r].device);
        }
    }
}

/* Collectives leave spans in the trace of the communicator's queue, those with a request too. */
static void trace_body(stn_comm *comm, void *arg)
{
    struct stni_trace **traces = arg, *trace = traces[stn_comm_rank(comm)];
    double x[6] = {0};
    stn_request *request;
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    atomic_store(&comm->queue->trace, trace);
    CHECK_STATUS(stn_comm_all_reduce(comm, x, x, 6, STN_DTYPE_F64, STN_SUM, NULL), STN_OK);
    CHECK_STATUS(stn_comm_broadcast(comm, x, 6, STN_DTYPE_F64, 0, &request), STN_OK);
    CHECK_STATUS(stn_request_wait(&request), STN_OK);
    atomic_store(&comm->queue->trace, NULL);
}

static int file_has(const char *path, const char *text)
{
    char content[8192];
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(content, 1, sizeof content - 1, file) : 0;
    content[n] = '\0';
    if (file)
        fclose(file);
    return strstr(content, text) != NULL;
}

static void collectives_are_traced_with_their_bytes(void)
{
    struct stni_trace *traces[2];
    char path[] = "/tmp/stn-collectives-XXXXXX";
    CHECK(close(mkstemp(path)) == 0);
    for (int r = 0; r < 2; r++)
        CHECK_STATUS(stni_trace_create(&traces[r]), STN_OK);
    team_run(2, trace_body, traces);
    for (int r = 0; r < 2; r++) {
        CHECK_STATUS(stni_trace_write(traces[r], r, path), STN_OK);
        CHECK(file_has(path, "\"name\":\"all_reduce\",\"cat\":\"collective\""));
        CHECK(file_has(path, "\"name\":\"broadcast\",\"cat\":\"collective\""));
        CHECK(file_has(path, "\"bytes\":48"));
        CHECK(!file_has(path, "barrier"));
        stni_trace_destroy(&traces[r]);
    }
    remove(path);
}

/* Rank 1 comes late, and to the blocking broadcast when the requests have ended, each of which takes messages and then
 * others. */
static void let_others_in_body(stn_comm *comm, void *arg)
{
    enum { SIDES = 3, LATE = 50 /* milliseconds: rank 0 waits in all of its calls by then */ };
    static const int both[] = {0, 1};
    stn_comm *sides[SIDES], *other;
    stn_request *requests[SIDES];
    int64_t x[SIDES][N], y = 7;
    (void)arg;
    CHECK_STATUS(stn_comm_subset(comm, both, 2, &other), STN_OK);
    for (int i = 0; i < SIDES; i++)
        CHECK_STATUS(stn_comm_subset(comm, both, 2, &sides[i]), STN_OK);
    for (int i = 0; i < LATE && stn_comm_rank(comm) == 1; i++)
        team_pause();
    for (int i = 0; i < SIDES; i++) {
        fill(x[i], N, i);
        CHECK_STATUS(stn_comm_all_reduce(sides[i], x[i], x[i], N, STN_DTYPE_I64, STN_SUM, &requests[i]), STN_OK);
    }
    for (int i = 0; i < SIDES && stn_comm_rank(comm) == 1; i++)
        CHECK_STATUS(stn_request_wait(&requests[i]), STN_OK);
    CHECK_STATUS(stn_comm_broadcast(other, &y, 1, STN_DTYPE_I64, 1, NULL), STN_OK);
    for (int i = 0; i < SIDES; i++) {
        if (stn_comm_rank(comm) == 0)
            CHECK_STATUS(stn_request_wait(&requests[i]), STN_OK);
        check_all(x[i], N, 2 * i, 2);
        stn_comm_destroy(&sides[i]);
    }
    stn_comm_destroy(&other);
}

static void who_waits_lets_other_requests_end(void)
{
    for (int i = 0; i < 5; i++)
        team_run_hooked(2, 10, NULL, let_others_in_body, NULL);
}

static void failing_body(stn_comm *comm, void *arg)
{
    (void)arg;
    float x = 0;
    stn_request *request = NULL;
    if (stn_comm_rank(comm) == 0)
        CHECK_STATUS(stn_comm_all_reduce(comm, &x, &x, 1, STN_DTYPE_F32, STN_SUM, &request), STN_OK);
    else
        CHECK_STATUS(stn_comm_broadcast(comm, &x, 1, STN_DTYPE_F32, 0, &request), STN_OK);
    CHECK_STATUS(stn_request_wait(&request), STN_ERR_MISMATCH);
    CHECK_STR(stn_comm_error_text(comm),
              "collective 1: rank 1 calls broadcast f32 count 1 root 0, rank 0 all_reduce f32 count 1 sum");
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK); /* all ranks know: nothing is lost */
    CHECK_STATUS(stn_comm_barrier(comm, &request), STN_OK);
    CHECK_STATUS(stn_request_wait(&request), STN_OK);
    CHECK_STATUS(stn_request_wait(&request), STN_ERR_ARGUMENT);
}

static void a_request_returns_the_status_of_its_collective(void)
{
    team_run(2, failing_body, NULL);
}

static void short_body(stn_comm *comm, void *arg)
{
    (void)arg;
    static int64_t x[RANKS][N];
    stn_request *request;
    CHECK_STATUS(
        stn_comm_all_reduce(comm, x[stn_comm_rank(comm)], x[stn_comm_rank(comm)], N, STN_DTYPE_I64, STN_SUM, &request),
        STN_OK);
    CHECK_STATUS(stn_request_wait(&request), STN_OK);
}

static void communicators_with_a_side_queue_come_and_go(void)
{
    for (int i = 0; i < 100; i++)
        team_run(RANKS, short_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"requests_and_blocking_collectives_run_in_the_order_of_calls",
         requests_and_blocking_collectives_run_in_the_order_of_calls},
        {"arrays_are_free_when_a_request_has_begun", arrays_are_free_when_a_request_has_begun},
        {"adopted_communicators_run_on_the_queue_and_count_there",
         adopted_communicators_run_on_the_queue_and_count_there},
        {"collectives_are_traced_with_their_bytes", collectives_are_traced_with_their_bytes},
        {"a_request_returns_the_status_of_its_collective", a_request_returns_the_status_of_its_collective},
        {"who_waits_lets_other_requests_end", who_waits_lets_other_requests_end},
        {"communicators_with_a_side_queue_come_and_go", communicators_with_a_side_queue_come_and_go},
    };
    return TEST_MAIN(argc, argv, cases);
}
