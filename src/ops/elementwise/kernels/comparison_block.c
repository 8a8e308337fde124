/* The rows of comparison.h as loops over dense runs. */
#define ROWS STNI_COMPARISON_LIST
#define KERNELS stni_comparison_kernels
#include "ops/elementwise/kernels/value_kernels_tmpl.h"
