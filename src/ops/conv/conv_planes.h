/* The parts of complex tensors on the CPU. */
#ifndef STNI_OPS_CONV_CONV_PLANES_H
#define STNI_OPS_CONV_CONV_PLANES_H

#include <stdint.h>

/* A tensor's real and imaginary parts, or two real tensors of one shape. */
struct planes {
    int64_t n;
    void *part[2];
};

#endif
