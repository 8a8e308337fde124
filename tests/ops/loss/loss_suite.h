/* What every loss is held to: plain loops, differences, and one process for every layout. */
#ifndef SHARDTENSOR_TESTS_OPS_LOSS_LOSS_SUITE_H
#define SHARDTENSOR_TESTS_OPS_LOSS_LOSS_SUITE_H

#include "ops/against_one.h"

enum { LOSS_MOST_INPUTS = 3, LOSS_MOST_ELEMENTS = 64 };

struct loss_suite {
    int n; /* losses */
    uint64_t values_seed, layouts_seed;
    double tolerance; /* of values beside those of loops, relative */
    int rounds;       /* layouts that are drawn of each loss */
    /** Draws the operands of loss `i` and says how it is called. The caller frees v[0 .. op->n_in - 1]. */
    void (*draw)(int i, uint64_t *state, struct against_one_op *op, double *v[LOSS_MOST_INPUTS]);
    /** What loss `i` of these operands is, by plain loops. */
    void (*expect)(int i, double *const v[LOSS_MOST_INPUTS], double *out);
};

/** Values are those of plain loops, derivatives those of differences: on one rank. */
void loss_suite_check_values(const struct loss_suite *suite);

/** Every drawn layout gives what one process gives, second derivatives included: on 1, 2, 3 and 6 ranks. */
void loss_suite_check_layouts(const struct loss_suite *suite);

#endif
