#include "wire.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct wire {
    int size;
    double seconds_per_message, bytes_per_second;
};

static void take_time(const struct wire *wire, int64_t messages, double bytes)
{
    const double seconds = (double)messages * wire->seconds_per_message + bytes / wire->bytes_per_second;
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    while (nanosleep(&time, &time) != 0) {
    }
}

static int64_t numel(const stn_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < box->ndim; d++)
        n *= box->shape[d];
    return n;
}

/* A reduce-scatter and an all-gather, as a ring does both. */
static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op)
{
    const struct wire *wire = impl;
    const double bytes = (double)count * (double)stn_dtype_size(dtype);
    (void)queue, (void)op;
    if (send != recv && count > 0)
        memcpy(recv, send, (size_t)bytes);
    take_time(wire, 2 * (wire->size - 1), 2 * bytes * (wire->size - 1) / wire->size);
    return STN_OK;
}

static stn_status exchange(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    int64_t n = 0;
    double bytes = 0;
    (void)queue;
    for (int i = 0; i < messages->n_send; i++) {
        n += messages->send[i].peer != 0;
        bytes += messages->send[i].peer != 0
                     ? (double)numel(&messages->send[i].box) * (double)stn_dtype_size(messages->dtype)
                     : 0;
    }
    take_time(impl, n, bytes);
    return STN_OK;
}

static stn_status agree(void *impl, stn_queue *queue, int64_t *words, int n, stn_reduce_op op)
{
    (void)queue, (void)words, (void)n, (void)op;
    take_time(impl, 2, 0);
    return STN_OK;
}

static stn_status agree_broadcast(void *impl, stn_queue *queue, void *bytes, size_t n, int root)
{
    (void)queue, (void)bytes, (void)n, (void)root;
    take_time(impl, 1, 0);
    return STN_OK;
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    const struct wire *parent = impl;
    struct wire *wire = malloc(sizeof *wire);
    (void)ranks;
    if (wire == NULL)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: a wire");
    *wire = *parent;
    wire->size = n_ranks;
    *out = wire;
    return STN_OK;
}

static int beside(void *impl)
{
    (void)impl;
    return 1;
}

static const stn_comm_ops ops = {
    .size = sizeof ops,
    .name = "wire",
    .all_reduce = all_reduce,
    .group = exchange,
    .exchange = exchange,
    .subset = subset,
    .destroy = free,
    .agree = agree,
    .agree_broadcast = agree_broadcast,
    .beside = beside,
};

stn_status wire_create(int size, double seconds_per_message, double bytes_per_second, stn_comm **out)
{
    struct wire *wire = malloc(sizeof *wire);
    if (wire == NULL)
        return STN_ERR_MEMORY;
    *wire = (struct wire){size, seconds_per_message, bytes_per_second};
    const stn_status status = stn_comm_create(&ops, wire, 0, size, out);
    if (status != STN_OK)
        free(wire);
    return status;
}
