/* Points in space: which are near, and how far they are from a surface. A point is a row of a matrix, its coordinates
 * are the columns.
 *
 * Distances are Euclidean: roots of sums of squared differences, taken in the order of the columns, in f64 of f64, in
 * f32 of f32 and of 16-bit floats, for which they are rounded at the end. So points that are close keep their distance,
 * and a pair of points has the same one on every layout and device; but where squares are more than the type holds it
 * is infinite (f32: from 1.8e19 on), and where they are less, 0 (below 1e-23). A point with NaN is at the distance NaN,
 * behind infinity. Of points at equal distances the one with the lower index comes first. */
#ifndef SHARDTENSOR_OPS_POINTS_H
#define SHARDTENSOR_OPS_POINTS_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** The k points that are nearest to each query, nearest first, and how far they are.
 *
 * Shapes:     points (n, d) and queries (m, d), of one floating dtype -> indices (m, k), i64, and distances (m, k), of
 *             that dtype.
 * Placement:  rows of queries stay cut as they are, and so are the results. Where points are cut by rows, they go round
 *             from rank to rank, none of which holds more than its own and those of one other; what cuts points then
 *             cuts queries too. Or, where that is fewer bytes (few queries), each rank searches among its points, and k
 *             candidates a query and rank are gathered: results are Replicate along the axes that cut points. What is
 *             cut along columns, or Partial, is cut by rows first, by one exchange.
 * Collective: over the mesh where points are cut, or an input has to move.
 * Gradient:   of distances, for both inputs, twice differentiable: points are looked up by index, and gradients added
 *             where they live. A distance of 0 has the gradient 0.
 * @param k          1 <= k <= n.
 * @param distances  the second result; may be NULL.
 * @return indices; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (k), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: on CPUs a tree of boxes for each rank's points, halved where it is longest: Friedman, Bentley and Finkel
 * 1977. */
STN_API stn_tensor *stn_knn(stn_tensor *points, stn_tensor *queries, int64_t k, stn_tensor **distances);

/** The points within a radius of each query, nearest first: where there are more than `max_points`, the nearest of
 *  them; where there are fewer, the rest of the row is index 0 and distance 0, which has no gradient. Counts say how
 *  many there are.
 *
 * Shapes:     points (n, d) and queries (m, d), of one floating dtype -> indices (m, max_points), i64, distances (m,
 *             max_points), of that dtype, and counts (m), i64, at most max_points.
 * As stn_knn, but for:
 * @param radius      a distance that equals it, as a number of the type that is computed in, is within; 0 finds equal
 *                    points, infinity all that have no NaN.
 * @param max_points  at least 1; may be more than n.
 * @param distances, counts  the other results; may be NULL.
 * @return indices; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (radius, max_points), STN_ERR_MEMORY,
 *         STN_ERR_COMM. */
STN_API stn_tensor *stn_radius_search(stn_tensor *points, stn_tensor *queries, double radius, int64_t max_points,
                                      stn_tensor **distances, stn_tensor **counts);

/** How far points are from a surface of triangles, below 0 behind it, where the triangles' corners go round clockwise:
 *  inside of a closed surface whose corners go round counter-clockwise, seen from outside. Where several triangles are
 *  nearest, at an edge or a corner, the sum of their normals, weighted by their angles there, tells the side. A surface
 *  need not be closed. Computed in f64, and rounded once.
 *
 * Shapes:     vertices (v, 3), of a floating dtype, triangles (f, 3), i64 or i32, f > 0, and points (m, 3), of that
 *             dtype -> distance (m) and nearest (m, 3), the nearest point of the surface, of that dtype, and faces (m),
 *             i64: the triangle that it is on, of several that with the lowest index. Of a point with NaN these are
 *             NaN and -1; a triangle with NaN is not there.
 * Placement:  of results that of points, as of queries in stn_knn; triangles that are cut are searched as its points.
 * Collective: over the mesh where vertices or triangles are cut, or an input has to move.
 * Gradient:   of the distance, for vertices and points, once; 0 on the surface, at a point with NaN. The nearest point
 *             is a constant.
 * @param nearest, faces  the other results; may be NULL.
 * @return the distance; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM; STN_ERR_VALUE at the next
 *         agreement where a triangle names no vertex, whose place 0 takes.
 * Source: signs, Baerentzen and Aanaes, "Signed distance computation using the angle weighted pseudonormal", 2005. */
STN_API stn_tensor *stn_signed_distance_field(stn_tensor *vertices, stn_tensor *triangles, stn_tensor *points,
                                              stn_tensor **nearest, stn_tensor **faces);

STN_END_DECLS

#endif
