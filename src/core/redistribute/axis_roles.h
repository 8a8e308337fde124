/* Axis roles (`route` in variables): what a redistribution from one spec to another means for each mesh axis. The same
 * on every rank; no rank is named.
 *
 * Axes of one rank do not count: the "wide" ones are numbered 0, 1, … in mesh order, here and in plans. Where both
 * meshes have the same ranks along the same wide axes (same_grid), a wide axis k of one is that of the other, and each
 * k has one of three meanings:
 *     coupled    sender and receiver have the same coordinate: nothing travels along k
 *     addends    a receiver receives from every coordinate, and combines
 *     otherwise  the places of the elements tell the coordinates */
#ifndef STNI_CORE_REDISTRIBUTE_AXIS_ROLES_H
#define STNI_CORE_REDISTRIBUTE_AXIS_ROLES_H

#include "core/shard/spec.h"

/* A spec seen along its wide axes. */
struct stni_axis_roles_side {
    const stn_spec *spec;
    const stn_mesh *mesh;
    int n;                           /* wide axes */
    int axis[STN_MAX_MESH_NDIM];     /* the mesh's number of wide axis k */
    int size[STN_MAX_MESH_NDIM];
    int step[STN_MAX_MESH_NDIM];     /* what a coordinate adds to a peer's number; 0 where coupled */
    int n_levels[STN_MAX_NDIM];      /* wide axes that shard each dim, … */
    int level[STN_MAX_NDIM][STN_MAX_MESH_NDIM]; /* … major to minor */
};

struct stni_axis_roles {
    struct stni_axis_roles_side src, dst;
    int same_grid;
    /* Bit k: wide axis k, of src and dst alike where same_grid. */
    uint32_t coupled;
    uint32_t addends;    /* src: Partial, to be reduced */
    uint32_t replicas;   /* src: Replicate, the sender's coordinate has to be chosen (never where same_grid) */
    uint32_t fan_out;    /* dst: each coordinate receives, and not from itself alone */
    uint32_t first_only; /* dst: Partial to be, coordinate 0 receives what the others do not hold */
    uint32_t fresh;      /* dst: Partial to be, of an op with an identity; those who do not receive hold that */
    uint32_t ops;        /* bit op: addends of that op */
    uint32_t fresh_ops;  /* bit op: fresh axes of that op */
    uint32_t axes;       /* src's mesh: axes along which ranks talk, for stni_mesh_comm. Only where same_grid */
};

/* `src` and `dst` are on meshes and have equal shapes. */
void stni_axis_roles_make(const stn_spec *src, const stn_spec *dst, struct stni_axis_roles *route);

/* Coordinates of a world rank along the wide axes; returns membership. */
int stni_axis_roles_find(const struct stni_axis_roles_side *side, int rank, int coordinate[STN_MAX_MESH_NDIM]);

/* 1 where one exchange would send the same sum to several receivers: reduce to fewer pieces first, then gather. */
static inline int stni_axis_roles_reduces_twice(const struct stni_axis_roles *route)
{
    return route->addends != 0 && route->fan_out != 0;
}

#endif
