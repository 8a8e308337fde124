/* How direct.c sees a convolution: a source and a target of planes, three windowed dims, blocks of them. */
#ifndef STNI_OPS_CONV_DIRECT_LAYOUT_H
#define STNI_OPS_CONV_DIRECT_LAYOUT_H

#include "core/base/isa.h"
#include "ops/conv/conv_problem.h"

/* A problem of stride 1. The source is what windows are read from: x, but y for the gradient by the input, which is a
 * convolution of y with the weight turned round; the target is the other one. A block of the target is made from a span
 * of the source. Both are planes here, one for each channel, with rows as long as the span's, and the span has zeros
 * where the source has nothing, so that a window reads at the same offsets from each position. The windowed dims are
 * always three: others of size 1 stand first. */
struct direct {
    const struct stni_conv_problem *p;
    enum stni_isa isa;
    int64_t element; /* bytes */
    int64_t source[3], target[3], kernel[3], dilation[3], pad[3];
    int64_t source_channels, target_channels; /* of a group */
    int64_t taps, terms;                      /* of a kernel; of a sum: taps of all channels of the source */
    int64_t groups;                           /* at once */
    int64_t block[3], span[3];
    int64_t source_plane, target_plane; /* elements from one channel to the next */
    size_t offset_bytes, weight_bytes, source_bytes, target_bytes;
};

struct direct stni_conv_direct_layout(const struct stni_conv_problem *p);

#endif
