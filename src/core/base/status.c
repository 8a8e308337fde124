/* Failing: one list gives the texts, and the first message of a context is kept. */
#include "core/base/status.h"

#include "core/context/context.h"

#include <stdio.h>

#define STATUS_TEXT(name, text) [name] = text,
static const char *const texts[STN_STATUS_COUNT] = {STN_STATUS_LIST(STATUS_TEXT)};

const char *stn_status_text(stn_status status)
{
    unsigned at = (unsigned)status;
    return at < STN_STATUS_COUNT ? texts[at] : "unknown status";
}

stn_status stni_error_set_v(struct stni_error *error, stn_status status, const char *format, va_list args)
{
    if (error == NULL || error->status != STN_OK)
        return status;
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, args);
    return status;
}

stn_status stni_error_set(struct stni_error *error, stn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    stni_error_set_v(error, status, format, args);
    va_end(args);
    return status;
}

stn_status stni_fail(stn_context *context, stn_status status, const char *format, ...)
{
    va_list args;
    if (context->error.status != STN_OK)
        return status;
    va_start(args, format);
    stni_error_set_v(&context->error, status, format, args);
    va_end(args);
    context->all_know = STN_OK;
    stni_log(context, STN_LOG_DEBUG, "%s: %s", stn_status_text(status), context->error.text);
    return status;
}

stn_status stni_fail_rank(stn_context *context, stn_status status, const char *format, ...)
{
    struct stni_error own = {.status = STN_OK};
    va_list args;
    va_start(args, format);
    stni_error_set_v(&own, status, format, args);
    va_end(args);
    stni_fail(context, status, "%s", own.text);
    /* A peer that failed has told every rank by itself. */
    if (status == STN_ERR_PEER)
        return status;
    stni_log(context, STN_LOG_ERROR, "%s: %s", stn_status_text(status), own.text);
    if (context->size > 1)
        stni_context_abort(context, status, own.text);
    return status;
}

stn_status stni_fail_queue(stn_context *context, stn_status status)
{
    if (status == STN_OK)
        return STN_OK;
    const char *text = stn_queue_error_text(context->queue);
    return stni_fail_rank(context, status, "%s", text[0] != '\0' ? text : stn_status_text(status));
}

stn_status stni_fail_memory(stn_context *context, const char *what, size_t bytes)
{
    return stni_fail_rank(context, STN_ERR_MEMORY, "out of memory: %s (%zu bytes)", what, bytes);
}
