/* The rows of arithmetic.h on CUDA devices. */
#define CASES STNI_ARITHMETIC_LIST(CASE)
#define TYPES EVERY_TYPE
#define LAUNCH stni_pointwise_launch_arithmetic
#include "ops/elementwise/kernels/pointwise_cuda.cuh"
