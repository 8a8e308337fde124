/* The last calls of a rank, from the rings of its communicators, and the failure of one: the world's, then those of
 * groups of ranks. */
#include "core/context/context.h"
#include "core/shard/group.h"

static void log_line(void *arg, const char *text)
{
    stni_log(arg, STN_LOG_INFO, "%s", text);
}

const char *stni_context_failure_text(const stn_context *context, stn_status status)
{
    const char *text = stn_queue_error_text(context->queue);
    if (text[0] != '\0')
        return text;
    if (context->comm != NULL && context->comm->error.status == status)
        return context->comm->error.text;
    for (const struct stni_group_comm *group = context->shard.groups; group != NULL; group = group->hh.next)
        if (group->comm != NULL && group->comm->error.status == status)
            return group->comm->error.text;
    return stn_status_text(status);
}

void stn_context_dump_calls(stn_context *context)
{
    if (context == NULL || context->closed)
        return;
    stni_log(context, STN_LOG_INFO, "calls on the world, %d ranks", context->size);
    stni_comm_dump_calls(context->comm, log_line, context);
    for (const struct stni_group_comm *group = context->shard.groups; group != NULL; group = group->hh.next) {
        stni_log(context, STN_LOG_INFO, "calls on %d ranks, from rank %d on", group->n, group->ranks[0]);
        stni_comm_dump_calls(group->comm, log_line, context);
    }
}
