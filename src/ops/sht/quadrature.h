/* Latitudes of a grid and the weights of the quadrature over cos(theta), for C, C++ and CUDA compilers. Grids are
 * symmetric about the equator: a node of the northern half stands for one of the southern too, and the equator is met
 * exactly. */
#ifndef STNI_OPS_SHT_QUADRATURE_H
#define STNI_OPS_SHT_QUADRATURE_H

#include "core/base/inline.h"

#include <shardtensor/ops_sht.h>

#include <math.h>

#define STNI_PI 3.14159265358979323846

/* Nodes side by side, as many as `lanes` says, so that recurrences become vectors. The sine goes with the cosine, which
 * is what a double holds of the node; the rest of it, beyond the cosine's last place, changes the angle and the weight
 * near the poles. */
enum { STNI_QUADRATURE_LANES = 8 };

struct stni_quadrature_nodes {
    double cosine[STNI_QUADRATURE_LANES], sine[STNI_QUADRATURE_LANES], weight[STNI_QUADRATURE_LANES];
    double rest[STNI_QUADRATURE_LANES];
};

/* The Legendre polynomials of degree n (p) and n - 1 (q), n >= 1. */
STNI_INLINE void stni_quadrature_legendre(int64_t n, const double *x, double *p, double *q, int lanes)
{
    for (int i = 0; i < lanes; i++) {
        q[i] = 1;
        p[i] = x[i];
    }
    for (int64_t k = 2; k <= n; k++) {
        const double factor = 1 - 1 / (double)k;
        for (int i = 0; i < lanes; i++) {
            const double t = x[i] * p[i], next = t + factor * (t - q[i]);
            q[i] = p[i];
            p[i] = next;
        }
    }
}

/* What Newton's step adds to a node. Gauss: a root of P_n. Lobatto: of (1 - x^2) P'_{n-1}, whose derivative is
 * -n (n - 1) P_{n-1}. p and q are the polynomials of the highest degree and of the one below. */
STNI_INLINE double stni_quadrature_step(int lobatto, double n, double x, double p, double q)
{
    return lobatto ? (q - x * p) / (n * p) : p * (x - 1) * (x + 1) / (n * (q - x * p));
}

/* The weight is that of the root x + rest. The derivative of P_n is known at x, and its own derivative there is
 * 2 x / (1 - x^2) times it. */
STNI_INLINE void stni_quadrature_finish(int lobatto, double n, double p, double q, struct stni_quadrature_nodes *out,
                                        int i)
{
    const double x = out->cosine[i], rest = stni_quadrature_step(lobatto, n, x, p, q);
    const double square = (1 - x - rest) * (1 + x + rest);
    out->sine[i] = sqrt((1 - x) * (1 + x));
    out->rest[i] = rest;
    if (lobatto) {
        out->weight[i] = 2 / (n * (n - 1) * p * p);
    } else {
        const double slope = n * (q - x * p) / ((1 - x) * (1 + x)) * (1 + 2 * x * rest / square);
        out->weight[i] = 2 / (square * slope * slope);
    }
}

/* Newton's steps from a guess that is near enough for each to double the digits. */
STNI_INLINE void stni_quadrature_newton(int lobatto, int64_t n, int64_t first, struct stni_quadrature_nodes *out,
                                        int lanes)
{
    enum { STEPS = 3 };
    const double d = (double)n;
    double *x = out->cosine, p[STNI_QUADRATURE_LANES], q[STNI_QUADRATURE_LANES];
    for (int i = 0; i < lanes; i++) {
        const double k = (double)(first + i);
        x[i] = lobatto ? cos(STNI_PI * k / (d - 1))
                       : (1 - (d - 1) / (8 * d * d * d)) * cos(STNI_PI * (4 * k + 3) / (4 * d + 2));
    }
    for (int step = 0; step < STEPS + lobatto; step++) {
        stni_quadrature_legendre(n - lobatto, x, p, q, lanes);
        for (int i = 0; i < lanes; i++)
            x[i] += stni_quadrature_step(lobatto, d, x[i], p[i], q[i]);
    }
    for (int i = 0; i < lanes; i++)
        x[i] = 2 * (first + i) + 1 == n ? 0 : lobatto && first + i == 0 ? 1 : x[i];
    stni_quadrature_legendre(n - lobatto, x, p, q, lanes);
    for (int i = 0; i < lanes; i++)
        stni_quadrature_finish(lobatto, d, p[i], q[i], out, i);
}

/* Clenshaw and Curtis on n points equally far apart, poles included: the sum over cosines by Clenshaw's recurrence. */
STNI_INLINE void stni_quadrature_equiangular(int64_t n, int64_t first, struct stni_quadrature_nodes *out, int lanes)
{
    const int64_t last = n - 1;
    double c[STNI_QUADRATURE_LANES], one[STNI_QUADRATURE_LANES], two[STNI_QUADRATURE_LANES];
    for (int i = 0; i < lanes; i++) {
        const double theta = STNI_PI * (double)(first + i) / (double)last;
        const int equator = 2 * (first + i) == last;
        out->cosine[i] = equator ? 0 : cos(theta);
        out->sine[i] = equator ? 1 : first + i == 0 || first + i == last ? 0 : sin(theta);
        out->rest[i] = 0;
        c[i] = 2 * cos(2 * theta);
        one[i] = two[i] = 0;
    }
    for (int64_t j = last / 2; j >= 1; j--) {
        const double term = (2 * j == last ? 1 : 2) / (4 * (double)j * (double)j - 1);
        for (int i = 0; i < lanes; i++) {
            const double next = term + c[i] * one[i] - two[i];
            two[i] = one[i];
            one[i] = next;
        }
    }
    for (int i = 0; i < lanes; i++) {
        const double sum = c[i] / 2 * one[i] - two[i];
        out->weight[i] = (first + i == 0 || first + i == last ? 1 : 2) / (double)last * (1 - sum);
    }
}

/* Nodes first, first + 1, … of n; the last of them may lie beyond the grid. */
STNI_INLINE void stni_quadrature_nodes_of(int64_t grid, int64_t n, int64_t first, struct stni_quadrature_nodes *out,
                                          int lanes)
{
    if (grid == STN_SHT_EQUIANGULAR)
        stni_quadrature_equiangular(n, first, out, lanes);
    else
        stni_quadrature_newton(grid == STN_SHT_LOBATTO, n, first, out, lanes);
}

#endif
