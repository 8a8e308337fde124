/* A shared object with a module's file name, but without its function. */
#include <shardtensor/export.h>

STN_API int stn_module_of_another_name(void);

int stn_module_of_another_name(void)
{
    return 1;
}
