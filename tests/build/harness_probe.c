/* Cases with known verdicts, for harness.py: they show that the harness fails what it has to fail. */
#include "harness.h"

#include <math.h>
#include <pthread.h>

enum { THREADS = 4, CHECKS_PER_THREAD = 10000 };

static void passes(void)
{
    CHECK(true);
    CHECK_I64(-3, -3);
    CHECK_STR("a", "a");
    CHECK_STR(NULL, NULL);
    CHECK_NEAR(1.0, 1.0 + 1e-9, 1e-8);
    CHECK_NEAR(NAN, NAN, 0.0);
    CHECK_NEAR(INFINITY, INFINITY, 0.0);
    CHECK_STATUS(2, 2);
    CHECK_PTR("");
    CHECK_BYTES("abc", "abd", 2);
}

static void checks_nothing(void)
{
}

static void compares_no_bytes(void)
{
    CHECK_BYTES("a", "a", 0);
}

static void is_skipped(void)
{
    SKIP("no such device");
}

static void leaves_a_part_out(void)
{
    test_leave_out("the fourth device");
    CHECK(true);
}

static void leaves_all_out(void)
{
    test_leave_out("all devices");
}

static void fails_before_a_skip(void)
{
    CHECK(false);
    SKIP("no such device");
}

static void differs_in_a_number(void)
{
    test_set_rank(5);
    CHECK_I64(INT64_C(1) << 40, 7);
    test_set_rank(-1);
}

static void differs_in_a_string(void)
{
    CHECK_STR("got this", NULL);
}

static void differs_in_a_real(void)
{
    CHECK_NEAR(1.0, 1.1, 1e-3);
}

static void differs_by_a_nan(void)
{
    CHECK_NEAR(NAN, 1.0, 1e9);
}

static void differs_by_an_infinity(void)
{
    CHECK_NEAR(1.0, INFINITY, 1e9);
}

static void differs_in_a_status(void)
{
    CHECK_STATUS(0, 3);
}

static void differs_in_a_byte(void)
{
    CHECK_BYTES("abc", "abd", 3);
}

static void is_null(void)
{
    const char *nothing = NULL;
    CHECK_PTR(nothing);
}

static void *check_many(void *last_is_wrong)
{
    for (int i = 0; i < CHECKS_PER_THREAD; i++)
        CHECK(last_is_wrong == NULL || i < CHECKS_PER_THREAD - 1);
    return NULL;
}

static void run_threads(void *last_is_wrong)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_I64(pthread_create(&threads[i], NULL, check_many, i == THREADS - 1 ? last_is_wrong : NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void counts_checks_of_all_threads(void)
{
    run_threads(NULL);
}

static void fails_when_one_thread_does(void)
{
    int wrong = 1;
    run_threads(&wrong);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"passes", passes},
        {"checks_nothing", checks_nothing},
        {"compares_no_bytes", compares_no_bytes},
        {"is_skipped", is_skipped},
        {"leaves_a_part_out", leaves_a_part_out},
        {"leaves_all_out", leaves_all_out},
        {"fails_before_a_skip", fails_before_a_skip},
        {"differs_in_a_number", differs_in_a_number},
        {"differs_in_a_string", differs_in_a_string},
        {"differs_in_a_real", differs_in_a_real},
        {"differs_by_a_nan", differs_by_a_nan},
        {"differs_by_an_infinity", differs_by_an_infinity},
        {"differs_in_a_status", differs_in_a_status},
        {"differs_in_a_byte", differs_in_a_byte},
        {"is_null", is_null},
        {"counts_checks_of_all_threads", counts_checks_of_all_threads},
        {"fails_when_one_thread_does", fails_when_one_thread_does},
    };
    return TEST_MAIN(argc, argv, cases);
}
