/* The context: what one rank owns. Registry, tape and place cache are opaque here: src/lib.c wires them. */
#ifndef STNI_CORE_CONTEXT_H
#define STNI_CORE_CONTEXT_H

#include <shardtensor/tensor.h>

#include "core/alloc.h"
#include "core/comm/comm.h"
#include "core/shard/spec.h"
#include "core/status.h"

struct stni_scope_stack {
    stn_tensor **items; /* handles owned, innermost last */
    int64_t n, cap;
    int64_t marks[64]; /* where each open scope begins; deeper ones join the 64th */
    int depth;
    uint64_t agree; /* bit d: scope d agrees at its end */
};

struct stn_context {
    int rank, size;
    stn_comm *comm;
    stn_device *device;
    stn_queue *queue;
    struct stni_pool *pool;
    struct stni_error error; /* sticky */
    struct stn_tensor *error_tensor;
    struct stni_scope_stack scopes;
    struct stni_shard_tables shard;
    struct stni_trace *trace; /* NULL while off */
    struct stni_slab *tensor_slab, *storage_slab;
    _Atomic(stn_tensor *) dead; /* handles released by other threads, freed by this context's next action */
    stn_tensor *live;           /* all handles, so that destruction can free what was left */
    stn_stats stats;
    stn_log_fn log;
    void *log_arg;
    stn_log_level log_level;
    uint64_t seed;
    double deadline_seconds;
    int threads;
    int no_grad, no_sync; /* depths */
    int create_graph;     /* backward runs with recording on */
    atomic_int value_error; /* a kernel saw a value out of range since the last agreement */
    struct stni_error value_text;

    /* Owned by the rooms to the right of this one; set and freed by src/lib.c. */
    struct stni_tape *tape;
    struct stni_registry *registry;
    struct stni_place_cache *places;
    /* Called when a tensor that took part in autograd dies. */
    void (*drop_autograd)(stn_tensor *tensor);
    /* Frees what ops cache per context (oneDNN primitives …). */
    struct stni_op_cache { void (*destroy)(void *state); void *state; } op_cache[4];
};

/* Log line by printf; dropped where nobody listens at that level. */
void stni_log(stn_context *context, stn_log_level level, const char *format, ...) STN_PRINTF(3, 4);

/* Creation without the rooms to the right: core alone. Writes its message to `error`. */
stn_status stni_context_create_core(const stn_context_options *options, stn_context **out, struct stni_error *error);
void stni_context_destroy_core(stn_context *context);

/* Frees handles that other threads released. Cheap when there are none. */
void stni_context_reap(stn_context *context);

/* A value error of contract 8: kept until the next agreement. Any thread. */
void stni_value_error(stn_context *context, const char *format, ...) STN_PRINTF(2, 3);

/* Aborts every communicator of the context's family with a text. */
void stni_context_abort(stn_context *context, stn_status status, const char *text);

#endif
