/* Ending NCCL's communicators. A call that ends one may wait for what others have to do first: an abort for the
 * communicator's own work on the GPU, which may stand behind that of another one that is still to be aborted; an abort
 * and a finalize for graphs of its collectives, which may live as long as they like. */
#include "core/comm/nccl/family.h"

#include "core/device/cuda/library.h"

#include <stdlib.h>
#include <unistd.h>

enum { PAUSE = 200, MOST_PAUSE = 20000 /* microseconds between two looks */ };

struct ending {
    ncclComm_t comm;
    int device;
    int64_t patience;
    atomic_int *count; /* of those that wait for no graph; NULL: this one may */
};

static atomic_int under_way;

/* What is quiet on all ranks: NCCL waits for theirs. */
static ncclResult_t finalize(const struct ending *e)
{
    const struct stni_nccl_library *nccl = stni_nccl();
    const int64_t begun = stni_nccl_now();
    ncclResult_t answer = nccl->ncclCommFinalize(e->comm);
    for (useconds_t pause = PAUSE; answer == ncclInProgress; pause += pause < MOST_PAUSE ? pause / 4 : 0) {
        ncclResult_t state = ncclInProgress;
        if (e->patience != STNI_NCCL_FOREVER && stni_nccl_now() - begun > e->patience)
            break;
        usleep(pause);
        answer = nccl->ncclCommGetAsyncError(e->comm, &state);
        answer = answer == ncclSuccess ? state : answer;
    }
    return answer;
}

static void end(const struct ending *e)
{
    const int before = stni_nccl_enter(e->device);
    if (e->patience != 0 && finalize(e) == ncclSuccess)
        stni_nccl()->ncclCommDestroy(e->comm);
    else
        stni_nccl()->ncclCommAbort(e->comm);
    stni_nccl_leave(e->device, before);
}

void stni_nccl_end_here(ncclComm_t comm, int device, int64_t patience)
{
    end(&(struct ending){.comm = comm, .device = device, .patience = patience});
}

/* NCCL frees memory, which would end what another thread records. */
static void *run(void *arg)
{
    struct ending *e = arg;
    stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    end(e);
    if (e->count)
        atomic_fetch_sub(e->count, 1);
    free(e);
    return NULL;
}

void stni_nccl_end_apart(ncclComm_t comm, int device, int64_t patience, int has_graphs)
{
    struct ending *e = malloc(sizeof *e);
    pthread_t thread;
    if (e)
        *e = (struct ending){comm, device, patience, has_graphs ? NULL : &under_way};
    if (e && e->count)
        atomic_fetch_add(e->count, 1);
    if (e && pthread_create(&thread, NULL, run, e) == 0) {
        pthread_detach(thread);
        return;
    }
    if (e && e->count)
        atomic_fetch_sub(e->count, 1);
    free(e);
    stni_nccl_end_here(comm, device, patience);
}

void stni_nccl_await_ends(void)
{
    const int64_t begun = stni_nccl_now();
    while (atomic_load(&under_way) > 0 && stni_nccl_now() - begun < STNI_NCCL_LEAVING)
        usleep(PAUSE);
}
