/* Convolution problems and their plain solution, in double. */
#ifndef SHARDTENSOR_TESTS_OPS_UTIL_CONV_NAIVE_H
#define SHARDTENSOR_TESTS_OPS_UTIL_CONV_NAIVE_H

#include "ops/conv/conv_problem.h"

/* Elements of x, y and weight. */
static inline int64_t problem_size(const struct stni_conv_problem *p, int64_t channels, const int64_t *extent)
{
    int64_t n = p->n * channels;
    for (int d = 0; d < p->dims; d++)
        n *= extent[d];
    return n;
}

static inline int64_t weight_size(const struct stni_conv_problem *p)
{
    int64_t n = p->o * (p->c / p->groups);
    for (int d = 0; d < p->dims; d++)
        n *= p->kernel[d];
    return n;
}

/* The pixel of x (of the whole batch) that tap t of pixel i of y reads, -1 where that is padding. */
static inline int64_t naive_pixel(const struct stni_conv_problem *p, int64_t i, int64_t t)
{
    int64_t at = 0, step = 1;
    int inside = 1;
    for (int d = p->dims; d-- > 0; i /= p->out[d], t /= p->kernel[d], step *= p->in[d]) {
        int64_t x = i % p->out[d] * p->stride[d] - p->pad_low[d] + t % p->kernel[d] * p->dilation[d];
        inside &= x >= 0 && x < p->in[d];
        at += x * step;
    }
    return inside ? at + i * step : -1;
}

/* Adds the solution of a problem to what is in y, x or weight, by its kind. */
static inline void naive_add(const struct stni_conv_problem *p, double *x, double *y, double *weight)
{
    int64_t c = p->c / p->groups, o = p->o / p->groups, pixels = problem_size(p, 1, p->out), taps = 1;
    for (int d = 0; d < p->dims; d++)
        taps *= p->kernel[d];
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t t = 0; t < taps; t++) {
            int64_t from = naive_pixel(p, i, t);
            for (int64_t oo = 0; from >= 0 && oo < p->o; oo++)
                for (int64_t cc = 0; cc < c; cc++) {
                    double *a = x + from * p->c + oo / o * c + cc, *b = y + i * p->o + oo,
                           *w = weight + (oo * c + cc) * taps + t;
                    if (p->kind == STNI_CONV_FORWARD)
                        *b += *a * *w;
                    else if (p->kind == STNI_CONV_GRAD_INPUT)
                        *a += *b * *w;
                    else
                        *w += *a * *b;
                }
        }
}

#endif
