/* Families and their members: making and ending this rank's ends. */
#include "core/comm/nccl/family.h"

#include "core/device/cuda/module.h"

#include <stdlib.h>

/* The stream of the highest priority: what waits for others should begin first. */
static cudaError_t create_stream(int device, cudaStream_t *out)
{
    int least = 0, greatest = 0;
    const int before = stni_nccl_enter(device);
    cudaError_t answer = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (answer == cudaSuccess)
        answer = cudaStreamCreateWithPriority(out, cudaStreamNonBlocking, greatest);
    stni_nccl_leave(device, before);
    return answer;
}

static void add_member(struct stni_nccl_family *family, struct stni_nccl_member *m)
{
    pthread_mutex_lock(&family->calls);
    pthread_mutex_lock(&family->lock);
    m->next = family->members;
    family->members = m;
    family->refs++;
    pthread_mutex_unlock(&family->lock);
    pthread_mutex_unlock(&family->calls);
}

stn_status stni_nccl_member_create(struct stni_nccl_family *family, stn_comm *control, int device, double deadline,
                                   struct stni_nccl_member **out, struct stni_error *error)
{
    const stn_host_comm *hosts = stni_cuda_host()->comm;
    struct stni_nccl_member *m = calloc(1, sizeof *m);
    if (!m)
        return stni_nccl_say(error, STN_ERR_MEMORY, "out of memory: a communicator of NCCL");
    *m = (struct stni_nccl_member){.family = family, .control = control, .rank = hosts->rank(control), .size = hosts->ranks(control),
                                   .device = device, .deadline = deadline};
    const cudaError_t answer = create_stream(device, &m->stream);
    if (answer != cudaSuccess) {
        free(m);
        return stni_nccl_say(error, STN_ERR_DEVICE, "no stream on CUDA device %d: %s", device,
                             cudaGetErrorString(answer));
    }
    add_member(family, m);
    *out = m;
    return STN_OK;
}

/* Whether the GPU is done with what the member has put there. */
static int is_quiet(struct stni_nccl_member *m)
{
    pthread_mutex_lock(&m->family->lock);
    stni_nccl_retire(m);
    const int quiet = m->first == NULL;
    pthread_mutex_unlock(&m->family->lock);
    return quiet;
}

/* How long NCCL's communicator may take to end. One with graphs stays as long as they do; where it is not even quiet,
 * ranks are lost, for which it does not wait. */
static int64_t patience_of(struct stni_nccl_member *m, int has_graphs)
{
    const int64_t begun = stni_nccl_now();
    const atomic_int *aborted = &m->family->aborted;
    for (int polls = 0; has_graphs && !is_quiet(m) && !atomic_load(aborted); polls++) {
        if (stni_nccl_now() - begun > STNI_NCCL_LEAVING)
            return 0;
        stni_nccl_pause(polls);
    }
    return atomic_load(aborted) ? 0 : has_graphs ? STNI_NCCL_FOREVER : STNI_NCCL_LEAVING;
}

static int has_graphs(struct stni_nccl_member *m)
{
    pthread_mutex_lock(&m->family->lock);
    const int has = stni_nccl_is_recorded(m);
    pthread_mutex_unlock(&m->family->lock);
    return has;
}

static ncclComm_t take_comm(struct stni_nccl_member *m)
{
    pthread_mutex_lock(&m->family->calls);
    ncclComm_t comm = m->comm;
    m->comm = NULL;
    pthread_mutex_unlock(&m->family->calls);
    return comm;
}

static void remove_member(struct stni_nccl_member *m)
{
    struct stni_nccl_family *family = m->family;
    pthread_mutex_lock(&family->calls);
    pthread_mutex_lock(&family->lock);
    struct stni_nccl_member **link = &family->members;
    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
    family->refs--;
    stni_nccl_leave_recorded(m);
    pthread_mutex_unlock(&family->lock);
    pthread_mutex_unlock(&family->calls);
}

/* Before the member goes, whose watch finds what hangs. */
static void end_communicator(struct stni_nccl_member *m)
{
    const int graphs = has_graphs(m);
    const int64_t patience = patience_of(m, graphs);
    ncclComm_t comm = take_comm(m);
    remove_member(m);
    if (comm && graphs)
        stni_nccl_end_apart(comm, m->device, patience, 1);
    else if (comm)
        stni_nccl_end_here(comm, m->device, patience);
}

static void free_watched(struct stni_nccl_watched *list)
{
    while (list) {
        struct stni_nccl_watched *next = list->next;
        cudaEventSynchronize(list->end); /* a launch writes marks until then */
        stni_nccl_watched_free(list);
        list = next;
    }
}

static void family_end(struct stni_nccl_family *family)
{
    stni_nccl_watch_end(family);
    stni_nccl_await_ends();
    stni_cuda_host()->comm->destroy(&family->alarm);
    pthread_cond_destroy(&family->moved);
    pthread_mutex_destroy(&family->lock);
    pthread_mutex_destroy(&family->calls);
    free(family);
}

void stni_nccl_member_destroy(struct stni_nccl_member *m, int keeps)
{
    struct stni_nccl_family *family = m->family;
    const int before = stni_nccl_enter(m->device);
    end_communicator(m);
    cudaStreamSynchronize(m->stream); /* nothing that hangs is left on it */
    free_watched(m->first);
    free_watched(m->spare);
    cudaStreamDestroy(m->stream);
    if (m->progress)
        cudaFreeHost((void *)m->progress);
    stni_nccl_leave(m->device, before);
    if (!keeps)
        stni_cuda_host()->comm->destroy(&m->control);
    free(m);
    if (family->refs == 0)
        family_end(family);
}

/* The numbers of all ranks; NULL without memory. */
static int *ranks_of(const stn_comm *control)
{
    const int n = stni_cuda_host()->comm->ranks(control);
    int *all = malloc((size_t)n * sizeof *all);
    for (int r = 0; all && r < n; r++)
        all[r] = r;
    return all;
}

static stn_status open_alarm(struct stni_nccl_family *family, stn_comm *control, const int *ranks,
                             struct stni_error *error)
{
    const stn_host_comm *hosts = stni_cuda_host()->comm;
    const stn_status status = hosts->subset(control, ranks, hosts->ranks(control), &family->alarm);
    return status == STN_OK ? STN_OK : stni_nccl_say(error, status, "control: %s", hosts->error_text(control));
}

static struct stni_nccl_family *family_alloc(void)
{
    struct stni_nccl_family *family = calloc(1, sizeof *family);
    pthread_condattr_t clock;
    if (!family)
        return NULL;
    pthread_mutex_init(&family->calls, NULL);
    pthread_mutex_init(&family->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&family->moved, &clock);
    pthread_condattr_destroy(&clock);
    return family;
}

static stn_status begin(struct stni_nccl_family *family, stn_comm *control, const int *ranks, int device,
                        double deadline, struct stni_nccl_member **out, struct stni_error *error)
{
    family->device = device;
    STNI_TRY(open_alarm(family, control, ranks, error));
    STNI_TRY(stni_nccl_member_create(family, control, device, deadline, out, error));
    if (stni_nccl_watch_begin(family) == STN_OK)
        return STN_OK;
    return stni_nccl_say(error, STN_ERR_MEMORY, "no thread to watch over a communicator of NCCL");
}

stn_status stni_nccl_family_create(stn_comm *control, int device, double deadline, struct stni_nccl_member **out,
                                   struct stni_error *error)
{
    struct stni_nccl_family *family = family_alloc();
    int *ranks = ranks_of(control);
    struct stni_nccl_member *made = NULL;
    stn_status status = STN_OK;
    if (!family || !ranks)
        status = stni_nccl_say(error, STN_ERR_MEMORY, "out of memory: a communicator of NCCL");
    status = stni_nccl_agree(control, status, error);
    if (status == STN_OK)
        status = stni_nccl_agree(control, begin(family, control, ranks, device, deadline, &made, error), error);
    free(ranks);
    if (status == STN_OK)
        *out = made;
    else if (made)
        stni_nccl_member_destroy(made, 1);
    else if (family)
        family_end(family);
    return status;
}
