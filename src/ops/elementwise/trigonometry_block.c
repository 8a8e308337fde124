/* The curves of trigonometry.h as loops over dense runs. */
#define ROWS STNI_TRIGONOMETRY_LIST
#define KERNELS stni_trigonometry_kernels
#define ANALYTIC_ROWS
#include "ops/elementwise/curve_kernels.inc"
