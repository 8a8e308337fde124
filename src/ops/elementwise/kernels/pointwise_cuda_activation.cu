/* The unary functions of activation.h on CUDA devices. */
#define CASES STNI_ACTIVATION_LIST(UNARY_CASES)
#define TYPES REAL_TYPES
#define LAUNCH stni_pointwise_launch_activation
#include "ops/elementwise/kernels/pointwise_cuda.cuh"
