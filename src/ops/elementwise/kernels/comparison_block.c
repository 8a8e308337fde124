/* The rows of comparison.h that give numbers of the type in which they compute, as loops over dense runs. */
#define ROWS STNI_PARTS_LIST
#define KERNELS stni_comparison_kernels
#include "ops/elementwise/kernels/value_kernels_tmpl.h"
