/* The unary functions of trigonometry.h on CUDA devices. */
#define CASES STNI_TRIGONOMETRY_LIST(UNARY_CASES)
#define TYPES ANALYTIC_TYPES
#define LAUNCH stni_pointwise_launch_trigonometry
#include "ops/elementwise/kernels/pointwise_cuda.cuh"
