/* What the CPU's kernels of searches for near points need. */
#include "ops/points/neighbours_kernel.h"

size_t stni_near_pack_workspace(stn_queue *queue, const void *args)
{
    const struct stni_near_pack_args *a = args;
    (void)queue;
    return stni_block_layout(a->dtype, a->points.rows, a->d, 1).end;
}

size_t stni_near_search_workspace(stn_queue *queue, const void *args)
{
    const struct stni_near_search_args *a = args;
    (void)queue;
    return 17 * ((size_t)a->d + 1) * sizeof(double); /* a packet of 16 queries, and one */
}
