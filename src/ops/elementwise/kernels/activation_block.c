/* The unary functions of activation.h as loops over dense runs. */
#include "ops/elementwise/kernels/activation_bf16.h"
#include "ops/elementwise/kernels/activation_functions.h"

#define ROWS STNI_ACTIVATION_LIST
#define KERNELS stni_activation_kernels
#define BLOCK_BF16 block_bf16
#include "ops/elementwise/kernels/unary_kernels_tmpl.h"
