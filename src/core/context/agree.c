/* Agreement: of what ranks report one error is heard by all.
 *
 * One all-reduce of 8 bytes when all is well: the least of the words (what was kept before what is found, then rank,
 * then status) over the ranks that report. Else a broadcast of the text from the rank found. Memory does not grow with
 * the world. */
#include "core/context/context.h"

#include <stdio.h>
#include <string.h>

static const int64_t nothing = INT64_MAX;
static const int64_t found_now = INT64_C(1) << 40; /* of a word: above its rank and status */

static void report_set(struct stni_error *report, const stn_context *context, stn_status status, const char *text)
{
    /* An error that was agreed on before has its rank in its text. */
    if (context->size == 1 || (context->error_agreed && text == context->error.text))
        stni_error_set(report, status, "%s", text);
    else
        stni_error_set(report, status, "rank %d: %s", context->rank, text);
}

/* What this rank reports: the kept error, which was first, else the caller's finding, which may follow from it, else a
 * value out of range. */
static void gather_report(stn_context *context, stn_status status, const char *text, struct stni_error *report)
{
    char value[STNI_ERROR_TEXT];
    memset(report, 0, sizeof *report); /* all of the text is sent */
    if (context->error.status != STN_OK)
        report_set(report, context, context->error.status, context->error.text);
    if ((unsigned)status >= STN_STATUS_COUNT) {
        snprintf(value, sizeof value, "agree: status got %d, which is no stn_status%s%s", (int)status,
                 text != NULL ? ": " : "", text != NULL ? text : "");
        report_set(report, context, STN_ERR_ARGUMENT, value);
    } else if (status != STN_OK)
        report_set(report, context, status, text != NULL ? text : stn_status_text(status));
    if (stni_value_read(context, value, sizeof value))
        report_set(report, context, STN_ERR_VALUE, value);
}

/* A value out of range that was not heard, since a rank had something else to report, is told by the next agreement. */
static void values_heard(stn_context *context, stn_status agreed)
{
    if (agreed == STN_ERR_VALUE)
        stni_value_forget(context);
    if (agreed == STN_OK || agreed == STN_ERR_VALUE)
        context->may_have_values = 0;
}

static stn_status agree(stn_context *context, struct stni_error *report)
{
    int64_t first = nothing;
    if (report->status != STN_OK)
        first = (context->error.status == STN_OK ? found_now : 0) | (int64_t)context->rank << 8 | report->status;
    if (context->size > 1)
        STNI_TRY(stni_comm_agree_first(context->comm, context->queue, STNI_AGREE_CALL, &first, 1, STN_MIN));
    if (first == nothing)
        return STN_OK;
    if (context->size > 1)
        STNI_TRY(stni_comm_agree_broadcast(context->comm, context->queue, report->text, sizeof report->text,
                                           (int)((first & ~found_now) >> 8)));
    /* All ranks keep the same, whatever each had kept before. */
    context->error.status = STN_OK;
    context->error_agreed = 1;
    context->all_know = stni_fail(context, (stn_status)(first & 0xff), "%.*s", STNI_ERROR_TEXT - 1, report->text);
    return context->all_know;
}

stn_status stni_agree_on_failure(stn_context *context, stn_comm *comm, int position, stn_status status)
{
    struct stni_error report;
    memset(&report, 0, sizeof report);
    if (position == stn_comm_rank(comm))
        report_set(&report, context, status, context->error.text);
    STNI_TRY(stni_comm_agree_broadcast(comm, context->queue, report.text, sizeof report.text, position));
    context->error.status = STN_OK;
    context->error_agreed = 1;
    stni_fail(context, status, "%.*s", STNI_ERROR_TEXT - 1, report.text);
    return STN_OK;
}

static const char *failure_text(stn_context *context)
{
    const char *text = stn_queue_error_text(context->queue);
    return text[0] != '\0' ? text : stn_comm_error_text(context->comm);
}

/* Every rank takes part, also one that has kept an error, because the others cannot know of it. Only a rank whose
 * queue is broken cannot take part; it has aborted the family. */
stn_status stn_agree(stn_context *context, stn_status status, const char *text)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    if (context->closed)
        return context->error.status;
    STNI_TRY(stni_context_not_captured(context, "agree", "whose repetitions would not: agree once it has run"));
    struct stni_error report;
    stni_context_sync(context, STN_SYNC_AGREEMENT);
    gather_report(context, status, text, &report);
    status = agree(context, &report);
    values_heard(context, status);
    if (status != STN_OK && context->error.status == STN_OK)
        stni_fail_rank(context, status, "agree: %s", failure_text(context));
    return context->error.status; /* where ranks could not agree, what this one had kept before stays */
}

/* What this rank has met, where no other has to be told. On a device the host would wait for it. */
static stn_status take_own_value(stn_context *context)
{
    char text[STNI_ERROR_TEXT];
    if (context->closed || context->capture || !context->device->is_cpu || context->error.status != STN_OK)
        return context->error.status;
    STNI_TRY(stni_context_sync(context, STN_SYNC_AGREEMENT));
    return stni_value_take(context, text, sizeof text) ? stni_fail(context, STN_ERR_VALUE, "%s", text) : STN_OK;
}

stn_status stn_agree_on_values(stn_context *context)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    return context->may_have_values ? stn_agree(context, STN_OK, NULL) : take_own_value(context);
}

stn_status stni_agree_least(stn_context *context, int64_t *numbers, int n)
{
    STNI_TRY(stni_context_not_captured(context, "an agreement on numbers", "whose repetitions would not agree anew"));
    STNI_TRY(stni_context_sync(context, STN_SYNC_AGREEMENT));
    const stn_status status =
        context->size > 1 ? stni_comm_agree(context->comm, context->queue, numbers, n, STN_MIN) : STN_OK;
    return status == STN_OK ? STN_OK : stni_fail_rank(context, status, "agree: %s", failure_text(context));
}
