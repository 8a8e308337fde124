/* Agreement: the first rank that has something to report is heard by all.
 *
 * One all-reduce of 8 bytes when all is well: the least of (rank << 8 | status) over the ranks that report. Else a broadcast of the
 * text from the rank found. Memory does not grow with the world. */
#include "core/context/context.h"

#include <string.h>

static const int64_t nothing = INT64_MAX;

static void report_set(struct stni_error *report, const stn_context *context, stn_status status, const char *text)
{
    /* An error that was agreed on before has its rank in its text. */
    if (context->size == 1 || (context->error_agreed && text == context->error.text))
        stni_error_set(report, status, "%s", text);
    else
        stni_error_set(report, status, "rank %d: %s", context->rank, text);
}

/* What this rank reports: the caller's finding, else the kept error, else a value out of range. */
static void gather_report(stn_context *context, stn_status status, const char *text, struct stni_error *report)
{
    memset(report, 0, sizeof *report); /* all of the text is sent */
    if (status != STN_OK)
        report_set(report, context, status, text != NULL ? text : stn_status_text(status));
    if (context->error.status != STN_OK)
        report_set(report, context, context->error.status, context->error.text);
    if (atomic_load_explicit(&context->value_error, memory_order_acquire) == STNI_VALUE_KEPT) {
        report_set(report, context, STN_ERR_VALUE, context->value_text.text);
        atomic_store_explicit(&context->value_error, STNI_VALUE_NONE, memory_order_release);
    }
}

static stn_status copy_and_wait(stn_context *context, void *dst, const void *src, size_t bytes, enum stni_copy_kind kind)
{
    STNI_TRY(stni_queue_copy(context->queue, dst, src, bytes, kind));
    return context->queue->immediate ? STN_OK : stn_queue_sync(context->queue);
}

static stn_status exchange_first(stn_context *context, int64_t *first)
{
    stn_queue *queue = context->queue;
    void *buffer = context->agree_buffer;
    STNI_TRY(copy_and_wait(context, buffer, first, sizeof *first, STNI_COPY_TO_DEVICE));
    STNI_TRY(stni_comm_all_reduce(context->comm, queue, buffer, buffer, 1, STN_DTYPE_I64, STN_MIN));
    return copy_and_wait(context, first, buffer, sizeof *first, STNI_COPY_TO_HOST);
}

static stn_status exchange_text(stn_context *context, char text[STNI_ERROR_TEXT], int root)
{
    void *buffer = context->agree_buffer;
    if (context->rank == root)
        STNI_TRY(copy_and_wait(context, buffer, text, STNI_ERROR_TEXT, STNI_COPY_TO_DEVICE));
    STNI_TRY(stn_comm_broadcast(context->comm, buffer, STNI_ERROR_TEXT, STN_DTYPE_U8, root, NULL));
    return copy_and_wait(context, text, buffer, STNI_ERROR_TEXT, STNI_COPY_TO_HOST);
}

static stn_status agree(stn_context *context, struct stni_error *report)
{
    int64_t first = report->status == STN_OK ? nothing : (int64_t)context->rank << 8 | (int64_t)report->status;
    if (context->size > 1)
        STNI_TRY(exchange_first(context, &first));
    if (first == nothing)
        return STN_OK;
    if (context->size > 1)
        STNI_TRY(exchange_text(context, report->text, (int)(first >> 8)));
    /* All ranks keep the same, whatever each had kept before. */
    context->error.status = STN_OK;
    context->error_agreed = 1;
    return stni_fail(context, (stn_status)(first & 0xff), "%.*s", STNI_ERROR_TEXT - 1, report->text);
}

static const char *failure_text(stn_context *context)
{
    const char *text = stn_queue_error_text(context->queue);
    return text[0] != '\0' ? text : stn_comm_error_text(context->comm);
}

/* Every rank takes part, also one that has kept an error, because the others cannot know of it. Only a rank whose queue is broken cannot take
 * part; it has aborted the family. */
stn_status stn_agree(stn_context *context, stn_status status, const char *text)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    if (context->closed)
        return context->error.status;
    struct stni_error report;
    stni_context_sync(context);
    gather_report(context, status, text, &report);
    status = agree(context, &report);
    if (status != STN_OK && context->error.status == STN_OK)
        stni_fail_rank(context, status, "agree: %s", failure_text(context));
    return status;
}

static stn_status exchange_least(stn_context *context, int64_t *numbers, int n)
{
    void *buffer = context->agree_buffer;
    const size_t bytes = (size_t)n * sizeof *numbers;
    STNI_TRY(copy_and_wait(context, buffer, numbers, bytes, STNI_COPY_TO_DEVICE));
    STNI_TRY(stni_comm_all_reduce(context->comm, context->queue, buffer, buffer, n, STN_DTYPE_I64, STN_MIN));
    return copy_and_wait(context, numbers, buffer, bytes, STNI_COPY_TO_HOST);
}

stn_status stni_agree_least(stn_context *context, int64_t *numbers, int n)
{
    STNI_TRY(stni_context_sync(context));
    const stn_status status = context->size > 1 ? exchange_least(context, numbers, n) : STN_OK;
    return status == STN_OK ? STN_OK : stni_fail_rank(context, status, "agree: %s", failure_text(context));
}
