/* What is printed: a line per failing configuration, a table of the ops, the counts. */
#ifndef CONFORM_REPORT_H
#define CONFORM_REPORT_H

#include "run.h"

#include <stdio.h>

struct op_row {
    char name[CASE_MAX_TEXT];
    int64_t native, fallback, failed; /* configurations; failed ones are counted in the first two as well */
    int64_t bytes;
    double error, peak;
};

/** A kernel that the device lacks. */
struct missing_kernel {
    char slot[CASE_MAX_TEXT];
    int64_t configurations;
};

struct report {
    FILE *out;
    const struct run_options *options;
    int64_t passed, failed, skipped, unsupported;
    struct op_row *rows;
    int n_rows, cap_rows;
    struct missing_kernel *missing;
    int n_missing, cap_missing;
};

/** A run_report_fn; `arg` is the report. */
void report_configuration(void *arg, const struct conform_case *c, const struct grid *grid,
                          const struct configuration *configuration, const struct verdict *verdict);

/** A file that could not be read, or memory that was out: counts as one configuration that failed. */
void report_file(struct report *report, const char *path, const char *text);

/** The table and the kernels that the device lacks, then `N passed, N failed, N skipped`, and `, N unsupported` where
 * the device lacks any. */
void report_end(struct report *report);

void report_free(struct report *report);

#endif
