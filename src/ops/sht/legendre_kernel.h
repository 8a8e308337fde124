/* Arguments of the kernels of associated Legendre functions: sums over latitudes for each degree, and their adjoint,
 * sums over degrees for each latitude. */
#ifndef STNI_OPS_SHT_LEGENDRE_KERNEL_H
#define STNI_OPS_SHT_LEGENDRE_KERNEL_H

#include "core/base/isa.h"

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>
#include <shardtensor/ops_sht.h>

/* What stands for a harmonic on a circle of latitude. P is the normalised associated Legendre function of cos(theta),
 * theta the angle from the north pole. */
enum stni_legendre_part {
    STNI_LEGENDRE_VALUE,      /* P */
    STNI_LEGENDRE_MERIDIONAL, /* dP / dtheta */
    STNI_LEGENDRE_ZONAL       /* i m P / sin(theta): the derivative along the circle */
};

/* The function of degree l, order m and latitude k is
 *
 *     T(l, m, k) = s(l) q(k) part(l, m, theta_k),  l >= m,
 *
 * analysis gives sum_k conj(T) x, of whole columns of latitudes, and synthesis sum_l T x, of whole columns of degrees;
 * what they give for degrees below the order is 0, and what they are given there they do not read. */
struct stni_legendre_function {
    int64_t part;      /* stni_legendre_part */
    int64_t grid;      /* stn_sht_grid */
    int64_t norm;      /* stn_sht_norm: with `inverse` in s(l) */
    int64_t inverse;   /* s(l) is that of the way back to latitudes */
    int64_t csphase;   /* 1: (-1)^m in s(l) */
    int64_t weighted;  /* 1: q(k) are the weights of the quadrature, else 1 */
    int64_t potential; /* 1: 1 / (l (l + 1)) in s(l), 1 for l = 0 */
};

/* Chunks are of complex numbers; their strides are in these. Latitudes and degrees are whole, orders are m_first and
 * those that follow. */
struct stni_legendre_args {
    struct stni_legendre_function of;
    int64_t nlat, lmax, m_first, m_count;
    int64_t in_row, in_order, out_row, out_order; /* strides: of latitudes or degrees, and of orders */
    int n_batch;                                  /* at least one dim */
    int64_t batch[STN_MAX_NDIM], in_batch[STN_MAX_NDIM], out_batch[STN_MAX_NDIM];
    int64_t fields;                               /* of the whole tensor: the order of sums follows from it */
    stn_dtype dtype;                              /* c64 or c128 */
    const void *in;
    void *out;
    void *workspace; /* as many bytes as the kernel asks for */
};

STNI_ISA_KERNEL(stni_legendre_analysis);
STNI_ISA_KERNEL(stni_legendre_synthesis);
size_t stni_legendre_workspace(stn_queue *queue, const void *args);

#endif
