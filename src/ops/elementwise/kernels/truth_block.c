/* The rows of comparison.h that give truths, as loops over dense runs: bools go from the comparison to the result.
 * Through a run of the type that is compared, and a pass that narrows it, they took twice the time. */
#include <stdint.h>

#define ROWS STNI_TRUTH_LIST
#define RESULT uint8_t
#define KERNELS stni_truth_kernels
#define NONE 0 /* no two compilers make the same truth of a complex x */
#include "ops/elementwise/kernels/value_kernels_tmpl.h"
