#include "nccl_ranks.h"

#include "harness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_RANKS = 16 };

static struct nccl_script script;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void *module, const char *name, void *function)
{
    void *symbol = dlsym(module, name);
    if (CHECK(symbol != NULL))
        memcpy(function, &symbol, sizeof symbol);
}

static void find_script(void)
{
    void *module = dlopen(CUDA_FOLDER "/libshardtensor-cuda.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!CHECK(module != NULL))
        return;
    find(module, "standin_nccl_tell", &script.tell);
    find(module, "standin_nccl_delay", &script.delay);
    find(module, "standin_nccl_reset", &script.reset);
    find(module, "standin_nccl_live", &script.live);
    find(module, "standin_nccl_calls", &script.calls);
    find(module, "standin_stream_priority", &script.priority);
    find(module, "standin_nccl_number", &script.number);
    find(module, "standin_nccl_join", &script.join);
    find(module, "standin_nccl_leave", &script.leave);
    dlclose(module);
}

const struct nccl_script *nccl_script(void)
{
    pthread_once(&once, find_script);
    return &script;
}

stn_status nccl_create(stn_comm *control, double deadline, int rank_order, stn_comm **out, char *text)
{
    const stn_nccl_options options = {.size = sizeof options, .module_path = CUDA_FOLDER, .has_device = 1, .device = stn_comm_rank(control),
                                      .deadline_seconds = deadline, .rank_order = rank_order, .error_text = text, .error_text_size = 256};
    return stn_comm_create_nccl(control, &options, out);
}

stn_comm *nccl_open(stn_comm *control, double deadline, int rank_order)
{
    char text[256] = "";
    stn_comm *comm = NULL;
    if (CHECK_STATUS(nccl_create(control, deadline, rank_order, &comm, text), STN_OK))
        return comm;
    fprintf(stderr, "%s\n", text);
    stn_comm_destroy(&control);
    return NULL;
}

struct start {
    struct nccl_rank rank;
    pthread_t thread;
    nccl_body body;
    double deadline;
    int rank_order;
};

static void run_threads(int n, const struct start *like, void *(*main)(void *))
{
    stn_comm *comms[MOST_RANKS];
    struct start starts[MOST_RANKS];
    if (!CHECK(n <= MOST_RANKS) || !CHECK_STATUS(stn_comm_create_threads(n, comms), STN_OK))
        return;
    for (int r = 0; r < n; r++) {
        starts[r] = *like;
        starts[r].rank.comm = comms[r];
        starts[r].rank.rank = r;
        starts[r].rank.size = n;
        pthread_create(&starts[r].thread, NULL, main, &starts[r]);
    }
    for (int r = 0; r < n; r++)
        pthread_join(starts[r].thread, NULL);
}

static const stn_device_allocator *device_allocator;

void nccl_lend(const stn_device_allocator *allocator)
{
    device_allocator = allocator;
}

static void *context_main(void *arg)
{
    struct start *start = arg;
    struct nccl_rank *r = &start->rank;
    char device[16];
    snprintf(device, sizeof device, "cuda:%d", r->rank);
    test_set_rank(r->rank);
    r->comm = nccl_open(r->comm, start->deadline, start->rank_order);
    const stn_context_options options = {.size = sizeof options, .comm = r->comm, .device = device, .module_path = CUDA_FOLDER,
                                         .deadline_seconds = start->deadline, .device_allocator = device_allocator};
    if (!r->comm || !CHECK_STATUS(stn_context_create(&options, &r->context), STN_OK)) {
        stn_comm_destroy(&r->comm);
        return NULL;
    }
    start->body(r);
    stn_context_destroy(&r->context);
    return NULL;
}

void nccl_run(int n, double deadline, int rank_order, nccl_body body, void *arg)
{
    const struct start like = {.rank = {.arg = arg}, .body = body, .deadline = deadline, .rank_order = rank_order};
    run_threads(n, &like, context_main);
}

static void *control_main(void *arg)
{
    struct start *start = arg;
    test_set_rank(start->rank.rank);
    start->body(&start->rank);
    return NULL;
}

void nccl_run_controls(int n, nccl_body body, void *arg)
{
    const struct start like = {.rank = {.arg = arg}, .body = body};
    run_threads(n, &like, control_main);
}

void nccl_gate_init(struct nccl_gate *gate)
{
    gate->is_open = gate->was_late = 0;
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->moved, NULL);
}

void nccl_gate_fini(struct nccl_gate *gate)
{
    pthread_cond_destroy(&gate->moved);
    pthread_mutex_destroy(&gate->lock);
}

void nccl_gate_open(struct nccl_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = 1;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

void nccl_gate_pass(struct nccl_gate *gate, double patience_seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const int64_t at = until.tv_nsec + (int64_t)(patience_seconds * 1e9);
    until.tv_sec += at / 1000000000;
    until.tv_nsec = at % 1000000000;
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open && !gate->was_late)
        if (pthread_cond_timedwait(&gate->moved, &gate->lock, &until) != 0)
            gate->was_late = 1;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}
