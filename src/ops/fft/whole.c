#include "ops/fft/whole.h"

uint32_t stni_cut_dims(const struct stni_layout *layout)
{
    uint32_t mask = 0;
    for (int a = 0; layout->mesh && a < layout->mesh->ndim; a++)
        if (layout->placement[a].kind == STN_PLACE_SHARD)
            mask |= 1u << layout->placement[a].dim;
    return mask;
}

/* Makes the dims in `whole` whole by cutting others instead: each axis cuts the one of which its ranks get the most elements.
 * Returns 0 where there is none, or the chunks of one would be empty. */
static int move_cuts(struct stni_layout *layout, uint32_t whole)
{
    int64_t rows[STN_MAX_NDIM];
    int fits = 1;
    for (int d = 0; d < layout->ndim; d++)
        rows[d] = layout->shape[d];
    for (int a = 0; a < layout->mesh->ndim; a++)
        if (layout->placement[a].kind == STN_PLACE_SHARD && !(whole >> layout->placement[a].dim & 1))
            rows[layout->placement[a].dim] /= layout->mesh->sizes[a];
    for (int a = 0; a < layout->mesh->ndim; a++) {
        int best = -1;
        if (layout->placement[a].kind != STN_PLACE_SHARD || !(whole >> layout->placement[a].dim & 1))
            continue;
        for (int d = 0; d < layout->ndim; d++)
            if (!(whole >> d & 1) && layout->shape[d] > 1 && (best < 0 || rows[d] > rows[best]))
                best = d;
        if (best < 0)
            return 0;
        layout->split[layout->placement[a].dim] = layout->split[best] = NULL;
        layout->placement[a] = stn_shard(best);
        rows[best] /= layout->mesh->sizes[a];
        fits &= rows[best] > 0;
    }
    return fits;
}

static struct stni_layout gathered(const struct stni_layout *from, uint32_t wanted)
{
    struct stni_layout to = *from;
    for (int a = 0; to.mesh && a < to.mesh->ndim; a++)
        if (to.placement[a].kind == STN_PLACE_SHARD && wanted >> to.placement[a].dim & 1)
            to.placement[a] = stn_replicate();
    return to;
}

/* All at once; else the first that can be without starving ranks; else the first that can be at all. */
void stni_make_whole(const struct stni_layout *from, uint32_t wanted, struct stni_layout *to)
{
    const struct stni_layout start = *from;
    struct stni_layout starved;
    int found = 0;
    *to = start;
    if (!(stni_cut_dims(&start) & wanted) || move_cuts(to, wanted))
        return;
    for (int d = 0; d < start.ndim; d++) {
        *to = start;
        if (!(wanted >> d & 1))
            continue;
        if (move_cuts(to, 1u << d))
            return;
        if (!found && !(stni_cut_dims(to) >> d & 1)) {
            starved = *to;
            found = 1;
        }
    }
    *to = found ? starved : gathered(&start, wanted);
}
