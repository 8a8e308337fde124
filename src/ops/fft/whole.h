/* Dims that are to be whole on the ranks that hold them: other dims are cut instead. */
#ifndef STNI_OPS_FFT_WHOLE_H
#define STNI_OPS_FFT_WHOLE_H

#include "core/shard/spec.h"

/* Dims that some axis cuts, as bits. */
uint32_t stni_cut_dims(const struct stni_layout *layout);

/* A layout like `from` in which at least one of the dims in `wanted` is whole, and all of them where that leaves no rank without elements: the axes that
 * cut them cut other dims. Where the tensor has no other dim of more than one element these axes become Replicate. `to` may be `from`. */
void stni_make_whole(const struct stni_layout *from, uint32_t wanted, struct stni_layout *to);

#endif
