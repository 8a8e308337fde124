/* One rank's share of a resampling or of its adjoint: what its own chunk gives is computed from the chunk where it
 * lies, the rest from small buffers into which neighbours' elements come (contract 19). */
#ifndef STNI_OPS_RESAMPLE_RESAMPLE_SOLVE_H
#define STNI_OPS_RESAMPLE_RESAMPLE_SOLVE_H

#include "core/tensor/tensor.h"
#include "ops/resample/resample_geometry.h"
#include "ops/exchange/stencil.h"

/* The op's only slot is the kernel's. */
enum { STNI_RESAMPLE_SLOT };

/* Fills want[0] and out_spec[0] for an output of the shape in out_meta[0]: the input's layout, cuts of resampled
 * dims in proportion. Linear: pending sums stay. `*exchanges`: whether any rank needs elements of another. Metadata
 * only. */
stn_status stni_resample_place(stn_op_call *call, const struct stni_resample *geometry, int transposed, int *exchanges);

/* The same layout for a tensor of another shape; splits of dims that keep their size stay. */
stn_status stni_resample_layout(stn_context *context, const struct stni_layout *in,
                                const struct stni_resample *geometry, const int64_t *shape, struct stni_layout *out);

/* Where the elements of one part lie, for kernels: `from` holds part->source, `target` is the whole chunk. Writes
 * all of `args` but `work`; returns the part's first element in the target's chunk. */
int64_t stni_resample_fill(const struct stni_resample *geometry, const stn_tensor *target,
                           const struct stni_stencil_part *part, const stn_box *from, struct stni_resample_args *args);

/* Collective over the ranks that share the resampled dims where `exchanges`. Queued. */
stn_status stni_resample_solve(const stn_op_call *call, const struct stni_resample *geometry, int transposed,
                               stn_tensor *source, stn_tensor *target, int exchanges);

#endif
