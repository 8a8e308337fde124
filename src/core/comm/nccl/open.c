/* The communicator's table, and how it is opened: by the words "nccl control=ADDRESS comm=ADDRESS device=INDEX
 * deadline=SECONDS rank_order=0|1", which shardtensor/nccl.h writes. */
#include "core/comm/nccl/family.h"

#include "core/device/cuda/module.h"

#include "core/comm/comm.h"

#include <stdio.h>

static const stn_host_comm *hosts(void)
{
    return stni_cuda_host()->comm;
}

static stn_status run(void *impl, stn_queue *queue, const struct stni_coll *coll)
{
    struct stni_error error;
    const stn_status status = stni_nccl_run(impl, queue, coll, &error);
    return status == STN_OK ? STN_OK : stni_cuda_host()->queue_fail(queue, status, "%s", error.text);
}

/* What NCCL is not asked for the library builds of groups, in the order of ranks: it is told so before anything has
 * begun. */
static stn_status run_reduction(void *impl, stn_queue *queue, const struct stni_coll *coll)
{
    return stni_nccl_reduces(impl, coll->dtype, coll->op) ? run(impl, queue, coll) : STN_ERR_UNSUPPORTED;
}

static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op)
{
    const struct stni_coll coll = {
        .kind = STNI_COLL_ALL_REDUCE, .dtype = dtype, .op = op, .count = count, .send = send, .recv = recv};
    return run_reduction(impl, queue, &coll);
}

static stn_status reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                         stn_reduce_op op, int root)
{
    const struct stni_coll coll = {
        .kind = STNI_COLL_REDUCE, .dtype = dtype, .op = op, .root = root, .count = count, .send = send, .recv = recv};
    return run_reduction(impl, queue, &coll);
}

static int64_t sum_of(const struct stni_nccl_member *m, const int64_t *counts)
{
    int64_t sum = 0;
    for (int r = 0; r < m->size; r++)
        sum += counts[r];
    return sum;
}

static stn_status all_gather(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                             stn_dtype dtype)
{
    const struct stni_coll coll = {.kind = STNI_COLL_ALL_GATHER,
                                   .dtype = dtype,
                                   .count = sum_of(impl, counts),
                                   .send = send,
                                   .recv = recv,
                                   .counts = counts};
    return run(impl, queue, &coll);
}

static stn_status reduce_scatter(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                                 stn_dtype dtype, stn_reduce_op op)
{
    const struct stni_coll coll = {.kind = STNI_COLL_REDUCE_SCATTER,
                                   .dtype = dtype,
                                   .op = op,
                                   .count = sum_of(impl, counts),
                                   .send = send,
                                   .recv = recv,
                                   .counts = counts};
    return run_reduction(impl, queue, &coll);
}

static stn_status broadcast(void *impl, stn_queue *queue, void *buffer, int64_t count, stn_dtype dtype, int root)
{
    const struct stni_coll coll = {
        .kind = STNI_COLL_BROADCAST, .dtype = dtype, .root = root, .count = count, .send = buffer, .recv = buffer};
    return run(impl, queue, &coll);
}

static stn_status group(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    const struct stni_coll coll = {.kind = STNI_COLL_GROUP, .dtype = messages->dtype, .messages = messages};
    return run(impl, queue, &coll);
}

/* What the control has answered to this rank's host. */
static stn_status answered(struct stni_nccl_member *m, stn_queue *queue, const char *call, stn_status status)
{
    struct stni_error error;
    if (status == STN_OK)
        return STN_OK;
    stni_nccl_fail_control(m, &error, call, status);
    return stni_cuda_host()->queue_fail(queue, error.status, "%s", error.text);
}

static stn_status refuse_aborted(struct stni_nccl_member *m, stn_queue *queue)
{
    struct stni_error error;
    if (!atomic_load(&m->family->aborted))
        return STN_OK;
    stni_nccl_fail_aborted(m, &error);
    return stni_cuda_host()->queue_fail(queue, error.status, "%s", error.text);
}

static stn_status agree(void *impl, stn_queue *queue, int64_t *words, int n, stn_reduce_op op)
{
    struct stni_nccl_member *m = impl;
    STNI_TRY(refuse_aborted(m, queue));
    return answered(m, queue, "agreement", hosts()->agree(m->control, words, n, op));
}

static stn_status agree_broadcast(void *impl, stn_queue *queue, void *bytes, size_t n, int root)
{
    struct stni_nccl_member *m = impl;
    STNI_TRY(refuse_aborted(m, queue));
    return answered(m, queue, "agreement", hosts()->agree_broadcast(m->control, bytes, n, root));
}

/* Of hosts: what is on their queues goes on. */
static stn_status barrier(void *impl, stn_queue *queue)
{
    int64_t nothing = 0;
    return agree(impl, queue, &nothing, 1, STN_MAX);
}

static stn_status make_subset(struct stni_nccl_member *m, const int *ranks, int n, struct stni_nccl_member **out,
                              struct stni_error *error)
{
    stn_comm *control = NULL;
    stn_status status = hosts()->subset(m->control, ranks, n, &control);
    if (status != STN_OK)
        return stni_nccl_fail_control(m, error, "subset", status);
    status = stni_nccl_member_create(m->family, control, m->device, m->deadline, out, error);
    status = stni_nccl_agree(control, status, error);
    if (status == STN_OK) {
        (*out)->rank_order = m->rank_order;
        status = stni_nccl_make(*out, NULL, error);
    }
    if (status == STN_OK)
        return STN_OK;
    if (*out)
        stni_nccl_member_destroy(*out, 1);
    hosts()->destroy(&control);
    return stni_nccl_fail(m, error, status, "subset: %s", error->text);
}

/* Called by its own ranks alone, while a split of NCCL's wants all of the parent's: it is made anew, from a name
 * that they pass on. */
static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    struct stni_nccl_member *m = impl, *made = NULL;
    struct stni_error error;
    STNI_TRY(refuse_aborted(m, queue));
    const stn_status status = make_subset(m, ranks, n_ranks, &made, &error);
    if (status != STN_OK)
        return stni_cuda_host()->queue_fail(queue, status, "%s", error.text);
    *out = made;
    return STN_OK;
}

static void abort_all(void *impl, stn_status status, const char *text)
{
    stni_nccl_abort(((struct stni_nccl_member *)impl)->family, status, text, 1);
}

static void destroy(void *impl)
{
    stni_nccl_member_destroy(impl, 0);
}

static void set_deadline(void *impl, double seconds)
{
    struct stni_nccl_member *m = impl;
    pthread_mutex_lock(&m->family->lock);
    m->deadline = seconds;
    pthread_mutex_unlock(&m->family->lock);
    hosts()->set_deadline(m->control, seconds);
}

/* The network and the copies of a few of the GPU's blocks move data; the host has gone on. */
static int beside(void *impl)
{
    (void)impl;
    return 1;
}

/* gather, scatter, all_to_all and exchange are the library's own, of groups. */
const stn_comm_ops stni_nccl_ops = {
    .size = sizeof stni_nccl_ops,
    .name = "nccl",
    .all_reduce = all_reduce,
    .reduce = reduce,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .broadcast = broadcast,
    .group = group,
    .barrier = barrier,
    .subset = subset,
    .abort = abort_all,
    .destroy = destroy,
    .set_deadline = set_deadline,
    .agree = agree,
    .agree_broadcast = agree_broadcast,
    .beside = beside,
    .records = 1,
};

struct wish {
    stn_comm *control;
    ncclComm_t from;
    int device; /* negative: the rank's turn */
    double deadline;
    int rank_order;
};

static stn_status parse(const char *text, struct wish *wish, struct stni_error *error)
{
    unsigned long long control = 0, from = 0;
    if (!text ||
        sscanf(text, "nccl control=%llu comm=%llu device=%d deadline=%lf rank_order=%d", &control, &from, &wish->device,
               &wish->deadline, &wish->rank_order) != 5 ||
        !control)
        return stni_nccl_say(error, STN_ERR_ARGUMENT, "options got \"%s\", wanted those of shardtensor/nccl.h",
                             text ? text : "");
    wish->control = (stn_comm *)(uintptr_t)control;
    wish->from = (ncclComm_t)(uintptr_t)from;
    if (wish->deadline >= 0 && wish->deadline <= 0)
        wish->deadline = STNI_DEADLINE_SECONDS;
    return STN_OK;
}

/* The caller's communicator has to be one of the control's ranks; its device is the rank's. */
static stn_status check_caller(struct wish *wish, struct stni_error *error)
{
    int rank = -1, size = -1, device = -1;
    const int want_rank = hosts()->rank(wish->control), want_size = hosts()->ranks(wish->control);
    ncclResult_t answer = stni_nccl()->ncclCommCount(wish->from, &size);
    if (answer == ncclSuccess)
        answer = stni_nccl()->ncclCommUserRank(wish->from, &rank);
    if (answer == ncclSuccess)
        answer = stni_nccl()->ncclCommCuDevice(wish->from, &device);
    if (answer != ncclSuccess)
        return stni_nccl_say(error, STN_ERR_ARGUMENT, "comm got one of which NCCL says \"%s\"",
                             stni_nccl()->ncclGetErrorString(answer));
    if (rank != want_rank || size != want_size)
        return stni_nccl_say(error, STN_ERR_ARGUMENT, "comm got rank %d of %d, wanted %d of %d, the control's", rank,
                             size, want_rank, want_size);
    if (wish->device >= 0 && wish->device != device)
        return stni_nccl_say(error, STN_ERR_ARGUMENT, "device got %d, wanted %d, the communicator's", wish->device,
                             device);
    wish->device = device;
    return STN_OK;
}

static stn_status check_device(struct wish *wish, struct stni_error *error)
{
    int count = 0;
    const cudaError_t answer = cudaGetDeviceCount(&count);
    if (answer != cudaSuccess || count < 1) {
        cudaGetLastError();
        return stni_nccl_say(error, STN_ERR_DEVICE, "%s", cudaGetErrorString(answer));
    }
    if (wish->device < 0)
        wish->device = hosts()->rank(wish->control) % count;
    if (wish->device >= count)
        return stni_nccl_say(error, STN_ERR_DEVICE, "device got %d, wanted less than %d, the number of CUDA devices",
                             wish->device, count);
    return STN_OK;
}

static stn_status prepare(struct wish *wish, struct stni_error *error)
{
    STNI_TRY(stni_nccl_load(error));
    if (wish->from)
        STNI_TRY(check_caller(wish, error));
    return check_device(wish, error);
}

/* What all ranks have to pass alike. */
static stn_status compare(const struct wish *wish, struct stni_error *error)
{
    const int64_t choice = wish->rank_order + 2 * (wish->from != NULL);
    int64_t ends[2] = {choice, -choice};
    const stn_status status = hosts()->agree(wish->control, ends, 2, STN_MIN);
    if (status != STN_OK)
        return stni_nccl_say(error, status, "control: %s", hosts()->error_text(wish->control));
    if (ends[0] == -ends[1])
        return STN_OK;
    return stni_nccl_say(error, STN_ERR_MISMATCH, "ranks differ in rank_order, or in whether they pass an ncclComm_t");
}

static stn_status make(struct wish *wish, struct stni_nccl_member **out, struct stni_error *error)
{
    struct stni_nccl_member *made;
    STNI_TRY(stni_nccl_family_create(wish->control, wish->device, wish->deadline, &made, error));
    made->rank_order = wish->rank_order;
    const stn_status status = stni_nccl_make(made, wish->from, error);
    if (status == STN_OK)
        *out = made;
    else
        stni_nccl_member_destroy(made, 1);
    return status;
}

static stn_status open_world(const char *options, struct stni_nccl_member **out, struct stni_error *error)
{
    struct wish wish = {0};
    STNI_TRY(parse(options, &wish, error));
    hosts()->set_deadline(wish.control, wish.deadline);
    STNI_TRY(compare(&wish, error));
    STNI_TRY(stni_nccl_agree(wish.control, prepare(&wish, error), error));
    return make(&wish, out, error);
}

stn_status stni_cuda_comm_join(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size,
                               char *text, size_t text_size)
{
    struct stni_nccl_member *member = NULL;
    struct stni_error error = {0};
    const stn_status status = open_world(options, &member, &error);
    if (status != STN_OK) {
        snprintf(text, text_size, "%s", error.text);
        return status;
    }
    *ops = &stni_nccl_ops;
    *impl = member;
    *rank = member->rank;
    *size = member->size;
    return STN_OK;
}
