/* Meshes inside the library. */
#ifndef STNI_CORE_SHARD_MESH_H
#define STNI_CORE_SHARD_MESH_H

#include <shardtensor/mesh.h>

#include "core/base/status.h"

struct stni_group_comm;

struct stn_mesh {
    stn_context *context;
    int ndim, size;
    int sizes[STN_MAX_MESH_NDIM];
    char names[STN_MAX_MESH_NDIM][STN_MAX_AXIS_NAME];
    /* Members in row-major order: rank = start + sum coordinate[a] * step[a] where that describes them, so that a
     * mesh of 100,000 ranks is as small as one of 2; else the list. */
    int start, step[STN_MAX_MESH_NDIM];
    uint8_t by_step[STN_MAX_MESH_NDIM]; /* axes from the largest step to the smallest; each is larger than all after it reach */
    int *ranks;  /* NULL where affine */
    int *sorted; /* positions in the order of their ranks; NULL where affine */
    int member; /* this rank belongs to it */
    int coordinate[STN_MAX_MESH_NDIM]; /* this rank's; -1 outside */
    /* Communicators over the axes of a bit mask, with the other coordinates fixed at this rank's; made on first use. */
    struct stni_mesh_comm { uint32_t axes; const struct stni_group_comm *group; } *comms;
    int n_comms;
    uint32_t id; /* order of making in this context: nothing that ranks may compare, who make other meshes of their own */
    uint64_t identity; /* hash of ranks and names: the same on every rank */
    const struct stn_mesh *sliced; /* the mesh of more axes that this rank made it of first; NULL: none */
    uint8_t sliced_axis[STN_MAX_MESH_NDIM]; /* which of these each of its own is */
    int64_t crossings;      /* how often a tensor on it became a local one with a history: the same on every rank of it */
    uint64_t random_stream; /* the next one; not of a mesh of all ranks, which draws from its context's */
};

/* Coordinates of a world rank, -1 each if it is no member; returns membership. */
int stni_mesh_find(const stn_mesh *mesh, int rank, int coordinate[STN_MAX_MESH_NDIM]);

/* Whether the coordinates are this rank's; without a mesh (NULL) they are. */
int stni_mesh_is_self(const stn_mesh *mesh, const int *coordinate);

/* Linear position (row-major) of a world rank, -1 if it is no member. */
int stni_mesh_position(const stn_mesh *mesh, int rank);

/* World rank at linear position i (row-major), 0 <= i < size. */
int stni_mesh_rank(const stn_mesh *mesh, int i);

/* 1 if both have the same ranks along the same axes, whatever the axes' names; axes of size 1 do not count. */
int stni_mesh_same_grid(const stn_mesh *a, const stn_mesh *b);

/* The largest mesh that a slice stems from, and the bits of that one's axes along which it lies; of what is no slice
 * itself, and all its axes. */
const stn_mesh *stni_mesh_grid(const stn_mesh *mesh, uint32_t *axes);

/* The communicator of the ranks that differ from this one along the axes in `axes` (bit a: axis a) only, in
 * row-major order. Collective over those ranks at its first use. Borrowed. This rank must be a member. */
stn_status stni_mesh_comm(const stn_mesh *mesh, uint32_t axes, stn_comm **out);

/* Of a mesh in the making, with its sizes: the ranks 0, 1, …, in row-major order. */
void stni_mesh_number(stn_mesh *mesh);

/* The same from a list: steps where they describe it, else mesh->ranks is the list itself, borrowed. */
void stni_mesh_describe(stn_mesh *mesh, int *ranks);

enum { STNI_MESH_TEXT = 384 };

/* What a mesh is called in files: "y:2+3,x:3+1@0", each axis with its size and the step between its ranks, then the
 * first rank; where ranks stand in no such order, "#" and a hash of them. Meshes of the same ranks, grid and names
 * alone have the same. */
void stni_mesh_text(const stn_mesh *mesh, char text[STNI_MESH_TEXT]);

void stni_mesh_destroy(stn_mesh *mesh);

#endif
