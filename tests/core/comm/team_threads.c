#include "team.h"

#include "core/comm/threads/threads.h"

void team_run_hooked(int n, double deadline_seconds, const struct stni_thread_hook *hook, team_body body, void *arg)
{
    stn_comm **comms = calloc((size_t)n, sizeof *comms);
    if (!CHECK_STATUS(stni_comm_create_threads(n, deadline_seconds, comms), STN_OK))
        return;
    if (hook)
        ((struct stni_thread_member *)comms[0]->impl)->group->family->hook = *hook;
    team_run_on(n, comms, body, arg);
    free(comms);
}
