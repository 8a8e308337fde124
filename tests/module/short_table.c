/* A module of our ABI whose table ends before the communicator; what follows in memory is not for reading. */
#include <shardtensor/module.h>

STN_API const stn_module *stn_module_short_table(const stn_host *host);

static stn_status device_open(int index, const stn_device_ops **ops, void **impl)
{
    static const stn_device_ops few = {.size = offsetof(stn_device_ops, launch), .name = "short_table"};
    (void)index;
    *ops = &few;
    *impl = NULL;
    return STN_OK;
}

const stn_module *stn_module_short_table(const stn_host *host)
{
    static const struct {
        stn_module module;
        const char *beyond;
    } table = {{.size = offsetof(stn_module, comm_open),
                .abi = STN_MODULE_ABI,
                .name = "short_table",
                .device_open = device_open,
                .comm_open = (stn_status(*)(const char *, const stn_comm_ops **, void **, int *, int *))1,
                .n_kernels = 99},
               "not a table"};
    (void)host;
    return &table.module;
}
