/* The unary functions of exponential.h on CUDA devices. */
#define CASES STNI_EXPONENTIAL_LIST(UNARY_CASES)
#define TYPES ANALYTIC_TYPES
#define LAUNCH stni_pointwise_launch_exponential
#include "ops/elementwise/kernels/pointwise_cuda.cuh"
