/* One call of local_map under way. */
#ifndef STNI_OPS_LOCAL_MAP_H
#define STNI_OPS_LOCAL_MAP_H

#include "ops/redistribute/local.h"

#include <shardtensor/local.h>

struct stni_map {
    const stn_local_map_options *options;
    stn_context *context;
    const stn_mesh *mesh;
    int n_in, n_out;
    stn_tensor *const *in;
    uint32_t needs;                       /* inputs that require grad */
    const stn_spec *want[STN_MAX_INPUTS]; /* NULL: of a local input, or an absent one */
    struct stni_local_axes take[STN_MAX_INPUTS];
    stn_tensor *local[STN_MAX_INPUTS], *made[STN_MAX_OUTPUTS]; /* one reference each */
};

static inline const stn_placement *stni_map_placements(const stn_placement *const *list, int i)
{
    return list ? list[i] : NULL;
}

static inline const stn_halo *stni_map_halo(const struct stni_map *m, int i)
{
    return m->options->in_halos ? m->options->in_halos[i] : NULL;
}

/* The mesh of the options, or of the first input on one; of what an earlier failure returned that is the mesh on
 * which it failed. NULL without either. The options may be NULL, or of another version. */
const stn_mesh *stni_map_mesh(const stn_local_map_options *options, int n_in, stn_tensor *const *in);

/* Fills `want` and `take`. A failure may be this rank's alone; nothing has been sent. */
stn_status stni_map_check(struct stni_map *m);

#endif
