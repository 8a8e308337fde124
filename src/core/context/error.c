/* The kept failure of a context: reading and taking it, the queue's failures, values out of range, abort. */
#include "core/context/context.h"

#include <stdio.h>

stn_status stn_context_status(const stn_context *context)
{
    return context == NULL ? STN_ERR_ARGUMENT : context->error.status;
}

const char *stn_context_error_text(const stn_context *context)
{
    return context == NULL ? "" : context->error.text;
}

stn_status stni_context_check_out(stn_context *context, const char *function, const void *out)
{
    return out != NULL
               ? STN_OK
               : stni_fail(context, STN_ERR_ARGUMENT, "%s: out got NULL, wanted where to put the result", function);
}

stn_status stni_context_take_status(stn_context *context)
{
    stn_status status = context->error.status;
    if (context->closed)
        return status;
    context->error.status = STN_OK;
    context->error_agreed = 0;
    context->capture_lost |= status != STN_OK;
    if (status != STN_OK && atomic_load_explicit(&context->queue->failed, memory_order_relaxed) != STN_OK)
        stni_queue_recover(context->queue);
    return status;
}

stn_status stn_context_take_error(stn_context *context, char *text, size_t size)
{
    stn_status status = context == NULL ? STN_ERR_ARGUMENT : stni_context_take_status(context);
    if (text != NULL && size > 0)
        snprintf(text, size, "%s", status == STN_OK ? "" : stn_context_error_text(context));
    if (context != NULL && !context->closed)
        context->error.text[0] = '\0';
    return status;
}

/* Failures that abort the family where they are met: who finds one kept takes peers for told. */
static int is_told_when_met(stn_status status)
{
    return status == STN_ERR_MEMORY || status == STN_ERR_DEVICE || status == STN_ERR_COMM || status == STN_ERR_PEER ||
           status == STN_ERR_TIMEOUT;
}

stn_status stn_context_fail(stn_context *context, stn_status status, const char *text)
{
    if (context == NULL || status <= STN_OK || status >= STN_STATUS_COUNT)
        return STN_ERR_ARGUMENT;
    if (context->closed)
        return STN_ERR_STATE;
    stni_fail(context, is_told_when_met(status) ? STN_ERR_CALLBACK : status, "%s",
              text != NULL ? text : stn_status_text(status));
    return context->error.status;
}

stn_status stni_context_sync(stn_context *context, stn_sync_reason reason)
{
    stn_queue *queue = context->queue;
    stn_status status = queue->immediate ? (stn_status)atomic_load_explicit(&queue->failed, memory_order_relaxed)
                                         : stni_queue_sync_for(queue, reason);
    if (context->error.status == STN_OK)
        stni_fail_queue(context, status);
    return context->error.status;
}

stn_status stni_context_not_captured(stn_context *context, const char *what, const char *why)
{
    if (context->capture == NULL)
        return STN_OK;
    STNI_TRY(context->error.status);
    stni_fail(context, STN_ERR_STATE, "%s: not in a captured step, %s", what, why);
    context->error_agreed = 1;
    return STN_ERR_STATE;
}

void stni_context_tell_refusal(stn_context *context)
{
    const struct stni_refused_calls *refused = &context->refused_calls;
    if (refused->last.status != STN_OK && refused->behind == context->comm_stats.collectives)
        stni_context_abort(context, refused->last.status, refused->last.text);
}

void stni_context_leave(stn_context *context, stn_status status, const char *text)
{
    if (context->comm != NULL)
        stni_comm_leave(context->comm, status, text);
}

void stni_context_abort(stn_context *context, stn_status status, const char *text)
{
    if (context->comm != NULL)
        stni_comm_abort(context->comm, status, text);
}
