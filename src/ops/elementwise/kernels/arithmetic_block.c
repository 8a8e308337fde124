/* The rows of arithmetic.h as loops over dense runs; compiled once per instruction set, as all of its kind. */
#define ROWS STNI_ARITHMETIC_LIST
#define KERNELS stni_arithmetic_kernels
#include "ops/elementwise/kernels/value_kernels_tmpl.h"
