/* Contexts: one per rank. A context owns everything that a rank makes: specs, meshes, memory, the tape, the op
 * registry.
 *
 * Errors are sticky. The first failure is kept by the context; from then on every op returns the context's error tensor
 * and every action returns the kept status without doing anything, until the outermost scope ends or
 * stn_context_take_error is called. A context is used by one thread at a time and may move between threads. */
#ifndef SHARDTENSOR_CONTEXT_H
#define SHARDTENSOR_CONTEXT_H

#include <shardtensor/comm.h>

STN_BEGIN_DECLS

typedef struct stn_context stn_context;
typedef struct stn_tensor stn_tensor;

typedef enum stn_log_level { STN_LOG_ERROR, STN_LOG_WARNING, STN_LOG_INFO, STN_LOG_DEBUG } stn_log_level;

/** Receives a line without a newline. May be called from any thread of the rank. */
typedef void (*stn_log_fn)(void *arg, stn_log_level level, int rank, const char *text);

/** What becomes of a local tensor that an op is given beside tensors on a mesh. */
typedef enum stn_promotion {
    STN_PROMOTE_REFUSE, /* STN_ERR_ARGUMENT */
    STN_PROMOTE_WARN,   /* as SILENT, and a line to the log at STN_LOG_WARNING, once for each op */
    STN_PROMOTE_SILENT  /* it stands for a tensor that is Replicate on that mesh, which the caller promises: ranks'
                           values are not compared. Its gradient is the whole one on every rank (STN_GRAD_REPLICATED).
                           What an op changes in place is never promoted */
} stn_promotion;

/** All zero but `size` is a sound choice. */
typedef struct stn_context_options {
    size_t size;                  /* sizeof(stn_context_options) */
    stn_comm *comm;               /* the world; the context's once that is made, the caller's where it cannot be. NULL: a world of one rank */
    const char *device;           /* NULL or "cpu"; "name:index" of a module's device; "name": rank r gets device r modulo their number */
    const char *module_path;      /* folder of modules that is searched first; NULL: none */
    const stn_allocator *allocator; /* where the CPU's memory comes from; copied. NULL: the C library */
    stn_queue_options queue;      /* queue.size 0: the device's default */
    stn_log_fn log;               /* NULL: silent */
    void *log_arg;
    stn_log_level log_level;
    uint64_t seed;                /* of the random numbers; the same on every rank */
    double deadline_seconds;      /* no collective waits longer; 0: 300; negative: no deadline */
    int threads;                  /* compute threads of this rank; 0: 1 */
    int checks;                   /* 1: compare every collective across ranks before it runs, and name the rank that differs; compare also
                                   * what a kernel wants of scratch with what its op had asked for */
    char *error_text;             /* where a failed creation writes its message; NULL: nowhere */
    size_t error_text_size;       /* bytes */
    /** Libraries to do without, of "onednn", "fftw", "cublaslt", "cudnn", "cufft" and "nccl", with commas between them:
     *  our own kernels serve, more slowly, and where stn_launch would use NCCL the hosts move the data. NULL: none. */
    const char *without;
    /** Which of the CPU kernels that are compiled once per instruction set run: "base", "avx2" (with FMA and F16C) or
     *  "avx512" (F, BW, DQ, VL); NULL: the widest that processor and build offer. A narrower one than that gives what a
     *  lesser processor would; ranks may differ. Libraries under them choose for themselves (oneDNN:
     *  ONEDNN_MAX_CPU_ISA). */
    const char *isa;
    stn_promotion promotion; /* of local tensors beside tensors on a mesh; the same on every rank */
    /** 1: sums of floating numbers are the exact sum, rounded once: the same bits on any number of ranks, in any
     *  layout. So add stn_sum, stn_mean, the norms, what is pending (Partial) and all collectives;
     *  docs/reproducibility.md lists what is covered, what is not and what it costs. The same on every rank; ranks of
     *  the CPU alone. */
    int reproducible_sums;
    /** Where the memory of a module's device comes from; copied. NULL: the module. Tensors, what ops and collectives
     *  need meanwhile, and captured steps have theirs from it alone. What CUDA and its libraries keep for themselves
     *  (NCCL's buffers, tables of cuFFT's plans, code, graphs) is theirs still, and memory of the host the library's.
     *  With the CPU it is STN_ERR_ARGUMENT: see `allocator`. */
    const stn_device_allocator *device_allocator;
    /** 1: cuBLASLt's products and cuDNN's convolutions of f32 may round their factors to TF32 (10 bits of fraction,
     *  sums in f32), as PyTorch's allow_tf32 lets them, which tensor cores multiply faster. 0: f32 is f32. Other
     *  dtypes, our own kernels and contexts on the CPU are as with 0. The same on every rank. */
    int allow_tf32;
} stn_context_options;

/** Makes this rank's context. Collective over `options->comm`. NULL options: a world of one on the CPU.
 *  A process that forks: the child has nothing of the queue's thread (STN_QUEUE_WORKER), of compute threads and of the
 *  thread behind requests (a collective with one, stn_redistribute_begin), and waits for them without end where it uses
 *  or destroys the context. Make contexts behind the fork, or have the child call exec or _exit at once.
 *
 *  Where it fails, `options->comm` is as it was and still the caller's: to be used by another attempt, or destroyed,
 *  which tells the other ranks.
 *  @return STN_ERR_ARGUMENT, STN_ERR_MEMORY, STN_ERR_DEVICE, STN_ERR_NOT_FOUND (no such module), STN_ERR_VERSION,
 *  STN_ERR_UNSUPPORTED (an `isa` that the processor or the build lacks; `reproducible_sums` on another device; a
 *  `device_allocator` where the module's table takes none). */
STN_API stn_status stn_context_create(const stn_context_options *options, stn_context **out);

/** Closes a context: its open scopes release what they own, its communicator, its queue and what it had cached go.
 * Local; accepts NULL.
 *
 *  Handles may outlive it: tensors, specs, DLPack exports, requests, optimizers and averages are released later as
 *  ever, in any order and from any thread, and the last of them gives back the rest. Until then their metadata and
 *  stn_tensor_data may be read, and every op and action on them fails with STN_ERR_STATE; meshes and op handles are
 *  valid as long as some handle is. The allocators of the options, and the `release` of memory that was lent (stn_wrap,
 *  DLPack), are called when such a handle goes, on the thread that releases it: their state must outlive the last
 *  handle. The log function is not called any more. */
STN_API void stn_context_destroy(stn_context **context);

STN_API int stn_context_rank(const stn_context *context); /**< This rank in the world; -1 for NULL. */
STN_API int stn_context_size(const stn_context *context); /**< Ranks of the world; 0 for NULL. */

/** The world's communicator, borrowed; NULL for NULL. Its collectives may be called between ops; the queue is
 *  synchronised first. */
STN_API stn_comm *stn_context_comm(stn_context *context);

/** Where this context's kernels are launched, borrowed; NULL for NULL. */
STN_API stn_queue *stn_context_queue(stn_context *context);

/* Errors */

/** The kept status. Local. @return STN_OK if none is kept; STN_ERR_ARGUMENT for NULL. */
STN_API stn_status stn_context_status(const stn_context *context);

/** The kept message: which argument, what it got, what was wanted. "" if none, and for NULL. After the end of a
 *  scope took the status the message can still be read here, until the next failure or stn_context_take_error.
 *  Local. */
STN_API const char *stn_context_error_text(const stn_context *context);

/** Forgets the kept status, so that the context works again (not after an abort: see STN_ERR_PEER).
 *  Up to `size` bytes of the message go to `text` where it is not NULL. Local. @return the status that was kept;
 *  STN_ERR_ARGUMENT (no context). */
STN_API stn_status stn_context_take_error(stn_context *context, char *text, size_t size);

/** Keeps an error of the caller's own, as that of a failed op is kept: for a function that the library calls (a hook,
 *  a function of stn_local_map), so that the ranks which are told of its failure get this text. Does nothing where an
 *  error is kept. Local.
 *  @param status  what is kept. Of those that a rank tells its peers of as it meets them (MEMORY, DEVICE, COMM, PEER,
 *                 TIMEOUT) peers have heard nothing here: STN_ERR_CALLBACK is kept in their place.
 *  @param text    NULL: the status's.
 *  @return the status that is kept now; STN_ERR_ARGUMENT (no context; `status`: STN_OK, or none), STN_ERR_STATE (the
 *  context is closed). */
STN_API stn_status stn_context_fail(stn_context *context, stn_status status, const char *text);

/** Agreement: every rank brings the error that it has kept, else `status` (its own finding: a file, an argument that
 *  it alone can check, a result; STN_OK if none), else a value out of range; all ranks return and keep one of them, with
 *  its rank's text. Errors that ranks had kept were first, and go before what ranks find; of several the lowest
 *  rank's is told. Values out of range that another error went before are told by the next agreement. `text` may be
 *  NULL. Collective over the world, also for a rank that has kept an error. The mesh stays usable.
 *  @return what is agreed on; STN_ERR_ARGUMENT (no context), STN_ERR_STATE (in a captured step), STN_ERR_COMM,
 *  STN_ERR_PEER, STN_ERR_TIMEOUT. */
STN_API stn_status stn_agree(stn_context *context, stn_status status, const char *text);

/** Agreement on values out of range alone, where ranks may differ in them: stn_agree, if since the last one an op ran
 *  that may report such a value (an index, a class, a division of integers), of tensors on a mesh of all ranks that are
 *  not all whole on each: all ranks know that alike. Else nothing is sent, and each rank returns what it has met itself
 *  (on the CPU; on a device that waits for the next stn_agree): of whole tensors all that ran the op the same, of local
 *  tensors and on meshes of some ranks it alone.
 *  Every rank of the world calls it. @return as stn_agree; where it sends nothing, STN_ERR_VALUE or the kept status. */
STN_API stn_status stn_agree_on_values(stn_context *context);

/* Random numbers */

/** The seed, and how many streams of it have been drawn from: what a run needs to go on with the same numbers. Local.
 *  Either may be NULL; both become 0 where the context is. */
STN_API void stn_context_random_state(const stn_context *context, uint64_t *seed, uint64_t *stream);

/** Sets both; every rank sets the same. The next op that draws takes stream `stream`. Local. NULL is ignored. */
STN_API void stn_context_set_random_state(stn_context *context, uint64_t seed, uint64_t stream);

/* Scopes */

/** Opens a scope: it owns one reference to each handle made until it ends. Cannot fail; NULL is ignored. Local. */
STN_API void stn_scope_begin(stn_context *context);

/** Ends the innermost scope: releases what it owns. Local, or collective over the world if it was begun to agree.
 *  A function that the library calls (a hook, a handler, a function of stn_local_map or stn_recompute, an op's) ends
 *  the scopes that it began, all of them and no other: what it left open is closed when it returns, and is an error.
 *  @return the kept error, which the outermost scope's end takes; where it agrees, as stn_agree; STN_ERR_ARGUMENT (no
 *  context), STN_ERR_STATE (no scope is open, or none that such a function began: nothing is ended). */
STN_API stn_status stn_scope_end(stn_context *context);

/** As stn_scope_end, and hands the caller one reference to `keep`, which outlives the scope (in an outer scope: is
 *  owned by that). `*out` is written on success only.
 *  @return as stn_scope_end; STN_ERR_ARGUMENT (`keep`: NULL, or another context's; `out`: NULL), STN_ERR_STATE (it
 *  is what an earlier failure returned), STN_ERR_MEMORY. */
STN_API stn_status stn_scope_end_keep(stn_context *context, stn_tensor *keep, stn_tensor **out);

/** The same for `n` handles: out[i] is keep[i]. `keep` and `out` may be one array; with n 0, as stn_scope_end.
 *  @return as stn_scope_end_keep; STN_ERR_ARGUMENT (n, a list that is NULL). */
STN_API stn_status stn_scope_end_keep_all(stn_context *context, int n, stn_tensor *const *keep, stn_tensor **out);

/** The next stn_scope_end of the innermost scope agrees (stn_agree), so that value errors become known on all ranks.
 *  Local. Ignored where no scope is open, or none that a function which the library calls began itself. */
STN_API void stn_scope_agree(stn_context *context);

/* Work beside the caller */

/** When a convolution over a sharded dim computes what needs no halo while its halo is on its way, and attention with
 *  the keys that are there while the next ones are (stn_set_ring_attention). */
typedef enum stn_halo_overlap {
    STN_HALO_OVERLAP_WHERE_IT_PAYS, /* by the communicator, the bytes of the halo and the work that needs none */
    STN_HALO_OVERLAP_NEVER,
    STN_HALO_OVERLAP_ALWAYS /* wherever there is such work, also where the ranks' own cores move the data */
} stn_halo_overlap;

/** Chooses it for the ops that are called from now on; WHERE_IT_PAYS at first. Results, messages and bytes are the same
 *  in any case, and ranks may choose differently. Local. @return STN_ERR_ARGUMENT where `when` is none of the three. */
STN_API stn_status stn_set_halo_overlap(stn_context *context, stn_halo_overlap when);

/* What attention gathers */

/** When attention leaves keys and values, which are sharded along their rows as query rows are, where they lie, and has
 *  their chunks go round. */
typedef enum stn_ring_attention {
    STN_RING_ATTENTION_WHERE_IT_PAYS, /* by their bytes */
    STN_RING_ATTENTION_NEVER,         /* they are gathered */
    STN_RING_ATTENTION_ALWAYS
} stn_ring_attention;

/** Chooses it for the calls of attention that follow; WHERE_IT_PAYS at first. Results differ by rounding. Local, and
 *  every rank sets the same. @return STN_ERR_ARGUMENT where `when` is none of the three; STN_ERR_STATE inside an op. */
STN_API stn_status stn_set_ring_attention(stn_context *context, stn_ring_attention when);

/* Launching ranks */

typedef stn_status (*stn_rank_main)(stn_context *context, void *arg);

typedef struct stn_launch_options {
    size_t size;                 /* sizeof(stn_launch_options) */
    int ranks;                   /* 1 to 1024; 0: as many as the job has, 1 where there is none */
    stn_context_options context; /* for each rank; its comm must be NULL, its size right or 0 */
} stn_launch_options;

/** Runs `rank_main` on `options->ranks` threads, each with its own context, and joins them. A rank that returns an
 *  error without having told its peers (STN_ERR_CALLBACK and the like) is no longer waited for: who does, or comes to,
 *  gets STN_ERR_PEER with its text. (Over MPI and NCCL all its peers do, wherever they are.) One that returns STN_OK
 *  with an error kept ends with that, and one whose kernels found a value out of range with STN_ERR_VALUE.
 *
 *  In a process that mpirun, mpiexec or srun (--mpi=pmix, pmi2) started it joins that job instead, through the MPI
 *  module: `rank_main` runs once in each process. (A world of one inside a job is made by stn_context_create without a
 *  communicator.) A shell inside an allocation of Slurm is no such process. Before the job's world can be told of a
 *  failure there is no world, so a process that cannot join returns alone, and the others when their deadline has
 *  passed. The n-th launch of one process joins the n-th of each other: a process that comes to a launch which the
 *  others have given up gets STN_ERR_PEER from it, and can meet them in the next.
 *
 *  So it does in a process that torchrun started, or anything else that sets RANK, WORLD_SIZE, MASTER_ADDR and
 *  MASTER_PORT (srun without PMI: the last two): the ranks meet over TCP (tcp.h) at the first free port behind
 *  MASTER_PORT, the launcher's own. Where MASTER_PORT is not set, `ranks` 0 is refused with a text that says what was
 *  found: each process would be a world of one. `ranks` from 1 on starts threads in each process then. Ranks of a job
 *  with `context.device` "cuda" have their data moved by NCCL (nccl.h) where it is found, else by way of the hosts, and
 *  a line of the log says so.
 *
 *  What `options` leaves open is taken from the environment, by this function alone; what they set (is not 0) wins:
 *      STN_CHECKS=0|1          context.checks
 *      STN_DEADLINE=SECONDS    context.deadline_seconds; negative: none
 *      STN_THREADS=N           context.threads
 *      STN_LOG=LEVEL           error, warning, info or debug: lines to standard error, where context.log is NULL
 *      STN_ISA=SET             context.isa: base, avx2 or avx512
 *      STN_WITHOUT=LIST        context.without: onednn, fftw, cublaslt, cudnn, cufft, nccl, with commas between them
 *      STN_ALLOW_TF32=0|1      context.allow_tf32
 *      STN_TRACE=PREFIX        each rank records a trace and writes it to PREFIX.RANK.json when rank_main has returned
 *      STN_NVTX=0|1            ranges of NVTX (trace.h)
 *  A value that is none of these is STN_ERR_ARGUMENT, with a text that names the variable and lists what it takes; so
 *  is another variable that begins with STN_, and a trace that cannot be written (STN_ERR_IO), before rank_main runs.
 *
 *  The text of a failure goes to context.error_text: for a rank's failure its text, else why the ranks could not be
 *  started.
 *  @return the first error by rank that is not STN_ERR_PEER; STN_OK if all ranks returned it. In a job: what this rank
 *  ended with. STN_ERR_ARGUMENT where `ranks` is not the job's size, STN_ERR_MISMATCH where MPI's world has not as many
 *  ranks as its launcher started, STN_ERR_NOT_FOUND where the MPI module is not there. */
STN_API stn_status stn_launch(const stn_launch_options *options, stn_rank_main rank_main, void *arg);

/** How many ranks the job has that a launcher started this process in, as stn_launch sees it; 0: there is none, ranks
 *  are threads; -1: there is one of a size that its launcher does not tell. A look at the environment. Any thread. */
STN_API int stn_job_size(void);

/* What happened */

/** Why the host waited for its queue. */
typedef enum stn_sync_reason {
    STN_SYNC_CALLER,     /* stn_queue_sync, or a collective that the caller waits for */
    STN_SYNC_AGREEMENT,  /* stn_agree, the end of a scope that agrees, before a backward: the ranks' hosts compare */
    STN_SYNC_VALUES,     /* elements went to or came from the host: stn_to_host, stn_item, a norm, sizes */
    STN_SYNC_COUNTS,     /* how much is sent depends on values: indices routed to their owners, shapes of local tensors */
    STN_SYNC_MEMORY,     /* memory went back to its allocator, or to whoever lent it */
    STN_SYNC_EXPORT,     /* a tensor went out by DLPack */
    STN_SYNC_GROUP,      /* a communicator was made or destroyed */
    STN_SYNC_TRACE,      /* a trace was ended or summed up */
    STN_SYNC_STAGING,    /* a collective whose communicator moves memory of the host alone, on a device */
    STN_SYNC_REASONS
} stn_sync_reason;

typedef struct stn_stats {
    size_t size;               /* sizeof(stn_stats), set by the caller */
    int64_t live_tensors;      /* handles */
    int64_t live_storages;
    int64_t live_bytes;        /* requested by storages and by buffers of running ops; not the caller's memory */
    int64_t peak_bytes;        /* the largest live_bytes since the last reset */
    int64_t reserved_bytes;    /* taken from the allocator, cached ones included */
    int64_t allocations;       /* storages and buffers requested */
    int64_t allocator_calls;   /* of them, those that reached the allocator */
    int64_t specs, splits, meshes; /* interned now */
    int64_t collectives;       /* called */
    int64_t messages;          /* sent by this rank to another */
    int64_t bytes_sent;        /* by this rank to another */
    int64_t redistributions;   /* to another layout, also where nothing had to be sent */
    int64_t dispatches, place_hits, fallbacks;
    int64_t kernels;           /* launched */
    int64_t host_syncs;
    int64_t nodes;             /* recorded for backward since the last reset */
    int64_t host_syncs_by[16]; /* host_syncs by stn_sync_reason; the rest is 0 */
    int64_t waited_ns;         /* nanoseconds in which collectives of this rank, also those with a request, waited for peers and moved nothing;
                                  0 where the communicator does not tell (stn_comm_ops.waited) */
    int64_t host_live_bytes;   /* as live_bytes, of stn_host_memory_begin's memory, which that does not count */
    int64_t host_peak_bytes, host_reserved_bytes; /* likewise */
} stn_stats;

/** Copies up to `stats->size` bytes of this rank's counters. Local. @return STN_ERR_ARGUMENT. */
STN_API stn_status stn_context_stats(stn_context *context, stn_stats *stats);

/** Sets what counts events to zero, and peak_bytes to live_bytes. Local. */
STN_API void stn_context_stats_reset(stn_context *context);

/** Gives cached memory back to the allocator. Local; waits for the queue. */
STN_API void stn_context_trim(stn_context *context);

/** Starts recording ops, kernels and collectives of this rank. Local. @return STN_ERR_STATE (already on),
 *  STN_ERR_MEMORY. */
STN_API stn_status stn_trace_begin(stn_context *context);

/** Stops recording and writes Chrome/Perfetto JSON (microseconds) to `path`. Local. @return STN_ERR_STATE,
 *  STN_ERR_IO. */
STN_API stn_status stn_trace_end(stn_context *context, const char *path);

/** Writes the rings of the last collectives of this rank through the log at STN_LOG_INFO, oldest first: those on the
 *  world, then those on each group of ranks that a mesh uses. Local. */
STN_API void stn_context_dump_calls(stn_context *context);

STN_END_DECLS
#endif
