/* Ranks that are threads and whose data is in a device's memory: collectives are queued between kernels that write what is sent and read what is
 * received, without a wait of any host. Each kernel is delayed at random, so that whatever is not ordered by events comes out wrong. */
#include "harness.h"
#include "module/door.h"

#include "core/box/box.h"
#include "core/comm/collective.h"

#include <shardtensor/module.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 50, MOST = 24, MOST_RANKS = 4, ROOT = 0 };

static const float POISON = -77;

/* The test module's device unless the build names another. */
#ifndef RANKS_DEVICE
#define RANKS_DEVICE "probe"
#define RANKS_FOLDER PROBE_FOLDER
#endif

struct rank {
    stn_context *context;
    stn_comm *comm;
    stn_queue *queue;
    int rank, size;
    float *send, *recv, *log; /* log: MOST elements for each step */
};

typedef void (*rank_body)(struct rank *rank);

/* What a rank sends in a step, in all elements. */
static float value(int step, int rank)
{
    return (float)(step % 50 * 10 + rank + 1);
}

static float sum(int step, int size)
{
    float s = 0;
    for (int r = 0; r < size; r++)
        s += value(step, r);
    return s;
}

static void fill(const struct rank *r, float *data, int64_t count, float with)
{
    stn_fill_args args = {.data = data, .count = count, .element_size = sizeof with};
    memcpy(args.element, &with, sizeof with);
    CHECK_STATUS(stn_queue_launch(r->queue, r->queue->device->fill, &args, sizeof args), STN_OK);
}

static void keep(const struct rank *r, int step)
{
    const stn_box from = {r->recv, 1, {MOST}, {1}}, to = {r->log + step * MOST, 1, {MOST}, {1}};
    CHECK_STATUS(stni_box_copy(r->queue, &to, &from, sizeof(float)), STN_OK);
}

static const int64_t parts[MOST_RANKS] = {3, 0, 5, 1};

static int64_t parts_before(int rank)
{
    int64_t n = 0;
    for (int r = 0; r < rank; r++)
        n += parts[r];
    return n;
}

/* Elements that go from one rank to another. */
static int64_t pair(int from, int to)
{
    return (from + 2 * to) % 4;
}

/* Each kind of collective: how it is called, and element i of what a rank has then. */

static stn_status all_reduce(const struct rank *r, stn_request **request)
{
    return stn_comm_all_reduce(r->comm, r->send, r->recv, 7, STN_DTYPE_F32, STN_SUM, request);
}

static float all_reduce_gives(const struct rank *r, int step, int64_t i)
{
    return i < 7 ? sum(step, r->size) : POISON;
}

static stn_status reduce(const struct rank *r, stn_request **request)
{
    return stn_comm_reduce(r->comm, r->send, r->recv, MOST, STN_DTYPE_F32, STN_MAX, ROOT, request);
}

static float reduce_gives(const struct rank *r, int step, int64_t i)
{
    (void)i;
    return r->rank == ROOT ? value(step, r->size - 1) : POISON;
}

static stn_status all_gather(const struct rank *r, stn_request **request)
{
    return stn_comm_all_gather(r->comm, r->send, r->recv, parts, STN_DTYPE_F32, request);
}

static float all_gather_gives(const struct rank *r, int step, int64_t i)
{
    int from = 0;
    while (from < r->size && i >= parts_before(from + 1))
        from++;
    return from < r->size ? value(step, from) : POISON;
}

static stn_status gather(const struct rank *r, stn_request **request)
{
    return stn_comm_gather(r->comm, r->send, r->recv, parts, STN_DTYPE_F32, ROOT, request);
}

static float gather_gives(const struct rank *r, int step, int64_t i)
{
    return r->rank == ROOT ? all_gather_gives(r, step, i) : POISON;
}

static stn_status reduce_scatter(const struct rank *r, stn_request **request)
{
    return stn_comm_reduce_scatter(r->comm, r->send, r->recv, parts, STN_DTYPE_F32, STN_SUM, request);
}

static float reduce_scatter_gives(const struct rank *r, int step, int64_t i)
{
    return i < parts[r->rank] ? sum(step, r->size) : POISON;
}

static stn_status scatter(const struct rank *r, stn_request **request)
{
    return stn_comm_scatter(r->comm, r->send, r->recv, parts, STN_DTYPE_F32, ROOT, request);
}

static float scatter_gives(const struct rank *r, int step, int64_t i)
{
    return i < parts[r->rank] ? value(step, ROOT) : POISON;
}

static stn_status broadcast(const struct rank *r, stn_request **request)
{
    return stn_comm_broadcast(r->comm, r->rank == ROOT ? r->send : r->recv, 5, STN_DTYPE_F32, ROOT, request);
}

static float broadcast_gives(const struct rank *r, int step, int64_t i)
{
    return r->rank != ROOT && i < 5 ? value(step, ROOT) : POISON;
}

static stn_status all_to_all(const struct rank *r, stn_request **request)
{
    int64_t out[MOST_RANKS], in[MOST_RANKS];
    for (int p = 0; p < r->size; p++) {
        out[p] = pair(r->rank, p);
        in[p] = pair(p, r->rank);
    }
    return stn_comm_all_to_all(r->comm, r->send, out, r->recv, in, STN_DTYPE_F32, request);
}

static float all_to_all_gives(const struct rank *r, int step, int64_t i)
{
    for (int from = 0; from < r->size; i -= pair(from++, r->rank))
        if (i < pair(from, r->rank))
            return value(step, from);
    return POISON;
}

/* A ring: to the next rank, from the one before. */
static stn_status group(const struct rank *r, stn_request **request)
{
    const stn_message out = {(r->rank + 1) % r->size, {r->send, 1, {6}, {1}}}, in = {(r->rank + r->size - 1) % r->size, {r->recv, 1, {6}, {1}}};
    const stn_exchange ring = {STN_DTYPE_F32, 0, STN_SUM, 1, 1, &out, &in};
    return stn_comm_group(r->comm, &ring, request);
}

static float group_gives(const struct rank *r, int step, int64_t i)
{
    return i < 6 ? value(step, (r->rank + r->size - 1) % r->size) : POISON;
}

/* Every second element of a box goes to every rank and is added there. */
static stn_status exchange(const struct rank *r, stn_request **request)
{
    stn_message out[MOST_RANKS], in[MOST_RANKS];
    for (int p = 0; p < r->size; p++) {
        out[p] = (stn_message){p, {r->send + p, 2, {2, 3}, {7, 2}}};
        in[p] = (stn_message){p, {r->recv, 2, {2, 3}, {6, 2}}};
    }
    const stn_exchange all = {STN_DTYPE_F32, 1, STN_SUM, r->size, r->size, out, in};
    return stn_comm_exchange(r->comm, &all, request);
}

static float exchange_gives(const struct rank *r, int step, int64_t i)
{
    return i < 12 && i % 2 == 0 ? sum(step, r->size) : POISON;
}

static const struct kind {
    const char *name;
    stn_status (*call)(const struct rank *r, stn_request **request);
    float (*gives)(const struct rank *r, int step, int64_t i);
} kinds[] = {
    {"all_reduce", all_reduce, all_reduce_gives},
    {"reduce", reduce, reduce_gives},
    {"all_gather", all_gather, all_gather_gives},
    {"gather", gather, gather_gives},
    {"reduce_scatter", reduce_scatter, reduce_scatter_gives},
    {"scatter", scatter, scatter_gives},
    {"broadcast", broadcast, broadcast_gives},
    {"all_to_all", all_to_all, all_to_all_gives},
    {"group", group, group_gives},
    {"exchange", exchange, exchange_gives},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static const struct kind *kind_of(int step)
{
    return &kinds[(step * 7 + step / KINDS) % KINDS];
}

/* What is sent is overwritten as soon as the call has returned. No host waits for the queue. */
static void steps(struct rank *r, int with_request)
{
    for (int step = 0; step < STEPS; step++) {
        stn_request *request = NULL;
        fill(r, r->send, MOST, value(step, r->rank));
        fill(r, r->recv, MOST, POISON);
        if (!CHECK_STATUS(kind_of(step)->call(r, with_request ? &request : NULL), STN_OK))
            break;
        if (with_request)
            CHECK_STATUS(stn_request_wait(&request), STN_OK);
        fill(r, r->send, MOST, POISON);
        keep(r, step);
    }
}

static void check_log(const struct rank *r)
{
    static _Thread_local float log[STEPS * MOST];
    door_download(r->context, r->log, log, sizeof log);
    for (int step = 0; step < STEPS; step++) {
        int64_t wrong = 0;
        for (int64_t i = 0; i < MOST; i++)
            wrong += log[step * MOST + i] < kind_of(step)->gives(r, step, i) || log[step * MOST + i] > kind_of(step)->gives(r, step, i);
        if (!CHECK_I64(wrong, 0))
            fprintf(stderr, "%s, step %d of %d ranks\n", kind_of(step)->name, step, r->size);
    }
}

static void blocking_steps(struct rank *r)
{
    int64_t syncs[STN_SYNC_REASONS];
    memcpy(syncs, r->queue->syncs, sizeof syncs);
    steps(r, 0);
    CHECK_BYTES(r->queue->syncs, syncs, sizeof syncs);
    check_log(r);
}

static void request_steps(struct rank *r)
{
    int64_t syncs[STN_SYNC_REASONS];
    memcpy(syncs, r->queue->syncs, sizeof syncs);
    steps(r, 1);
    CHECK_BYTES(r->queue->syncs, syncs, sizeof syncs);
    check_log(r);
}

/* A communicator with the entries that each needs and no more, with thread ranks behind it: the library builds the rest of them. */

static stn_status four_all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype, stn_reduce_op op)
{
    const struct stni_coll coll = {.kind = STNI_COLL_ALL_REDUCE, .dtype = dtype, .op = op, .count = count, .send = send, .recv = recv};
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
    static const stn_comm_ops four = {.size = sizeof four, .name = "four", .all_reduce = four_all_reduce, .group = four_group,
                                      .subset = four_subset, .destroy = four_destroy};
    struct rank built = *r;
    stn_comm *inner = NULL;
    const int all[MOST_RANKS] = {0, 1, 2, 3};
    CHECK_STATUS(stn_comm_subset(r->comm, all, r->size, &inner), STN_OK);
    CHECK_STATUS(stn_comm_create(&four, inner, r->rank, r->size, &built.comm), STN_OK);
    struct stni_comm_stats stats = {0};
    stni_comm_adopt(built.comm, r->queue, &stats, 0, 60);
    built.comm->staging_limit = 80;
    steps(&built, 0);
    check_log(&built);
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
    steps(&in, 0);
    check_log(&in);
    stn_comm_destroy(&in.comm);
    steps(r, 0);
    check_log(r);
}

struct start {
    pthread_t thread;
    stn_comm *comm;
    rank_body body;
};

static void *rank_main(void *arg)
{
    const struct start *start = arg;
    struct rank r = {.comm = start->comm, .rank = stn_comm_rank(start->comm), .size = stn_comm_size(start->comm)};
    stn_context_options options = {.size = sizeof options, .device = r.rank % 2 ? RANKS_DEVICE ":1" : RANKS_DEVICE ":0",
                                   .module_path = RANKS_FOLDER, .comm = r.comm};
    options.queue = (stn_queue_options){.size = sizeof options.queue, .delay_seed = (uint64_t)r.rank * 31 + 5};
    test_set_rank(r.rank);
    if (!CHECK_STATUS(stn_context_create(&options, &r.context), STN_OK)) {
        stn_comm_destroy(&r.comm);
        return NULL;
    }
    r.queue = r.context->queue;
    const float zeros[STEPS * MOST] = {0};
    r.send = door_upload(r.context, zeros, MOST * sizeof *zeros);
    r.recv = door_upload(r.context, zeros, MOST * sizeof *zeros);
    r.log = door_upload(r.context, zeros, sizeof zeros);
    start->body(&r);
    CHECK_STATUS(stn_queue_sync(r.queue), STN_OK);
    door_discard(r.context, r.send, MOST * sizeof *zeros);
    door_discard(r.context, r.recv, MOST * sizeof *zeros);
    door_discard(r.context, r.log, sizeof zeros);
    stn_context_destroy(&r.context);
    return NULL;
}

static void run(int size, rank_body body)
{
    stn_comm *comms[MOST_RANKS];
    struct start starts[MOST_RANKS];
    if (!CHECK_STATUS(stn_comm_create_threads(size, comms), STN_OK))
        return;
    for (int r = 0; r < size; r++) {
        starts[r] = (struct start){.comm = comms[r], .body = body};
        pthread_create(&starts[r].thread, NULL, rank_main, &starts[r]);
    }
    for (int r = 0; r < size; r++)
        pthread_join(starts[r].thread, NULL);
}

static void collectives_are_queued_between_kernels(void)
{
    for (int size = 1; size <= MOST_RANKS; size++)
        run(size, blocking_steps);
}

static void requests_are_waited_for_by_the_queue(void)
{
    for (int size = 1; size <= MOST_RANKS; size++)
        run(size, request_steps);
}

static void collectives_that_are_built_from_others_are_queued_too(void)
{
    for (int size = 1; size <= MOST_RANKS; size++)
        run(size, built_steps);
}

static void subsets_are_queued_like_their_parent(void)
{
    run(4, subset_steps);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"collectives_are_queued_between_kernels", collectives_are_queued_between_kernels},
        {"requests_are_waited_for_by_the_queue", requests_are_waited_for_by_the_queue},
        {"collectives_that_are_built_from_others_are_queued_too", collectives_that_are_built_from_others_are_queued_too},
        {"subsets_are_queued_like_their_parent", subsets_are_queued_like_their_parent},
    };
    return TEST_MAIN(argc, argv, cases);
}
