/* The terms of targets along a dim. A part of resample_cpu.c. */
#ifndef STNI_OPS_RESAMPLE_RESAMPLE_TABLE_H
#define STNI_OPS_RESAMPLE_RESAMPLE_TABLE_H

#include "core/base/dtype.h"
#include "core/base/isa.h"
#include "ops/cpu/nontemporal_blocks.h"
#include "ops/resample/resample_kernel.h"

#include <string.h>

/* The terms of each target along a dim: weights begin[t] … begin[t + 1] - 1 are those of sources first[t], first[t]
 * + 1, … */
struct table {
    int64_t n, *begin, *first;
    double *weight;
    /* Weights repeat every `period` targets from even.begin to even.end - 1, a whole number of times; the sources go
     * on by `apart`. */
    struct stni_range even;
    int64_t period, apart;
};

/* Periods of a line that are computed together, and the longest period that is looked for. */
enum { BLOCK = 128, PERIODS = 4 };

/* Terms that are added one after the other in the type of arithmetic, sums of more terms that are made together, and
 * partial sums of a line. */
enum { RUN = 32, STRIP = 512, LANES = 8 };

#endif
