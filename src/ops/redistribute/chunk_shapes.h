/* A spec found by ranks that each know the shape of their own chunk alone: they tell each other. */
#ifndef STNI_OPS_REDISTRIBUTE_CHUNK_SHAPES_H
#define STNI_OPS_REDISTRIBUTE_CHUNK_SHAPES_H

#include "core/context/context.h"

/* What each rank tells: what it finds wrong with its own chunk, and what that is. */
struct stni_chunk_told {
    int64_t status, dtype, ndim, requires_grad, shape[STN_MAX_NDIM];
};

/* Who is asked, and how messages begin and what they say of a rank that told of something wrong. */
struct stni_chunk_question {
    const stn_mesh *mesh;
    const stn_placement *placements; /* one per axis */
    stn_comm *comm;                  /* the mesh's ranks, in their order there, or the world */
    const char *function, *chunk, *wrong;
};

/* Collective over the communicator: every rank comes to the same result. `first` gets what the mesh's first rank
 * told. */
stn_status stni_chunk_shapes_join(const struct stni_chunk_question *question, const struct stni_chunk_told *own,
                                  struct stni_chunk_told *first, const stn_spec **out);

#endif
