/* Convolution by our own kernels: for f64, for builds without oneDNN, and where oneDNN has nothing as fast. Problems of
 * few channels are solved directly (direct.h), others by columns. */
#ifndef STNI_OPS_CONV_REFERENCE_H
#define STNI_OPS_CONV_REFERENCE_H

#include "core/base/isa.h"
#include "ops/conv/conv_problem.h"

/* Bytes of workspace, 64-byte aligned, that a problem needs: the weight, and a block of columns, or of planes, of
 * bounded size. */
size_t stni_conv_reference_workspace(const struct stni_conv_problem *problem);

/* Solves a problem in f32 or f64 (weight_dtype equal) on the calling thread. Sizes may be 0. */
void stni_conv_reference(enum stni_isa isa, const struct stni_conv_problem *problem, const struct stni_conv_data *data,
                         void *workspace);

#endif
