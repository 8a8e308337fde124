/* Modules: devices and communicators that live in shared objects of their own.
 *
 * A module is libshardtensor-<name>.so (or is linked in), and exports one function, stn_module_<name>, that takes the
 * host's table and returns its own. Both tables begin with their size and the ABI number: another number is
 * STN_ERR_VERSION; a smaller size means that the entries at its end are absent. A module calls back through the host
 * table only, and stays loaded.
 *
 * Names are lower-case letters, digits and '_'. Modules are looked for in the folder that the caller names, in the
 * program itself, in the library's own folder, in `shardtensor` inside that, and in libdir/shardtensor as it was
 * built. */
#ifndef SHARDTENSOR_MODULE_H
#define SHARDTENSOR_MODULE_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

enum { STN_MODULE_ABI = 1 };

/** What a kernel is about to do with a foreign library that has code for its problem: open it, ask whether it has some,
 *  run it. */
typedef enum stn_library_use { STN_LIBRARY_OPEN, STN_LIBRARY_QUESTION, STN_LIBRARY_RUN } stn_library_use;

/** A communicator of the ranks' hosts, for a module whose own communicator moves memory of a device: by it ranks meet,
 *  agree and learn of failures. Each entry is called by one thread at a time for one communicator, `abort` by any.
 *  Collective where not said otherwise. */
typedef struct stn_host_comm {
    size_t size;
    int (*rank)(const stn_comm *comm);  /* local */
    int (*ranks)(const stn_comm *comm); /* how many; local */
    /** words[i] = op (SUM, MIN or MAX) over all ranks' words[i]. */
    stn_status (*agree)(stn_comm *comm, int64_t *words, int n, stn_reduce_op op);
    /** Every rank's bytes, at most STN_MAX_AGREE, become `root`'s. */
    stn_status (*agree_broadcast)(stn_comm *comm, void *bytes, size_t n, int root);
    /** As stn_comm_subset. */
    stn_status (*subset)(stn_comm *comm, const int *ranks, int n_ranks, stn_comm **out);
    /** STN_OK, or the failure by which the family was aborted as far as this rank knows. Local, waits for nobody. */
    stn_status (*look)(stn_comm *comm);
    /** Tells the family that this rank failed. Local. */
    void (*abort)(stn_comm *comm, stn_status status, const char *text);
    /** No wait is longer; negative: without end; 0: 300 s. Local. */
    void (*set_deadline)(stn_comm *comm, double seconds);
    /** The text of the last failure. Local. */
    const char *(*error_text)(const stn_comm *comm);
    void (*destroy)(stn_comm **comm); /* local */
} stn_host_comm;

/** What goes with a recording of a device's queue, such as what a communicator has put into it. Called on the thread
 *  that uses the queue. */
typedef struct stn_graph_part {
    void *arg;
    void (*recorded)(void *arg); /* the recording has ended, whether or not it succeeded */
    /** Before the graph is put on `queue`: a failure fails the queue, and the graph does not run. */
    stn_status (*begin)(void *arg, stn_queue *queue);
    void (*end)(void *arg, stn_queue *queue); /* behind it; after each `begin` that succeeded */
    void (*destroy)(void *arg);               /* with the graph, or with a recording that failed */
} stn_graph_part;

/** What the library offers to a module. */
typedef struct stn_host {
    size_t size;
    uint32_t abi;
    stn_status (*queue_fail)(stn_queue *queue, stn_status status, const char *format, ...) STN_PRINTF(3, 4);
    /** Runs a kernel on the calling thread unless the queue has failed, and marks the queue if the kernel fails: for a
     *  device whose kernels are host code, at the time that it chooses. */
    stn_status (*queue_run)(stn_queue *queue, stn_kernel_fn kernel, const void *args);
    /** What the device's queue_create gave: a stream, for instance. */
    void *(*queue_native)(stn_queue *queue);
    const char *(*status_text)(stn_status status);
    size_t (*dtype_size)(stn_dtype dtype);
    /** dst[i] = src[0][i] op src[1][i] op … in that order, `count` elements: the library's own reduction, for
     *  communicators that promise its bits. `dst` may be one of the sources. Host memory; any thread. @return
     *  STN_ERR_MEMORY. */
    stn_status (*reduce)(void *dst, const void *const *src, int n_src, int64_t count, stn_dtype dtype,
                         stn_reduce_op op);
    /** Where kernels of the queue's context report value errors (stn_queue_value_record). */
    stn_value_record *(*queue_value_record)(stn_queue *queue);
    /** What the module's device_open gave for the queue's device (`impl`): where its kernels find what it keeps for a
     *  context. */
    void *(*queue_device)(stn_queue *queue);
    /** 1 where a kernel is to do without a foreign library, by its name in stn_context_options.without. To be asked
     *  before each use: tests have one question or run refused here. 0 for other names. */
    int (*queue_without)(stn_queue *queue, const char *library, stn_library_use use);
    /** The index of the queue's device where that is of the module `module`, else -1. */
    int (*queue_device_index)(stn_queue *queue, const char *module);
    const stn_host_comm *comm;
    /** `reduce` by the kernels that the queue's context runs, which may be wider and so faster; the same bits. */
    stn_status (*queue_reduce)(stn_queue *queue, void *dst, const void *const *src, int n_src, int64_t count,
                               stn_dtype dtype, stn_reduce_op op);
    /** Adds a part to what the queue records now. @return STN_ERR_STATE (it does not record), STN_ERR_MEMORY: the part
     *  is the caller's still. */
    stn_status (*queue_record_part)(stn_queue *queue, const stn_graph_part *part);
    /** stn_context_options.allow_tf32 of the queue's context: 1 where libraries may round factors of f32 to TF32. */
    int (*queue_allows_tf32)(stn_queue *queue);
    /** Within a device's `launch`, on its thread: the kernel's name, by which traces call it. NULL: it has none. */
    const char *(*queue_launch_name)(stn_queue *queue);
    /** `queue_run` under that name. */
    stn_status (*queue_run_named)(stn_queue *queue, stn_kernel_fn kernel, const void *args, const char *name);
} stn_host;

/* Four kernels serve the library itself, for any dtype. Every module with a device brings core.box_copy and core.fill;
 * without core.box_reduce, ranks of one process cannot reduce on that device (STN_ERR_UNSUPPORTED); without
 * core.box_copies, boxes are copied one by one. Their pointers are of this device, or of another one of the same module
 * that a rank of this process has: devices of one module read and write each other's memory. */

/** Arguments of "core.box_copy": dst = src, element by element, for boxes of equal shape. */
typedef struct stn_box_copy_args {
    stn_box dst, src;
    size_t element_size; /* bytes: 1, 2, 4, 8 or 16 */
} stn_box_copy_args;

enum { STN_BOX_COPIES = 48, STN_BOX_COPIES_DIMS = 84 };

/** Arguments of "core.box_copies": copies as core.box_copy's, all in one go. No copy writes what another one reads or
 *  writes, so they may run in any order. Copy i has the next box[i].ndim entries of the dims, which begin behind those
 *  of the copies before it, outermost first. No dim has size 0 or 1, and neighbours that are one dim on both sides are
 *  merged. */
typedef struct stn_box_copies_args {
    size_t element_size; /* bytes: 1, 2, 4, 8 or 16 */
    int n;               /* copies, at least 1 */
    struct {
        void *dst;
        const void *src;
        int64_t ndim;
    } box[STN_BOX_COPIES];
    int64_t shape[STN_BOX_COPIES_DIMS];
    int64_t dst_stride[STN_BOX_COPIES_DIMS], src_stride[STN_BOX_COPIES_DIMS]; /* elements */
} stn_box_copies_args;

/** Arguments of "core.fill": `count` times one element. */
typedef struct stn_fill_args {
    void *data;
    int64_t count;
    size_t element_size;       /* bytes: 1, 2, 4, 8 or 16 */
    unsigned char element[16]; /* its bytes */
} stn_fill_args;

enum { STN_BOX_REDUCE_BOXES = 128, STN_BOX_REDUCE_STRIDES = 352 };

/** Arguments of "core.box_reduce": element by element, every result = (source 0 op source 1 op …) in that order; AVG:
 * divided by n_src.
 *
 *  The bits are those of the library's own reductions. Accumulators have the dtype, but f32 for 16-bit floats, which
 *  are rounded once, after the division; products of complex numbers are (ac - bd, ad + bc), each rounded on its own
 *  (no fused multiply-add). MIN and MAX: a NaN stays, of equal values the earlier source's; complex numbers have
 *  neither. Integers wrap, and AVG truncates towards zero. Bool: SUM, AVG and MAX are "or", PROD and MIN are "and". A
 *  single source is copied whatever the op.
 *
 *  A result may be exactly one of the sources; else boxes do not overlap. Only the entries that are used are passed to
 *  launch. */
typedef struct stn_box_reduce_args {
    stn_dtype dtype;
    stn_reduce_op op;
    int ndim, n_dst, n_src;                  /* n_dst >= 1, n_src >= 1, and no dim is empty */
    int64_t shape[STN_MAX_BOX_NDIM];         /* of every box */
    void *data[STN_BOX_REDUCE_BOXES];        /* n_dst results, then n_src sources */
    int64_t strides[STN_BOX_REDUCE_STRIDES]; /* elements; of box i along dim d: strides[i * ndim + d] */
} stn_box_reduce_args;

/** What a module offers to the library. Absent parts are NULL. */
typedef struct stn_module {
    size_t size;
    uint32_t abi;
    const char *name;
    /** Opens device `index`; `impl` goes to ops->destroy in the end. */
    stn_status (*device_open)(int index, const stn_device_ops **ops, void **impl);
    /** Joins or makes the world described by `options` (the module's own words; may be NULL). */
    stn_status (*comm_open)(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size);
    const stn_kernel *kernels; /* each of kernels[0].size bytes */
    int n_kernels;
    /** Instead of comm_open, for a module whose failures have more to say than a status: writes a message of at most
     *  `text_size` bytes, its end included. */
    stn_status (*comm_join)(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size,
                            char *text, size_t text_size);
    /** How many devices it can open here. Without an index ("cuda" instead of "cuda:1") ranks get them in turn; absent:
     *  all get device 0. */
    int (*device_count)(void);
    /** Instead of device_open, likewise: why it did not open (a driver that is too old, no device of that index). */
    stn_status (*device_join)(int index, const stn_device_ops **ops, void **impl, char *text, size_t text_size);
} stn_module;

/** May be called by several threads at once; the host's table is the same each time. NULL: the module does not take the
 *  host's ABI. */
typedef const stn_module *(*stn_module_fn)(const stn_host *host);

typedef struct stn_comm_options {
    size_t size;             /* sizeof(stn_comm_options) */
    const char *module_path; /* folder that is searched first; NULL: none */
    const char *text;        /* for the module: which world to join; may be NULL */
    char *error_text;        /* where a failure writes its message; NULL: nowhere */
    size_t error_text_size;  /* bytes */
} stn_comm_options;

/** Opens a module's communicator, for stn_context_options.comm. `options` may be NULL. Collective as the module says.
 *  @return STN_ERR_ARGUMENT, STN_ERR_NOT_FOUND, STN_ERR_VERSION, STN_ERR_UNSUPPORTED (it has no communicator),
 *  STN_ERR_MEMORY, or the module's own. */
STN_API stn_status stn_comm_open(const char *module, const stn_comm_options *options, stn_comm **out);

/** Opens ranks of MPI by the number of a communicator, for languages that cannot compile mpi.h; what stn_comm_from_mpi
 *  does, which see.
 *  @param mpi      whose number it is: "openmpi" or "mpich". The module may have been built with another one.
 *  @param comm     as MPI_Comm_c2f gives it, the handle that Fortran has (mpi4py: comm.py2f()).
 *  @param options  NULL, or module_path and error_text; its text is NULL.
 *  Collective over the communicator. @return as stn_comm_from_mpi. */
STN_API stn_status stn_comm_open_mpi(const char *mpi, int64_t comm, double deadline_seconds,
                                     const stn_comm_options *options, stn_comm **out);

/** Attaches a module's kernels to the ops of a context (a context does so itself for its device's module). Kernels of
 *  ops or slots that the context does not know are left alone. Local. @return STN_ERR_NOT_FOUND (no such module),
 *  STN_ERR_VERSION. */
STN_API stn_status stn_context_load_module(stn_context *context, const char *module);

STN_END_DECLS
#endif
