/* The test programs' harness: cases in an array, checks that print both values and the rank, verdicts that cannot be
 * empty.
 *
 *     static void sum_of_two(void) { CHECK_I64(1 + 1, 2); }
 *
 *     int main(int argc, char **argv)
 *     {
 *         static const struct test_case cases[] = {{"sum_of_two", sum_of_two}};
 *         return TEST_MAIN(argc, argv, cases);
 *     }
 *
 * A check that fails is counted and the case goes on; each returns whether it held, for `if (!CHECK_PTR(p)) return;`.
 * Any thread of a case may check. A case that checked nothing fails. Arguments of the program are substrings that
 * select cases by name. */
#ifndef SHARDTENSOR_TESTS_HARNESS_H
#define SHARDTENSOR_TESTS_HARNESS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test_case {
    const char *name;
    void (*run)(void);
};

/** Runs the cases that the arguments select (all without arguments; none selected is a failure).
 * @return 0, 1 when a case failed, or 77 when all were skipped: what `main` returns. */
int test_main(int argc, char **argv, const struct test_case *cases, size_t count);

#define TEST_MAIN(argc, argv, cases) test_main(argc, argv, cases, sizeof(cases) / sizeof((cases)[0]))

/** Names the rank that this thread plays in what its checks print; -1, the initial value, prints none. */
void test_set_rank(int rank);

/** Which CPU queue the build asks this run to use ($STN_TEST_QUEUE). Programs in the list marked `queues` run once
 * with each. */
enum test_queue { TEST_QUEUE_IMMEDIATE, TEST_QUEUE_WORKER };
enum test_queue test_queue(void);

/** Which instruction set the build asks this run to use ($STN_TEST_ISA), for stn_context_options; NULL: the widest.
 * Programs in the list marked `kernels` run once with each; where the processor lacks it the whole program is
 * skipped. */
const char *test_isa(void);

/** How many of `n` draws this run makes: all of them, or, under a sanitizer, where each takes ten times as long, a
 * third, at least one. */
int test_draws(int n);

/** The step of a loop over cases whose threads do the same in each: `n` under the thread sanitizer, which learns from
 * one of them what all have to tell, else 1. */
int test_thread_step(int n);

/** Marks the running case as skipped and says why; the case still has to return. */
void test_skip(const char *reason);

/** Says what of the running case cannot run here, and why; the rest goes on. A case of which nothing is left to check
 * is skipped. */
void test_leave_out(const char *what);

#define SKIP(reason)           \
    do {                       \
        test_skip(reason);     \
        return;                \
    } while (0)

#define CHECK(cond) test_check((cond), __FILE__, __LINE__, #cond)
#define CHECK_I64(got, want) test_check_i64((got), (want), __FILE__, __LINE__, #got)
#define CHECK_STR(got, want) test_check_str((got), (want), __FILE__, __LINE__, #got)
/** |got - want| <= rel * max(|got|, |want|); two NaNs are equal. */
#define CHECK_NEAR(got, want, rel) test_check_near((got), (want), (rel), __FILE__, __LINE__, #got)
/** Equality of two enum stn_status values. */
#define CHECK_STATUS(got, want) test_check_status((int)(got), (int)(want), __FILE__, __LINE__, #got)
/** The pointer is not NULL. */
#define CHECK_PTR(p) test_check((p) != NULL, __FILE__, __LINE__, #p " != NULL")
#define CHECK_BYTES(got, want, nbytes) test_check_bytes((got), (want), (nbytes), __FILE__, __LINE__, #got)

/** The worst error so far; a NaN, which fmax passes over, is the worst of all. */
static inline double test_worst(double so_far, double error)
{
    return isnan(so_far) || error <= so_far ? so_far : error;
}

bool test_check(bool held, const char *file, int line, const char *text);
bool test_check_i64(int64_t got, int64_t want, const char *file, int line, const char *text);
bool test_check_str(const char *got, const char *want, const char *file, int line, const char *text);
bool test_check_near(double got, double want, double rel, const char *file, int line, const char *text);
bool test_check_status(int got, int want, const char *file, int line, const char *text);
bool test_check_bytes(const void *got, const void *want, size_t nbytes, const char *file, int line, const char *text);

#endif
