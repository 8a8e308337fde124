/* What convolutions of the conformance cases come to on a device: each problem that the library gives to a kernel. */
#ifndef STN_TESTS_CUDA_CONV_PROBLEMS_H
#define STN_TESTS_CUDA_CONV_PROBLEMS_H

#include "ops/cuda/cudnn.h"

enum { CONV_PROBLEMS_MOST = 4096 };

struct conv_problems {
    int n, cases;
    struct stni_cudnn_conv list[CONV_PROBLEMS_MOST]; /* each once, of channels-last images */
};

/* Runs all cases of convolutions in `folder`, forward and backward, on CPU ranks that join chunk and halo as devices do
 * and whose input is cut along its first windowed dim, and adds the problems that have any elements. Checks what the
 * cases give. */
void conv_problems_add(struct conv_problems *problems, const char *folder, stn_dtype dtype, int ranks);

#endif
