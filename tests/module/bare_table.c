/* A module of our ABI that opens what it has no table of (device 0, its communicator), or one that lacks an entry:
 * device i lacks the i-th of them. */
#include <shardtensor/module.h>

#include <string.h>

STN_API const stn_module *stn_module_bare_table(const stn_host *host);

/* Nobody gets to call it. */
static stn_status never(stn_queue *queue, const void *args)
{
    (void)queue, (void)args;
    return STN_OK;
}

static stn_status device_open(int index, const stn_device_ops **ops, void **impl)
{
    static stn_device_ops table;
    memset(&table, 1, sizeof table);
    table.size = sizeof table;
    table.name = "bare_table";
    table.destroy = NULL;
    if (index > 0)
        memset((char *)&table + offsetof(stn_device_ops, allocate) + (size_t)(index - 1) * sizeof table.allocate, 0,
               sizeof table.allocate);
    *ops = index > 0 ? &table : NULL;
    *impl = NULL;
    return STN_OK;
}

static stn_status comm_open(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size)
{
    (void)options, (void)ops, (void)impl;
    *rank = 0;
    *size = 1;
    return STN_OK;
}

const stn_module *stn_module_bare_table(const stn_host *host)
{
    static const stn_kernel kernels[] = {
        {.size = sizeof *kernels, .name = "core.box_copy", .args_size = sizeof(stn_box_copy_args), .function = never},
        {.size = sizeof *kernels, .name = "core.fill", .args_size = sizeof(stn_fill_args), .function = never}};
    static const stn_module table = {.size = sizeof table,
                                     .abi = STN_MODULE_ABI,
                                     .name = "bare_table",
                                     .device_open = device_open,
                                     .comm_open = comm_open,
                                     .kernels = kernels,
                                     .n_kernels = 2};
    (void)host;
    return &table;
}
