/* Meshes: n-d grids of ranks with named axes. Interned by their context: two meshes of the same ranks and names are
 * one. They are made also while the context keeps an error: a rank that has failed can tell the ranks of its meshes. */
#ifndef SHARDTENSOR_MESH_H
#define SHARDTENSOR_MESH_H

#include <shardtensor/context.h>

STN_BEGIN_DECLS

enum { STN_MAX_NDIM = 8, STN_MAX_MESH_NDIM = 8, STN_MAX_AXIS_NAME = 16 };

typedef struct stn_mesh stn_mesh;

/** A mesh of sizes[0] x sizes[1] x … ranks.
 *
 * Collectivity: every rank of the world makes the same meshes, those outside the mesh included; nothing is
 * communicated.
 * @param names  one name per axis, below STN_MAX_AXIS_NAME bytes, distinct; NULL: "0", "1", ….
 * @param ranks  world ranks in row-major order, each at most once; NULL: 0, 1, ….
 * @return STN_ERR_ARGUMENT (sizes, names, ranks: named in the message), STN_ERR_MEMORY. The mesh lives as long as its
 * context. */
STN_API stn_status stn_mesh_create(stn_context *context, int ndim, const int *sizes, const char *const *names,
                                   const int *ranks, const stn_mesh **out);

/** The mesh of this rank along some axes of `mesh`, the others fixed at this rank's coordinates (on ranks outside: at
 *  0). Local. @return STN_ERR_ARGUMENT, STN_ERR_MEMORY. */
STN_API stn_status stn_mesh_slice(const stn_mesh *mesh, int n_axes, const int *axes, const stn_mesh **out);

/** The communicator of the ranks that differ from this one along the given axes only, numbered row-major in the mesh's
 *  order of axes: for the run of an op of one's own, whose collectives go on stn_context_queue, and between ops.
 *  Borrowed: it lives as long as the context.
 *
 * Collective: over those ranks at its first use; local later.
 * @param axes  n_axes distinct axes; NULL with 0: all.
 * @return STN_ERR_ARGUMENT (axes), STN_ERR_STATE (this rank is outside of the mesh), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_status stn_mesh_axes_comm(const stn_mesh *mesh, int n_axes, const int *axes, stn_comm **out);

STN_API int stn_mesh_ndim(const stn_mesh *mesh);                            /**< Axes. */
STN_API int stn_mesh_size(const stn_mesh *mesh);                            /**< Ranks in all. */
STN_API int stn_mesh_axis_size(const stn_mesh *mesh, int axis);             /**< 0 for a bad axis. */
STN_API const char *stn_mesh_axis_name(const stn_mesh *mesh, int axis);     /**< NULL for a bad axis. */
STN_API int stn_mesh_axis(const stn_mesh *mesh, const char *name);          /**< -1 if there is none. */
STN_API int stn_mesh_contains_me(const stn_mesh *mesh);                     /**< 1 if this rank is a member. */
STN_API int stn_mesh_coordinate(const stn_mesh *mesh, int axis);            /**< This rank's; -1 outside the mesh. */
STN_API int stn_mesh_rank_at(const stn_mesh *mesh, const int *coordinates); /**< World rank; -1 for bad coordinates. */

/** The mesh among those of its context, as the attribute "mesh" of the collectives of dist.h has it where they are
 *  called by name (stn_call). Ranks may have other numbers for the same mesh: each passes its own. -1 for NULL. */
STN_API int64_t stn_mesh_number(const stn_mesh *mesh);

STN_END_DECLS
#endif
