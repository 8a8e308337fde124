/* The same bodies on ranks that meet over TCP; they are threads here, which the library cannot know. */
#include "team.h"

#include <shardtensor/tcp.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct rank {
    stn_tcp_options options;
    double deadline_seconds; /* when they have met */
    char why[256];
    team_body body;
    void *arg;
};

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    stn_comm *comm = NULL;
    test_set_rank(rank->options.rank);
    rank->options.error_text = rank->why;
    rank->options.error_text_size = sizeof rank->why;
    if (!CHECK_STATUS(stn_comm_create_tcp(&rank->options, &comm), STN_OK)) {
        fprintf(stderr, "%s\n", rank->why);
        return NULL;
    }
    comm->ops->set_deadline(comm->impl, rank->deadline_seconds);
    rank->body(comm, rank->arg);
    stn_comm_destroy(&comm);
    return NULL;
}

void team_run_hooked(int n, double deadline_seconds, const struct stni_thread_hook *hook, team_body body, void *arg)
{
    static int team;
    char job[64];
    struct rank *ranks = calloc((size_t)n, sizeof *ranks);
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    CHECK(hook == NULL);
    snprintf(job, sizeof job, "tests %ld %d", (long)getpid(), team++);
    for (int r = 0; r < n; r++) {
        const stn_tcp_options options = {.size = sizeof options,
                                         .host = "127.0.0.1",
                                         .port = 20000 + 16 * (getpid() % 700),
                                         .rank = r,
                                         .ranks = n,
                                         .job = job};
        ranks[r] = (struct rank){.options = options, .deadline_seconds = deadline_seconds, .body = body, .arg = arg};
        pthread_create(&threads[r], NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
    free(threads);
    free(ranks);
}

void team_run(int n, team_body body, void *arg)
{
    team_run_hooked(n, 60, NULL, body, arg);
}
