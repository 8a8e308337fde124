/* Specs inside the library: a layout is what a spec says, as a value that can be edited; interning turns it into a
 * spec. */
#ifndef STNI_CORE_SHARD_SPEC_H
#define STNI_CORE_SHARD_SPEC_H

#include <shardtensor/spec.h>

#include "core/shard/mesh.h"
#include "core/shard/split.h"

#include <stdatomic.h>

/* Everything that tells specs apart. Canonical once interned: axes of size 1 are Replicate, axis order is mesh order
 * where it says nothing, dims of size 1 stand last in memory order, entries past ndim are zero. */
struct stni_layout {
    const stn_mesh *mesh; /* NULL: local */
    stn_dtype dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM];
    stn_placement placement[STN_MAX_MESH_NDIM];
    uint8_t axis_order[STN_MAX_MESH_NDIM];
    uint8_t memory_order[STN_MAX_NDIM];
    const struct stni_split *split[STN_MAX_NDIM]; /* NULL where no axis shards the dim */
};

struct stn_spec {
    struct stni_layout layout;
    stn_context *context;
    int refs; /* by tensors, nodes, leaves, cached places. On the context's thread only */
    atomic_int held; /* by callers, each of them a keeper of the context. On any thread */
    uint32_t partial_axes, shard_axes; /* bit a: axis a */
    int64_t numel, local_numel;
    size_t local_bytes; /* of a dense chunk */
    int64_t local_shape[STN_MAX_NDIM], local_offset[STN_MAX_NDIM];
    int64_t strides[STN_MAX_NDIM]; /* of a dense chunk in memory order, in elements */
    UT_hash_handle hh;
};

/* For whatever of the library uses a spec; callers have stn_spec_retain and stn_spec_release. */
static inline const stn_spec *stni_spec_retain(const stn_spec *spec)
{
    ((stn_spec *)spec)->refs++;
    return spec;
}

static inline void stni_spec_release(const stn_spec *spec)
{
    ((stn_spec *)spec)->refs--;
}

/* A layout with mesh order, row-major memory, all Replicate. */
void stni_layout_init(struct stni_layout *layout, const stn_mesh *mesh, stn_dtype dtype, int ndim,
                      const int64_t *shape);

/* The axes that shard `dim`, major to minor; returns how many. */
int stni_layout_dim_axes(const struct stni_layout *layout, int dim, int axes[STN_MAX_MESH_NDIM]);

/* The same as a mask (bit a: axis a). */
uint32_t stni_layout_axes_mask(const struct stni_layout *layout, int dim);

/* Replicate wherever a reduction is pending, but for those of `kept` (bit op: stn_reduce_op op): the layout that an
 * op wants of an input in which it is not linear. Returns the axes that changed. */
uint32_t stni_layout_reduce(struct stni_layout *layout, uint32_t kept);

/* Gives each sharded dim the balanced split where it has none (NULL) or one that does not fit its axes and size. */
stn_status stni_layout_balance(stn_context *context, struct stni_layout *layout);

/* Brings a layout to its canonical form; splits are left to stni_layout_balance. */
void stni_layout_canonicalise(struct stni_layout *layout);

/* Canonicalises (a copy of) `layout` and finds or makes its spec; sharded dims without a split are balanced. Not
 * retained: a new spec without users lives until the next stni_shard_collect. */
stn_status stni_spec_intern(stn_context *context, const struct stni_layout *layout, const stn_spec **out);

/* Takes a spec out of the table and frees it. */
void stni_spec_free(stn_spec *spec);

/* The spec of a local tensor of this shape, row-major. */
stn_status stni_spec_local(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, const stn_spec **out);

/* The spec of this rank's chunk taken as a local tensor: same memory order. */
stn_status stni_spec_of_chunk(const stn_spec *spec, const stn_spec **out);

/* Position of coordinates among the pieces of `dim` (0 if it is not sharded). */
int stni_spec_piece(const stn_spec *spec, int dim, const int coordinate[STN_MAX_MESH_NDIM]);

/* Chunk at mesh coordinates: shape and offset, ndim entries each. */
void stni_spec_chunk_at(const stn_spec *spec, const int coordinate[STN_MAX_MESH_NDIM], int64_t *shape, int64_t *offset);

/* Same shape, dtype-free comparison of where elements lie: 1 if both put every element on the same ranks at the same
 * place. */
int stni_spec_same_chunks(const stn_spec *a, const stn_spec *b);

/* Interned tables of a context. */
struct stni_shard_tables {
    struct stni_split *splits;
    stn_spec *specs;
    stn_mesh **meshes;
    int n_meshes, cap_meshes;
    struct stni_group_comm *groups; /* communicators of the meshes, by their ranks */
    struct stni_group_comm *world;  /* all ranks; made when first used */
    struct stni_plan *plan;         /* memory for planning, kept */
    int64_t n_specs, n_splits;
    int64_t collect_at; /* specs beyond which the next collection is worth it */
};

/* Frees specs and splits that nobody uses, when there are many. Called between ops, never inside one. */
void stni_shard_collect(stn_context *context, int all);
void stni_shard_tables_fini(stn_context *context);

#endif
