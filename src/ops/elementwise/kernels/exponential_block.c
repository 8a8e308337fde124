/* The unary functions of exponential.h as loops over dense runs. */
#define ROWS STNI_EXPONENTIAL_LIST
#define KERNELS stni_exponential_kernels
#define ANALYTIC_ROWS
#include "ops/elementwise/kernels/unary_kernels_tmpl.h"
