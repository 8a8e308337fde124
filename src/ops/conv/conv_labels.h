/* Placement of convolutions: what each dim of x, y, weight and bias stands for (ops/placement/bilinear.h). */
#ifndef STNI_OPS_CONV_CONV_LABELS_H
#define STNI_OPS_CONV_CONV_LABELS_H

#include "ops/conv/conv_geometry.h"
#include "ops/placement/bilinear.h"

/* Whether x and y are to lie row-major in memory. They lie channels-last otherwise, as the CPU's kernels and tensor
 * cores want them. cuDNN's engines for f32 that is not rounded to TF32, and for f64, read row-major images and turn
 * others round before and behind. */
int stni_conv_wants_row_major(const stn_op_call *call);

/* Whether all ranks, or all but a few, join the source's chunk and its halo in a buffer, so that the chunk may lie in
 * memory as it does. A pure function of what `place` is called with. */
int stni_conv_copies_source(const stn_op_call *call, const struct stni_conv *conv);

/* Labels of a convolution whose `row_major` is set. Those of x and y point into the struct itself. */
struct stni_conv_labels {
    struct stni_labels of[STNI_CONV_ROLES];
    uint8_t memory_order[STN_MAX_NDIM];
    int group_label;  /* whose parts are the groups; -1 for one group */
    uint32_t windows; /* bits of the windowed dims' labels */
};
void stni_conv_label(const struct stni_conv *conv, struct stni_conv_labels *labels);

/* Of a bias, which goes with the channels of the output. */
struct stni_labels stni_conv_label_bias(const struct stni_conv *conv, const struct stni_labels *out);

#endif
