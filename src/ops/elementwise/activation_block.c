/* The curves of activation.h as loops over dense runs. */
#include "ops/elementwise/activation_functions.h"

#define ROWS STNI_ACTIVATION_LIST
#define KERNELS stni_activation_kernels
#include "ops/elementwise/curve_kernels.inc"
