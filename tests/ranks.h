/* Test bodies on thread ranks.
 *
 *     static stn_status body(stn_context *context, void *arg) { …; return STN_OK; }
 *     static void three_ranks(void) { test_ranks(3, body, NULL); }
 *
 * The ranks use the CPU queue that the build asks for (the worker one with random delays), or, where options name no
 * other, the device STN_TEST_DEVICE of the modules in STN_TEST_DEVICE_MODULES. Checked for every rank: the body's
 * status, and that it left no tensor behind. */
#ifndef SHARDTENSOR_TESTS_RANKS_H
#define SHARDTENSOR_TESTS_RANKS_H

#include "harness.h"

#include <shardtensor/shardtensor.h>

/** Runs `body` on `n` thread ranks; under mpirun (stn_mpi_tests) on the job's, whose number `n` is, or 0. */
void test_ranks(int n, stn_rank_main body, void *arg);

/** The same on 1, 2, 3 and 6 ranks. */
void test_worlds(stn_rank_main body, void *arg);

/** The same with options for each rank (its queue is set here). @return stn_launch's status, unchecked. */
stn_status test_launch(int n, const stn_context_options *options, stn_rank_main body, void *arg);

/** A mesh of `rows` x `columns` ranks, axes "y" and "x"; columns 0: one axis of `rows` ranks. */
const stn_mesh *test_mesh(stn_context *context, int rows, int columns);

/** A tensor on `mesh` whose element at linear global index i (row-major) is value(i). Not a leaf. Uneven cuts by
 * `sizes` as in stn_spec_options (NULL: balanced). Partial placements: axis rank 0 holds the values, the others
 * zeros. f32 or f64. */
stn_tensor *test_tensor(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype,
                        int ndim, const int64_t *shape, const int64_t *const *sizes, double (*value)(int64_t i));

/** The whole tensor, row-major, as doubles (f32, f64, i64), on every rank; collective. `n` must be its number of
 * elements. */
void test_read(stn_tensor *tensor, double *out, int64_t n);

/** Checks each of the tensor's n elements, on the ranks of its mesh, with CHECK_NEAR; collective over these. */
void test_compare(stn_tensor *tensor, const double *want, int64_t n, double tolerance);

/** Every rank's n elements at `mine`, in rank order, to `all` on every rank, on whatever device the ranks' tensors are;
 * collective. */
void test_gather(stn_context *context, const void *mine, int64_t n, stn_dtype dtype, void *all);

/** Each of the n values becomes its sum over all ranks; the same. */
void test_sum(stn_context *context, double *values, int n);

/** Rank 0's text, of up to 512 bytes, is `text`; the same. */
void test_same_text(stn_context *context, const char *text);

/** The context has kept an error of this status and text; it is taken. */
#define CHECK_ERROR(context, status, text) test_check_error((context), (status), (text), 0, __FILE__, __LINE__)
/** An error of this status whose text has this part. */
#define CHECK_ERROR_PART(context, status, part) test_check_error((context), (status), (part), 1, __FILE__, __LINE__)
/** The result is an error tensor, and the error is this one. */
#define CHECK_REFUSED(context, result, status, text) \
    (CHECK(stn_tensor_is_error(result)), CHECK_ERROR(context, status, text))

bool test_check_error(stn_context *context, stn_status status, const char *text, int is_part, const char *file,
                      int line);

/** A value without ties: about -1 to 1, decided by i alone. */
double test_value(int64_t i);

#endif
