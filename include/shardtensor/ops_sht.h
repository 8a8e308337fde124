/* Spherical harmonic transforms: fields on a grid of latitudes and longitudes, the last two dims, and their
 * coefficients by degree and order.
 *
 * Latitudes go from north to south, longitudes are 2 pi j / nlon. A real field is
 *
 *     f(theta, phi) = sum_{l < lmax} sum_{|m| <= l, |m| < mmax} c(l, m) Y(l, m)(theta, phi),
 *     Y(l, m) = (-1)^m N(l, m) P(l, m)(cos(theta)) exp(i m phi),
 *
 * of which the orders m >= 0 are kept, the others being (-1)^m conjugates; theta is the angle from the north pole. With
 * norm "ortho" the integral of |Y|^2 over the sphere is 1. Coefficients, norms, signs, components of vectors and
 * default sizes are those of torch-harmonics 0.9: its RealSHT, InverseRealSHT, RealVectorSHT and InverseRealVectorSHT.
 * Where lmax and mmax are both given they may differ; there the less of them is taken for both. */
#ifndef SHARDTENSOR_OPS_SHT_H
#define SHARDTENSOR_OPS_SHT_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Where the latitudes are, and up to which degree of polynomials in cos(theta) their quadrature is exact. */
typedef enum stn_sht_grid {
    STN_SHT_EQUIANGULAR,    /* equally far apart, both poles among them; Clenshaw and Curtis: nlat - 1 */
    STN_SHT_LEGENDRE_GAUSS, /* roots of a Legendre polynomial: 2 nlat - 1 */
    STN_SHT_LOBATTO         /* the same with both poles: 2 nlat - 3 */
} stn_sht_grid;

/** What coefficients are, beside those of orthonormal harmonics. */
typedef enum stn_sht_norm {
    STN_SHT_ORTHO,   /* these */
    STN_SHT_FOUR_PI, /* times sqrt(4 pi) */
    STN_SHT_SCHMIDT  /* times sqrt(4 pi / (2 l + 1)) */
} stn_sht_norm;

/** A grid and its harmonics. */
typedef struct stn_sht_basis {
    size_t size; /* sizeof(stn_sht_basis) */
    stn_sht_grid grid;
    stn_sht_norm norm;
    int no_csphase; /* 1: without the factor (-1)^m, the Condon-Shortley phase */
} stn_sht_basis;

/** Coefficients of real fields: Fourier transforms along circles of latitude, then for each order sums over latitudes.
 *
 * Shapes:     (…, nlat, nlon) f32 or f64 -> (…, lmax, mmax) c64 or c128; 0 where l < m.
 * Placement:  kept: degrees are cut as latitudes were, orders as longitudes, in proportion. Partial(sum) is kept, other
 *             pending reductions are done first. Sharded longitudes become whole by one exchange, which cuts other dims
 *             instead, sharded latitudes by another, and one leads to the result's layout; where neither is sharded
 *             nothing moves. On the CPU the bits are those of one process.
 * Collective: over the mesh where latitudes or longitudes are sharded, or Partial is reduced.
 * Gradient:   yes, differentiable as often as one likes: the adjoint.
 * Functions of latitude are made anew in each call, once for all fields of a rank, in f64, and need no tables: they
 * cost about what two fields do.
 * @param lmax   degrees: 0, …, lmax - 1. 0: what the quadrature is exact for (nlat, nlat - 1 with Lobatto,
 *               (nlat + 1) / 2 where latitudes are equally far apart), but not more than mmax.
 * @param mmax   orders, at most nlon / 2 + 1. 0: nlon / 2 + 1, but not more than lmax.
 * @param basis  NULL: all zero.
 * @return new tensor; STN_ERR_ARGUMENT (lmax, mmax, basis), STN_ERR_DTYPE, STN_ERR_SHAPE (less than 2 dims; no
 *         longitude; less than 1 latitude, 2 on grids with poles, or more than 32768), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Schaeffer 2013; Prezeau and Reinecke 2010; Clenshaw and Curtis 1960. */
STN_API stn_tensor *stn_sht(stn_tensor *input, int64_t lmax, int64_t mmax, const stn_sht_basis *basis);

/** The real fields whose coefficients the input is. As stn_sht, the other way: latitudes are cut as degrees were,
 *  longitudes as orders. Coefficients with l < m are not read; nor are the imaginary parts of order 0 and, for an even
 *  nlon, of order nlon / 2.
 *
 * Shapes:     (…, lmax, mmax) c64 or c128 -> (…, nlat, nlon) f32 or f64.
 * @param nlat  at least 1, 2 on grids with poles; at most 32768.
 * @param nlon  1 to 131072; mmax is at most nlon / 2 + 1. */
STN_API stn_tensor *stn_isht(stn_tensor *input, int64_t nlat, int64_t nlon, const stn_sht_basis *basis);

/** Coefficients of real vector fields that are tangential to the sphere: v = grad s + grad t x r, r the unit vector
 *  outward, with components along theta, southward, and along phi, eastward:
 *
 *     v_theta = ds / dtheta + (dt / dphi) / sin(theta),  v_phi = (ds / dphi) / sin(theta) - dt / dtheta.
 *
 * s, the spheroidal part, has all of the divergence, the Laplacian of s, and t, the toroidal part, all of the rotation,
 * minus the Laplacian of t. As stn_sht in everything else; those of degree 0 are 0.
 *
 * Shapes:     (…, 2, nlat, nlon), v_theta and v_phi -> (…, 2, lmax, mmax), s and t. */
STN_API stn_tensor *stn_vsht(stn_tensor *input, int64_t lmax, int64_t mmax, const stn_sht_basis *basis);

/** The vector fields whose coefficients the input is. As stn_isht and stn_vsht. With t = 0 it is the gradient of s.
 *
 * Shapes:     (…, 2, lmax, mmax), s and t -> (…, 2, nlat, nlon), v_theta and v_phi. */
STN_API stn_tensor *stn_ivsht(stn_tensor *input, int64_t nlat, int64_t nlon, const stn_sht_basis *basis);

/** How much of a field's square each degree has: |c(l, 0)|^2 + 2 sum_{m > 0} |c(l, m)|^2. With norm "ortho" they add up
 *  to the integral of the square over the sphere; of t and s of a vector field, times l (l + 1), to that of its length.
 *
 * Shapes:     (…, lmax, mmax) c64 or c128 -> (…, lmax) f32 or f64.
 * Placement:  Shards of other dims are kept; where orders are sharded the result is Partial(sum), as of stn_sum.
 * Collective: where Partial is reduced, which is done first.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_DTYPE, STN_ERR_SHAPE (less than 2 dims), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Parseval's identity. */
STN_API stn_tensor *stn_degree_power(stn_tensor *input);

/** The latitudes of a grid, from north to south, and the weights of its quadrature over cos(theta), whose sum is 2:
 *  the areas of stn_weighted_mean, say. Angles are right to 1e-15, weights to 1e-12 of each. Local; any thread.
 *  @param colatitudes  nlat angles from the north pole, in radians; may be NULL.
 *  @param weights      nlat of them; may be NULL.
 *  @return STN_ERR_ARGUMENT (grid; nlat below 1, 2 on grids with poles, or above 32768), and nothing is written.
 *  Source: Newton's method on Legendre polynomials; Clenshaw and Curtis 1960. */
STN_API stn_status stn_sht_latitudes(stn_sht_grid grid, int64_t nlat, double *colatitudes, double *weights);

STN_END_DECLS
#endif
