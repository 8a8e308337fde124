/* A metadata error that each rank finds for itself: each ends with it, also one that is slower than its peers, which
 * have ended by then; and a rank that fails alone is named, with its reason, by those that wait for it. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 4, LAG = 30000 /* microseconds */ };

static stn_status launch(char text[256], stn_rank_main rank_main, void *arg)
{
    const stn_launch_options options = {
        .size = sizeof options,
        .context = {.size = sizeof options.context, .error_text = text, .error_text_size = 256},
    };
    text[0] = '\0';
    return stn_launch(&options, rank_main, arg);
}

/* Rank 0 waits for nobody: it has ended when the others are still in their first collectives. */
static stn_status slow_main(stn_context *context, void *arg)
{
    const int64_t n = *(const int64_t *)arg, shape[] = {4}, other[] = {5};
    const int rank = stn_context_rank(context);
    int32_t *values = calloc((size_t)n, sizeof *values);
    test_set_rank(rank);
    for (int round = 1; round <= ROUNDS; round++) {
        if (rank > 0)
            usleep(LAG * (unsigned)rank);
        for (int64_t i = 0; i < n && rank == 0; i++)
            values[i] = round;
        CHECK_STATUS(stn_comm_broadcast(stn_context_comm(context), values, n, STN_DTYPE_I32, 0, NULL), STN_OK);
        CHECK_I64(values[n - 1], round);
    }
    free(values);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_add(stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F32, "R", 1, shape)),
            stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F32, "R", 1, other)));
    return stn_scope_end(context);
}

static void a_slower_rank_ends_with_its_own_error(void)
{
    static const int64_t counts[] = {1, 50000};
    char text[256];
    for (int i = 0; i < 4; i++) {
        int64_t n = counts[i % 2];
        CHECK_STATUS(launch(text, slow_main, &n), STN_ERR_SHAPE);
        if (!CHECK(strncmp(text, "add: ", 5) == 0))
            fprintf(stderr, "\"%s\"\n", text);
    }
}

enum { FAILING = 1 };

static stn_status alone_main(stn_context *context, void *arg)
{
    const int64_t shape[] = {4}, other[] = {5};
    *(int *)arg = stn_context_rank(context);
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    if (*(int *)arg == FAILING)
        stn_add(stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F32, "R", 1, shape)),
                stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F32, "R", 1, other)));
    const stn_status ended = stn_scope_end(context);
    return ended != STN_OK ? ended : stn_comm_barrier(stn_context_comm(context), NULL);
}

static void a_rank_that_fails_alone_is_named_with_its_reason(void)
{
    char text[256], who[16];
    int rank = -1;
    for (int i = 0; i < 4; i++) {
        const stn_status status = launch(text, alone_main, &rank);
        CHECK_STATUS(status, rank == FAILING ? STN_ERR_SHAPE : STN_ERR_PEER);
        snprintf(who, sizeof who, "rank %d: add: ", FAILING);
        if (!CHECK(strncmp(text, rank == FAILING ? who + 8 : who, rank == FAILING ? 5 : 13) == 0))
            fprintf(stderr, "\"%s\"\n", text);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_slower_rank_ends_with_its_own_error", a_slower_rank_ends_with_its_own_error},
        {"a_rank_that_fails_alone_is_named_with_its_reason", a_rank_that_fails_alone_is_named_with_its_reason},
    };
    return TEST_MAIN(argc, argv, cases);
}
