/* The same bodies on ranks whose queues are the test module's device's: what they give to a collective lies at
 * hidden addresses, is moved by kernels that are delayed at random, and is the body's again once its own queue has
 * ended. */
#include "core/comm/team.h"

#include "core/context/module.h"

#include "probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Thread_local stn_device *device;
static _Thread_local stn_queue *queue;

static void open_queue(int rank)
{
    struct stni_error error = {.status = STN_OK};
    const stn_queue_options options = {.size = sizeof options, .delay_seed = (uint64_t)rank + 1};
    CHECK_STATUS(stni_module_open_device("probe", rank, PROBE_FOLDER, &device, &error), STN_OK);
    if (CHECK_STR(error.text, ""))
        CHECK_STATUS(stni_queue_create(device, &options, &queue), STN_OK);
}

/* Lists of messages of collectives that failed: a peer that is stuck may read them until the team has ended. */
struct kept {
    struct kept *next;
    stn_message *lists;
};
static _Atomic(struct kept *) all_kept;

static void keep(stn_message *lists)
{
    struct kept *kept = malloc(sizeof *kept);
    *kept = (struct kept){atomic_load(&all_kept), lists};
    while (!atomic_compare_exchange_weak(&all_kept, &kept->next, kept))
        ;
}

static void free_kept(void)
{
    for (struct kept *kept = atomic_exchange(&all_kept, NULL), *next; kept; kept = next) {
        next = kept->next;
        free(kept->lists);
        free(kept);
    }
}

static const stn_message *hidden_list(const stn_message *list, int n, stn_message *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = list[i];
        out[i].box.data = probe_hide(list[i].box.data);
    }
    return out;
}

static stn_status run_hidden(stn_comm *comm, const struct stni_coll *coll)
{
    struct stni_coll hidden = *coll;
    stn_exchange messages;
    hidden.send = coll->send ? probe_hide((void *)(uintptr_t)coll->send) : NULL;
    hidden.recv = coll->recv ? probe_hide(coll->recv) : NULL;
    if (!coll->messages)
        return stni_thread_run(comm, queue, &hidden);
    messages = *coll->messages;
    stn_message *lists = malloc((size_t)(messages.n_send + messages.n_recv + 1) * sizeof *lists);
    messages.send = hidden_list(coll->messages->send, messages.n_send, lists);
    messages.recv = hidden_list(coll->messages->recv, messages.n_recv, lists + messages.n_send);
    hidden.messages = &messages;
    stn_status status = stni_thread_run(comm, queue, &hidden);
    if (status == STN_OK)
        free(lists);
    else
        keep(lists);
    return status;
}

/* In place of stni_thread_run. */
static stn_status run_on_device(stn_comm *comm, stn_queue *caller, const struct stni_coll *coll)
{
    stn_status status = run_hidden(comm, coll);
    if (status == STN_OK)
        status = stn_queue_sync(queue);
    if (status != STN_OK)
        stn_queue_fail(caller, status, "%s", stn_queue_error_text(queue));
    if (status != STN_OK)
        stni_queue_recover(queue);
    return status;
}

struct rank {
    stn_comm *comm;
    team_body body;
    void *arg;
};

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    test_set_rank(stn_comm_rank(rank->comm));
    open_queue(stn_comm_rank(rank->comm));
    rank->comm->run = run_on_device;
    rank->body(rank->comm, rank->arg);
    stn_comm_destroy(&rank->comm);
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
    return NULL;
}

void team_run_hooked(int n, double deadline_seconds, const struct stni_thread_hook *hook, team_body body, void *arg)
{
    stn_comm **comms = calloc((size_t)n, sizeof *comms);
    struct rank *ranks = calloc((size_t)n, sizeof *ranks);
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    if (!CHECK_STATUS(stni_comm_create_threads(n, deadline_seconds, comms), STN_OK))
        return;
    if (hook)
        ((struct stni_thread_member *)comms[0]->impl)->group->family->hook = *hook;
    for (int r = 0; r < n; r++) {
        ranks[r] = (struct rank){comms[r], body, arg};
        pthread_create(&threads[r], NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
    free_kept();
    free(threads);
    free(ranks);
    free(comms);
}

void team_run(int n, team_body body, void *arg)
{
    team_run_hooked(n, 60, NULL, body, arg);
}
