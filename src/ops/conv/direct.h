/* Convolution by sums of shifted planes: for f32 and f64 problems of few channels and stride 1, as solvers' stencils
 * are, where columns would cost more than they multiply. */
#ifndef STNI_OPS_CONV_DIRECT_H
#define STNI_OPS_CONV_DIRECT_H

#include "core/base/isa.h"
#include "ops/conv/conv_problem.h"

/* 1 where this is the faster of our own kernels. A function of the problem alone. */
int stni_conv_direct_serves(const struct stni_conv_problem *problem);

/* 1 where it is served, and faster than oneDNN's code too. */
int stni_conv_direct_is_best(const struct stni_conv_problem *problem);

/* Bytes of workspace, 64-byte aligned, that a problem needs which is served: bounded but for the weight's. */
size_t stni_conv_direct_workspace(const struct stni_conv_problem *problem);

/* Solves a problem that is served on the calling thread. */
void stni_conv_direct(enum stni_isa isa, const struct stni_conv_problem *problem, const struct stni_conv_data *data,
                      void *workspace);

#endif
