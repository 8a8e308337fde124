/* Schedules of learning rates: their shape, and any numbers. */
#include "harness.h"

#include <shardtensor/train.h>

static void schedules_rise_and_fall(void)
{
    CHECK_NEAR(stn_schedule_constant(0, 4), 0.2, 1e-15);
    CHECK_NEAR(stn_schedule_constant(3, 4), 0.8, 1e-15);
    CHECK_NEAR(stn_schedule_constant(4, 4), 1, 1e-15);
    CHECK_NEAR(stn_schedule_cosine(0, 0, 8, 0.1), 1, 1e-15);
    CHECK_NEAR(stn_schedule_cosine(4, 0, 8, 0.1), 0.55, 1e-15);
    CHECK_NEAR(stn_schedule_cosine(2, 0, 8, 0), 0.5 * (1 + sqrt(0.5)), 1e-15);
    CHECK_NEAR(stn_schedule_cosine(1, 3, 8, 0), 0.5, 1e-15);
    CHECK_NEAR(stn_schedule_cosine(8, 3, 8, 0.1), 0.1, 1e-15);
    CHECK_NEAR(stn_schedule_cosine(99, 3, 8, 0.1), 0.1, 1e-15);
}

/* The ends of the range, between which differences do not fit. */
static void schedules_take_any_numbers(void)
{
    const int64_t most = INT64_MAX, least = INT64_MIN;
    CHECK_NEAR(stn_schedule_constant(0, most), 0x1p-63, 1e-15);
    CHECK_NEAR(stn_schedule_constant(most - 1, most), 1, 1e-15);
    CHECK_NEAR(stn_schedule_constant(most, most), 1, 0);
    CHECK_NEAR(stn_schedule_constant(most / 2, most), 0.5, 1e-15);
    CHECK_NEAR(stn_schedule_constant(-5, -1), 1, 0);
    CHECK_NEAR(stn_schedule_cosine(5, most, most, 0.1), 6 * 0x1p-63, 1e-15);
    CHECK_NEAR(stn_schedule_cosine(most, most, most, 0.1), 0.1, 0);
    CHECK_NEAR(stn_schedule_cosine(most - 1, most - 2, most, 0.1), 0.55, 1e-15);
    CHECK_NEAR(stn_schedule_cosine(0, least, most, 0.1), 0.55, 1e-15);
    CHECK_NEAR(stn_schedule_cosine(most - 1, least, most, 0.1), 0.1, 1e-15);
    CHECK_NEAR(stn_schedule_cosine(most, least, least, 0.1), 0.1, 0);
    CHECK_NEAR(stn_schedule_cosine(3, 0, most, 0.1), 1, 1e-15);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"schedules_rise_and_fall", schedules_rise_and_fall},
        {"schedules_take_any_numbers", schedules_take_any_numbers},
    };
    return TEST_MAIN(argc, argv, cases);
}
