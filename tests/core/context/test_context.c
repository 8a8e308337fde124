/* Contexts: options, kept errors, statistics, and an end that leaves nothing. */
#include "core/counted.h"
#include "harness.h"
#include "core/core_ranks.h"

#include "core/tensor/tensor.h"

#include <pthread.h>
#include <stdio.h>
#include <math.h>
#include <string.h>

static const stn_spec *vector_spec(stn_context *context, int64_t n)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 1, &n, &spec), STN_OK);
    return spec;
}

static void null_options_make_a_world_of_one(void)
{
    stn_context *context = NULL;
    int64_t live = counted_live();
    if (!CHECK_STATUS(stni_context_create_core(NULL, &context, NULL), STN_OK))
        return;
    CHECK_I64(stn_context_rank(context), 0);
    CHECK_I64(stn_context_size(context), 1);
    CHECK_I64(stn_comm_size(stn_context_comm(context)), 1);
    CHECK_PTR(stn_context_queue(context));
    CHECK_I64(context->threads, 1);
    CHECK_NEAR(context->deadline_seconds, 300, 0);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    stni_context_destroy_core(context);
    CHECK_I64(counted_live(), live);
}

static void check_refusal(stn_context_options options, stn_status want, const char *part)
{
    struct stni_error error = {.status = STN_OK};
    stn_context *context = NULL;
    int64_t live = counted_live();
    CHECK_STATUS(stni_context_create_core(&options, &context, &error), want);
    CHECK(context == NULL);
    CHECK_STATUS(error.status, want);
    if (!CHECK(strstr(error.text, part) != NULL))
        CHECK_STR(error.text, part);
    CHECK_I64(counted_live(), live);
}

static void bad_options_are_refused_and_named(void)
{
    stn_context_options options = ranks_options();
    options.size = 4;
    check_refusal(options, STN_ERR_ARGUMENT, "options->size got 4");
    options = ranks_options();
    options.threads = -1;
    check_refusal(options, STN_ERR_ARGUMENT, "threads got -1");
    options = ranks_options();
    options.threads = 1025;
    check_refusal(options, STN_ERR_ARGUMENT, "threads got 1025, wanted 0 to 1024");
    options = ranks_options();
    options.deadline_seconds = (double)NAN;
    check_refusal(options, STN_ERR_ARGUMENT, "deadline_seconds got nan, wanted a finite number");
    options = ranks_options();
    options.log_level = (stn_log_level)99;
    check_refusal(options, STN_ERR_ARGUMENT, "log_level got 99");
    options = ranks_options();
    options.checks = 2;
    check_refusal(options, STN_ERR_ARGUMENT, "checks got 2");
    options = ranks_options();
    options.allow_tf32 = -1;
    check_refusal(options, STN_ERR_ARGUMENT, "allow_tf32 got -1, wanted 0 or 1");
    options = ranks_options();
    options.device = "nosuchdevice";
    check_refusal(options, STN_ERR_NOT_FOUND, "nosuchdevice");
    options = ranks_options();
    options.without = "onednn,openblas";
    check_refusal(options, STN_ERR_ARGUMENT, "without got 'openblas', wanted names of onednn, fftw");
    stn_allocator half = {.size = sizeof half};
    options = ranks_options();
    options.allocator = &half;
    check_refusal(options, STN_ERR_ARGUMENT, "allocator->allocate got NULL");
    half.size = 8;
    check_refusal(options, STN_ERR_ARGUMENT, "allocator->size got 8 bytes");
}

static void bad_queues_are_refused_and_named(void)
{
    stn_context_options options = ranks_options();
    options.queue = (stn_queue_options){.size = 3};
    check_refusal(options, STN_ERR_ARGUMENT, "queue.size got 3 bytes");
    options.queue = (stn_queue_options){.size = sizeof options.queue, .kind = (stn_queue_kind)99};
    check_refusal(options, STN_ERR_ARGUMENT, "queue.kind got 99");
    options.queue = (stn_queue_options){.size = sizeof options.queue, .stream = &options};
    check_refusal(options, STN_ERR_UNSUPPORTED, "wanted NULL: device 'cpu' has no streams");
}

static void refused_communicator_stays_the_callers(void)
{
    stn_context_options options = ranks_options();
    stn_context *context = NULL;
    int64_t live = counted_live();
    CHECK_STATUS(stni_comm_create_threads(1, 30, &options.comm), STN_OK);
    options.threads = -1;
    CHECK_STATUS(stni_context_create_core(&options, &context, NULL), STN_ERR_ARGUMENT);
    options.threads = 2;
    CHECK_STATUS(stni_context_create_core(&options, &context, NULL), STN_OK);
    CHECK(stn_context_comm(context) == options.comm);
    CHECK_I64(context->threads, 2);
    stni_context_destroy_core(context);
    CHECK_I64(counted_live(), live);
}

static void keep_errors(stn_context *context, void *arg)
{
    (void)arg;
    char text[8];
    CHECK_STATUS(stni_fail(context, STN_ERR_SHAPE, "first: got %d", 3), STN_ERR_SHAPE);
    CHECK_STATUS(stni_fail(context, STN_ERR_DTYPE, "second"), STN_ERR_DTYPE);
    CHECK_STATUS(stn_context_status(context), STN_ERR_SHAPE);
    CHECK_STR(stn_context_error_text(context), "first: got 3");
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "first: ");
    CHECK_STR(stn_context_error_text(context), "");
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_OK);
    CHECK_STR(text, "");
    CHECK_STATUS(stni_fail(context, STN_ERR_IO, "third"), STN_ERR_IO);
    CHECK_STR(stn_context_error_text(context), "third");
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_IO);
}

static void keep_callers_errors(stn_context *context, void *arg)
{
    (void)arg;
    CHECK_STATUS(stn_context_fail(NULL, STN_ERR_IO, "no context"), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_fail(context, STN_OK, "no error"), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_fail(context, STN_STATUS_COUNT, "no status"), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    CHECK_STATUS(stn_context_fail(context, STN_ERR_IO, "100%s"), STN_ERR_IO);
    CHECK_STATUS(stn_context_fail(context, STN_ERR_SHAPE, "second"), STN_ERR_IO);
    CHECK_STR(stn_context_error_text(context), "100%s");
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_IO);
    static const stn_status told[] = {STN_ERR_MEMORY, STN_ERR_DEVICE, STN_ERR_COMM, STN_ERR_PEER, STN_ERR_TIMEOUT};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        CHECK_STATUS(stn_context_fail(context, told[i], NULL), STN_ERR_CALLBACK);
        CHECK_STR(stn_context_error_text(context), stn_status_text(told[i]));
        CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_CALLBACK);
    }
}

static void errors_of_the_caller_are_kept_as_those_of_ops(void)
{
    on_one_rank(keep_callers_errors, NULL);
}

static void first_error_is_kept_until_it_is_taken(void)
{
    on_one_rank(keep_errors, NULL);
}

static void every_status_has_a_text_of_its_own(void)
{
    for (int i = 0; i < STN_STATUS_COUNT; i++)
        for (int j = 0; j < i; j++)
            CHECK(strcmp(stn_status_text((stn_status)i), stn_status_text((stn_status)j)) != 0);
    CHECK_STR(stn_status_text(STN_ERR_SHAPE), "shapes do not fit");
    CHECK_STR(stn_status_text(STN_STATUS_COUNT), "unknown status");
    CHECK_STR(stn_status_text((stn_status)-1), "unknown status");
}

static stn_status failing_kernel(stn_queue *queue, const void *args)
{
    (void)args;
    return stn_queue_fail(queue, STN_ERR_DEVICE, "kernel: it broke");
}

static void break_queue(stn_context *context, void *arg)
{
    (void)arg;
    float host[2] = {0};
    stn_tensor *tensor = stn_empty(context, vector_spec(context, 2));
    stn_queue_launch(context->queue, failing_kernel, NULL, 0);
    CHECK_STATUS(stn_to_host(tensor, host, sizeof host), STN_ERR_DEVICE);
    CHECK_STATUS(stn_context_status(context), STN_ERR_DEVICE);
    CHECK_STR(stn_context_error_text(context), "kernel: it broke");
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_DEVICE);
    CHECK_STATUS(stn_to_host(tensor, host, sizeof host), STN_OK);
    stn_tensor_release(&tensor);
}

static void failure_of_the_queue_becomes_the_contexts(void)
{
    on_one_rank(break_queue, NULL);
}

struct heard {
    int lines, rank;
    stn_log_level level;
    char text[256];
};

static void listen(void *arg, stn_log_level level, int rank, const char *text)
{
    struct heard *heard = arg;
    heard->rank = rank;
    heard->lines++;
    heard->level = level;
    snprintf(heard->text, sizeof heard->text, "%s", text);
}

static void log_drops_what_lies_above_its_level(void)
{
    struct heard heard = {0};
    stn_context_options options = ranks_options();
    stn_context *context = NULL;
    options.log = listen;
    options.log_arg = &heard;
    options.log_level = STN_LOG_INFO;
    CHECK_STATUS(stni_context_create_core(&options, &context, NULL), STN_OK);
    stni_log(context, STN_LOG_DEBUG, "not heard");
    CHECK_I64(heard.lines, 0);
    stni_log(context, STN_LOG_INFO, "%d lines", 1);
    CHECK_I64(heard.lines, 1);
    CHECK_STR(heard.text, "1 lines");
    stni_context_destroy_core(context);
    CHECK_I64(heard.lines, 1);
}

static void tensors_left_are_counted_in_a_warning(void)
{
    struct heard heard = {0};
    stn_context_options options = ranks_options();
    stn_context *context = NULL;
    int64_t live = counted_live();
    options.log = listen;
    options.log_arg = &heard;
    options.log_level = STN_LOG_WARNING;
    CHECK_STATUS(stni_context_create_core(&options, &context, NULL), STN_OK);
    stn_tensor *left[3];
    for (int i = 0; i < 3; i++)
        left[i] = stn_empty(context, vector_spec(context, 100));
    stn_tensor *released = stn_empty(context, vector_spec(context, 100));
    stn_tensor_release(&released);
    stn_scope_begin(context);
    stn_empty(context, vector_spec(context, 100)); /* the scope's */
    stni_context_destroy_core(context);
    CHECK_I64(heard.lines, 1);
    CHECK_I64(heard.level, STN_LOG_WARNING);
    CHECK_STR(heard.text, "context destroyed while 3 tensors were alive");
    for (int i = 0; i < 3; i++)
        stn_tensor_release(&left[i]);
    CHECK_I64(counted_live(), live);
    CHECK_I64(counted_device_bytes(), 0);
}

static void use_briefly(stn_context *context, void *arg)
{
    (void)arg;
    float host[100] = {0};
    stn_scope_begin(context);
    stn_from_host(context, vector_spec(context, 100), host);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static void dump(stn_context *context, void *arg)
{
    (void)arg;
    struct heard heard = {0};
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    context->log = listen;
    context->log_arg = &heard;
    context->log_level = STN_LOG_INFO;
    stn_context_dump_calls(context);
    CHECK_I64(heard.lines, 3);
    CHECK_I64(heard.rank, context->rank);
    CHECK(strstr(heard.text, "call 2: all_reduce") != NULL);
    stn_context_dump_calls(NULL);
}

static void dumped_calls_are_those_that_were_made(void)
{
    on_ranks(2, dump, NULL);
}

static void thousand_contexts_leave_nothing(void)
{
    for (int i = 0; i < 1000; i++)
        on_one_rank(use_briefly, NULL);
    CHECK_I64(counted_device_bytes(), 0);
}

static void thousand_contexts_of_two_ranks_leave_nothing(void)
{
    for (int i = 0; i < 500; i++)
        on_ranks(2, use_briefly, NULL);
    CHECK_I64(counted_device_bytes(), 0);
}

static void count(stn_context *context, void *arg)
{
    (void)arg;
    stn_stats stats = {.size = sizeof stats};
    float host[1000] = {0};
    stn_tensor *a = stn_from_host(context, vector_spec(context, 1000), host);
    stn_tensor *b = stn_empty(context, vector_spec(context, 10));
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.live_tensors, 2);
    CHECK_I64(stats.live_storages, 2);
    CHECK_I64(stats.live_bytes, 4040);
    CHECK_I64(stats.peak_bytes, 4040);
    CHECK_I64(stats.specs, 2);
    CHECK_I64(stats.reserved_bytes, counted_device_bytes());
    stn_tensor_release(&a);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.live_tensors, 1);
    CHECK_I64(stats.live_bytes, 40);
    CHECK_I64(stats.peak_bytes, 4040);
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.peak_bytes, 40);
    stn_tensor *c = stn_empty(context, vector_spec(context, 1000));
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.live_tensors, 2);
    CHECK_I64(stats.peak_bytes, 4040);
    CHECK_I64(stats.allocations, 1);
    CHECK_I64(stats.allocator_calls, 0); /* reused */
    CHECK_I64(stats.host_syncs, 0);
    stn_tensor_release(&b);
    stn_tensor_release(&c);
    stn_context_trim(context);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.live_bytes, 0);
    CHECK_I64(stats.live_storages, 0);
    CHECK_I64(stats.reserved_bytes, counted_device_bytes());
    CHECK(stats.reserved_bytes < 1000); /* the record of agreements */
}

static void statistics_count_what_was_done(void)
{
    on_one_rank(count, NULL);
}

static void ask_with_sizes(stn_context *context, void *arg)
{
    (void)arg;
    struct {
        stn_stats stats;
        int64_t beyond;
    } room;
    memset(&room, 0x11, sizeof room);
    room.stats.size = offsetof(stn_stats, peak_bytes); /* a caller of an older version */
    CHECK_STATUS(stn_context_stats(context, &room.stats), STN_OK);
    CHECK_I64(room.stats.live_tensors, 0);
    CHECK_I64(room.stats.peak_bytes, 0x1111111111111111);
    room.stats.size = sizeof room; /* one of a newer version */
    CHECK_STATUS(stn_context_stats(context, &room.stats), STN_OK);
    CHECK_I64(room.stats.nodes, 0);
    CHECK_I64(room.beyond, 0x1111111111111111);
    room.stats.size = 3;
    CHECK_STATUS(stn_context_stats(context, &room.stats), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_stats(NULL, &room.stats), STN_ERR_ARGUMENT);
}

static void statistics_fit_callers_of_other_versions(void)
{
    on_one_rank(ask_with_sizes, NULL);
}

static void *release_all(void *arg)
{
    stn_tensor **tensors = arg;
    for (int i = 0; i < 100; i++)
        stn_tensor_release(&tensors[i]);
    return NULL;
}

/* Two threads drop the same handles' references while the context's own makes more. */
static void release_elsewhere(stn_context *context, void *arg)
{
    (void)arg;
    stn_tensor *tensors[2][100];
    pthread_t threads[2];
    for (int i = 0; i < 100; i++) {
        tensors[0][i] = stn_empty(context, vector_spec(context, 10));
        tensors[1][i] = stn_tensor_retain(tensors[0][i]);
    }
    for (int t = 0; t < 2; t++)
        CHECK_I64(pthread_create(&threads[t], NULL, release_all, tensors[t]), 0);
    for (int i = 0; i < 1000; i++) {
        stn_tensor *tensor = stn_empty(context, vector_spec(context, 10));
        stn_tensor_release(&tensor);
    }
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.live_tensors, 0);
    CHECK_I64(stats.live_bytes, 0);
}

static void last_reference_may_go_on_any_thread(void)
{
    on_one_rank(release_elsewhere, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"null_options_make_a_world_of_one", null_options_make_a_world_of_one},
        {"bad_options_are_refused_and_named", bad_options_are_refused_and_named},
        {"bad_queues_are_refused_and_named", bad_queues_are_refused_and_named},
        {"refused_communicator_stays_the_callers", refused_communicator_stays_the_callers},
        {"first_error_is_kept_until_it_is_taken", first_error_is_kept_until_it_is_taken},
        {"errors_of_the_caller_are_kept_as_those_of_ops", errors_of_the_caller_are_kept_as_those_of_ops},
        {"every_status_has_a_text_of_its_own", every_status_has_a_text_of_its_own},
        {"failure_of_the_queue_becomes_the_contexts", failure_of_the_queue_becomes_the_contexts},
        {"log_drops_what_lies_above_its_level", log_drops_what_lies_above_its_level},
        {"tensors_left_are_counted_in_a_warning", tensors_left_are_counted_in_a_warning},
        {"dumped_calls_are_those_that_were_made", dumped_calls_are_those_that_were_made},
        {"thousand_contexts_leave_nothing", thousand_contexts_leave_nothing},
        {"thousand_contexts_of_two_ranks_leave_nothing", thousand_contexts_of_two_ranks_leave_nothing},
        {"statistics_count_what_was_done", statistics_count_what_was_done},
        {"statistics_fit_callers_of_other_versions", statistics_fit_callers_of_other_versions},
        {"last_reference_may_go_on_any_thread", last_reference_may_go_on_any_thread},
    };
    return TEST_MAIN(argc, argv, cases);
}
