/* A job, of MPI or over TCP, in which rank 1 is killed, or stopped, or calls exit, while all ranks reduce. Each other
 * rank writes a line: what its collective returned, after how many seconds, and the text. test_killed.py and
 * test_torchrun_killed.py read the lines. Data is on the CPU, or on STN_TEST_DEVICE, whose module is in
 * STN_TEST_DEVICE_MODULES: what is queued there is waited for.
 *
 * usage: killed kill|stop|exit DEADLINE_SECONDS ELEMENTS */
#include <shardtensor/shardtensor.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STRUCK = 1, BEFORE = 50, MOST = 100000000 };

static atomic_int done; /* reductions */

struct plan {
    int signal; /* 0: it calls exit */
    int64_t n;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Strikes while the rank is in a collective, or between two. */
static void *strike(void *arg)
{
    const struct plan *plan = arg;
    while (atomic_load(&done) < BEFORE)
        sched_yield();
    raise(plan->signal);
    return NULL;
}

static stn_status rank_main(stn_context *context, void *arg)
{
    struct plan *plan = arg;
    const int64_t n = plan->n;
    const int rank = stn_context_rank(context);
    stn_comm *comm = stn_context_comm(context);
    stn_queue *queue = stn_context_queue(context);
    const stn_spec *spec = NULL;
    pthread_t thread;
    stn_scope_begin(context);
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, &n, NULL, &spec);
    float *data = stn_tensor_data(stn_full(context, spec, 0));
    stn_status status = stn_context_status(context);
    if (rank == STRUCK && plan->signal != 0)
        pthread_create(&thread, NULL, strike, plan);
    double began = now();
    for (int i = 0; i < MOST && status == STN_OK; i++) {
        if (rank == STRUCK && plan->signal == 0 && i == BEFORE)
            exit(0);
        began = now();
        status = stn_comm_all_reduce(comm, data, data, n, STN_DTYPE_F32, STN_SUM, NULL);
        const stn_status waited = stn_queue_sync(queue);
        status = status == STN_OK ? waited : status;
        atomic_fetch_add(&done, 1);
    }
    const char *text = stn_comm_error_text(comm)[0] ? stn_comm_error_text(comm) : stn_queue_error_text(queue);
    printf("rank %d reports %s after %.3f s: %s\n", rank, stn_status_text(status), now() - began, text);
    fflush(stdout);
    stn_spec_release(&spec);
    stn_scope_end(context);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    struct plan plan = {strcmp(argv[1], "kill") == 0 ? SIGKILL : SIGSTOP, strtoll(argv[3], NULL, 10)};
    if (strcmp(argv[1], "exit") == 0)
        plan.signal = 0;
    const char *device = getenv("STN_TEST_DEVICE");
    const stn_launch_options options = {
        .size = sizeof options,
        .context = {.size = sizeof options.context, .deadline_seconds = strtod(argv[2], NULL), .device = device,
                    .module_path = getenv(device ? "STN_TEST_DEVICE_MODULES" : "STN_TEST_MODULES")},
    };
    stn_status status = stn_launch(&options, rank_main, &plan);
    printf("a rank ends with %s\n", stn_status_text(status));
    return status == STN_ERR_PEER || status == STN_ERR_TIMEOUT ? 0 : 1;
}
