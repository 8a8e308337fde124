#include "nccl_ranks.h"

#include "harness.h"

#include "core/context/module.h"

#include <shardtensor/tcp.h>

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 16 };

static struct nccl_script script;
static int is_standin, is_scripted, devices;
static pthread_once_t once = PTHREAD_ONCE_INIT, counted = PTHREAD_ONCE_INIT;

const char *nccl_folder(void)
{
    const char *other = getenv("STN_TEST_CUDA_FOLDER");
    return other ? other : CUDA_FOLDER;
}

/* Where the module cannot be asked, what opens a device will say why. */
static void count_devices(void)
{
    struct stni_error error = {.status = STN_OK};
    stn_module module;
    devices = stni_module_load("cuda", nccl_folder(), &module, &error) == STN_OK ? module.device_count() : INT_MAX;
}

int nccl_at_most(int ranks)
{
    pthread_once(&counted, count_devices);
    return ranks < devices ? ranks : devices;
}

int nccl_fits(int ranks)
{
    static char text[64];
    if (nccl_at_most(ranks) == ranks)
        return 1;
    snprintf(text, sizeof text, "more than %d ranks of NCCL, which want a GPU each", devices);
    test_leave_out(text);
    return 0;
}

/* Ranks have a GPU each, from the first that STN_TEST_FIRST_GPU names on. */
static int gpu_of(int rank)
{
    const char *first = getenv("STN_TEST_FIRST_GPU");
    return rank + (first ? atoi(first) : 0);
}

static int find(void *module, const char *name, void *function)
{
    void *symbol = dlsym(module, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static int find_functions(void *module)
{
    return find(module, "standin_nccl_tell", &script.tell) && find(module, "standin_nccl_delay", &script.delay) &&
           find(module, "standin_nccl_reset", &script.reset) && find(module, "standin_nccl_live", &script.live) &&
           find(module, "standin_nccl_calls", &script.calls) &&
           find(module, "standin_stream_priority", &script.priority) &&
           find(module, "standin_has_context", &script.has_context) &&
           find(module, "standin_loaded_by_launches", &script.loaded_by_launches) &&
           find(module, "standin_break_gpu", &script.break_gpu);
}

static void find_script(void)
{
    char path[4096];
    const char *wanted = getenv("STN_TEST_NCCL_SCRIPT");
    snprintf(path, sizeof path, "%s/libshardtensor-cuda.so", nccl_folder());
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    is_standin = module && find_functions(module);
    is_scripted = is_standin && !(wanted && strcmp(wanted, "none") == 0);
    if (module)
        dlclose(module);
}

int nccl_is_scripted(void)
{
    pthread_once(&once, find_script);
    return is_scripted;
}

const struct nccl_script *nccl_script(void)
{
    if (nccl_is_scripted())
        return &script;
    fprintf(stderr, "this case is for the stand-in alone, whose NCCL is scripted\n");
    abort();
}

void nccl_tell(int rank, const char *function, int call, enum standin_nccl_fate fate)
{
    const struct standin_nccl_line line = {rank, function, call, fate, 2 /* ncclSystemError */};
    nccl_script()->tell(&line);
}

void nccl_reset(void)
{
    if (nccl_is_scripted())
        script.reset();
}

int nccl_calls(const char *function)
{
    return nccl_is_scripted() ? script.calls(function) : -1;
}

void nccl_check_calls(const char *function, int64_t wanted)
{
    if (nccl_is_scripted() && !CHECK_I64(script.calls(function), wanted))
        fprintf(stderr, "calls of %s\n", function);
}

/* Communicators that were aborted, or that had graphs, end beside the program. */
void nccl_check_none_is_left(void)
{
    enum { PAUSE = 5000, PAUSES = 2000 /* microseconds */ };
    for (int i = 0; nccl_is_scripted() && script.live() > 0 && i < PAUSES; i++)
        usleep(PAUSE);
    if (nccl_is_scripted())
        CHECK_I64(script.live(), 0);
}

void nccl_check_holds(const char *text, const char *part)
{
    if (!CHECK(strstr(text, part) != NULL))
        fprintf(stderr, "\"%s\" does not hold \"%s\"\n", text, part);
}

void nccl_check_others_are_unused(void)
{
    for (int gpu = 0; nccl_is_scripted() && gpu < gpu_of(0); gpu++)
        CHECK_I64(script.has_context(gpu), 0);
}

double nccl_short_deadline(void)
{
    pthread_once(&once, find_script);
    return is_standin ? 0.5 : 20;
}

static int meets_over_tcp;

int nccl_meets_over_tcp(void)
{
    const char *control = getenv("STN_TEST_CONTROL");
    return meets_over_tcp || (control && strcmp(control, "tcp") == 0);
}

void nccl_meet_over_tcp(int does)
{
    meets_over_tcp = does;
}

stn_comm *nccl_meet(int rank, int ranks, int job)
{
    char name[64], why[256] = "";
    stn_comm *made = NULL;
    snprintf(name, sizeof name, "ranks of %ld: %d, %d", (long)getpid(), ranks, job);
    const stn_tcp_options options = {.size = sizeof options,
                                     .host = "127.0.0.1",
                                     .port = 20000 + 16 * (getpid() % 700),
                                     .rank = rank,
                                     .ranks = ranks,
                                     .job = name,
                                     .error_text = why,
                                     .error_text_size = sizeof why};
    CHECK_STATUS(stn_comm_create_tcp(&options, &made), STN_OK);
    CHECK_STR(why, "");
    return made;
}

stn_status nccl_create(stn_comm *control, double deadline, int rank_order, stn_comm **out, char *text)
{
    const stn_nccl_options options = {.size = sizeof options,
                                      .module_path = nccl_folder(),
                                      .has_device = 1,
                                      .device = gpu_of(stn_comm_rank(control)),
                                      .deadline_seconds = deadline,
                                      .rank_order = rank_order,
                                      .error_text = text,
                                      .error_text_size = 256};
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
    int rank_order, job;
};

/* On its thread. */
static void begin_rank(struct start *start)
{
    test_set_rank(start->rank.rank);
    if (nccl_meets_over_tcp())
        start->rank.comm = nccl_meet(start->rank.rank, start->rank.size, start->job);
    start->rank.control = start->rank.comm;
}

static void run_threads(int n, const struct start *like, void *(*main)(void *))
{
    static int jobs;
    stn_comm *comms[MOST_RANKS] = {NULL};
    struct start starts[MOST_RANKS];
    if (!CHECK(n <= MOST_RANKS) || (!nccl_meets_over_tcp() && !CHECK_STATUS(stn_comm_create_threads(n, comms), STN_OK)))
        return;
    jobs++;
    for (int r = 0; r < n; r++) {
        starts[r] = *like;
        starts[r].job = jobs;
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
    const int gpu = gpu_of(r->rank);
    stn_device_allocator of_gpu = {.size = 0};
    char device[16];
    snprintf(device, sizeof device, "cuda:%d", gpu);
    if (device_allocator)
        of_gpu = *device_allocator;
    of_gpu.arg = (void *)(intptr_t)gpu;
    begin_rank(start);
    r->comm = nccl_open(r->comm, start->deadline, start->rank_order);
    const stn_context_options options = {.size = sizeof options,
                                         .comm = r->comm,
                                         .device = device,
                                         .module_path = nccl_folder(),
                                         .deadline_seconds = start->deadline,
                                         .device_allocator = device_allocator ? &of_gpu : NULL,
                                         .without = getenv("STN_TEST_WITHOUT")};
    if (!r->comm || !CHECK_STATUS(stn_context_create(&options, &r->context), STN_OK)) {
        stn_comm_destroy(&r->comm);
        return NULL;
    }
    start->body(r);
    stn_context_destroy(&r->context);
    return NULL;
}

int nccl_run(int n, double deadline, int rank_order, nccl_body body, void *arg)
{
    const struct start like = {.rank = {.arg = arg}, .body = body, .deadline = deadline, .rank_order = rank_order};
    if (!nccl_fits(n))
        return 0;
    run_threads(n, &like, context_main);
    return 1;
}

static void *control_main(void *arg)
{
    struct start *start = arg;
    begin_rank(start);
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
