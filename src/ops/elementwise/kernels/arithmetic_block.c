/* The rows of arithmetic.h as loops over dense runs; compiled once per instruction set, as all of its kind. */
#include "ops/elementwise/kernels/arithmetic_bf16.h"

#define ROWS STNI_VALUES_LIST
#define KERNELS stni_arithmetic_kernels
#define BLOCK_BF16 block_bf16
#include "ops/elementwise/kernels/value_kernels_tmpl.h"
