/* Pointwise ops over any iteration space, tile by tile. For the CPU's kernel. */
#ifndef STNI_OPS_ELEMENTWISE_POINTWISE_TILES_H
#define STNI_OPS_ELEMENTWISE_POINTWISE_TILES_H

#include "ops/elementwise/pointwise_kernel.h"

void stni_pointwise_tiles(const struct stni_pointwise_args *args, stni_pointwise_block_fn block, enum stni_isa isa);

/* Whether the caches will not keep a result of so many bytes, so that it had better be written past them: by tiles. What is changed in
 * place is in the caches. */
int stni_pointwise_is_streamed(const struct stni_pointwise_args *args, int64_t bytes);

#endif
