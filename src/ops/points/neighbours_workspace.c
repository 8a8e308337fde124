/* What the CPU's kernels of searches for near points need. */
#include "ops/points/neighbours_kernel.h"

size_t stni_block_pack_workspace(stn_queue *queue, const void *args)
{
    (void)queue;
    return stni_block_layout(&((const struct stni_block_pack_args *)args)->shape, 1).end;
}

size_t stni_near_search_workspace(stn_queue *queue, const void *args)
{
    const struct stni_near_search_args *a = args;
    (void)queue;
    return 17 * ((size_t)a->shape.d + 1) * sizeof(double); /* a packet of 16 queries, and one */
}
