#include "device_ranks.h"

#include "module/door.h"
#include "module/ranks_door.h"

#include "core/box/box.h"
#include "core/device/device.h"
#include "core/context/context.h"

#include <shardtensor/module.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 50, MOST = 24, ROOT = 0 };

static const float POISON = -77;

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

static const int64_t parts[DEVICE_RANKS] = {3, 0, 5, 1};

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
    int64_t out[DEVICE_RANKS], in[DEVICE_RANKS];
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
    const stn_message out = {(r->rank + 1) % r->size, {r->send, 1, {6}, {1}}},
                      in = {(r->rank + r->size - 1) % r->size, {r->recv, 1, {6}, {1}}};
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
    stn_message out[DEVICE_RANKS], in[DEVICE_RANKS];
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
void device_rank_steps(struct rank *r, int with_request)
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

void device_rank_check(const struct rank *r)
{
    static _Thread_local float log[STEPS * MOST];
    door_download(r->context, r->log, log, sizeof log);
    for (int step = 0; step < STEPS; step++) {
        int64_t wrong = 0;
        for (int64_t i = 0; i < MOST; i++)
            wrong += log[step * MOST + i] < kind_of(step)->gives(r, step, i) ||
                     log[step * MOST + i] > kind_of(step)->gives(r, step, i);
        if (!CHECK_I64(wrong, 0))
            fprintf(stderr, "%s, step %d of %d ranks\n", kind_of(step)->name, step, r->size);
    }
}

void device_rank_run(stn_comm *comm, rank_body body)
{
    struct rank r = {.comm = comm, .rank = stn_comm_rank(comm), .size = stn_comm_size(comm)};
    const char *folder = getenv("STN_TEST_DEVICE_MODULES"); /* another build of the module: a real GPU's */
    char device[16];
    test_set_rank(r.rank);
    r.comm = ranks_comm(comm);
    stn_context_options options = {.size = sizeof options, .device = ranks_device(r.rank, device), .comm = r.comm,
                                   .module_path = folder ? folder : PROBE_FOLDER};
    options.queue = (stn_queue_options){.size = sizeof options.queue, .delay_seed = (uint64_t)r.rank * 31 + 5};
    if (!CHECK_STATUS(stn_context_create(&options, &r.context), STN_OK)) {
        stn_comm_destroy(&r.comm);
        return;
    }
    r.queue = r.context->queue;
    const float zeros[STEPS * MOST] = {0};
    r.send = door_upload(r.context, zeros, MOST * sizeof *zeros);
    r.recv = door_upload(r.context, zeros, MOST * sizeof *zeros);
    r.log = door_upload(r.context, zeros, sizeof zeros);
    body(&r);
    CHECK_STATUS(stn_queue_sync(r.queue), STN_OK);
    door_discard(r.context, r.send, MOST * sizeof *zeros);
    door_discard(r.context, r.recv, MOST * sizeof *zeros);
    door_discard(r.context, r.log, sizeof zeros);
    stn_context_destroy(&r.context);
}

struct start {
    pthread_t thread;
    stn_comm *comm;
    rank_body body;
};

static void *rank_main(void *arg)
{
    const struct start *start = arg;
    device_rank_run(start->comm, start->body);
    return NULL;
}

void device_ranks_run(int size, rank_body body)
{
    stn_comm *comms[DEVICE_RANKS];
    struct start starts[DEVICE_RANKS];
    if (!ranks_fit(size) || !CHECK_STATUS(stn_comm_create_threads(size, comms), STN_OK))
        return;
    for (int r = 0; r < size; r++) {
        starts[r] = (struct start){.comm = comms[r], .body = body};
        pthread_create(&starts[r].thread, NULL, rank_main, &starts[r]);
    }
    for (int r = 0; r < size; r++)
        pthread_join(starts[r].thread, NULL);
}
