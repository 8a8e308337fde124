/* Maps between the elements of tensors, dim by dim: which element of a source each element of a target is.
 *
 * Slices, pads, rolls, flips, concatenations and their adjoints are all a few segments per dim: the target's
 * positions dst, dst + dst_step, … hold the source's elements src, src + src_step, …. A remap is the product of its
 * dims' segments. Both tensors have the same number of dims and the same placements, only cuts and sizes differ.
 * Elements that have to move go straight from the owners' chunks into the target's in one exchange, whatever the
 * cuts. */
#ifndef STNI_OPS_EXCHANGE_REMAP_H
#define STNI_OPS_EXCHANGE_REMAP_H

#include "core/tensor/tensor.h"
#include "ops/exchange/remap_kernel.h"

/* Steps may be negative or, where all positions are one, 0. */
struct stni_segment {
    int64_t dst, src, length;
    int64_t dst_step, src_step;
    int adds; /* its elements are added to what other segments, or earlier ones of its own, left there; else nothing else is there */
};

enum { STNI_REMAP_MAX_SEGMENTS = 4 };

struct stni_remap {
    int ndim, n[STN_MAX_NDIM];
    struct stni_segment segment[STN_MAX_NDIM][STNI_REMAP_MAX_SEGMENTS];
};

/* Every dim as it is. */
void stni_remap_init(struct stni_remap *map, int ndim, const int64_t *shape);

/* The adjoint map: source and target change places. Positions that were read several times are added up: segments
 * with src_step 0, and all but the one named `kept` of dims that have several. */
void stni_remap_transpose(struct stni_remap *map, int kept);

/* The mesh axes along which elements move: the same on every rank. Metadata only. */
uint32_t stni_remap_moves(const struct stni_remap *map, const stn_spec *src, const stn_spec *dst);

/* What a rank does: target = sources by their maps, `fill` (one element, on the host) elsewhere; NULL: the maps
 * leave nothing out. `moves` is what the maps move, taken together. Sources have the target's dtype. Collective over
 * the ranks along `moves`. Queued. The op has the slots of remap_kernel.h. */
stn_status stni_remap_run(const stn_op_call *call, int n, const struct stni_remap *maps, stn_tensor *const *sources,
                          stn_tensor *target, uint32_t moves, const void *fill);

#endif
