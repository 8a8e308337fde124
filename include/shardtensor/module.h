/* The modules' door: devices and communicators that live in shared objects of their own.
 *
 * A module is libshardtensor-<name>.so (or is linked in), and exports one function, stn_module_<name>, that takes the host's table and
 * returns its own. Both tables begin with their size and the ABI number: another number is STN_ERR_VERSION; a smaller size means
 * that the entries at its end are absent. A module calls back through the host table only. */
#ifndef SHARDTENSOR_MODULE_H
#define SHARDTENSOR_MODULE_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

enum { STN_MODULE_ABI = 1 };

/** What the library offers to a module. */
typedef struct stn_host {
    size_t size;
    uint32_t abi;
    stn_status (*queue_fail)(stn_queue *queue, stn_status status, const char *format, ...);
    const char *(*status_text)(stn_status status);
    size_t (*dtype_size)(stn_dtype dtype);
} stn_host;

/** What a module offers to the library. Absent parts are NULL. */
typedef struct stn_module {
    size_t size;
    uint32_t abi;
    const char *name;
    /** Opens device `index`; `impl` goes to ops->destroy in the end. */
    stn_status (*device_open)(int index, const stn_device_ops **ops, void **impl);
    /** Joins or makes the world described by `options` (the module's own words; may be NULL). */
    stn_status (*comm_open)(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size);
    const stn_kernel *kernels;
    int n_kernels;
} stn_module;

typedef const stn_module *(*stn_module_fn)(const stn_host *host);

/** Opens a module's communicator, for stn_context_options.comm.
 *  @param path  folder that is searched first; NULL: none. Then the library's own folder, then libdir/shardtensor.
 *  @return STN_ERR_NOT_FOUND, STN_ERR_VERSION, STN_ERR_UNSUPPORTED (it has no communicator), or the module's own. */
STN_API stn_status stn_comm_open(const char *module, const char *path, const char *options, stn_comm **out);

/** Attaches a module's kernels to the ops of a context (a context does so itself for its device's module). Local. */
STN_API stn_status stn_context_load_module(stn_context *context, const char *module);

STN_END_DECLS
#endif
