/* Memory runs out on one of two ranks while they make a communicator over TCP. */
#include "core/counted.h"
#include "descriptors.h"
#include "harness.h"

#include <shardtensor/tcp.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 2 };

static const double deadline = 0.5; /* seconds: for the other, where one never comes to meet it */

struct caller {
    stn_tcp_options options;
    char why[256];     /* where it has no communicator */
    stn_status made, met; /* met: in the barrier of who has one */
    char text[256];
};

static pthread_barrier_t all_have_tried;

static void *call(void *arg)
{
    struct caller *caller = arg;
    stn_comm *comm = NULL;
    caller->options.error_text = caller->why;
    caller->options.error_text_size = sizeof caller->why;
    caller->made = stn_comm_create_tcp(&caller->options, &comm);
    pthread_barrier_wait(&all_have_tried);
    if (caller->made == STN_OK) {
        caller->met = stn_comm_barrier(comm, NULL);
        snprintf(caller->text, sizeof caller->text, "%s", stn_comm_error_text(comm));
    }
    stn_comm_destroy(&comm);
    return NULL;
}

static void call_all(struct caller callers[RANKS], int64_t n)
{
    pthread_t threads[RANKS];
    char job[64];
    pthread_barrier_init(&all_have_tried, NULL, RANKS);
    snprintf(job, sizeof job, "memory %ld %lld", (long)getpid(), (long long)n);
    counted_fail_at(n, 0);
    for (int r = 0; r < RANKS; r++) {
        const stn_tcp_options options = {.size = sizeof options, .host = "127.0.0.1", .rank = r, .ranks = RANKS};
        callers[r] = (struct caller){.options = options};
        callers[r].options.port = 10000 + 32 * (getpid() % 300);
        callers[r].options.job = job;
        callers[r].options.deadline_seconds = deadline;
        pthread_create(&threads[r], NULL, call, &callers[r]);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&all_have_tried);
}

/* @return 1: this rank had its communicator before its peer's memory ran out. */
static int check_told(const struct caller *caller, const struct caller *peer)
{
    char wanted[128];
    if (caller->made != STN_OK || peer->made != STN_ERR_MEMORY)
        return 0;
    snprintf(wanted, sizeof wanted, "rank %d: out of memory: a communicator of %d ranks", peer->options.rank, RANKS);
    CHECK_STATUS(caller->met, STN_ERR_PEER);
    CHECK_STR(caller->text, wanted);
    return 1;
}

static void who_has_met_the_others_tells_them(void)
{
    int told = 0, went_well = 0;
    for (int64_t n = 1; !went_well && n < 100; n++) {
        struct caller callers[RANKS];
        const int64_t live = counted_live();
        const int open = open_descriptors();
        call_all(callers, n);
        went_well = 1;
        for (int r = 0; r < RANKS; r++) {
            went_well &= callers[r].made == STN_OK && callers[r].met == STN_OK;
            CHECK((callers[r].made == STN_OK) == (callers[r].why[0] == '\0'));
            CHECK(callers[r].made != STN_ERR_MEMORY || strstr(callers[r].why, "memory"));
            told += check_told(&callers[r], &callers[1 - r]);
        }
        CHECK_I64(counted_live(), live);
        CHECK_I64(open_descriptors(), open);
    }
    CHECK(went_well);
    CHECK(told > 4);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"who_has_met_the_others_tells_them", who_has_met_the_others_tells_them},
    };
    return TEST_MAIN(argc, argv, cases);
}
