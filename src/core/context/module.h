/* Modules inside the library: loading them, and making what they offer. */
#ifndef STNI_CORE_CONTEXT_MODULE_H
#define STNI_CORE_CONTEXT_MODULE_H

#include <shardtensor/module.h>

#include "core/device/device.h"

/* Finds and opens a module, and checks its table. `path` is a folder that is searched first, or NULL. Entries that
 * the module's table lacks are NULL in *out. The message of a failure goes to `error`. */
stn_status stni_module_load(const char *name, const char *path, stn_module *out, struct stni_error *error);

/* A device by its word in stn_context_options: "name:index", or "name" for the one that is this rank's turn. */
stn_status stni_module_open_device(const char *device, int rank, const char *path, stn_device **out,
                                   struct stni_error *error);

/* For modules, which know libraries by their names (stn_host.queue_without). */
int stni_foreign_without(stn_queue *queue, const char *name, stn_library_use use);

/* Whether an op of the context, internal ones included, has the slot "op.slot": the registry, which stands above
 * this folder, answers. */
int stni_context_has_slot(stn_context *context, const char *name);

#endif
