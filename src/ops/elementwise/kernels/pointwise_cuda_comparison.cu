/* The rows of comparison.h on CUDA devices. */
#define CASES STNI_COMPARISON_LIST(CASE)
#define TYPES EVERY_TYPE
#define LAUNCH stni_pointwise_launch_comparison
#include "ops/elementwise/kernels/pointwise_cuda.cuh"
