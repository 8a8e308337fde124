/* Counters of a context: what is counted elsewhere is added when the counters are read. */
#include "core/context/context.h"

#include <string.h>

static void add_pool(struct stni_mempool *of, stn_stats *stats)
{
    const struct stni_mempool_stats *pool = stni_mempool_stats(of);
    *(of->is_host ? &stats->host_live_bytes : &stats->live_bytes) += pool->live_bytes;
    *(of->is_host ? &stats->host_peak_bytes : &stats->peak_bytes) += pool->peak_bytes;
    *(of->is_host ? &stats->host_reserved_bytes : &stats->reserved_bytes) += pool->reserved_bytes;
    stats->allocations += pool->allocations;
    stats->allocator_calls += pool->device_calls;
}

static void add_memory(const stn_context *context, stn_stats *stats)
{
    add_pool(context->own_pool, stats);
    if (context->own_host_pool != NULL)
        add_pool(context->own_host_pool, stats);
    for (struct stni_mempool *pool = context->step_pools; pool != NULL; pool = pool->next)
        add_pool(pool, stats);
}

static void reset_pool(struct stni_mempool *of)
{
    struct stni_mempool_stats *pool = stni_mempool_stats(of);
    pool->peak_bytes = pool->live_bytes;
    pool->allocations = pool->device_calls = 0;
}

static void add_shard(const stn_context *context, stn_stats *stats)
{
    stats->specs = context->shard.n_specs;
    stats->splits = context->shard.n_splits;
    stats->meshes = context->shard.n_meshes;
}

static void add_work(stn_context *context, stn_stats *stats)
{
    stats->collectives = context->comm_stats.collectives;
    stats->messages = context->comm_stats.messages;
    stats->bytes_sent = context->comm_stats.bytes_sent;
    stats->kernels = (int64_t)atomic_load_explicit(&context->queue->kernels, memory_order_relaxed);
    stats->waited_ns = (int64_t)atomic_load_explicit(&context->queue->waited, memory_order_relaxed);
    for (int r = 0; r < STN_SYNC_REASONS; r++) {
        stats->host_syncs_by[r] = context->queue->syncs[r];
        stats->host_syncs += context->queue->syncs[r];
    }
}

stn_status stn_context_stats(stn_context *context, stn_stats *out)
{
    if (context == NULL || out == NULL)
        return STN_ERR_ARGUMENT;
    if (context->closed)
        return context->error.status;
    size_t size = out->size;
    if (size < sizeof out->size)
        return stni_fail(context, STN_ERR_ARGUMENT, "stats: size got %zu bytes, wanted sizeof(stn_stats) = %zu", size,
                         sizeof *out);
    stni_lent_take_ended(context); /* whose owners may release handles */
    stni_context_reap(context);
    stn_stats stats = context->stats;
    stats.size = size;
    add_memory(context, &stats);
    add_shard(context, &stats);
    add_work(context, &stats);
    memcpy(out, &stats, size < sizeof stats ? size : sizeof stats);
    return STN_OK;
}

void stn_context_stats_reset(stn_context *context)
{
    if (context == NULL || context->closed)
        return;
    stni_context_reap(context);
    reset_pool(context->own_pool);
    if (context->own_host_pool != NULL)
        reset_pool(context->own_host_pool);
    for (struct stni_mempool *pool = context->step_pools; pool != NULL; pool = pool->next)
        reset_pool(pool);
    context->stats =
        (stn_stats){.live_tensors = context->stats.live_tensors, .live_storages = context->stats.live_storages};
    context->refused_calls.behind -= context->comm_stats.collectives;
    context->comm_stats = (struct stni_comm_stats){0};
    atomic_store_explicit(&context->queue->kernels, 0, memory_order_relaxed);
    atomic_store_explicit(&context->queue->waited, 0, memory_order_relaxed);
    memset(context->queue->syncs, 0, sizeof context->queue->syncs);
}

void stn_context_trim(stn_context *context)
{
    if (context == NULL || context->closed)
        return;
    stni_context_reap(context);
    stni_mempool_trim(context->own_pool);
    if (context->own_host_pool != NULL)
        stni_mempool_trim(context->own_host_pool);
    stni_lent_take_ended(context); /* the trim has waited */
}
