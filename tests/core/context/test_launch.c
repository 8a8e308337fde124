/* What stn_launch and stn_context_create do where they fail: memory that runs out, options that are wrong. */
#include "core/counted.h"
#include "harness.h"
#include "core/core_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static stn_status barrier_main(stn_context *context, void *arg)
{
    (void)arg;
    return stn_comm_barrier(stn_context_comm(context), NULL);
}

static stn_launch_options launch_options(int ranks, char text[256])
{
    stn_launch_options options = {.size = sizeof options, .ranks = ranks, .context = ranks_options()};
    options.context.error_text = text;
    options.context.error_text_size = 256;
    text[0] = '\0';
    return options;
}

/* The n-th allocation of a launch fails; 1: all of it ended before. */
static int fails_at(int ranks, int64_t n)
{
    char text[256];
    const stn_launch_options options = launch_options(ranks, text);
    const int64_t live = counted_live(), calls = counted_calls();
    counted_fail_at(n, 0);
    stn_status status = stn_launch(&options, barrier_main, NULL);
    counted_fail_at(0, 0);
    const int ended = counted_calls() - calls < n;
    CHECK(ended ? status == STN_OK : status == STN_OK || status == STN_ERR_MEMORY);
    if (status != STN_OK && !CHECK(text[0] != '\0'))
        CHECK_I64(n, 0);
    if (!CHECK_I64(counted_live(), live))
        CHECK_I64(n, 0);
    return ended;
}

static void each_allocation_of_a_launch_may_fail(void)
{
    for (int64_t n = 1; !fails_at(1, n); n++)
        continue;
    for (int64_t n = 1; !fails_at(3, n); n += 11)
        continue;
}

/* The communicator of a context that could not be made serves the next one. 1: the n-th allocation is behind all. */
static int keeps_the_communicator(int64_t n, int *failures)
{
    stn_comm *comm = NULL;
    stn_context *context = NULL;
    stn_context_options options = ranks_options();
    if (!CHECK_STATUS(stni_comm_create_threads(1, 30, &comm), STN_OK))
        return 1;
    options.comm = comm;
    const int64_t calls = counted_calls();
    counted_fail_at(n, 0);
    stn_status status = stn_context_create(&options, &context);
    counted_fail_at(0, 0);
    const int ended = counted_calls() - calls < n;
    CHECK(status == STN_OK ? context != NULL : status == STN_ERR_MEMORY && context == NULL);
    if (status != STN_OK) {
        ++*failures;
        CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
        CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    }
    CHECK(context != NULL && stn_context_comm(context) == comm);
    stn_context_destroy(&context);
    return ended;
}

static void a_communicator_is_still_the_callers_where_its_context_cannot_be_made(void)
{
    int failures = 0;
    const int64_t live = counted_live();
    for (int64_t n = 1; !keeps_the_communicator(n, &failures); n++)
        continue;
    CHECK(failures > 100);
    CHECK_I64(counted_live(), live);
}

static void check_text(const char *text, const char *part)
{
    if (!CHECK(strstr(text, part) != NULL))
        CHECK_STR(text, part);
}

static void options_of_a_launch_are_checked_and_named(void)
{
    char text[256];
    stn_launch_options options = launch_options(2, text);
    CHECK_STATUS(stn_launch(&options, NULL, NULL), STN_ERR_ARGUMENT);
    check_text(text, "rank_main got NULL");
    options.ranks = 1025;
    CHECK_STATUS(stn_launch(&options, barrier_main, NULL), STN_ERR_ARGUMENT);
    check_text(text, "ranks got 1025, wanted 0 to 1024");
    options.ranks = 2;
    options.context.size = 99999;
    CHECK_STATUS(stn_launch(&options, barrier_main, NULL), STN_ERR_ARGUMENT);
    check_text(text, "context.size got 99999 bytes, wanted sizeof");
    options.context.size = 0;
    CHECK_STATUS(stn_launch(&options, barrier_main, NULL), STN_OK);
    options.context.comm = (stn_comm *)(void *)text;
    CHECK_STATUS(stn_launch(&options, barrier_main, NULL), STN_ERR_ARGUMENT);
    check_text(text, "context.comm got a communicator");
}

static stn_status settings_main(stn_context *context, void *arg)
{
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.collectives, 0); /* those that prepare a trace are not the program's */
    CHECK_I64(context->threads, 3);
    CHECK_NEAR(context->deadline_seconds, 7.5, 0);
    CHECK_I64(stn_context_comm(context)->checks, 1);
    CHECK(context->log != NULL && context->log_level == STN_LOG_WARNING);
    return stn_comm_barrier(stn_context_comm(context), NULL);
}

static stn_status never_main(stn_context *context, void *arg)
{
    (void)context;
    (void)arg;
    CHECK(0);
    return STN_OK;
}

static void a_launch_takes_what_is_open_from_the_environment(void)
{
    char text[256], prefix[64], path[96];
    stn_launch_options options = launch_options(2, text);
    options.context.deadline_seconds = 0;
    snprintf(prefix, sizeof prefix, "launch_trace_%d", (int)getpid());
    setenv("STN_CHECKS", "1", 1);
    setenv("STN_DEADLINE", "7.5", 1);
    setenv("STN_THREADS", "3", 1);
    setenv("STN_LOG", "warning", 1);
    setenv("STN_TRACE", prefix, 1);
    CHECK_STATUS(stn_launch(&options, settings_main, NULL), STN_OK);
    unsetenv("STN_TRACE");
    for (int r = 0; r < 2; r++) {
        snprintf(path, sizeof path, "%s.%d.json", prefix, r);
        CHECK_I64(remove(path), 0);
    }
    setenv("STN_TRACE", "no/such/folder/trace", 1);
    CHECK_STATUS(stn_launch(&options, never_main, NULL), STN_ERR_IO);
    check_text(text, "STN_TRACE: cannot write no/such/folder/trace.");
    unsetenv("STN_TRACE");
    setenv("STN_DEADLNE", "3", 1);
    CHECK_STATUS(stn_launch(&options, never_main, NULL), STN_ERR_ARGUMENT);
    check_text(text, "STN_DEADLNE is none of the library's, which are STN_CHECKS, STN_DEADLINE");
    unsetenv("STN_DEADLNE");
    setenv("STN_CHECKS", "yes", 1);
    CHECK_STATUS(stn_launch(&options, settings_main, NULL), STN_ERR_ARGUMENT);
    check_text(text, "the environment's STN_CHECKS got \"yes\", wanted 0 or 1");
    unsetenv("STN_CHECKS");
    unsetenv("STN_DEADLINE");
    unsetenv("STN_THREADS");
    unsetenv("STN_LOG");
}

static void processes_of_torchrun_are_no_world_each_unless_asked_for(void)
{
    char text[256];
    stn_launch_options options = launch_options(0, text);
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "4", 1);
    setenv("LOCAL_RANK", "1", 1);
    setenv("MASTER_ADDR", "localhost", 1);
    CHECK_STATUS(stn_launch(&options, barrier_main, NULL), STN_ERR_ARGUMENT);
    check_text(text, "torchrun started 4 processes");
    check_text(text, "mpirun");
    options.ranks = 2;
    CHECK_STATUS(stn_launch(&options, barrier_main, NULL), STN_OK);
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("LOCAL_RANK");
    unsetenv("MASTER_ADDR");
}

struct lines {
    int n[4];
    char last[256];
};

static void take_line(void *arg, stn_log_level level, int rank, const char *text)
{
    struct lines *lines = arg;
    (void)rank;
    lines->n[level]++;
    snprintf(lines->last, sizeof lines->last, "%s", text);
}

static stn_status failing_main(stn_context *context, void *arg)
{
    (void)arg;
    stn_trace_end(context, NULL);
    stn_trace_end(context, "nowhere");
    return stn_context_status(context);
}

static void each_kept_error_is_one_line_of_a_debug_log(void)
{
    char text[256];
    struct lines lines = {{0}, ""};
    stn_launch_options options = launch_options(1, text);
    options.context.log = take_line;
    options.context.log_arg = &lines;
    options.context.log_level = STN_LOG_INFO;
    CHECK_STATUS(stn_launch(&options, failing_main, NULL), STN_ERR_ARGUMENT);
    CHECK_I64(lines.n[STN_LOG_DEBUG], 0);
    options.context.log_level = STN_LOG_DEBUG;
    CHECK_STATUS(stn_launch(&options, failing_main, NULL), STN_ERR_ARGUMENT);
    CHECK_I64(lines.n[STN_LOG_DEBUG], 1);
    check_text(lines.last, "trace_end: path got NULL");
}

/* What a rank leaves behind, which nobody asked for. */
enum left { KEPT, OUT_OF_RANGE, FAILED_QUEUE, NO_STATUS };

static stn_status careless_main(stn_context *context, void *arg)
{
    static const int64_t wanted = 99;
    const enum left left = *(const enum left *)arg;
    if (left == NO_STATUS)
        return (stn_status)77;
    stn_scope_begin(context);
    if (left == KEPT)
        stn_trace_end(context, NULL);
    if (left == OUT_OF_RANGE)
        stn_queue_value_error(context->queue, 0, 0, 1, &wanted);
    if (left == FAILED_QUEUE)
        stn_queue_fail(context->queue, STN_ERR_DEVICE, "the device is gone");
    return STN_OK;
}

static void what_nobody_asked_for_is_known_in_the_end(void)
{
    static const struct {
        enum left left;
        stn_status status;
        const char *text;
    } ends[] = {{KEPT, STN_ERR_ARGUMENT, "trace_end: path got NULL"},
                {OUT_OF_RANGE, STN_ERR_VALUE, "99"},
                {FAILED_QUEUE, STN_ERR_DEVICE, "the device is gone"},
                {NO_STATUS, (stn_status)77, "rank_main returned 77, which is no stn_status"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char text[256] = "";
        enum left left = ends[i].left;
        const stn_launch_options options = launch_options(2, text);
        CHECK_STATUS(stn_launch(&options, careless_main, &left), ends[i].status);
        check_text(text, ends[i].text);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"each_allocation_of_a_launch_may_fail", each_allocation_of_a_launch_may_fail},
        {"a_communicator_is_still_the_callers_where_its_context_cannot_be_made",
         a_communicator_is_still_the_callers_where_its_context_cannot_be_made},
        {"options_of_a_launch_are_checked_and_named", options_of_a_launch_are_checked_and_named},
        {"a_launch_takes_what_is_open_from_the_environment", a_launch_takes_what_is_open_from_the_environment},
        {"processes_of_torchrun_are_no_world_each_unless_asked_for",
         processes_of_torchrun_are_no_world_each_unless_asked_for},
        {"each_kept_error_is_one_line_of_a_debug_log", each_kept_error_is_one_line_of_a_debug_log},
        {"what_nobody_asked_for_is_known_in_the_end", what_nobody_asked_for_is_known_in_the_end},
    };
    return TEST_MAIN(argc, argv, cases);
}
