/* Sizes of tiles, metrics, and the walk over the batch. A part of cdist_cpu.c. */
#ifndef STNI_OPS_DISTANCE_CDIST_WALK_H
#define STNI_OPS_DISTANCE_CDIST_WALK_H

#include "core/base/isa.h"
#include "ops/distance/cdist_kernel.h"

#include <string.h>
#include <tgmath.h>

enum { R = 64, J = 32, K = 64 };
/* TOGETHER rows have J sums each in vector registers, which are many enough that no sum waits for another. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, TOGETHER = 4 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, TOGETHER = 2 };
#else
enum { VECTOR_BYTES = 16, TOGETHER = 1 };
#endif
static int least(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

/* Where an element of the batch begins in each operand. */
struct at {
    int64_t x1, x2, distance, grad, grad1;
};

/* A walk over batch dims. */
struct walk {
    int64_t index[STN_MAX_NDIM];
    struct at at;
};

static int begin(const struct stni_cdist_args *p, const struct walk *w)
{
    (void)w;
    for (int d = 0; d < p->n_batch; d++)
        if (p->batch[d] == 0)
            return 0;
    return 1;
}

static void move(const struct stni_cdist_args *p, struct at *at, int d, int64_t steps)
{
    at->x1 += steps * p->x1.batch[d];
    at->x2 += steps * p->x2.batch[d];
    at->distance += steps * p->distance.batch[d];
    at->grad += steps * p->grad.batch[d];
    at->grad1 += steps * p->grad1.batch[d];
}

/* To the next element of the batch; 0 after the last one. */
static int step(const struct stni_cdist_args *p, struct walk *w)
{
    for (int d = p->n_batch - 1; d >= 0; d--) {
        if (++w->index[d] < p->batch[d]) {
            move(p, &w->at, d, 1);
            return 1;
        }
        move(p, &w->at, d, 1 - p->batch[d]);
        w->index[d] = 0;
    }
    return 0;
}

#endif
