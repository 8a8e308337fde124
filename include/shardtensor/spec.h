/* Specs: how a tensor is laid over a mesh. A spec is the same on every rank, and is made without communication.
 * Specs are interned by their context: equal specs are the same pointer. */
#ifndef SHARDTENSOR_SPEC_H
#define SHARDTENSOR_SPEC_H

#include <shardtensor/mesh.h>

STN_BEGIN_DECLS

typedef struct stn_spec stn_spec;

typedef enum stn_placement_kind { STN_PLACE_REPLICATE, STN_PLACE_SHARD, STN_PLACE_PARTIAL } stn_placement_kind;

/** What one mesh axis does to a tensor. Made by the three functions below. */
typedef struct stn_placement {
    uint8_t kind; /* stn_placement_kind */
    int8_t dim;   /* SHARD: which dim is sharded; else 0 */
    uint8_t op;   /* PARTIAL: the stn_reduce_op that is pending; else 0 */
    uint8_t unused;
} stn_placement;

/** Every rank along the axis holds the same. */
static inline stn_placement stn_replicate(void)
{
    stn_placement p = {STN_PLACE_REPLICATE, 0, 0, 0};
    return p;
}

/** `dim` (0 <= dim < ndim) is sharded among the ranks along the axis. */
static inline stn_placement stn_shard(int dim)
{
    stn_placement p = {STN_PLACE_SHARD, (int8_t)(dim == (int8_t)dim ? dim : -1), 0, 0}; /* -1 is refused where a spec is made */
    return p;
}

/** The value is `op` over the ranks along the axis, still to be taken. */
static inline stn_placement stn_partial(stn_reduce_op op)
{
    stn_placement p = {STN_PLACE_PARTIAL, 0, (uint8_t)((int)op == (uint8_t)op ? (int)op : 255), 0};
    return p;
}

/* The same as initialisers, for tables: static const stn_placement rows[] = {STN_S(0), STN_R}; */
#define STN_R {STN_PLACE_REPLICATE, 0, 0, 0}
#define STN_S(dim) {STN_PLACE_SHARD, (int8_t)(dim), 0, 0}

/* And as functions of the library, for languages that cannot see inline ones. */

/** STN_R: the whole on every rank of the axis. Pure. */
STN_API stn_placement stn_placement_replicate(void);

/** STN_S(dim): a chunk of `dim` on each rank of the axis. Pure; what `dim` may be, the spec says. */
STN_API stn_placement stn_placement_shard(int dim);

/** An addend on each rank of the axis, to be joined by `op`. Pure. */
STN_API stn_placement stn_placement_partial(stn_reduce_op op);

/** What a spec is made from. Zero fields mean the default. */
typedef struct stn_spec_options {
    size_t size; /* sizeof(stn_spec_options) */
    /** Axes in the order in which they divide a dim that several shard: an earlier one is major. NULL: mesh order. */
    const int *axis_order;
    /** Dims from the slowest to the fastest in memory. NULL: 0, 1, …. */
    const int *memory_order;
    /** sizes[dim]: how many elements each piece of a sharded dim has, one entry per combination of the axes that shard
     *  it, the major one slowest; they add up to shape[dim]. NULL, or sizes[dim] NULL: balanced, the first n mod p
     *  pieces get one more. */
    const int64_t *const *sizes;
} stn_spec_options;

/** Makes or finds a spec. Local; every rank passes the same.
 *  @param mesh        NULL: a local tensor (placements must be NULL).
 *  @param placements  one per mesh axis. On axes of size 1 all are the same as Replicate.
 *  @param options     NULL: defaults.
 *  @return STN_ERR_ARGUMENT, STN_ERR_SHAPE (sizes do not add up), STN_ERR_MEMORY. The caller owns one reference to
 *  `*out`. */
STN_API stn_status stn_spec_create(stn_context *context, const stn_mesh *mesh, const stn_placement *placements,
                                   stn_dtype dtype, int ndim, const int64_t *shape, const stn_spec_options *options,
                                   const stn_spec **out);

/** Makes or finds a spec from a text: stn_spec_of(mesh, STN_DTYPE_F32, "S0,R", 2, shape). Local; every rank passes the
 * same.
 *
 * One placement per mesh axis, between commas: R or Replicate; S and a dim, or Shard(dim); P (a sum), P(op) or
 * Partial(op), op one of sum, avg, prod, min, max. What stn_spec_describe prints behind the colon is read as well:
 * sizes of pieces, "within" an axis, the memory order.
 * @return a spec that the innermost scope owns (retain it to keep it); outside of any, one reference is the caller's.
 *  NULL with STN_ERR_ARGUMENT (the message has the text and the place), or a status of stn_spec_create. */
STN_API const stn_spec *stn_spec_of(const stn_mesh *mesh, stn_dtype dtype, const char *placements, int ndim,
                                    const int64_t *shape);

/** Makes or finds a spec on the mesh of another, cut as that one is wherever this can be: a dim of the same size that
 *  the same axes shard keeps its cuts. One that fewer axes shard keeps those of the major ones, and where minor axes
 *  are added they divide each piece evenly. Everything else is balanced. Axis order is that of `like`, and so is the
 *  memory order where both have as many dims. Local; every rank passes the same.
 *  @param placements  one per axis of like's mesh; NULL where `like` is a local tensor's.
 *  @return as stn_spec_create; STN_ERR_ARGUMENT for `like` NULL. The caller owns one reference to `*out`. */
STN_API stn_status stn_spec_like(const stn_spec *like, const stn_placement *placements, stn_dtype dtype, int ndim,
                                 const int64_t *shape, const stn_spec **out);

/** Makes or finds the spec that has sizes of its own along one dim, and all else of another:
 * stn_spec_with_sizes(stn_spec_of(mesh, STN_DTYPE_F32, "S0", 2, shape), 0, 3, (int64_t[]){3, 0, 4}). Local; every rank
 * passes the same.
 *  @param spec   stays as it is. NULL, as a call that failed gives: NULL.
 *  @param dim    0 <= dim < ndim. Along other dims pieces are those of `spec`.
 *  @param n      how many sizes there are: one per combination of the axes that shard `dim`, as stn_spec_sizes tells
 *                (1 where none does).
 *  @param sizes  how many elements each piece has, the major axis slowest; they add up to shape[dim].
 *  @return a spec that the innermost scope owns (retain it to keep it); outside of any, one reference is the caller's,
 *   beside that to `spec`. NULL with STN_ERR_ARGUMENT (dim, n, sizes), STN_ERR_SHAPE (sizes do not add up),
 *   STN_ERR_MEMORY, or the kept error. */
STN_API const stn_spec *stn_spec_with_sizes(const stn_spec *spec, int dim, int n, const int64_t *sizes);

STN_API const stn_spec *stn_spec_retain(const stn_spec *spec); /**< One more reference. On the context's thread. */
STN_API void stn_spec_release(const stn_spec **spec);          /**< One less; sets it to NULL. Any thread. */

STN_API const stn_mesh *stn_spec_mesh(const stn_spec *spec);                  /**< NULL for a local tensor's. */
STN_API stn_dtype stn_spec_dtype(const stn_spec *spec);                       /**< STN_DTYPE_F32 for NULL. */
STN_API int stn_spec_ndim(const stn_spec *spec); /**< Of NULL, which an error tensor has as its spec, this and all others say none. */
STN_API const int64_t *stn_spec_shape(const stn_spec *spec);                  /**< Global, ndim elements. */
STN_API const int64_t *stn_spec_local_shape(const stn_spec *spec);            /**< This rank's chunk. */
STN_API const int64_t *stn_spec_local_offset(const stn_spec *spec);           /**< Its first element in the whole. */
STN_API stn_placement stn_spec_placement(const stn_spec *spec, int axis);     /**< STN_R for an axis that is not there. */
STN_API const uint8_t *stn_spec_axis_order(const stn_spec *spec);             /**< Mesh axes, the major one first. */
STN_API const uint8_t *stn_spec_memory_order(const stn_spec *spec);           /**< Dims, the slowest first. */
STN_API int64_t stn_spec_numel(const stn_spec *spec);                         /**< Elements of the whole. */
STN_API int64_t stn_spec_local_numel(const stn_spec *spec);                   /**< Elements of this rank's chunk. */

/** The chunk of another rank: its shape and offset (ndim entries each; either may be NULL). Local.
 *  @param rank  world rank; one outside the mesh has an empty chunk. */
STN_API void stn_spec_chunk(const stn_spec *spec, int rank, int64_t *shape, int64_t *offset);

/** How many elements of `dim` each piece has: one entry per combination of the axes that shard it, the major one
 *  slowest, as stn_spec_options takes them; one entry, the whole, where none does. Local; takes time in proportion to
 *  the pieces.
 *  @param sizes  space for all of them; NULL only asks how many.
 *  @return how many; 0 for a dim that there is not. */
STN_API int stn_spec_sizes(const stn_spec *spec, int dim, int64_t *sizes);

/* Specs as bytes: for files, and for other processes. The form knows no pointer, no number of a mesh, a context or a
 * rank: who reads it brings a mesh whose axes have the same sizes. All numbers are little-endian.
 *
 *     "STNS"                  4 bytes
 *     version                 1 byte: 1
 *     dtype, dims, mesh axes  1 byte each; no axes: a local tensor's
 *     per axis                size, 4 bytes; placement kind, its dim, its op, 1 byte each; which axis takes this place in the order, 1 byte
 *     per dim                 size, 8 bytes; which dim takes this place in memory, 1 byte
 *     per dim                 pieces, 4 bytes: 0 where balanced or whole; then the size of each, 8 bytes
 *     check                   4 bytes: 2166136261, then for each byte before, (check ^ byte) * 16777619, modulo 2^32 */

/** Writes a spec as bytes. Local. @return how many bytes the form has; nothing is written where `size` is less
 *  (`buffer` NULL: size is 0). 0 for NULL. */
STN_API size_t stn_spec_write(const stn_spec *spec, void *buffer, size_t size);

/** Makes or finds the spec that was written: in the same context the same pointer. Local; every rank passes the same.
 *  @param mesh  its axes have the sizes that were written, in the same order, whatever their names and ranks; of a
 *   local tensor's spec it tells the context alone.
 *  @return STN_ERR_ARGUMENT (mesh NULL; bytes that are not of this form, or too few or many; other axes: the message
 *   says which), STN_ERR_VERSION (a form of a later version), or a status of stn_spec_create. The caller owns one
 *   reference to `*out`. */
STN_API stn_status stn_spec_read(const stn_mesh *mesh, const void *buffer, size_t size, const stn_spec **out);

/** Writes a description such as "f32 (73, 144) on lat=3: Shard(0) sizes 25 24 24", as snprintf does. Local.
 *  `text` NULL: only counts, whatever `size` is. */
STN_API int stn_spec_describe(const stn_spec *spec, char *text, size_t size);

/** Writes a drawing of which rank holds what, an SVG document that browsers and notebooks show, as snprintf does. Two
 *  dims are drawn, the last ones that are sharded, or else others; the first of them goes down. Each piece of a further
 *  sharded dim has a panel. Ranks that hold the same chunk, whole or as addends, are named in it, and some of those
 *  without elements below: of many, the first eight. Local; takes time and space in proportion to the mesh, some 200
 *  bytes for a chunk.
 *  `text` NULL: only counts, whatever `size` is.
 *  @return bytes without the zero at the end; 0 for NULL. */
STN_API size_t stn_spec_draw(const stn_spec *spec, char *text, size_t size);

STN_END_DECLS
#endif
