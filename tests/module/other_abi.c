/* A module of another time: its ABI is not ours. */
#include <shardtensor/module.h>

STN_API const stn_module *stn_module_other_abi(const stn_host *host);

const stn_module *stn_module_other_abi(const stn_host *host)
{
    static const stn_module module = {.size = sizeof module, .abi = 4711, .name = "other_abi"};
    (void)host;
    return &module;
}
