/* Ranks of a job on CUDA devices. */
#include "core/job/job.h"

#include "core/context/foreign.h"

#include <shardtensor/nccl.h>

#include <stdio.h>
#include <string.h>

void stni_world_use_nccl(const stn_launch_options *options, stn_comm **comm, struct stni_error *error)
{
    const stn_context_options *context = &options->context;
    unsigned without = 0;
    int ordinal = 0;
    char why[STNI_ERROR_TEXT] = "";
    if (!context->device || strncmp(context->device, "cuda", 4) != 0 || stn_comm_size(*comm) == 1 ||
        stni_foreign_read(context->without, &without, NULL) != STN_OK || without >> STNI_LIBRARY_NCCL & 1)
        return; /* what is wrong with the options, the context says */
    const stn_nccl_options how = {.size = sizeof how,
                                  .module_path = context->module_path,
                                  .has_device = sscanf(context->device, "cuda:%d", &ordinal) == 1,
                                  .device = ordinal,
                                  .deadline_seconds = context->deadline_seconds,
                                  .error_text = why,
                                  .error_text_size = sizeof why};
    stn_comm *made = NULL;
    const stn_status status = stn_comm_create_nccl(*comm, &how, &made);
    if (status == STN_OK)
        *comm = made;
    else if (status != STN_ERR_NOT_FOUND && status != STN_ERR_VERSION)
        stni_error_set(error, status, "stn_launch: %s", why);
    else if (context->log && context->log_level >= STN_LOG_WARNING)
        context->log(context->log_arg, STN_LOG_WARNING, stn_comm_rank(*comm), why);
}
