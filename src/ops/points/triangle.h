/* The point of a triangle that is nearest to a point, and on which side of the triangle that lies, for every device.
 *
 * Triangles that share an edge or a corner give the same square there to the last bit: an edge is walked from the end
 * that comes first by its coordinates. Of all triangles that are nearest the pulls are added: the cosine between the
 * normal and what leads from the surface to the point, weighted by the triangle's angle there. The sign of the sum is
 * the side (Baerentzen and Aanaes 2005), at edges and corners too. Pulls are whole numbers, so that no order of
 * triangles changes the sum. */
#ifndef STNI_OPS_POINTS_TRIANGLE_H
#define STNI_OPS_POINTS_TRIANGLE_H

#include "core/base/inline.h"

#include <math.h>
#include <stdint.h>

/* What is known of a query: how far the nearest triangles are, the sum of their pulls; of the one with the lowest index
 * its point and the weights of its corners in it. Face -1: none yet, and the square is infinite. */
struct stni_hit {
    double square, nearest[3], weight[3];
    int64_t pull, face;
};

/* A pull of 1 is PULL_UNIT: there is room for the pulls of two million triangles. Sums that are hardly below 0 are
 * taken for 0: devices differ in the last places of an angle. */
#define STNI_PULL_UNIT ((double)(INT64_C(1) << 40))
#define STNI_PULL_NONE 1024

/* Of a triangle. Corner -1: the point is none. */
struct stni_foot {
    double at[3], weight[3], square;
    int corner;
};

STNI_KERNEL_INLINE double stni_dot3(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

STNI_KERNEL_INLINE void stni_cross3(const double *a, const double *b, double *out)
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

STNI_KERNEL_INLINE double stni_clamp3(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Not beyond the ends after rounding either: so no foot lies outside the box of its triangle. */
STNI_KERNEL_INLINE double stni_between(double x, double a, double b)
{
    return stni_clamp3(x, a < b ? a : b, a < b ? b : a);
}

STNI_KERNEL_INLINE double stni_square_to(const double *p, const double *at)
{
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += (p[i] - at[i]) * (p[i] - at[i]);
    return sum;
}

/* Of the edge from corner `first` at a to corner `second` at b. */
STNI_KERNEL_INLINE void stni_edge_foot(const double *a, const double *b, int first, int second, const double *p,
                                       struct stni_foot *foot)
{
    const int turned = (b[0] < a[0]) | ((b[0] == a[0]) & ((b[1] < a[1]) | ((b[1] == a[1]) & (b[2] < a[2]))));
    double from[3], to[3], edge[3], way[3];
    for (int i = 0; i < 3; i++) {
        from[i] = turned ? b[i] : a[i], to[i] = turned ? a[i] : b[i];
        edge[i] = to[i] - from[i], way[i] = p[i] - from[i];
    }
    const double length = stni_dot3(edge, edge), along = stni_dot3(way, edge);
    const double t = along > 0 ? (along < length ? along / length : 1) : 0;
    for (int i = 0; i < 3; i++)
        foot->at[i] = t < 1 ? stni_between(from[i] + t * edge[i], from[i], to[i]) : to[i];
    foot->weight[first] = turned ? t : 1 - t;
    foot->weight[second] = turned ? 1 - t : t;
    foot->weight[3 - first - second] = 0;
    foot->square = stni_square_to(p, foot->at);
    foot->corner = t > 0 ? (t < 1 ? -1 : turned ? first : second) : turned ? second : first;
}

/* Where the point is above the triangle. Returns 0 where it is not, or the triangle has no area. */
STNI_KERNEL_INLINE int stni_face_foot(const double *a, const double *b, const double *c, const double *p,
                                      struct stni_foot *foot)
{
    double ab[3], ac[3], ap[3], normal[3], beside[3], lo, hi;
    for (int i = 0; i < 3; i++)
        ab[i] = b[i] - a[i], ac[i] = c[i] - a[i], ap[i] = p[i] - a[i];
    stni_cross3(ab, ac, normal);
    const double area = stni_dot3(normal, normal);
    stni_cross3(ap, ac, beside);
    foot->weight[1] = stni_dot3(beside, normal) / area;
    stni_cross3(ab, ap, beside);
    foot->weight[2] = stni_dot3(beside, normal) / area;
    foot->weight[0] = 1 - foot->weight[1] - foot->weight[2];
    for (int i = 0; i < 3; i++) {
        lo = a[i] < b[i] ? a[i] : b[i], hi = a[i] < b[i] ? b[i] : a[i];
        foot->at[i] = stni_clamp3(a[i] + foot->weight[1] * ab[i] + foot->weight[2] * ac[i], c[i] < lo ? c[i] : lo,
                                  c[i] > hi ? c[i] : hi);
    }
    foot->square = stni_square_to(p, foot->at);
    foot->corner = -1;
    return (area > 0) & (foot->weight[0] >= 0) & (foot->weight[1] >= 0) & (foot->weight[2] >= 0);
}

/* Of the triangle whose coordinate j is x[j * step]. It is nowhere, at NaN, where a coordinate is none. */
STNI_KERNEL_INLINE struct stni_foot stni_triangle_foot(const double *x, int64_t step, const double *p)
{
    double a[3], b[3], c[3], sum = 0;
    struct stni_foot foot, edge;
    for (int i = 0; i < 3; i++)
        a[i] = x[i * step], b[i] = x[(3 + i) * step], c[i] = x[(6 + i) * step];
    const int above = stni_face_foot(a, b, c, p, &foot);
    stni_edge_foot(a, b, 0, 1, p, &edge);
    foot = above && !(edge.square < foot.square) ? foot : edge;
    stni_edge_foot(b, c, 1, 2, p, &edge);
    foot = edge.square < foot.square ? edge : foot;
    stni_edge_foot(c, a, 2, 0, p, &edge);
    foot = edge.square < foot.square ? edge : foot;
    for (int j = 0; j < 9; j++)
        sum += x[j * step];
    foot.square = sum == sum ? foot.square : sum;
    return foot;
}

/* How far the foot is, and nothing else, so that loops over triangles become vectors. */
STNI_KERNEL_INLINE double stni_triangle_square(const double *x, int64_t step, const double *p)
{
    return stni_triangle_foot(x, step, p).square;
}

STNI_INLINE int64_t stni_triangle_pull(const double *x, int64_t step, const double *p, const struct stni_foot *foot)
{
    double corner[3][3], u[3], v[3], normal[3], away[3];
    const int k = foot->corner < 0 ? 0 : foot->corner;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            corner[j][i] = x[(3 * j + i) * step];
        away[i] = p[i] - foot->at[i];
    }
    for (int i = 0; i < 3; i++)
        u[i] = corner[(k + 1) % 3][i] - corner[k][i], v[i] = corner[(k + 2) % 3][i] - corner[k][i];
    stni_cross3(u, v, normal);
    const double length = sqrt(stni_dot3(normal, normal)), distance = sqrt(foot->square);
    const double angle = foot->corner < 0 ? 3.14159265358979323846 : atan2(length, stni_dot3(u, v));
    const double cosine = stni_dot3(normal, away) / length / distance;
    return cosine == cosine && length > 0 && distance > 0
               ? (int64_t)(angle * stni_clamp3(cosine, -1, 1) * STNI_PULL_UNIT)
               : 0;
}

/* What two sets of triangles know, joined. */
STNI_INLINE void stni_hit_join(struct stni_hit *hit, const struct stni_hit *other)
{
    int64_t pull = other->pull;
    if (other->face < 0 || other->square > hit->square)
        return;
    if (other->square == hit->square && hit->face >= 0)
        pull += hit->pull;
    if (other->square < hit->square || hit->face < 0 || other->face < hit->face)
        *hit = *other;
    hit->pull = pull;
}

/* A triangle whose square is at most the hit's. */
STNI_INLINE void stni_hit_add(struct stni_hit *hit, const double *x, int64_t step, const double *p, int64_t face)
{
    const struct stni_foot foot = stni_triangle_foot(x, step, p);
    struct stni_hit own = {foot.square, {0}, {0}, 0, foot.square < (double)INFINITY ? face : -1};
    own.pull = stni_triangle_pull(x, step, p, &foot);
    for (int i = 0; i < 3; i++)
        own.nearest[i] = foot.at[i], own.weight[i] = foot.weight[i];
    stni_hit_join(hit, &own);
}

#endif
