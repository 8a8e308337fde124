/* The loaded library's version is that of the headers it was compiled with. */
#include "harness.h"

#include <shardtensor/version.h>

#include <stdio.h>

static void version_numbers_equal_those_of_the_header(void)
{
    int major = -1, minor = -1, patch = -1;
    stn_version(&major, &minor, &patch);
    CHECK_I64(major, STN_VERSION_MAJOR);
    CHECK_I64(minor, STN_VERSION_MINOR);
    CHECK_I64(patch, STN_VERSION_PATCH);
}

static void version_takes_null_for_a_number_not_wanted(void)
{
    int minor = -1;
    stn_version(NULL, &minor, NULL);
    CHECK_I64(minor, STN_VERSION_MINOR);
}

static void version_string_joins_the_numbers(void)
{
    char want[64];
    snprintf(want, sizeof want, "%d.%d.%d", STN_VERSION_MAJOR, STN_VERSION_MINOR, STN_VERSION_PATCH);
    CHECK_STR(stn_version_string(), want);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"version_numbers_equal_those_of_the_header", version_numbers_equal_those_of_the_header},
        {"version_takes_null_for_a_number_not_wanted", version_takes_null_for_a_number_not_wanted},
        {"version_string_joins_the_numbers", version_string_joins_the_numbers},
    };
    return TEST_MAIN(argc, argv, cases);
}
