/* The programs that cuda_tests is made of. */
#ifndef STN_TESTS_CUDA_PROGRAMS_H
#define STN_TESTS_CUDA_PROGRAMS_H

#include <stddef.h>

struct program {
    const char *name;
    int (*main)(int argc, char **argv);
};

/* The last one has no name. */
extern const struct program programs[];

/* Prints what of CUDA the loader finds, version by version, and which devices `folder`'s module opens. @return 0, or 1 where it opens none. */
int about(const char *folder);

/* Prints how fast memory is moved. Words: how many launches a round has (20), elements along both sides of the squares of f32 (4096). */
int bench(const char *folder, int argc, char **argv);

#endif
