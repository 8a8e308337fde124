/* What a rank waited for its peers, apart from what it moved: one rank comes late to a collective, and the waiting
 * of the others shows it, in the counters and in the trace, while messages and bytes are those of ranks that come
 * together. On threads, on MPI and over TCP. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FEW = 5, MANY = 1 << 20, LATE = 1 };

static const int64_t delay = 300000000; /* nanoseconds */

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* What one collective cost this rank. */
struct cost {
    int64_t entered, took; /* nanoseconds */
    stn_stats stats;
};

static void pass_time(int64_t nanoseconds)
{
    const struct timespec t = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    nanosleep(&t, NULL);
}

static struct cost reduce(stn_context *context, float *data, int64_t n, int comes_late)
{
    struct cost cost = {.stats.size = sizeof cost.stats};
    stn_comm *comm = stn_context_comm(context);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    if (comes_late)
        pass_time(delay);
    stn_context_stats_reset(context);
    cost.entered = now();
    CHECK_STATUS(stn_comm_all_reduce(comm, data, data, n, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    cost.took = now() - cost.entered;
    CHECK_STATUS(stn_context_stats(context, &cost.stats), STN_OK);
    return cost;
}

/* When the last rank came. Of one machine: ranks have one clock. */
static int64_t last_of(stn_context *context, int64_t entered)
{
    CHECK_STATUS(stn_comm_all_reduce(stn_context_comm(context), &entered, &entered, 1, STN_DTYPE_I64, STN_MAX, NULL),
                 STN_OK);
    return entered;
}

static void compare(stn_context *context, float *data, int64_t n)
{
    const int is_late = stn_context_rank(context) == LATE;
    const struct cost together = reduce(context, data, n, 0), apart = reduce(context, data, n, is_late);
    const int64_t missing = last_of(context, apart.entered) - apart.entered;
    CHECK(apart.stats.waited_ns >= 0 && apart.stats.waited_ns <= apart.took);
    CHECK(together.stats.waited_ns >= 0 && together.stats.waited_ns <= together.took);
    if (!CHECK(apart.stats.waited_ns >= missing / 2) || !CHECK(is_late || missing >= delay / 2))
        fprintf(stderr, "%lld elements: the last rank came %lld ns later, waited %lld ns of %lld\n", (long long)n,
                (long long)missing, (long long)apart.stats.waited_ns, (long long)apart.took);
    CHECK(together.stats.bytes_sent > 0);
    CHECK_I64(apart.stats.bytes_sent, together.stats.bytes_sent);
    CHECK_I64(apart.stats.messages, together.stats.messages);
    CHECK_I64(apart.stats.collectives, 1);
}

static stn_status counters_body(stn_context *context, void *arg)
{
    float *data = calloc(MANY, sizeof *data);
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    compare(context, data, FEW);
    compare(context, data, MANY);
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.waited_ns, 0);
    free(data);
    return STN_OK;
}

static int ranks(void)
{
    return stn_job_size() != 0 ? 0 : 3;
}

static void a_late_rank_shows_in_what_its_peers_waited_and_not_in_what_they_moved(void)
{
    test_ranks(ranks(), counters_body, NULL);
}

/* A request waits beside the caller, and is counted like any other. */
static stn_status request_body(stn_context *context, void *arg)
{
    const int is_late = stn_context_rank(context) == LATE;
    float data[FEW] = {0};
    stn_stats stats = {.size = sizeof stats};
    stn_request *request = NULL;
    stn_comm *comm = stn_context_comm(context);
    (void)arg;
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    stn_context_stats_reset(context);
    if (is_late)
        pass_time(delay);
    const int64_t entered = now();
    CHECK_STATUS(stn_comm_all_reduce(comm, data, data, FEW, STN_DTYPE_F32, STN_SUM, &request), STN_OK);
    CHECK_STATUS(stn_request_wait(&request), STN_OK);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK(stats.waited_ns >= (last_of(context, entered) - entered) / 2);
    return STN_OK;
}

static void a_request_counts_what_it_waited(void)
{
    test_ranks(ranks(), request_body, NULL);
}

/* The number behind a key in the trace's span of the collective. */
static int64_t traced(const char *text, const char *call)
{
    const char *at = strstr(text, call);
    at = at ? strstr(at, "\"waited_ns\":") : NULL;
    return at ? strtoll(at + strlen("\"waited_ns\":"), NULL, 10) : -1;
}

static stn_status trace_body(stn_context *context, void *arg)
{
    char path[] = "/tmp/stn-waited-XXXXXX", *text = calloc(1, 1 << 16), summary[2048], *row;
    float data[FEW] = {0};
    (void)arg;
    close(mkstemp(path));
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    const struct cost cost = reduce(context, data, FEW, stn_context_rank(context) == LATE);
    CHECK_STATUS(stn_trace_summary(context, summary, sizeof summary), STN_OK);
    CHECK_STATUS(stn_trace_end(context, path), STN_OK);
    FILE *file = fopen(path, "r");
    if (CHECK_PTR(file)) {
        CHECK(fread(text, 1, (1 << 16) - 1, file) > 0);
        fclose(file);
    }
    CHECK_I64(traced(text, "all_reduce f32 count 5 sum"), cost.stats.waited_ns);
    row = strstr(summary, "all_reduce ");
    if (CHECK_PTR(row)) {
        *strchr(row, '\n') = '\0';
        CHECK(strtod(strrchr(row, ' '), NULL) >= 1e-6 * (double)cost.stats.waited_ns - 1e-3); /* milliseconds, three digits */
    }
    unlink(path);
    free(text);
    return STN_OK;
}

static void the_trace_tells_it_of_each_collective(void)
{
    test_ranks(ranks(), trace_body, NULL);
}

/* A collective that began before the trace ended and ends behind it. */
static stn_status ended_body(stn_context *context, void *arg)
{
    const int is_late = stn_context_rank(context) == LATE;
    char path[] = "/tmp/stn-waited-XXXXXX";
    float data[FEW] = {0};
    stn_request *request = NULL;
    stn_comm *comm = stn_context_comm(context);
    (void)arg;
    close(mkstemp(path));
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    if (is_late)
        pass_time(delay);
    CHECK_STATUS(stn_comm_all_reduce(comm, data, data, FEW, STN_DTYPE_F32, STN_SUM, &request), STN_OK);
    if (!is_late)
        pass_time(delay / 6); /* it waits by then */
    CHECK_STATUS(stn_trace_end(context, path), STN_OK);
    CHECK_STATUS(stn_request_wait(&request), STN_OK);
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    CHECK_STATUS(stn_trace_end(context, path), STN_OK);
    unlink(path);
    return STN_OK;
}

static void a_trace_ends_while_a_request_is_under_way(void)
{
    test_ranks(ranks(), ended_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_late_rank_shows_in_what_its_peers_waited_and_not_in_what_they_moved",
         a_late_rank_shows_in_what_its_peers_waited_and_not_in_what_they_moved},
        {"a_request_counts_what_it_waited", a_request_counts_what_it_waited},
        {"the_trace_tells_it_of_each_collective", the_trace_tells_it_of_each_collective},
        {"a_trace_ends_while_a_request_is_under_way", a_trace_ends_while_a_request_is_under_way},
    };
    return TEST_MAIN(argc, argv, cases);
}
