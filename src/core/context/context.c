/* Contexts: making and unmaking what one rank owns. Errors of a context are in error.c. */
#include "core/context/context.h"

#include "core/base/host_alloc.h"
#include "core/context/environment.h"
#include "core/context/module.h"
#include "core/shard/group.h"
#include "core/base/slab.h"
#include "core/tensor/tensor.h"
#include "core/device/trace.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static int is_for_cpu(const stn_context_options *options)
{
    return options->device == NULL || strcmp(options->device, "cpu") == 0;
}

static stn_status check_allocator(const stn_allocator *allocator, struct stni_error *error)
{
    if (allocator == NULL)
        return STN_OK;
    if (allocator->size < sizeof *allocator)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "context: allocator->size got %zu bytes, wanted sizeof(stn_allocator) = %zu",
                              allocator->size, sizeof *allocator);
    if (allocator->allocate == NULL || allocator->deallocate == NULL)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: allocator->%s got NULL, wanted a function",
                              allocator->allocate == NULL ? "allocate" : "deallocate");
    return STN_OK;
}

static stn_status check_queue(const stn_context_options *options, struct stni_error *error)
{
    const stn_queue_options *queue = &options->queue;
    if (queue->size == 0)
        return STN_OK;
    if (queue->size < offsetof(stn_queue_options, stream) || queue->size > sizeof *queue)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "context: queue.size got %zu bytes, wanted sizeof(stn_queue_options) = %zu, or 0",
                              queue->size, sizeof *queue);
    if ((unsigned)queue->kind > STN_QUEUE_WORKER)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: queue.kind got %d, wanted an stn_queue_kind",
                              (int)queue->kind);
    if (queue->size > offsetof(stn_queue_options, stream) && queue->stream != NULL && is_for_cpu(options))
        return stni_error_set(error, STN_ERR_UNSUPPORTED,
                              "context: queue.stream got %p, wanted NULL: device 'cpu' has no streams", queue->stream);
    return STN_OK;
}

static stn_status check_device_allocator(const stn_context_options *options, struct stni_error *error)
{
    const stn_device_allocator *allocator = options->device_allocator;
    if (allocator == NULL)
        return STN_OK;
    if (allocator->size < sizeof *allocator)
        return stni_error_set(
            error, STN_ERR_ARGUMENT,
            "context: device_allocator->size got %zu bytes, wanted sizeof(stn_device_allocator) = %zu", allocator->size,
            sizeof *allocator);
    if (allocator->allocate == NULL || allocator->deallocate == NULL)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: device_allocator->%s got NULL, wanted a function",
                              allocator->allocate == NULL ? "allocate" : "deallocate");
    if (is_for_cpu(options))
        return stni_error_set(
            error, STN_ERR_ARGUMENT,
            "context: device_allocator got functions, wanted NULL for device 'cpu': its memory is of `allocator`");
    return STN_OK;
}

/* The caller's options in a struct of this library's size: fields that the caller's version lacks are zero. */
static stn_status read_options(const stn_context_options *given, stn_context_options *options, struct stni_error *error)
{
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    if (given == NULL)
        return STN_OK;
    if (given->size < offsetof(stn_context_options, device))
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "context: options->size got %zu bytes, wanted sizeof(stn_context_options) = %zu",
                              given->size, sizeof *options);
    memcpy(options, given, given->size < sizeof *options ? given->size : sizeof *options);
    if (options->threads < 0 || options->threads > STNI_MAX_THREADS)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: threads got %d, wanted 0 to %d", options->threads,
                              STNI_MAX_THREADS);
    if (!isfinite(options->deadline_seconds))
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: deadline_seconds got %g, wanted a finite number",
                              options->deadline_seconds);
    if ((unsigned)options->log_level > STN_LOG_DEBUG)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: log_level got %d, wanted an stn_log_level",
                              (int)options->log_level);
    if (options->checks != 0 && options->checks != 1)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: checks got %d, wanted 0 or 1", options->checks);
    if ((unsigned)options->promotion > STN_PROMOTE_SILENT)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: promotion got %d, wanted an stn_promotion",
                              (int)options->promotion);
    if (options->reproducible_sums != 0 && options->reproducible_sums != 1)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: reproducible_sums got %d, wanted 0 or 1",
                              options->reproducible_sums);
    if (options->allow_tf32 != 0 && options->allow_tf32 != 1)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: allow_tf32 got %d, wanted 0 or 1",
                              options->allow_tf32);
    STNI_TRY(check_allocator(options->allocator, error));
    STNI_TRY(check_device_allocator(options, error));
    STNI_TRY(check_queue(options, error));
    unsigned without;
    return stni_foreign_read(options->without, &without, error);
}

static void set_options(stn_context *context, const stn_context_options *options)
{
    context->log = options->log;
    context->log_arg = options->log_arg;
    context->log_level = options->log_level;
    context->seed = options->seed;
    context->deadline_seconds = options->deadline_seconds == 0 ? STNI_DEADLINE_SECONDS : options->deadline_seconds;
    context->threads = options->threads == 0 ? 1 : options->threads;
    context->promotion = options->promotion;
    context->reproducible_sums = options->reproducible_sums;
    context->allow_tf32 = options->allow_tf32;
    stni_foreign_read(options->without, &context->foreign.without, NULL);
    context->rank = options->comm == NULL ? 0 : stn_comm_rank(options->comm);
    context->size = options->comm == NULL ? 1 : stn_comm_size(options->comm);
}

static stn_status adopt_allocator(stn_context *context, const stn_context_options *options, struct stni_error *error)
{
    context->device->context = context;
    if (options->device_allocator == NULL)
        return STN_OK;
    stn_status status = stni_device_adopt_allocator(context->device, options->device_allocator);
    if (status == STN_OK)
        return STN_OK;
    return stni_error_set(error, status,
                          "context: device_allocator: device '%s' takes no memory of a caller's (allocate_from): %s",
                          options->device, stn_status_text(status));
}

static stn_status make_device(stn_context *context, const stn_context_options *options, struct stni_error *error)
{
    stn_status status;
    if (!is_for_cpu(options)) {
        STNI_TRY(
            stni_module_open_device(options->device, context->rank, options->module_path, &context->device, error));
    } else {
        status = stni_device_create_cpu(options->allocator, &context->device);
        if (status != STN_OK)
            return stni_error_set(error, status, "context: no device: %s", stn_status_text(status));
    }
    context->device->isa = context->isa;
    context->joins_halos = !context->device->is_cpu;
    STNI_TRY(adopt_allocator(context, options, error));
    if (context->reproducible_sums && !context->device->is_cpu)
        return stni_error_set(error, STN_ERR_UNSUPPORTED,
                              "context: reproducible_sums is for ranks of the CPU, got device '%s'", options->device);
    status = stni_queue_create(context->device, &options->queue, &context->queue);
    if (status != STN_OK)
        return stni_error_set(error, status, "context: no queue of kind %d: %s", (int)options->queue.kind,
                              stn_status_text(status));
    context->queue->context = context;
    return STN_OK;
}

void stni_context_use_pools(stn_context *context, struct stni_mempool *pool, struct stni_mempool *host_pool)
{
    context->pool = pool;
    context->host_pool = host_pool;
    context->tensor_pool = context->host_memory > 0 && host_pool != NULL ? host_pool : pool;
}

static stn_status make_memory(stn_context *context)
{
    STNI_TRY(stni_mempool_create(context->queue, &context->own_pool));
    if (!context->device->is_cpu && context->device->ops->host_allocate && context->device->ops->host_deallocate)
        STNI_TRY(stni_mempool_create_host(context->queue, &context->own_host_pool));
    stni_context_use_pools(context, context->own_pool, context->own_host_pool);
    context->tensor_slab = stni_slab_create(sizeof(stn_tensor));
    context->storage_slab = stni_slab_create(sizeof(struct stni_storage));
    context->error_block = stni_calloc(1, STNI_ERROR_TENSOR_OFFSET + sizeof(stn_tensor));
    if (context->tensor_slab == NULL || context->storage_slab == NULL || context->error_block == NULL)
        return STN_ERR_MEMORY;
    context->error_tensor = (stn_tensor *)((char *)context->error_block + STNI_ERROR_TENSOR_OFFSET);
    context->error_tensor->flags = STNI_TENSOR_ERROR;
    context->error_tensor->context = context;
    return stni_values_create(context);
}

/* Last, because from here on the communicator is ours. */
static stn_status make_world(stn_context *context, const stn_context_options *options, struct stni_error *error)
{
    context->comm = options->comm;
    if (context->comm == NULL) {
        stn_status status = stni_comm_create_threads(1, context->deadline_seconds, &context->comm);
        if (status != STN_OK)
            return stni_error_set(error, status, "context: no communicator of one rank: %s", stn_status_text(status));
    }
    stni_comm_adopt(context->comm, context->queue, &context->comm_stats, options->checks, context->deadline_seconds);
    if (options->checks)
        stni_context_check_scratch(context);
    context->comm->exact_sums = context->reproducible_sums;
    return STN_OK;
}

/* A copy: modules are looked for later too. */
static stn_status keep_module_path(stn_context *context, const char *path)
{
    if (path == NULL)
        return STN_OK;
    size_t bytes = strlen(path) + 1;
    context->module_path = stni_malloc(bytes);
    if (context->module_path == NULL)
        return STN_ERR_MEMORY;
    memcpy(context->module_path, path, bytes);
    return STN_OK;
}

static void close_pools(stn_context *context)
{
    if (context->own_host_pool != NULL)
        stni_mempool_close(context->own_host_pool);
    if (context->own_pool != NULL)
        stni_mempool_close(context->own_pool);
}

/* What handles need, and the context itself. */
static void free_rest(stn_context *context)
{
    for (struct stni_mempool *pool = context->step_pools, *next; pool != NULL; pool = next) {
        next = pool->next;
        stni_mempool_destroy(&pool);
    }
    stni_mempool_destroy(&context->own_host_pool);
    stni_mempool_destroy(&context->own_pool);
    stni_slab_destroy(&context->tensor_slab);
    stni_slab_destroy(&context->storage_slab);
    stni_device_destroy(&context->device);
    stni_free(context->error_block);
    stni_free(context->module_path);
    stni_free(context->random_told);
    stni_free(context->scopes.items);
    stni_free(context->scope_specs.items);
    stni_free(context);
}

stn_status stni_context_create_core(const stn_context_options *given, stn_context **out, struct stni_error *error)
{
    stn_context_options options;
    STNI_TRY(read_options(given, &options, error));
    stn_context *context = stni_calloc(1, sizeof *context);
    if (context == NULL)
        return stni_error_set(error, STN_ERR_MEMORY, "out of memory: a context (%zu bytes)", sizeof *context);

    stn_status status;
    atomic_init(&context->keepers, 1);
    set_options(context, &options);
    STNI_TRY_GOTO(stni_isa_choose(options.isa, &context->isa, error), fail);
    STNI_TRY_GOTO(keep_module_path(context, options.module_path), fail);
    STNI_TRY_GOTO(make_device(context, &options, error), fail);
    STNI_TRY_GOTO(make_memory(context), fail);
    STNI_TRY_GOTO(make_world(context, &options, error), fail);
    *out = context;
    return STN_OK;
fail:
    close_pools(context);
    stni_queue_destroy(&context->queue);
    if (context->values != NULL)
        stni_values_destroy(context);
    free_rest(context);
    return stni_error_set(error, status, "context: %s", stn_status_text(status));
}

/* The history may hold the last reference to the tensor itself, or a hook of it that to another one, which waits to be
 * reaped then, with its own. */
static void drop_history(void *object, void *arg)
{
    (void)arg;
    stn_tensor *tensor = object;
    if (tensor->context == NULL || (tensor->node == NULL && tensor->leaf == NULL) || atomic_load(&tensor->refs) == 0)
        return;
    stn_tensor_retain(tensor);
    tensor->context->drop_autograd(tensor);
    stni_tensor_release_here(tensor);
}

void stni_context_drop_graph(stn_context *context)
{
    if (!context->queue->immediate)
        stni_queue_sync_for(context->queue, STN_SYNC_GROUP);
    stni_context_reap(context);
    stni_scope_end_all(context);
    if (context->drop_autograd != NULL)
        stni_slab_each(context->tensor_slab, drop_history, NULL);
    stni_context_reap(context);
}

static void destroy_op_caches(stn_context *context)
{
    for (size_t i = 0; i < sizeof context->op_cache / sizeof *context->op_cache; i++)
        if (context->op_cache[i].destroy != NULL)
            context->op_cache[i].destroy(context->op_cache[i].state);
}

/* Everything that works: communicators, the queue and what ran on it. */
static void stop(stn_context *context)
{
    stni_groups_destroy(context);
    stn_comm_destroy(&context->comm);
    close_pools(context);
    stni_queue_destroy(&context->queue);
    stni_lent_close(context);
    stni_zero_destroy(context);
    stni_values_destroy(context);
    destroy_op_caches(context); /* their last kernels have ended */
    stni_trace_destroy(&context->trace);
    stni_trace_destroy(&context->idle_trace);
}

/* From here on no call reaches the functions of the caller or the layers above, and every op returns the error that
 * is kept for ever. */
static void close_context(stn_context *context)
{
    context->log = NULL;
    context->drop_autograd = NULL;
    context->share_autograd = NULL;
    context->outermost_ended = NULL;
    context->error.status = STN_OK;
    stni_fail(context, STN_ERR_STATE, "the context was destroyed, and of its handles nothing can be made any more");
    context->closed = 1;
}

void stni_context_destroy_core(stn_context *context)
{
    stni_context_drop_graph(context);
    if (context->stats.live_tensors > 0)
        stni_log(context, STN_LOG_WARNING, "context destroyed while %lld tensors were alive",
                 (long long)context->stats.live_tensors);
    stop(context);
    close_context(context);
    stni_context_let_go(context);
}

static void free_storage(void *object, void *arg)
{
    (void)arg;
    struct stni_storage *storage = object;
    if (storage->context != NULL)
        stni_storage_free(storage);
}

/* Storages that are left then have no owner. */
static void finish(stn_context *context)
{
    stni_slab_each(context->storage_slab, free_storage, NULL);
    if (context->free_registry != NULL)
        context->free_registry(context);
    stni_shard_tables_fini(context);
    free_rest(context);
}

void stni_context_keep(stn_context *context)
{
    atomic_fetch_add_explicit(&context->keepers, 1, memory_order_relaxed);
}

void stni_context_unkeep(stn_context *context)
{
    if (atomic_fetch_sub_explicit(&context->keepers, 1, memory_order_acq_rel) == 1)
        finish(context);
}

void stni_context_free_dead(stn_context *context)
{
    stn_tensor *tensor = atomic_exchange_explicit(&context->dead, NULL, memory_order_acquire);
    while (tensor != NULL) {
        stn_tensor *next = tensor->next_dead;
        stni_tensor_free(tensor);
        tensor = next;
    }
}

void stni_context_let_go(stn_context *context)
{
    stn_tensor *none;
    do {
        stni_context_free_dead(context);
        if (context->stats.live_tensors == 0) {
            stni_context_unkeep(context);
            return;
        }
        none = NULL;
    } while (!atomic_compare_exchange_strong_explicit(&context->dead, &none, STNI_NOBODY, memory_order_release,
                                                      memory_order_relaxed));
}

int stn_context_rank(const stn_context *context)
{
    return context == NULL ? -1 : context->rank;
}

int stn_context_size(const stn_context *context)
{
    return context == NULL ? 0 : context->size;
}

stn_queue *stn_context_queue(stn_context *context)
{
    return context == NULL ? NULL : context->queue;
}

stn_status stn_set_halo_overlap(stn_context *context, stn_halo_overlap when)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    if (context->error.status != STN_OK)
        return context->error.status;
    if ((unsigned)when > STN_HALO_OVERLAP_ALWAYS)
        return stni_fail(context, STN_ERR_ARGUMENT, "set_halo_overlap: when got %d, wanted 0 to %d", (int)when,
                         STN_HALO_OVERLAP_ALWAYS);
    context->halo_overlap = when;
    return STN_OK;
}

stn_comm *stn_context_comm(stn_context *context)
{
    if (context == NULL)
        return NULL;
    if (!context->closed)
        stni_context_sync(context, STN_SYNC_CALLER);
    return context->comm;
}
