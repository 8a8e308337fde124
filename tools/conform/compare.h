/* Comparing what came with what was expected. */
#ifndef CONFORM_COMPARE_H
#define CONFORM_COMPARE_H

#include "case.h"

struct comparison {
    stn_dtype dtype;
    int known;          /* the dtype can be compared */
    int exact;          /* integers and booleans: any difference counts */
    int is_one;         /* a single number */
    int64_t differing;  /* exact: elements that differ; else those where NaN or infinity stands on one side alone */
    double diff_norm, expected_norm, max_diff, max_expected;
    int64_t worst_at;   /* element of max_diff, or of the first that differs */
};

/** Compares `numel` elements. Complex numbers count as two. */
struct comparison compare(stn_dtype dtype, int64_t numel, const void *expected, const void *got);

/** Within the bounds of its dtype: f32 norm(diff) <= 1e-5 norm(expected) and max |diff| <= 1e-4 max |expected|.
 * Writes the reason otherwise. */
int comparison_holds(const struct comparison *c, char *reason, size_t size);

/** norm(diff) / norm(expected): 0 where nothing differs, infinity where nothing was expected. */
double comparison_error(const struct comparison *c);

#endif
