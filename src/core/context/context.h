/* The context: what one rank owns. Registry, tape and place cache are opaque here: src/lib.c wires them. */
#ifndef STNI_CORE_CONTEXT_CONTEXT_H
#define STNI_CORE_CONTEXT_CONTEXT_H

#include <shardtensor/tensor.h>

#include "core/device/mempool.h"
#include "core/comm/comm.h"
#include "core/context/foreign.h"
#include "core/base/isa.h"
#include "core/shard/spec.h"
#include "core/base/status.h"

enum { STNI_SCOPE_MARKS = 64, STNI_ZERO_BYTES = 16 /* of the largest element */ };

struct stni_scope_stack {
    stn_tensor **items; /* handles owned, innermost last */
    int64_t n, cap;
    int64_t marks[STNI_SCOPE_MARKS]; /* where each open scope begins; deeper ones join the last */
    int depth;
    int floor;      /* depth at which the caller's function that is running was called: it ends none below */
    uint64_t agree; /* bit d: scope d agrees at its end */
};

/* The same for references to specs. */
struct stni_scope_specs {
    const stn_spec **items;
    int64_t n, cap;
    int64_t marks[STNI_SCOPE_MARKS];
};

/* Collectives that this rank was refused without an agreement: they named no mesh, or began a request. It cannot know
 * whether its peers were, too, or wait in one. */
struct stni_refused_calls {
    int64_t n;              /* on ranks of a mesh that go on with it: the same */
    int64_t behind;         /* collectives called before the last of them, as comm_stats counts */
    struct stni_error last; /* STN_OK: there was none */
};

struct stni_storage;
struct stni_lent;

struct stn_context {
    int rank, size;
    stn_comm *comm;
    stn_device *device;
    stn_queue *queue;
    void *zero; /* STNI_ZERO_BYTES of a device's memory; NULL until they are wanted */
    struct stni_mempool *tensor_pool; /* of the elements of tensors that are made now: pool, or host_pool */
    struct stni_mempool *pool, *host_pool; /* of what is made now: the own ones, or those of a step being captured */
    struct stni_mempool *own_pool, *own_host_pool; /* host: NULL on the CPU, and where the device gives no such memory */
    struct stni_mempool *step_pools; /* a list: those of captured steps, and closed ones that handles still need */
    int host_memory;                 /* depth */
    struct stn_step *capture;  /* being captured; NULL: none is */
    struct stn_step *steps;    /* that were captured and are not destroyed */
    int capture_lost;          /* an error was taken since the capture began */
    const struct stni_step_part *step_part; /* of autograd; NULL: none */
    /* Keeps memory that is not of the pool of the step that is being captured, and that it uses. NULL: none is. */
    stn_status (*hold_for_step)(stn_context *context, struct stni_storage *storage);
    struct stni_error error; /* sticky. The text outlives a status that the end of a scope took, until the next failure */
    int error_agreed;        /* `error` is what the ranks agreed on: the same on all */
    struct stni_refused_calls refused_calls;
    stn_status all_know;     /* the status of the text in `error`, taken or not, where every rank of the world has it by stn_agree; else STN_OK */
    stn_tensor *error_tensor;
    void *error_block; /* the memory that it lies in */
    int closed;        /* destroyed, but for what handles that are still alive need */
    atomic_int keepers; /* who needs the context's memory: its handles, together; each reference that a caller has to a spec; optimizers */
    struct stni_scope_stack scopes;
    struct stni_shard_tables shard;
    char *module_path;        /* where modules are looked for first; NULL: nowhere */
    struct stni_trace *trace;      /* NULL while off */
    int names_launches;            /* for a trace, a step that is being captured, or a check of scratch */
    int checks_scratch;            /* a launch fails whose kernel wants more of it than was asked for before */
    struct stni_trace *idle_trace; /* one that is off again: a collective with a request may still tell it of itself */
    int64_t clock_offset;     /* nanoseconds from this rank's clock to rank 0's; 0 until it was measured */
    struct stni_slab *tensor_slab, *storage_slab; /* every handle and storage, so that destruction finds what was left */
    _Atomic(stn_tensor *) dead; /* handles without references, freed by this context's next action; STNI_NOBODY */
    stn_tensor *copies; /* those that are copied on write, by next_copy */
    struct stni_lent *lent, *last_lent; /* callers' memory that goes back when the work before has ended, in order */
    struct stni_lent *spare_lent;       /* entries for more of it */
    stn_stats stats;            /* what is counted here; the rest is put in by stn_context_stats */
    struct stni_comm_stats comm_stats;
    stn_log_fn log;
    void *log_arg;
    stn_log_level log_level;
    uint64_t seed;          /* of random numbers */
    uint64_t random_stream; /* the next one of local tensors and of meshes of all ranks */
    uint64_t random_start;  /* the first one of a mesh of some ranks */
    struct stni_stream *random_told; /* the first ones of some of those, as a file told them */
    int n_random_told;
    double deadline_seconds;
    int threads;
    enum stni_isa isa; /* of kernels, chosen when the context was made; the queue has it too */
    int no_grad, no_sync, stale_views; /* depths */
    stn_promotion promotion; /* of local tensors beside tensors on a mesh */
    int reproducible_sums; /* sums of floating numbers are exact, rounded once */
    int allow_tf32;        /* libraries on a GPU may round factors of f32 */
    stn_halo_overlap halo_overlap;
    stn_ring_attention ring_attention;
    int joins_halos; /* convolutions solve few large problems (ops/conv/conv_plan.h): on a device */
    int busy;             /* ops under way: while above 0, unreferenced specs are not collected */
    stn_value_record *values; /* what kernels saw out of range since the last agreement: pinned memory, the device's, or values_here */
    stn_value_record *values_on_device; /* the same where it is the device's, which the host copies into values_here; else NULL */
    stn_value_record values_here;
    int may_have_values; /* 1: since the last agreement all ranks ran an op whose kernels may have seen one */

    /* Owned by the layers above this one; set and freed by src/lib.c. */
    struct stni_tape *tape;
    struct stni_registry *registry;
    struct stni_place_cache *places;
    /* Called when the outermost scope has ended: the tape forgets its collectives. */
    void (*outermost_ended)(stn_context *context);
    /* Called when a tensor that took part in autograd dies. */
    void (*drop_autograd)(stn_tensor *tensor);
    /* Called when a new handle takes the history of another, whose logical value it is. */
    void (*share_autograd)(const stn_tensor *from, stn_tensor *to);
    /* Writes the text of a value error. */
    void (*value_text)(const stn_context *context, const stn_value_record *record, char *text, size_t size);
    /* Called when the last handle is gone: frees the registry, through which ops on handles of a closed context find
     * their error. */
    void (*free_registry)(stn_context *context);
    /* Frees what ops cache per context (oneDNN primitives …). */
    struct stni_op_cache { void (*destroy)(void *state); void *state; } op_cache[4];
    struct stni_foreign foreign;
    struct stni_scope_specs scope_specs;
};

/* Log line by printf; dropped where nobody listens at that level. Any thread. */
void stni_log(stn_context *context, stn_log_level level, const char *format, ...) STN_PRINTF(3, 4);

/* Creation without the layers above: core alone. Writes its message to `error`. The communicator of the options is the
 * context's on success only; else it is still the caller's. */
stn_status stni_context_create_core(const stn_context_options *options, stn_context **out, struct stni_error *error);

/* Releases what all open scopes own, and closes them without agreement. */
void stni_scope_end_all(stn_context *context);

/* The end of a context, in this order: stni_context_drop_graph waits for the queue, releases what open scopes own
 * and takes every tensor's history (drop_autograd). The layers above then free what they own, releasing tensors as
 * usual. stni_context_destroy_core closes the context, with a warning that says how many tensors are left:
 * communicators, queue and cached memory go at once; handles keep what they need (slabs, specs, meshes, the device,
 * the registry) until the last one is gone. */
void stni_context_drop_graph(stn_context *context);
void stni_context_destroy_core(stn_context *context);

/* After a change of `trace` or `capture`. */
static inline void stni_context_name_launches(stn_context *context)
{
    context->names_launches = context->trace != NULL || context->capture != NULL || context->checks_scratch;
}

/* Kernels are not told how much scratch they have. */
static inline void stni_context_check_scratch(stn_context *context)
{
    context->checks_scratch = 1;
    stni_context_name_launches(context);
}

/* STN_ERR_STATE, kept, alike on all ranks, where a step is being captured: of `what`, and why it cannot be a part of
 * one. */
stn_status stni_context_not_captured(stn_context *context, const char *what, const char *why);

/* What is made from now on comes from these pools: the context's own, or a step's. */
void stni_context_use_pools(stn_context *context, struct stni_mempool *pool, struct stni_mempool *host_pool);

/* Adds or removes a keeper of the context's memory (see `keepers`); removing the last one frees it. Any thread. */
void stni_context_keep(stn_context *context);
void stni_context_unkeep(stn_context *context);

/* A closed context belongs to the thread that is freeing handles of it, as an open one belongs to the thread that
 * uses it: other threads leave their handles on `dead`. Frees what is there, and gives the context up or, after its
 * last handle, ends it. */
void stni_context_let_go(stn_context *context);

/* Frees the handles on `dead`. */
void stni_context_free_dead(stn_context *context);

/* Gives back callers' memory whose last work has ended. Called where a scope ends, elements go to the host, other such
 * memory is released, or statistics are read. */
void stni_lent_take_ended(stn_context *context);

/* The same at the context's end, when all work has; no more is lent. */
void stni_lent_close(stn_context *context);

/* Frees handles whose last reference went through stn_tensor_release. Cheap when there are none. Called where an op,
 * a scope or a reading of statistics begins, never in the middle of one. */
static inline void stni_context_reap(stn_context *context)
{
    if (atomic_load_explicit(&context->dead, memory_order_relaxed) != NULL && !context->closed)
        stni_context_free_dead(context);
}

/* Waits for the queue; a failure of it becomes the context's, as a rank error. Returns the kept status. */
stn_status stni_context_sync(stn_context *context, stn_sync_reason reason);

/* Makes and frees the record of value errors. */
stn_status stni_values_create(stn_context *context);
void stni_values_destroy(stn_context *context);

/* STNI_ZERO_BYTES of zeros in the device's memory, which nobody writes: made when they are first wanted, on the queue,
 * which records nothing then, and there until the context ends. */
stn_status stni_zero_take(stn_context *context, void **out);
void stni_zero_destroy(stn_context *context);

/* Whether a kernel reported a value error that was not forgotten yet; writes its text. After the queue was waited
 * for. */
int stni_value_read(stn_context *context, char *text, size_t size);
void stni_value_forget(stn_context *context); /* the record is free for the next one */
int stni_value_take(stn_context *context, char *text, size_t size); /* reads it, and forgets it */

/* Each number becomes the least over the ranks of the world; at most 64. Collective; a failure is kept as a rank
 * error. */
stn_status stni_agree_least(stn_context *context, int64_t *numbers, int n);

/* Why work that returned `status` failed, where it gave no text: the queue's text, else that of the last call of a
 * communicator, if it failed so, else the status's. */
const char *stni_context_failure_text(const stn_context *context, stn_status status);

/* A context that ends with a refusal of which no peer can know tells them why it comes no more. */
void stni_context_tell_refusal(stn_context *context);

/* Aborts every communicator of the context's family with a text. */
void stni_context_abort(stn_context *context, stn_status status, const char *text);

/* The context is about to be destroyed with an error that is this rank's own, or that each rank finds: peers are told
 * where they wait for what this rank does not send. */
void stni_context_leave(stn_context *context, stn_status status, const char *text);

/* Returns the kept status and forgets it, the text stays; a queue that failed takes work again. */
stn_status stni_context_take_status(stn_context *context);

/* All ranks of `comm` keep the failure that the rank at `position` has kept, whatever each had kept before; its
 * world rank is in the text. Collective over them. Returns STN_OK if they do, else why it could not be told. */
stn_status stni_agree_on_failure(stn_context *context, stn_comm *comm, int position, stn_status status);

/* Where a mesh of some ranks stands, by the text of the mesh. */
struct stni_stream {
    uint64_t stream;
    char mesh[STNI_MESH_TEXT];
};

/* As stn_context_set_random_state, and meshes of some ranks go on from what `told` says of them, n of them, those
 * too that are made later; others from `start`. Owns `told`, which may be NULL. */
void stni_random_go_on(stn_context *context, uint64_t seed, uint64_t stream, uint64_t start, struct stni_stream *told,
                       int n);

/* The first stream of a mesh. */
uint64_t stni_random_first(const stn_context *context, const stn_mesh *mesh);

/* Where all streams of random numbers of a context stand, to come back to. */
struct stni_random_place {
    uint64_t seed, stream, start;
    int n_meshes;
    uint64_t *of_mesh;
};

stn_status stni_random_keep(stn_context *context, struct stni_random_place *place);
void stni_random_return(stn_context *context, const struct stni_random_place *place);
void stni_random_place_fini(struct stni_random_place *place);

/* The number of the next random stream of a mesh (NULL: of local tensors), which it takes. In checks mode the ranks
 * of the mesh compare it: STN_ERR_MISMATCH, the same on all of them, where one has drawn more often. Collective over
 * them then, else local. */
stn_status stni_random_draw(stn_context *context, const stn_mesh *mesh, uint64_t *stream);

/* Whether there is a place for a function's result; else STN_ERR_ARGUMENT, kept with the function's name. */
stn_status stni_context_check_out(stn_context *context, const char *function, const void *out);

/* The kept status. For actions: `if (stni_context_failed(c)) return stni_context_failed(c);` or the error tensor. */
static inline stn_status stni_context_failed(const stn_context *context)
{
    return context->error.status;
}

#endif
