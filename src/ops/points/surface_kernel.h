/* Kernels of distances from a surface, shared by every device. All compute in f64.
 *
 *     search   the triangles of a block that are nearest to each query join what is known of it
 *     finish   what is known of a query, by several ranks where they searched apart, becomes its result */
#ifndef STNI_OPS_POINTS_SURFACE_KERNEL_H
#define STNI_OPS_POINTS_SURFACE_KERNEL_H

#include "ops/points/block_kernel.h"
#include "ops/points/triangle.h"

enum { STNI_SURFACE_DTYPES = 1 << STN_DTYPE_F64 };

/* `fresh`: nothing is known yet. */
struct stni_surface_search_args {
    struct stni_block_shape shape; /* of the block */
    const void *block;
    struct stni_near_rows queries;
    int fresh;
    struct stni_hit *hits; /* one for each query */
};

/* `parts` lists of n hits, one after the other. Outputs are dense: distance and face (n), nearest and weight (n, 3). */
struct stni_surface_finish_args {
    int64_t n;
    int parts;
    const struct stni_hit *hits;
    double *distance, *nearest, *weight;
    int64_t *face;
};

STNI_INLINE struct stni_hit stni_no_hit(void)
{
    struct stni_hit hit = {(double)INFINITY, {0}, {0}, 0, -1};
    for (int i = 0; i < 3; i++)
        hit.nearest[i] = (double)NAN;
    return hit;
}

/* The result of query i. */
STNI_INLINE void stni_surface_finish_one(const struct stni_surface_finish_args *a, int64_t i)
{
    struct stni_hit hit = a->hits[i];
    for (int part = 1; part < a->parts; part++)
        stni_hit_join(&hit, &a->hits[part * a->n + i]);
    const double distance = sqrt(hit.square);
    a->distance[i] = hit.face < 0 ? (double)NAN : hit.pull < -STNI_PULL_NONE ? -distance : distance;
    a->face[i] = hit.face;
    for (int j = 0; j < 3; j++) {
        a->nearest[3 * i + j] = hit.nearest[j];
        a->weight[3 * i + j] = hit.weight[j];
    }
}

STNI_ISA_KERNEL(stni_surface_search);
STNI_ISA_KERNEL(stni_surface_finish);

#endif
