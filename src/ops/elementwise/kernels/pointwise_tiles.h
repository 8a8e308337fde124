/* Pointwise ops over any iteration space, tile by tile. For the CPU's kernel. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_TILES_H
#define STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_TILES_H

#include "core/box/nontemporal.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

void stni_pointwise_tiles(stn_queue *queue, const struct stni_pointwise_args *args, stni_pointwise_block_fn block);

/* Whether a result of so many bytes is too large to stay in the caches, so that it had better be written by
 * non-temporal stores: by tiles. What an op changes in place is in the caches anyway. */
static inline int stni_pointwise_is_streamed(const struct stni_pointwise_args *args, int64_t bytes)
{
    if (bytes < STNI_STREAMING_RESULT)
        return 0;
    for (int i = 0; i < args->n_in; i++)
        if (args->in[i].data == args->out.data)
            return 0;
    return 1;
}

#endif
