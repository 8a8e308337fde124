/* A job in which a rank returns an error from its rank_main: the others learn of it by stn_launch. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILING = 1 };

static stn_status failing_main(stn_context *context, void *arg)
{
    *(int *)arg = stn_context_rank(context);
    if (stn_context_rank(context) == FAILING)
        return STN_ERR_IO;
    return stn_comm_barrier(stn_context_comm(context), NULL);
}

static void a_rank_that_returns_an_error_is_known_to_all(void)
{
    char text[256] = "";
    int rank = -1;
    const stn_launch_options options = {
        .size = sizeof options,
        .context = {.size = sizeof options.context,
                    .module_path = getenv("STN_TEST_MODULES"),
                    .error_text = text,
                    .error_text_size = sizeof text},
    };
    stn_status status = stn_launch(&options, failing_main, &rank);
    CHECK_STATUS(status, rank == FAILING ? STN_ERR_IO : STN_ERR_PEER);
    CHECK_STR(text, rank == FAILING ? "input or output failed" : "rank 1: input or output failed");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_rank_that_returns_an_error_is_known_to_all", a_rank_that_returns_an_error_is_known_to_all},
    };
    return TEST_MAIN(argc, argv, cases);
}
