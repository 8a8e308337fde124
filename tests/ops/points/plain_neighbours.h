/* Near points by a plain loop: all distances of a query, sorted. */
#ifndef SHARDTENSOR_TESTS_OPS_PLAIN_NEIGHBOURS_H
#define SHARDTENSOR_TESTS_OPS_PLAIN_NEIGHBOURS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

struct plain_neighbour {
    double square; /* NaN is infinity here: what has it comes last all the same where nothing else is infinite */
    int64_t index;
};

static int plain_compare(const void *a, const void *b)
{
    const struct plain_neighbour *x = a, *y = b;
    if (x->square != y->square)
        return x->square < y->square ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Squares as f32 or f64 adds them. */
static double plain_square(const double *p, const double *q, int64_t d, int f64)
{
    double wide = 0;
    float narrow = 0;
    for (int64_t c = 0; c < d; c++) {
        const double t = p[c] - q[c];
        const volatile float s = (float)p[c] - (float)q[c], square = s * s; /* rounded each time */
        wide += t * t;
        narrow += square;
    }
    const double square = f64 ? wide : (double)narrow;
    return isnan(square) ? (double)INFINITY : square;
}

/* All n points in the order of their distance from a query. The caller frees them. */
static struct plain_neighbour *plain_neighbours(const double *points, int64_t n, const double *query, int64_t d,
                                                int f64)
{
    struct plain_neighbour *all = malloc((size_t)(n + 1) * sizeof *all);
    for (int64_t i = 0; i < n; i++)
        all[i] = (struct plain_neighbour){plain_square(points + i * d, query, d, f64), i};
    qsort(all, (size_t)n, sizeof *all, plain_compare);
    return all;
}

#endif
