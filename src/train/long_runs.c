#include "train/long_runs.h"

#include "core/context/context.h"
#include "ops/placement/unshard.h"

/* Bytes of a chunk that lie together in the file, where only this dim and those behind it decide. */
static int64_t run_bytes(const struct stni_layout *layout, int dim)
{
    int64_t bytes = (int64_t)stn_dtype_size(layout->dtype) * layout->shape[dim] / layout->split[dim]->n_parts;
    for (int d = dim + 1; d < layout->ndim; d++)
        bytes *= layout->shape[d];
    return bytes;
}

stn_status stni_long_runs(stn_context *context, struct stni_layout *layout)
{
    enum { SHORT = 1 << 16 };
    int first = 0, moved = 0;
    while (first < layout->ndim - 1 && layout->shape[first] == 1)
        first++;
    for (int d = layout->ndim - 1; d > first; d--)
        if (layout->split[d] && run_bytes(layout, d) < SHORT) {
            STNI_TRY(stni_layout_recut(context, layout, d, first));
            moved = 1;
        }
    for (int d = 0; moved && d < layout->ndim; d++)
        layout->memory_order[d] = (uint8_t)d;
    return STN_OK;
}
