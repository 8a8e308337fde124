/* Making NCCL's communicators: the ranks meet over their control, and all of them make one or none does. */
#include "core/comm/nccl/family.h"

#include "core/device/cuda/known_kernels.h"
#include "core/device/cuda/module.h"

#include <stdio.h>
#include <stdlib.h>

struct report {
    int32_t status;
    char text[STNI_ERROR_TEXT];
};

static stn_status control_failed(stn_comm *control, stn_status status, struct stni_error *error)
{
    return stni_nccl_say(error, status, "control: %s", stni_cuda_host()->comm->error_text(control));
}

stn_status stni_nccl_agree(stn_comm *control, stn_status status, struct stni_error *error)
{
    const stn_host_comm *hosts = stni_cuda_host()->comm;
    const int rank = hosts->rank(control);
    int64_t first = status == STN_OK ? INT64_MAX : rank;
    struct report report = {.status = (int32_t)status};
    stn_status agreed = hosts->agree(control, &first, 1, STN_MIN);
    if (agreed != STN_OK)
        return control_failed(control, agreed, error);
    if (first == INT64_MAX)
        return STN_OK;
    if (first == rank)
        snprintf(report.text, sizeof report.text, "%s", error->text);
    agreed = hosts->agree_broadcast(control, &report, sizeof report, (int)first);
    if (agreed != STN_OK)
        return control_failed(control, agreed, error);
    return first == rank ? status
                         : stni_nccl_say(error, (stn_status)report.status, "rank %d: %s", (int)first, report.text);
}

static ncclConfig_t config_for(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}

/* The member's from now on, unless the family has failed. With `calls` held. */
static stn_status take(struct stni_nccl_member *m, ncclComm_t made, stn_status status)
{
    if (status == STN_OK)
        m->comm = made;
    else if (made)
        stni_nccl()->ncclCommAbort(made);
    return status;
}

/* Rank 0's name for the communicator, on every rank. */
static stn_status share_id(struct stni_nccl_member *m, ncclUniqueId *id, struct stni_error *error)
{
    const ncclResult_t answer = m->rank == 0 ? stni_nccl()->ncclGetUniqueId(id) : ncclSuccess;
    stn_status status = STN_OK;
    if (answer != ncclSuccess)
        status = stni_nccl_say(error, STN_ERR_COMM, "ncclGetUniqueId: NCCL answers \"%s\"",
                               stni_nccl()->ncclGetErrorString(answer));
    STNI_TRY(stni_nccl_agree(m->control, status, error));
    status = stni_cuda_host()->comm->agree_broadcast(m->control, id, sizeof *id, 0);
    return status == STN_OK ? STN_OK : control_failed(m->control, status, error);
}

static stn_status make_anew(struct stni_nccl_member *m, struct stni_error *error)
{
    ncclUniqueId id = {{0}};
    ncclConfig_t config = config_for();
    ncclComm_t made = NULL;
    STNI_TRY(share_id(m, &id, error));
    pthread_mutex_lock(&m->family->calls);
    const ncclResult_t answer = stni_nccl()->ncclCommInitRankConfig(&made, m->size, id, m->rank, &config);
    stn_status status = stni_nccl_await(m, error, "ncclCommInitRankConfig", made, answer);
    status = take(m, made, status);
    pthread_mutex_unlock(&m->family->calls);
    return status;
}

/* A refusal is no failure. While the split is in progress its state is the new communicator's, or the old one's
 * until there is a new one. */
static int has_split(struct stni_nccl_member *m, ncclComm_t from, ncclComm_t *made)
{
    ncclConfig_t config = config_for();
    ncclResult_t answer = stni_nccl()->ncclCommSplit(from, 0, m->rank, made, &config);
    if (answer != ncclSuccess && answer != ncclInProgress)
        return 0;
    struct stni_error late;
    return stni_nccl_await(m, &late, "ncclCommSplit", *made ? *made : from, answer) == STN_OK;
}

/* A thread of NCCL's writes the new communicator where it was told to, at its end. Where that did not come in time the
 * place stays for it, for good. */
static int split_into(struct stni_nccl_member *m, ncclComm_t from, ncclComm_t *made)
{
    ncclComm_t *place = calloc(1, sizeof *place);
    if (!place)
        return 0;
    pthread_mutex_lock(&m->family->calls);
    const int has = has_split(m, from, place);
    pthread_mutex_unlock(&m->family->calls);
    *made = *place;
    if (*made || !atomic_load(&m->family->aborted))
        free(place);
    return has;
}

/* The caller's communicator is asked for another one of its ranks; `*split` is 1 where all ranks got it. */
static stn_status try_split(struct stni_nccl_member *m, ncclComm_t from, int *split, struct stni_error *error)
{
    ncclComm_t made = NULL;
    const int has = split_into(m, from, &made);
    if (atomic_load(&m->family->aborted)) {
        stni_nccl_fail_aborted(m, error);
        return take(m, made, error->status);
    }
    int64_t all = has;
    const stn_status status = stni_cuda_host()->comm->agree(m->control, &all, 1, STN_MIN);
    *split = status == STN_OK && all;
    take(m, made, *split ? STN_OK : STN_ERR_COMM);
    return status == STN_OK ? STN_OK : control_failed(m->control, status, error);
}

stn_status stni_nccl_make(struct stni_nccl_member *m, ncclComm_t from, struct stni_error *error)
{
    int split = 0;
    const int before = stni_nccl_enter(m->device);
    if (stni_cuda_has_machine_code(m->device)) /* to compile all PTX would take minutes */
        stni_cuda_load_kernels();              /* NCCL loads its own */
    stn_status status = from ? try_split(m, from, &split, error) : STN_OK;
    if (status == STN_OK && !split)
        status = make_anew(m, error);
    stni_nccl_leave(m->device, before);
    return status;
}
