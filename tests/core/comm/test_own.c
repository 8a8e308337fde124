/* Communicators that a program brings or makes itself: tables without what they need, ranks on threads of the
 * caller's own. */
#include "harness.h"

#include <shardtensor/shardtensor.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static stn_status no_all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count,
                                stn_dtype dtype, stn_reduce_op op)
{
    (void)impl, (void)queue, (void)send, (void)recv, (void)count, (void)dtype, (void)op;
    return STN_OK;
}

static stn_status no_group(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    (void)impl, (void)queue, (void)messages;
    return STN_OK;
}

static stn_status no_subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    (void)impl, (void)queue, (void)ranks, (void)n_ranks, (void)out;
    return STN_ERR_UNSUPPORTED;
}

static void no_destroy(void *impl)
{
    ++*(int *)impl;
}

static void an_entry_that_is_needed_and_absent_is_named(void)
{
    const stn_comm_ops all = {
        .size = sizeof all, .all_reduce = no_all_reduce, .group = no_group, .subset = no_subset, .destroy = no_destroy};
    stn_comm_ops without[5] = {all, all, all, all, all};
    static const char *const names[] = {"all_reduce", "group", "subset", "destroy", "size"};
    int destroyed = 0;
    stn_comm *comm = NULL;
    without[0].all_reduce = NULL;
    without[1].group = NULL;
    without[2].subset = NULL;
    without[3].destroy = NULL;
    without[4].size = 8;
    for (int i = 0; i < 5; i++) {
        CHECK_STR(stn_comm_ops_missing(&without[i]), names[i]);
        CHECK_STATUS(stn_comm_create(&without[i], &destroyed, 0, 2, &comm), i < 4 ? STN_ERR_ARGUMENT : STN_ERR_VERSION);
        CHECK(comm == NULL);
    }
    CHECK_STR(stn_comm_ops_missing(NULL), "size");
    CHECK(stn_comm_ops_missing(&all) == NULL);
    CHECK_STATUS(stn_comm_create(&all, &destroyed, 0, 2, &comm), STN_OK);
    CHECK_I64(destroyed, 0);
    stn_comm_destroy(&comm);
    CHECK_I64(destroyed, 1);
}

static stn_status whole_subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    (void)queue, (void)ranks, (void)n_ranks;
    *out = impl;
    return STN_OK;
}

static void a_table_may_go_before_its_communicators(void)
{
    stn_comm_ops table = {.size = sizeof table,
                          .all_reduce = no_all_reduce,
                          .group = no_group,
                          .subset = whole_subset,
                          .destroy = no_destroy};
    const int ranks[] = {0, 1};
    int destroyed = 0;
    int64_t one = 1;
    stn_comm *comm = NULL, *part = NULL;
    CHECK_STATUS(stn_comm_create(&table, &destroyed, 0, 2, &comm), STN_OK);
    memset(&table, 0, sizeof table);
    CHECK_STATUS(stn_comm_subset(comm, ranks, 2, &part), STN_OK);
    stn_comm_destroy(&comm);
    CHECK_STATUS(stn_comm_all_reduce(part, &one, &one, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    stn_comm_destroy(&part);
    CHECK_I64(destroyed, 2);
}

enum { RANKS = 3 };

struct rank {
    stn_comm *comm;
    int leaves; /* before the collectives */
    stn_status status;
    char text[256];
};

/* A context over the end, and the same sum by a tensor and by a collective. */
static void *context_thread(void *arg)
{
    struct rank *rank = arg;
    stn_context *context = NULL;
    stn_context_options options = {.size = sizeof options, .comm = rank->comm, .deadline_seconds = 30};
    int64_t one = 1, n = RANKS;
    const int size = RANKS;
    double sum = 0;
    const stn_mesh *mesh;
    const stn_spec *spec;
    const stn_placement cut = stn_shard(0);
    if (!CHECK_STATUS(stn_context_create(&options, &context), STN_OK))
        return NULL;
    stn_scope_begin(context);
    CHECK_STATUS(stn_mesh_create(context, 1, &size, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, &cut, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_item(stn_sum(stn_ones(context, spec), 0, NULL, 0), &sum);
    CHECK_NEAR(sum, RANKS, 0);
    stn_spec_release(&spec);
    CHECK_STATUS(stn_comm_all_reduce(stn_context_comm(context), &one, &one, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    CHECK_I64(one, RANKS);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
    return NULL;
}

static void *barrier_thread(void *arg)
{
    struct rank *rank = arg;
    if (!rank->leaves) {
        rank->status = stn_comm_barrier(rank->comm, NULL);
        snprintf(rank->text, sizeof rank->text, "%s", stn_comm_error_text(rank->comm));
    }
    stn_comm_destroy(&rank->comm);
    return NULL;
}

static void on_own_threads(void *(*body)(void *arg), struct rank *ranks)
{
    pthread_t threads[RANKS];
    stn_comm *comms[RANKS];
    if (!CHECK_STATUS(stn_comm_create_threads(RANKS, comms), STN_OK))
        return;
    for (int r = 0; r < RANKS; r++) {
        CHECK_I64(stn_comm_rank(comms[r]), r);
        CHECK_I64(stn_comm_size(comms[r]), RANKS);
        ranks[r].comm = comms[r];
        CHECK_I64(pthread_create(&threads[r], NULL, body, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
}

static void threads_of_the_callers_own_are_ranks(void)
{
    struct rank ranks[RANKS] = {{0}};
    on_own_threads(context_thread, ranks);
}

static void an_end_that_is_destroyed_early_is_known_to_those_that_wait(void)
{
    struct rank ranks[RANKS] = {{0}};
    ranks[2].leaves = 1;
    on_own_threads(barrier_thread, ranks);
    for (int r = 0; r < 2; r++) {
        CHECK_STATUS(ranks[r].status, STN_ERR_PEER);
        CHECK(strstr(ranks[r].text, "rank 2 has destroyed its communicator") != NULL);
    }
}

static void numbers_of_threads_are_checked(void)
{
    stn_comm *comm = NULL;
    CHECK_STATUS(stn_comm_create_threads(0, &comm), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_create_threads(1025, &comm), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_create_threads(1, NULL), STN_ERR_ARGUMENT);
    CHECK(comm == NULL);
    CHECK_STATUS(stn_comm_create_threads(1, &comm), STN_OK);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    stn_comm_destroy(&comm);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_entry_that_is_needed_and_absent_is_named", an_entry_that_is_needed_and_absent_is_named},
        {"a_table_may_go_before_its_communicators", a_table_may_go_before_its_communicators},
        {"threads_of_the_callers_own_are_ranks", threads_of_the_callers_own_are_ranks},
        {"an_end_that_is_destroyed_early_is_known_to_those_that_wait",
         an_end_that_is_destroyed_early_is_known_to_those_that_wait},
        {"numbers_of_threads_are_checked", numbers_of_threads_are_checked},
    };
    return TEST_MAIN(argc, argv, cases);
}
