/* The random streams of meshes of some ranks, in files: each rank knows the meshes that it is in. */
#ifndef STNI_TRAIN_STREAMS_H
#define STNI_TRAIN_STREAMS_H

#include "train/contents.h"

/* Adds a number for each mesh of some ranks that has drawn: its stream, under its text (stni_mesh_text). Collective
 * over the world. */
stn_status stni_streams_add(stn_context *context, struct stni_contents *contents);

struct stni_streams {
    uint64_t start; /* of meshes that have not drawn */
    int n;
    struct stni_stream *told;
};

/* Those of a file; of one that knows of none, `start` is `world`, the stream of all ranks. Local; what is wrong is
 * left in the load's error. */
stn_status stni_streams_read(struct stni_load *load, uint64_t world, struct stni_streams *out);

#endif
