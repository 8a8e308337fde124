/* The programs that cuda_tests is made of. */
#ifndef STN_TESTS_CUDA_PROGRAMS_H
#define STN_TESTS_CUDA_PROGRAMS_H

#include <stddef.h>

struct program {
    const char *name;
    int (*main)(int argc, char **argv);
    int of_ranks; /* a test of the CPU's ranks, whose data is on a device here */
};

/* The last one has no name. */
extern const struct program programs[];

/* Prints what of CUDA the loader finds, version by version, and which devices `folder`'s module opens. @return 0, or 1
 * where it opens none. */
int about(const char *folder);

/* Measures the rows of bench/. Words: how many calls a measurement has (20), elements along both sides of the squares
 * of f32 (4096), pairs of measurements (7). */
int bench(const char *folder, int argc, char **argv);

#endif
