/* One rank's share of a resampling or of its adjoint: what its own chunk gives is computed from the chunk where it lies, the rest from small
 * buffers into which neighbours' elements come (contract 19). */
#ifndef STNI_OPS_RESAMPLE_SOLVE_H
#define STNI_OPS_RESAMPLE_SOLVE_H

#include "core/tensor.h"
#include "ops/resample/geometry.h"

/* The op's only slot is the kernel's. */
enum { STNI_RESAMPLE_SLOT };

/* Whether any rank needs elements of another: the same on all. Metadata only. */
int stni_resample_exchanges(const struct stni_resample *geometry, int transposed, const stn_spec *source, const stn_spec *target);

/* Collective over the ranks that share the resampled dims where `exchanges`. Queued. */
stn_status stni_resample_solve(const stn_op_call *call, const struct stni_resample *geometry, int transposed, stn_tensor *source,
                               stn_tensor *target, int exchanges);

#endif
