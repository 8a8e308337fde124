/* The last calls of a rank, from the rings of its communicators: the world's, then those of groups of ranks. */
#include "core/context.h"
#include "core/shard/group.h"

static void log_line(void *arg, const char *text)
{
    stni_log(arg, STN_LOG_INFO, "%s", text);
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
