/* Contexts of the CUDA module under test; the same work on the CPU and on the CUDA module's device, and what its
 * results differ by. */
#ifndef STN_TESTS_CUDA_BOTH_H
#define STN_TESTS_CUDA_BOTH_H

#include <shardtensor/shardtensor.h>

enum { BOTH_RESULTS = 8 };

/* Work on tensors that both_input made, of one dtype; puts at most BOTH_RESULTS results into
 * `out`, returns how many. */
typedef struct both_work {
    const char *name;
    int (*run)(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out);
} both_work;

/* A context with these options, of the module under test: the stand-in's, or that of the folder STN_TEST_CUDA_FOLDER.
 * NULL and a failed check where it cannot be had. */
stn_context *both_open(stn_context_options options);

/* 1 where that is the stand-in's. */
int both_on_standin(void);

/* Whether to take the i-th of many combinations: all on a GPU; every eighth on the stand-in, whose grids are slow, or
 * where STN_TEST_FEW is set, as for compute-sanitizer, and every twelfth where the stand-in is sanitized. */
int both_takes(int i);

/* A tensor of numbers from -4 to 4 that differ with `seed`, the same on both devices. */
stn_tensor *both_input(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, int seed);

/* Checks that results are equal within `tolerance`, relative to the larger of 1 and the CPU's number; NaN is equal to
 * NaN. 0: the same bits. */
void both_compare(const both_work *work, stn_dtype dtype, const int64_t *shape, double tolerance);

/* Of sums whose terms are rounded, which are wrong by what their largest terms are, however small they are
 * themselves: checks that the root mean square of what results differ by is at most `tolerance`, and the largest at
 * most six times that, relative to the larger of 1 and the root mean square of the CPU's numbers, the largest also to
 * the CPU's number. */
void both_compare_sums(const both_work *work, stn_dtype dtype, const int64_t *shape, double tolerance);

#endif
