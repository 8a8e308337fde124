/* Ranks on a CUDA device whose communicator moves memory of the host alone: thread ranks of the CPU behind a table of
 * the four needed entries. Checks mode agrees through them too. */
#include "module/device_ranks.h"

#include "core/comm/collective.h"
#include "core/context/context.h"
#include "core/device/device.h"

#include <string.h>

static stn_status pass(void *impl, stn_queue *queue, const struct stni_coll *coll)
{
    stn_comm *inner = impl;
    CHECK(queue->device->is_cpu);
    return inner->run(inner, queue, coll);
}

static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op)
{
    const struct stni_coll coll = {
        .kind = STNI_COLL_ALL_REDUCE, .dtype = dtype, .op = op, .count = count, .send = send, .recv = recv};
    return pass(impl, queue, &coll);
}

static stn_status group(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    const struct stni_coll coll = {.kind = STNI_COLL_GROUP, .dtype = messages->dtype, .messages = messages};
    return pass(impl, queue, &coll);
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    stn_comm *made = NULL;
    stn_status status = stni_comm_subset(impl, queue, ranks, n_ranks, &made);
    if (status == STN_OK)
        *out = made;
    return status;
}

static void destroy(void *impl)
{
    stn_comm *inner = impl;
    stn_comm_destroy(&inner);
}

/* The rank's own communicator moves the device's memory; the one made here takes its place. */
static void begin(struct rank *r, struct stni_comm_stats *stats)
{
    static const stn_comm_ops ops = {.size = sizeof ops,
                                     .name = "hosts",
                                     .all_reduce = all_reduce,
                                     .group = group,
                                     .subset = subset,
                                     .destroy = destroy,
                                     .host_memory = 1};
    const int all[DEVICE_RANKS] = {0, 1, 2, 3};
    stn_comm *inner = NULL;
    CHECK_STATUS(stn_comm_subset(r->comm, all, r->size, &inner), STN_OK);
    CHECK_STATUS(stn_comm_create(&ops, inner, r->rank, r->size, &r->comm), STN_OK);
    stni_comm_adopt(r->comm, r->queue, stats, 1, 60);
}

static void staged_steps(struct rank *given)
{
    struct rank r = *given;
    struct stni_comm_stats stats = {0};
    begin(&r, &stats);
    device_rank_steps(&r, 0);
    device_rank_check(&r);
    device_rank_steps(&r, 1);
    device_rank_check(&r);
    CHECK(r.queue->syncs[STN_SYNC_STAGING] > 0);
    CHECK(r.comm->pinned_bytes > 0);
    stn_comm_destroy(&r.comm);
}

/* What is pinned, and what exchanges are packed into, is bounded; larger memory is given back. */
static void steps_in_little_memory(struct rank *given)
{
    struct rank r = *given;
    struct stni_comm_stats stats = {0};
    begin(&r, &stats);
    r.comm->staging_limit = 80;
    device_rank_steps(&r, 0);
    device_rank_check(&r);
    CHECK(r.comm->pinned_bytes <= 80);
    stn_comm_destroy(&r.comm);
}

/* Every rank refuses before anything is sent, and says what is missing. */
static void without_pinned_memory(struct rank *given)
{
    struct rank r = *given;
    struct stni_comm_stats stats = {0};
    begin(&r, &stats);
    r.comm->checks = 0;
    r.queue->device->table.host_allocate = NULL;
    CHECK_STATUS(stn_comm_all_reduce(r.comm, r.send, r.recv, 3, STN_DTYPE_F32, STN_SUM, NULL), STN_ERR_UNSUPPORTED);
    CHECK_STR(
        stn_comm_error_text(r.comm),
        "communicator 'hosts' moves memory of the host, and device cuda has none that it reaches (host_allocate)");
    stni_queue_recover(r.queue);
    stn_comm_destroy(&r.comm);
}

static void collectives_go_through_the_host(void)
{
    for (int size = 1; size <= DEVICE_RANKS; size++)
        device_ranks_run(size, staged_steps);
}

static void pinned_memory_is_bounded(void)
{
    device_ranks_run(3, steps_in_little_memory);
}

static void a_device_without_pinned_memory_is_refused(void)
{
    device_ranks_run(3, without_pinned_memory);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"collectives_go_through_the_host", collectives_go_through_the_host},
        {"pinned_memory_is_bounded", pinned_memory_is_bounded},
        {"a_device_without_pinned_memory_is_refused", a_device_without_pinned_memory_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
