/* Placement of convolutions: what each dim of x, y, weight and bias stands for (ops/placement/bilinear.h). */
#ifndef STNI_OPS_CONV_CONV_LABELS_H
#define STNI_OPS_CONV_CONV_LABELS_H

#include "ops/conv/conv_geometry.h"
#include "ops/placement/bilinear.h"

/* x and y lie channels-last in memory: their labels point into the struct itself. */
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
