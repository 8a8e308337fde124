/* Processors whose non-temporal stores this program does not know. */
#include "copy_plain.h"

const rows_fn *rows_ways(void)
{
    static const rows_fn ways[] = {rows_plain, NULL};
    return ways;
}
