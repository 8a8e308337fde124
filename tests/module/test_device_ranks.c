/* Ranks that are threads and whose data is in a device's memory: collectives are queued between kernels, without a
 * wait of any host. */
#include "device_ranks.h"

#include "core/comm/collective.h"

#include <string.h>

static void blocking_steps(struct rank *r)
{
    int64_t syncs[STN_SYNC_REASONS];
    memcpy(syncs, r->queue->syncs, sizeof syncs);
    device_rank_steps(r, 0);
    CHECK_BYTES(r->queue->syncs, syncs, sizeof syncs);
    device_rank_check(r);
}

static void request_steps(struct rank *r)
{
    int64_t syncs[STN_SYNC_REASONS];
    memcpy(syncs, r->queue->syncs, sizeof syncs);
    device_rank_steps(r, 1);
    CHECK_BYTES(r->queue->syncs, syncs, sizeof syncs);
    device_rank_check(r);
}

/* A communicator with the entries that each needs and no more, with thread ranks behind it: the library builds the
 * rest of them. */

static stn_status four_all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count,
                                  stn_dtype dtype, stn_reduce_op op)
{
    const struct stni_coll coll = {
        .kind = STNI_COLL_ALL_REDUCE, .dtype = dtype, .op = op, .count = count, .send = send, .recv = recv};
    stn_comm *inner = impl;
    return inner->run(inner, queue, &coll);
}

static stn_status four_group(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    const struct stni_coll coll = {.kind = STNI_COLL_GROUP, .dtype = messages->dtype, .messages = messages};
    stn_comm *inner = impl;
    return inner->run(inner, queue, &coll);
}

static stn_status four_subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    stn_comm *made = NULL;
    stn_status status = stni_comm_subset(impl, queue, ranks, n_ranks, &made);
    if (status == STN_OK)
        *out = made;
    return status;
}

static void four_destroy(void *impl)
{
    stn_comm *inner = impl;
    stn_comm_destroy(&inner);
}

/* In pieces of a few elements. An exchange with a reduction agrees on their size, for which the host waits. */
static void built_steps(struct rank *r)
{
    static const stn_comm_ops four = {.size = sizeof four,
                                      .name = "four",
                                      .all_reduce = four_all_reduce,
                                      .group = four_group,
                                      .subset = four_subset,
                                      .destroy = four_destroy};
    struct rank built = *r;
    stn_comm *inner = NULL;
    const int all[DEVICE_RANKS] = {0, 1, 2, 3};
    CHECK_STATUS(stn_comm_subset(r->comm, all, r->size, &inner), STN_OK);
    CHECK_STATUS(stn_comm_create(&four, inner, r->rank, r->size, &built.comm), STN_OK);
    struct stni_comm_stats stats = {0};
    stni_comm_adopt(built.comm, r->queue, &stats, 0, 60);
    built.comm->staging_limit = 80;
    device_rank_steps(&built, 0);
    device_rank_check(&built);
    CHECK(built.comm->staging_bytes <= 80);
    stn_comm_destroy(&built.comm);
}

/* The ranks of a subset meet on their own while the others go on. */
static void subset_steps(struct rank *r)
{
    const int first[] = {1, 0}, second[] = {2, 3};
    struct rank in = *r;
    CHECK_STATUS(stn_comm_subset(r->comm, r->rank < 2 ? first : second, 2, &in.comm), STN_OK);
    in.rank = stn_comm_rank(in.comm);
    in.size = 2;
    device_rank_steps(&in, 0);
    device_rank_check(&in);
    stn_comm_destroy(&in.comm);
    device_rank_steps(r, 0);
    device_rank_check(r);
}

static void collectives_are_queued_between_kernels(void)
{
    for (int size = 1; size <= DEVICE_RANKS; size++)
        device_ranks_run(size, blocking_steps);
}

static void requests_are_waited_for_by_the_queue(void)
{
    for (int size = 1; size <= DEVICE_RANKS; size++)
        device_ranks_run(size, request_steps);
}

static void collectives_that_are_built_from_others_are_queued_too(void)
{
    for (int size = 1; size <= DEVICE_RANKS; size++)
        device_ranks_run(size, built_steps);
}

static void subsets_are_queued_like_their_parent(void)
{
    device_ranks_run(4, subset_steps);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"collectives_are_queued_between_kernels", collectives_are_queued_between_kernels},
        {"requests_are_waited_for_by_the_queue", requests_are_waited_for_by_the_queue},
        {"collectives_that_are_built_from_others_are_queued_too",
         collectives_that_are_built_from_others_are_queued_too},
        {"subsets_are_queued_like_their_parent", subsets_are_queued_like_their_parent},
    };
    return TEST_MAIN(argc, argv, cases);
}
