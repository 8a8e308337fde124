/* Agreement: what one rank found, all ranks know. */
#include "harness.h"
#include "core/core_ranks.h"

#include <stdio.h>
#include <string.h>

static void report_nothing(stn_context *context, void *arg)
{
    (void)arg;
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    CHECK_STATUS(stn_agree(context, STN_OK, "a text without a status is not sent"), STN_OK);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    CHECK_STR(stn_context_error_text(context), "");
}

static void report_from_last(stn_context *context, void *arg)
{
    (void)arg;
    int finder = context->rank == context->size - 1;
    stn_status got = stn_agree(context, finder ? STN_ERR_IO : STN_OK, finder ? "no file" : NULL);
    CHECK_STATUS(got, STN_ERR_IO);
    CHECK_STATUS(stn_context_status(context), STN_ERR_IO);
    char want[64] = "no file";
    if (context->size > 1)
        snprintf(want, sizeof want, "rank %d: no file", context->size - 1);
    CHECK_STR(stn_context_error_text(context), want);
    /* The mesh stays usable. */
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_IO);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
}

/* Such as a program's that it has called: 512 would be two statuses of a word. */
static void report_no_status(stn_context *context, void *arg)
{
    static const int numbers[] = {256, 512, 65536, 77, -1};
    char want[96];
    (void)arg;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        stn_status mine = context->rank == context->size - 1 ? (stn_status)numbers[i] : STN_OK;
        snprintf(want, sizeof want, "agree: status got %d, which is no stn_status: the disk is full", numbers[i]);
        CHECK_STATUS(stn_agree(context, mine, "the disk is full"), STN_ERR_ARGUMENT);
        CHECK(strstr(stn_context_error_text(context), want) != NULL);
        CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
    }
}

static void report_from_two(stn_context *context, void *arg)
{
    (void)arg;
    stn_status mine = context->rank == 1 ? STN_ERR_SHAPE : context->rank == 2 ? STN_ERR_ARGUMENT : STN_OK;
    CHECK_STATUS(stn_agree(context, mine, context->rank == 1 ? "one" : "two"), STN_ERR_SHAPE);
    CHECK_STR(stn_context_error_text(context), "rank 1: one");
}

static void report_kept(stn_context *context, void *arg)
{
    (void)arg;
    if (context->rank > 0)
        stni_fail(context, context->rank == 1 ? STN_ERR_DTYPE : STN_ERR_LAYOUT, "kept by %d", context->rank);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_DTYPE);
    CHECK_STR(stn_context_error_text(context), "rank 1: kept by 1");
    /* What was agreed on before keeps its rank. */
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_DTYPE);
    CHECK_STR(stn_context_error_text(context), "rank 1: kept by 1");
    stn_context_take_error(context, NULL, 0);
    stni_fail(context, STN_ERR_STATE, "on all");
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_STATE);
    CHECK_STR(stn_context_error_text(context), "rank 0: on all");
}

/* A finding may follow from what was kept before it, on this rank or on another: the rank `keeper` has kept something,
 * all ranks find a result to be wrong. */
static void report_kept_and_found(stn_context *context, void *arg)
{
    const int keeper = *(const int *)arg;
    char want[64] = "no file";
    if (context->size > 1)
        snprintf(want, sizeof want, "rank %d: no file", keeper);
    if (context->rank == keeper)
        stni_fail(context, STN_ERR_IO, "no file");
    CHECK_STATUS(stn_agree(context, STN_ERR_VALUE, "wrong result"), STN_ERR_IO);
    CHECK_STR(stn_context_error_text(context), want);
    /* What was agreed on is kept, and goes before what is found next, whoever finds it. */
    CHECK_STATUS(stn_agree(context, context->rank == 0 ? STN_ERR_VALUE : STN_OK, "wrong again"), STN_ERR_IO);
    CHECK_STATUS(stn_agree(context, (stn_status)77, "no status"), STN_ERR_IO);
    CHECK_STR(stn_context_error_text(context), want);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_IO);
    CHECK_STATUS(stn_agree(context, STN_ERR_VALUE, "wrong result"), STN_ERR_VALUE);
    CHECK_STR(stn_context_error_text(context), context->size > 1 ? "rank 0: wrong result" : "wrong result");
}

/* The layers above know the texts. */
static void value_text(const stn_context *context, const stn_value_record *record, char *text, size_t size)
{
    (void)context;
    snprintf(text, size, "op %d, finding %d: index got %lld, wanted below 5", record->op, record->what,
             (long long)record->numbers[0]);
}

static stn_status value_kernel(stn_queue *queue, const void *args)
{
    stn_queue_value_error(queue, 17, 3, 1, args);
    return STN_OK;
}

/* The kernels may still be waiting in the queue when the agreement begins. */
static void report_value(stn_context *context, void *arg)
{
    (void)arg;
    context->value_text = value_text;
    if (context->rank == 2)
        for (int64_t i = 7; i < 10; i++)
            CHECK_STATUS(stn_queue_launch(context->queue, value_kernel, &i, sizeof i), STN_OK);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    CHECK_STR(stn_context_error_text(context), "rank 2: op 17, finding 3: index got 7, wanted below 5");
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
}

/* As of a run that looks for a file to go on from: that there is none must not hide what kernels have seen. */
static void report_value_later(stn_context *context, void *arg)
{
    const int64_t index = 7;
    const int values_from = *(const int *)arg;
    context->value_text = value_text;
    if (context->rank == values_from)
        CHECK_STATUS(stn_queue_launch(context->queue, value_kernel, &index, sizeof index), STN_OK);
    context->may_have_values = 1; /* as the op that launched it has all ranks know */
    CHECK_STATUS(stn_agree(context, context->rank == 1 ? STN_ERR_IO : STN_OK, "no file"), STN_ERR_IO);
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_agree_on_values(context), STN_ERR_VALUE);
    CHECK(strstr(stn_context_error_text(context), "op 17, finding 3: index got 7, wanted below 5") != NULL);
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
}

static void report_in_scope(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_scope_begin(context);
    stn_scope_agree(context);
    if (context->rank == 1)
        stn_queue_value_error(context->queue, 1, 2, 0, NULL);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_VALUE); /* the inner one agrees */
    int64_t collectives = context->comm_stats.collectives;
    CHECK(collectives > 0);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_VALUE); /* the outer one does not */
    CHECK_I64(context->comm_stats.collectives, collectives);
    CHECK_STR(stn_context_error_text(context), "rank 1: kernel of op 1: value error 2");
    CHECK_STATUS(stn_context_status(context), STN_OK);
    for (int depth = 0; depth < 2; depth++)
        stn_scope_begin(context);
    for (int depth = 0; depth < 2; depth++)
        CHECK_STATUS(stn_scope_end(context), STN_OK); /* nobody asked these to */
    CHECK_I64(context->comm_stats.collectives, collectives);
}

static void report_long_text(stn_context *context, void *arg)
{
    (void)arg;
    char text[2 * STNI_ERROR_TEXT];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    CHECK_STATUS(stn_agree(context, context->rank == 1 ? STN_ERR_IO : STN_OK, text), STN_ERR_IO);
    CHECK_I64((int64_t)strlen(stn_context_error_text(context)), STNI_ERROR_TEXT - 1);
}

static void fail_rank(stn_context *context, void *arg)
{
    (void)arg;
    if (context->rank == 1) {
        CHECK_STATUS(stni_fail_memory(context, "something", 12345), STN_ERR_MEMORY);
        CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_MEMORY);
        return;
    }
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_PEER);
    const char *text = stn_context_error_text(context);
    CHECK(strstr(text, "rank 1") != NULL);
    CHECK(strstr(text, "something (12345 bytes)") != NULL);
    /* An abort is for good. */
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_PEER);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_PEER);
}

static void fail_queue(stn_context *context, void *arg)
{
    (void)arg;
    if (context->rank == 0)
        stn_queue_fail(context->queue, STN_ERR_DEVICE, "the device is gone");
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), context->rank == 0 ? STN_ERR_DEVICE : STN_ERR_PEER);
    CHECK(strstr(stn_context_error_text(context), "the device is gone") != NULL);
}

/* Of two ranks that fail at once each keeps its own failure, status and text, whoever was heard first. */
static void fail_two_ranks(stn_context *context, void *arg)
{
    (void)arg;
    if (context->rank > 0)
        stni_fail_memory(context, context->rank == 1 ? "one" : "two", 5);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), context->rank > 0 ? STN_ERR_MEMORY : STN_ERR_PEER);
    if (context->rank > 0)
        CHECK_STR(stn_context_error_text(context),
                  context->rank == 1 ? "out of memory: one (5 bytes)" : "out of memory: two (5 bytes)");
    else
        CHECK(strstr(stn_context_error_text(context), ": out of memory: ") != NULL);
    CHECK_STATUS(stn_context_status(context), context->rank > 0 ? STN_ERR_MEMORY : STN_ERR_PEER);
}

/* Costs of the good case, which long loops pay at each step. */
static void count_collectives(stn_context *context, void *arg)
{
    (void)arg;
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    int64_t collectives = context->comm_stats.collectives;
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    CHECK_I64(context->comm_stats.collectives - collectives, 1);
}

static void find_least(stn_context *context, void *arg)
{
    (void)arg;
    int64_t numbers[] = {context->rank + 5, -context->rank, INT64_MAX};
    CHECK_STATUS(stni_agree_least(context, numbers, 3), STN_OK);
    CHECK_I64(numbers[0], 5);
    CHECK_I64(numbers[1], 1 - context->size);
    CHECK_I64(numbers[2], INT64_MAX);
}

static void nothing_to_report_is_ok_on_every_rank(void)
{
    on_one_rank(report_nothing, NULL);
    on_ranks(2, report_nothing, NULL);
    on_ranks(5, report_nothing, NULL);
}

static void finding_of_one_rank_is_heard_by_all(void)
{
    on_one_rank(report_from_last, NULL);
    on_ranks(2, report_from_last, NULL);
    on_ranks(5, report_from_last, NULL);
}

static void what_is_no_status_is_refused_by_all(void)
{
    on_one_rank(report_no_status, NULL);
    on_ranks(3, report_no_status, NULL);
}

static void lowest_rank_that_reports_is_the_one_heard(void)
{
    on_ranks(3, report_from_two, NULL);
}

static void kept_error_of_one_rank_replaces_what_others_kept(void)
{
    on_ranks(3, report_kept, NULL);
}

static void kept_error_goes_before_what_ranks_find(void)
{
    on_one_rank(report_kept_and_found, &(int){0});
    for (int keeper = 0; keeper < 3; keeper++)
        on_ranks(3, report_kept_and_found, &keeper);
}

static void value_out_of_range_is_known_at_the_next_agreement(void)
{
    on_ranks(3, report_value, NULL);
}

static void value_that_was_not_heard_is_told_by_the_next_agreement(void)
{
    for (int from = 1; from < 3; from++)
        on_ranks(3, report_value_later, &from);
}

static void scope_that_asks_for_it_agrees_at_its_end(void)
{
    on_ranks(3, report_in_scope, NULL);
}

static void long_texts_are_cut_and_ended(void)
{
    on_ranks(3, report_long_text, NULL);
}

static void rank_error_reaches_peers_that_agree(void)
{
    on_ranks(3, fail_rank, NULL);
}

static void each_rank_that_fails_keeps_its_own_failure(void)
{
    on_ranks(3, fail_two_ranks, NULL);
}

static void failed_queue_is_a_rank_error(void)
{
    on_ranks(3, fail_queue, NULL);
}

static void agreement_without_a_finding_is_one_collective(void)
{
    on_ranks(3, count_collectives, NULL);
}

static void least_numbers_are_known_to_all_ranks(void)
{
    on_one_rank(find_least, NULL);
    on_ranks(3, find_least, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"nothing_to_report_is_ok_on_every_rank", nothing_to_report_is_ok_on_every_rank},
        {"finding_of_one_rank_is_heard_by_all", finding_of_one_rank_is_heard_by_all},
        {"what_is_no_status_is_refused_by_all", what_is_no_status_is_refused_by_all},
        {"lowest_rank_that_reports_is_the_one_heard", lowest_rank_that_reports_is_the_one_heard},
        {"kept_error_of_one_rank_replaces_what_others_kept", kept_error_of_one_rank_replaces_what_others_kept},
        {"kept_error_goes_before_what_ranks_find", kept_error_goes_before_what_ranks_find},
        {"value_out_of_range_is_known_at_the_next_agreement", value_out_of_range_is_known_at_the_next_agreement},
        {"value_that_was_not_heard_is_told_by_the_next_agreement",
         value_that_was_not_heard_is_told_by_the_next_agreement},
        {"scope_that_asks_for_it_agrees_at_its_end", scope_that_asks_for_it_agrees_at_its_end},
        {"long_texts_are_cut_and_ended", long_texts_are_cut_and_ended},
        {"rank_error_reaches_peers_that_agree", rank_error_reaches_peers_that_agree},
        {"each_rank_that_fails_keeps_its_own_failure", each_rank_that_fails_keeps_its_own_failure},
        {"failed_queue_is_a_rank_error", failed_queue_is_a_rank_error},
        {"least_numbers_are_known_to_all_ranks", least_numbers_are_known_to_all_ranks},
        {"agreement_without_a_finding_is_one_collective", agreement_without_a_finding_is_one_collective},
    };
    return TEST_MAIN(argc, argv, cases);
}
