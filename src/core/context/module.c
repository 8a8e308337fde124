/* Finding, loading and checking modules; devices, communicators and kernels that come out of them. */
#include "core/context/module.h"

#include "core/comm/control.h"
#include "core/comm/dense.h"
#include "core/context/context.h"
#include "core/device/capture.h"
#include "core/device/device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NAME = 24 }; /* bytes, the end included */

static void *queue_device(stn_queue *queue)
{
    return queue->device->impl;
}

static int queue_device_index(stn_queue *queue, const char *module)
{
    const stn_device *device = queue->device;
    return !device->is_cpu && strcmp(device->ops->name, module) == 0 ? device->index : -1;
}

/* Of a caller that does not say whose kernels it wants: those that every processor has. */
static stn_status reduce(void *dst, const void *const *src, int n_src, int64_t count, stn_dtype dtype, stn_reduce_op op)
{
    return stni_dense_reduce(STNI_ISA_BASE, dst, src, n_src, count, dtype, op);
}

static stn_status queue_reduce(stn_queue *queue, void *dst, const void *const *src, int n_src, int64_t count,
                               stn_dtype dtype, stn_reduce_op op)
{
    return stni_dense_reduce(queue->isa, dst, src, n_src, count, dtype, op);
}

static int queue_allows_tf32(stn_queue *queue)
{
    return queue->context && queue->context->allow_tf32;
}

static const stn_host host = {
    .size = sizeof(stn_host),
    .abi = STN_MODULE_ABI,
    .queue_fail = stn_queue_fail,
    .queue_run = stni_queue_run,
    .queue_native = stn_queue_native,
    .status_text = stn_status_text,
    .dtype_size = stn_dtype_size,
    .reduce = reduce,
    .queue_value_record = stn_queue_value_record,
    .queue_device = queue_device,
    .queue_without = stni_foreign_without,
    .queue_device_index = queue_device_index,
    .comm = &stni_host_comm,
    .queue_reduce = queue_reduce,
    .queue_record_part = stni_capture_part,
    .queue_allows_tf32 = queue_allows_tf32,
    .queue_launch_name = stni_queue_launch_name,
    .queue_run_named = stni_queue_run_named,
};

/* A name becomes part of a file's and of a function's. */
static int is_name(const char *name)
{
    size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return n > 0 && n < MAX_NAME && name[n] == '\0';
}

/* The folder that this library was loaded from, and what lies in it. */
static int own_folder(char folder[PATH_MAX], const char *inside)
{
    Dl_info info;
    if (!dladdr(&host, &info) || !info.dli_fname)
        return 0;
    const char *slash = strrchr(info.dli_fname, '/');
    if (!slash)
        return 0;
    snprintf(folder, PATH_MAX, "%.*s%s", (int)(slash - info.dli_fname), info.dli_fname, inside);
    return 1;
}

static stn_module_fn as_function(void *symbol)
{
    stn_module_fn function;
    memcpy(&function, &symbol, sizeof function);
    return function;
}

/* STN_ERR_NOT_FOUND without a text where the folder has no such file. */
static stn_status load_from(const char *folder, const char *name, stn_module_fn *out, struct stni_error *error)
{
    char path[PATH_MAX + 64], symbol[64];
    snprintf(path, sizeof path, "%s/libshardtensor-%s.so", folder, name);
    if (access(path, F_OK) != 0)
        return STN_ERR_NOT_FOUND;
    /* It stays loaded: what it gives out has no moment at which nothing of it runs any more. */
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object)
        return stni_error_set(error, STN_ERR_NOT_FOUND, "module '%s': %s", name, dlerror());
    snprintf(symbol, sizeof symbol, "stn_module_%s", name);
    *out = as_function(dlsym(object, symbol));
    dlclose(object);
    if (!*out)
        return stni_error_set(error, STN_ERR_NOT_FOUND, "module '%s': %s has no function %s", name, path, symbol);
    return STN_OK;
}

static stn_module_fn linked_in(const char *name)
{
    char symbol[64];
    snprintf(symbol, sizeof symbol, "stn_module_%s", name);
    return as_function(dlsym(RTLD_DEFAULT, symbol));
}

static stn_status find(const char *name, const char *path, stn_module_fn *out, struct stni_error *error)
{
    char folder[PATH_MAX];
    stn_status status = path ? load_from(path, name, out, error) : STN_ERR_NOT_FOUND;
    if (status == STN_ERR_NOT_FOUND && error->status == STN_OK && (*out = linked_in(name)) != NULL)
        return STN_OK;
    if (status == STN_ERR_NOT_FOUND && error->status == STN_OK && own_folder(folder, ""))
        status = load_from(folder, name, out, error);
    if (status == STN_ERR_NOT_FOUND && error->status == STN_OK && own_folder(folder, "/shardtensor"))
        status = load_from(folder, name, out, error);
    if (status == STN_ERR_NOT_FOUND && error->status == STN_OK)
        status = load_from(STNI_MODULE_DIR, name, out, error);
    if (status == STN_ERR_NOT_FOUND && error->status == STN_OK)
        stni_error_set(error, status, "module '%s': no libshardtensor-%s.so in %s%sthe library's folder or %s", name,
                       name, path ? path : "", path ? ", " : "", STNI_MODULE_DIR);
    return status;
}

stn_status stni_module_load(const char *name, const char *path, stn_module *out, struct stni_error *error)
{
    stn_module_fn function = NULL;
    if (!is_name(name))
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "module: name got '%s', wanted lower-case letters, digits and '_', below %d bytes",
                              name ? name : "NULL", MAX_NAME);
    STNI_TRY(find(name, path, &function, error));
    const stn_module *module = function(&host);
    if (!module)
        return stni_error_set(error, STN_ERR_VERSION, "module '%s' does not take this library's ABI %u", name,
                              host.abi);
    if (module->abi != host.abi)
        return stni_error_set(error, STN_ERR_VERSION, "module '%s': its ABI got %u, wanted %u", name, module->abi,
                              host.abi);
    if (module->size < offsetof(stn_module, name) + sizeof module->name)
        return stni_error_set(error, STN_ERR_VERSION, "module '%s': its table got %zu bytes, wanted at least %zu", name,
                              module->size, offsetof(stn_module, name) + sizeof module->name);
    memset(out, 0, sizeof *out);
    memcpy(out, module, module->size < sizeof *out ? module->size : sizeof *out);
    return STN_OK;
}

/* Kernel `i`, entries that its struct lacks NULL or 0. */
static stn_kernel kernel_at(const stn_module *module, int i)
{
    stn_kernel kernel = {0};
    size_t size = module->kernels[0].size;
    memcpy(&kernel, (const char *)module->kernels + (size_t)i * size, size < sizeof kernel ? size : sizeof kernel);
    kernel.size = sizeof kernel;
    return kernel;
}

/* A kernel that serves the library itself; NULL where the module has none. */
static stn_status find_core_kernel(const char *module_name, const stn_module *module, const char *name,
                                   size_t args_size, stn_kernel_fn *out, struct stni_error *error)
{
    *out = NULL;
    for (int i = 0; module->kernels && i < module->n_kernels; i++) {
        stn_kernel kernel = kernel_at(module, i);
        if (!kernel.name || strcmp(kernel.name, name) != 0)
            continue;
        if (kernel.args_size != args_size)
            return stni_error_set(error, STN_ERR_VERSION, "module '%s': %s takes %zu bytes of arguments, wanted %zu",
                                  module_name, name, kernel.args_size, args_size);
        *out = kernel.function;
        break;
    }
    return STN_OK;
}

static stn_status find_core_kernels(const char *name, const stn_module *module, stn_device *device,
                                    struct stni_error *error)
{
    STNI_TRY(find_core_kernel(name, module, "core.box_copy", sizeof(stn_box_copy_args), &device->box_copy, error));
    STNI_TRY(
        find_core_kernel(name, module, "core.box_copies", sizeof(stn_box_copies_args), &device->box_copies, error));
    STNI_TRY(find_core_kernel(name, module, "core.fill", sizeof(stn_fill_args), &device->fill, error));
    STNI_TRY(
        find_core_kernel(name, module, "core.box_reduce", sizeof(stn_box_reduce_args), &device->box_reduce, error));
    if (device->box_copy && device->fill)
        return STN_OK;
    return stni_error_set(error, STN_ERR_UNSUPPORTED, "module '%s' has a device but no kernel %s", name,
                          device->box_copy ? "core.fill" : "core.box_copy");
}

/* Which device a rank gets that names none: they get them in turn. */
static int index_in_turn(const stn_module *module, int rank)
{
    const int n = module->device_count ? module->device_count() : 1;
    return n > 0 ? rank % n : 0;
}

/* `index` < 0: the one that is this rank's turn. */
static stn_status open_device(const char *name, int index, int rank, const char *path, stn_device **out,
                              struct stni_error *error)
{
    stn_module module;
    const stn_device_ops *ops = NULL;
    stn_device kernels = {0};
    char text[STNI_ERROR_TEXT - 96] = "";
    void *impl = NULL;
    STNI_TRY(stni_module_load(name, path, &module, error));
    if (!module.device_open && !module.device_join)
        return stni_error_set(error, STN_ERR_UNSUPPORTED, "module '%s' has no device", name);
    STNI_TRY(find_core_kernels(name, &module, &kernels, error));
    if (index < 0)
        index = index_in_turn(&module, rank);
    stn_status status = module.device_join ? module.device_join(index, &ops, &impl, text, sizeof text)
                                           : module.device_open(index, &ops, &impl);
    if (status != STN_OK)
        return stni_error_set(error, status, "module '%s': device %d did not open: %s", name, index,
                              text[0] ? text : stn_status_text(status));
    status = stni_device_create(ops, impl, name, out);
    if (status != STN_OK) {
        const char *missing = stni_device_ops_missing(ops);
        const size_t size = ops ? ops->size : 0;
        if (size >= STNI_DEVICE_OPS_LEAST && ops->destroy)
            ops->destroy(impl);
        return stni_error_set(error, status, "module '%s': its device's table of %zu bytes%s%s: %s", name, size,
                              missing ? " lacks a right " : "", missing ? missing : "", stn_status_text(status));
    }
    (*out)->box_copy = kernels.box_copy;
    (*out)->box_copies = kernels.box_copies;
    (*out)->fill = kernels.fill;
    (*out)->box_reduce = kernels.box_reduce;
    (*out)->index = index;
    return STN_OK;
}

stn_status stni_module_open_device(const char *device, int rank, const char *path, stn_device **out,
                                   struct stni_error *error)
{
    char name[MAX_NAME], *end = NULL;
    const char *colon = strchr(device, ':');
    long index = colon ? strtol(colon + 1, &end, 10) : -1;
    if (colon && (end == colon + 1 || *end != '\0' || index < 0 || index > INT_MAX))
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: device got \"%s\", wanted \"name\" or \"name:index\"",
                              device);
    const size_t length = colon ? (size_t)(colon - device) : strlen(device);
    if (length >= sizeof name)
        return stni_error_set(error, STN_ERR_ARGUMENT, "context: device got \"%s\", wanted a name below %d bytes",
                              device, MAX_NAME);
    snprintf(name, sizeof name, "%.*s", (int)length, device);
    return open_device(name, (int)index, rank, path, out, error);
}

static void give_text(const stn_comm_options *options, const struct stni_error *error)
{
    if (options->error_text && options->error_text_size > 0)
        snprintf(options->error_text, options->error_text_size, "%s", error->text);
}

static stn_status open_comm(const char *name, const stn_comm_options *options, stn_comm **out, struct stni_error *error)
{
    stn_module module;
    const stn_comm_ops *ops = NULL;
    void *impl = NULL;
    int rank = 0, size = 0;
    char text[STNI_ERROR_TEXT - 96] = "";
    STNI_TRY(stni_module_load(name, options->module_path, &module, error));
    if (!module.comm_open && !module.comm_join)
        return stni_error_set(error, STN_ERR_UNSUPPORTED, "module '%s' has no communicator", name);
    stn_status status = module.comm_join ? module.comm_join(options->text, &ops, &impl, &rank, &size, text, sizeof text)
                                         : module.comm_open(options->text, &ops, &impl, &rank, &size);
    if (status != STN_OK)
        return stni_error_set(error, status, "module '%s': its communicator did not open: %s", name,
                              text[0] ? text : stn_status_text(status));
    status = stn_comm_create(ops, impl, rank, size, out);
    if (status != STN_OK) {
        const char *missing = stn_comm_ops_missing(ops);
        const size_t bytes = ops ? ops->size : 0;
        if (bytes >= STNI_COMM_OPS_LEAST && ops->destroy)
            ops->destroy(impl);
        return stni_error_set(
            error, status, "module '%s': its communicator's table of %zu bytes%s%s, rank %d of %d: %s", name, bytes,
            missing ? " lacks a right " : "", missing ? missing : "", rank, size, stn_status_text(status));
    }
    return STN_OK;
}

stn_status stn_comm_open(const char *module, const stn_comm_options *options, stn_comm **out)
{
    static const stn_comm_options defaults = {.size = sizeof defaults};
    struct stni_error error = {0};
    if (!options)
        options = &defaults;
    if (!out || options->size != sizeof *options)
        return STN_ERR_ARGUMENT;
    stn_status status = open_comm(module, options, out, &error);
    if (status != STN_OK)
        give_text(options, &error);
    return status;
}

stn_status stn_comm_open_mpi(const char *mpi, int64_t comm, double deadline_seconds, const stn_comm_options *options,
                             stn_comm **out)
{
    char text[128];
    stn_comm_options with = {.size = sizeof with};
    if (options)
        with = *options;
    if (!mpi || strlen(mpi) > 32 || with.size != sizeof with || with.text)
        return STN_ERR_ARGUMENT;
    const int n = snprintf(text, sizeof text, "mpi=%s comm=%lld", mpi, (long long)comm);
    if (deadline_seconds != 0)
        snprintf(text + n, sizeof text - (size_t)n, " deadline=%.17g", deadline_seconds);
    with.text = text;
    return stn_comm_open("mpi", &with, out);
}

stn_status stn_context_load_module(stn_context *context, const char *module)
{
    stn_module table;
    struct stni_error error = {0};
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_failed(context));
    if (stni_module_load(module, context->module_path, &table, &error) != STN_OK)
        return stni_fail(context, error.status, "load_module: %s", error.text);
    for (int i = 0; table.kernels && i < table.n_kernels; i++) {
        stn_kernel kernel = kernel_at(&table, i);
        if (kernel.name && stni_context_has_slot(context, kernel.name))
            STNI_TRY(stn_kernel_register(context, &kernel));
    }
    return STN_OK;
}
