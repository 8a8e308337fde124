/* Contexts for the tests of the core. */
#include "core_ranks.h"

#include "counted.h"
#include "harness.h"

#include <pthread.h>

enum { MAX_RANKS = 16 };

const int ranks_are_processes = 0;

stn_context_options ranks_options(void)
{
    stn_context_options options = {
        .size = sizeof options, .allocator = &counted_allocator, .deadline_seconds = 30, .isa = test_isa()};
    if (test_queue() == TEST_QUEUE_WORKER)
        options.queue = (stn_queue_options){.size = sizeof options.queue, .kind = STN_QUEUE_WORKER, .delay_seed = 11};
    return options;
}

struct rank {
    pthread_t thread;
    stn_comm *comm;
    ranks_body body;
    void *arg;
};

static void run_body(stn_comm *comm, ranks_body body, void *arg)
{
    stn_context_options options = ranks_options();
    struct stni_error error = {.status = STN_OK};
    stn_context *context = NULL;
    options.comm = comm;
    CHECK_STATUS(stni_context_create_core(&options, &context, &error), STN_OK);
    if (!CHECK_STR(error.text, ""))
        return;
    body(context, arg);
    stni_context_destroy_core(context);
}

static void *rank_thread(void *arg)
{
    struct rank *rank = arg;
    test_set_rank(stn_comm_rank(rank->comm));
    run_body(rank->comm, rank->body, rank->arg);
    return NULL;
}

void on_one_rank(ranks_body body, void *arg)
{
    int64_t live = counted_live();
    run_body(NULL, body, arg);
    CHECK_I64(counted_live(), live);
}

void on_ranks(int size, ranks_body body, void *arg)
{
    struct rank ranks[MAX_RANKS];
    stn_comm *comms[MAX_RANKS];
    int64_t live = counted_live();
    if (!CHECK(size <= MAX_RANKS) || !CHECK_STATUS(stni_comm_create_threads(size, 30, comms), STN_OK))
        return;
    for (int r = 0; r < size; r++) {
        ranks[r] = (struct rank){.comm = comms[r], .body = body, .arg = arg};
        CHECK_I64(pthread_create(&ranks[r].thread, NULL, rank_thread, &ranks[r]), 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(ranks[r].thread, NULL);
    CHECK_I64(counted_live(), live);
}
