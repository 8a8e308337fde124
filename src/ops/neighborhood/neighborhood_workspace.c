#include "ops/cpu/widen.h"
#include "ops/neighborhood/neighborhood_space.h"

/* Planes have e, v and, of queries, two numbers more; tiles are two of both kinds. Each array begins at a multiple of
 * 64 bytes. */
size_t stni_neighborhood_workspace(stn_queue *queue, const void *args)
{
    enum { ARRAYS = 16 };
    const struct stni_neighborhood_args *p = args;
    const size_t size = stn_dtype_size(stni_wide_dtype(p->dtype));
    const struct stni_neighborhood_counts c = stni_neighborhood_counts(p, size);
    const int64_t elements = c.planes * c.rows * c.width * (p->e + p->v + 2) + c.lanes * 2 * (p->e + p->v) +
                             2 * stni_neighborhood_scores(&c) + c.along * c.lanes;
    (void)queue;
    return (size_t)elements * size + (size_t)c.taps * sizeof(struct stni_neighborhood_tap) +
           ARRAYS * STNI_NEIGHBORHOOD_LANE_BYTES;
}
