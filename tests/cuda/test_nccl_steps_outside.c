/* What captured steps over ranks of NCCL meet that is none of theirs: a redistribution that began before, a
 * communicator that goes meanwhile. */
#include "nccl_ranks.h"

#include "ranks.h"

#include "core/context/context.h"
#include "core/device/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RANKS = 3, ROWS = 7, COLUMNS = 5, N = ROWS * COLUMNS };

/* It has ended before the step, whose repetitions read what it gave. */
static void use_what_began_before(struct nccl_rank *r)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    double want[N];
    stn_step *step = NULL;
    stn_scope_begin(r->context);
    const stn_mesh *mesh = test_mesh(r->context, r->size, 0);
    stn_tensor *x = stn_ones(r->context, stn_spec_of(mesh, STN_DTYPE_F32, "S0", 2, shape));
    stn_tensor *whole = stn_redistribute_begin(x, stn_spec_of(mesh, STN_DTYPE_F32, "R", 2, shape));
    stn_tensor *sum = stn_zeros(r->context, stn_tensor_spec(whole));
    CHECK_STATUS(stn_capture_begin(r->context), STN_OK);
    stn_add_(sum, whole, 2);
    if (CHECK_STATUS(stn_capture_end(r->context, &step), STN_OK))
        CHECK_STATUS(stn_step_run(step), STN_OK);
    for (int i = 0; i < N; i++)
        want[i] = 4;
    test_compare(sum, want, N, 0);
    stn_step_destroy(&step);
    CHECK_STATUS(stn_scope_end(r->context), STN_OK);
}

static void what_began_before_a_step_ends_before_it(void)
{
    for (int ranks = 2; ranks <= RANKS; ranks++) {
        nccl_reset();
        nccl_run(ranks, 60, 0, use_what_began_before, NULL);
        nccl_check_calls("ncclCommAbort", 0);
    }
}

/* The step is complete; it can be repeated no more. */
static void destroy_inside(struct nccl_rank *r)
{
    static const int all[RANKS] = {0, 1, 2};
    void *memory = NULL;
    stn_comm *comm = NULL;
    stn_step *step = NULL;
    CHECK_STATUS(stni_device_allocate(r->context->device, N * sizeof(float), &memory), STN_OK);
    CHECK_STATUS(stn_comm_subset(r->comm, all, RANKS, &comm), STN_OK);
    CHECK_STATUS(stn_capture_begin(r->context), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(comm, memory, memory, N, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    stn_comm_destroy(&comm);
    CHECK_STATUS(stn_comm_all_reduce(r->comm, memory, memory, N, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    if (CHECK_STATUS(stn_capture_end(r->context, &step), STN_OK))
        CHECK(stn_step_run(step) != STN_OK);
    CHECK(strstr(stn_context_error_text(r->context),
                 "all_reduce of 35 elements: its communicator was destroyed since it was recorded"));
    stn_step_destroy(&step);
    stni_device_deallocate(r->context->device, memory, N * sizeof(float));
}

static void a_communicator_may_go_while_a_step_is_captured(void)
{
    nccl_reset();
    nccl_run(RANKS, 60, 0, destroy_inside, NULL);
    nccl_check_none_is_left();
}

/* In a recording of the program's own nobody can wait for it. */
static void destroy_in_own_graph(struct nccl_rank *r)
{
    static const int all[RANKS] = {0, 1, 2};
    void *memory = NULL;
    stn_comm *comm = NULL;
    stn_graph *graph = NULL;
    stn_queue *queue = stn_context_queue(r->context);
    CHECK_STATUS(stni_device_allocate(r->context->device, N * sizeof(float), &memory), STN_OK);
    CHECK_STATUS(stn_comm_subset(r->comm, all, RANKS, &comm), STN_OK);
    CHECK_STATUS(stn_queue_capture_begin(queue), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(comm, memory, memory, N, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    stn_comm_destroy(&comm);
    CHECK_STATUS(stn_queue_capture_end(queue, &graph), STN_ERR_STATE);
    CHECK_STR(stn_queue_error_text(queue), "the host waited while the queue records its work");
    CHECK(graph == NULL);
    stni_device_deallocate(r->context->device, memory, N * sizeof(float));
}

static void a_communicator_that_goes_while_a_queue_records_fails_it(void)
{
    nccl_reset();
    nccl_run(RANKS, 60, 0, destroy_in_own_graph, NULL);
    nccl_check_none_is_left();
}

/* A graph may outlive the communicator whose collectives it has for as long as it likes. */
static void destroy_before_graph(struct nccl_rank *r)
{
    static const int all[RANKS] = {0, 1, 2};
    void *memory = NULL;
    stn_comm *comm = NULL;
    stn_step *step = NULL;
    CHECK_STATUS(stni_device_allocate(r->context->device, N * sizeof(float), &memory), STN_OK);
    CHECK_STATUS(stn_comm_subset(r->comm, all, RANKS, &comm), STN_OK);
    CHECK_STATUS(stn_capture_begin(r->context), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(comm, memory, memory, N, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    CHECK_STATUS(stn_capture_end(r->context, &step), STN_OK);
    CHECK_STATUS(stn_step_run(step), STN_OK);
    stn_comm_destroy(&comm);
    CHECK_STATUS(stn_comm_all_reduce(r->comm, memory, memory, N, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(r->context)), STN_OK);
    if (nccl_is_scripted())
        CHECK(nccl_script()->live() > 0);
    CHECK(stn_step_run(step) != STN_OK);
    stn_step_destroy(&step);
    stni_device_deallocate(r->context->device, memory, N * sizeof(float));
}

static void a_communicator_may_go_before_its_graphs(void)
{
    nccl_reset();
    nccl_run(RANKS, 60, 0, destroy_before_graph, NULL);
    nccl_check_none_is_left();
    nccl_check_calls("ncclCommDestroy", RANKS); /* the others' queues have failed */
}

/* What the module or its libraries have of the runtime. */
struct runtime {
    int (*create)(void **stream, unsigned flags);
    int (*destroy)(void *stream);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*destroy_graph)(void *graph);
};

static int find_runtime(struct runtime *runtime)
{
    static const char *const names[] = {"cudaStreamCreateWithFlags", "cudaStreamDestroy", "cudaStreamBeginCapture",
                                        "cudaStreamEndCapture", "cudaGraphDestroy"};
    char path[4096];
    snprintf(path, sizeof path, "%s/libshardtensor-cuda.so", nccl_folder());
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL), *found[5] = {NULL};
    int n = 0;
    for (int i = 0; module && i < 5; i++)
        n += (found[i] = dlsym(module, names[i])) != NULL;
    memcpy(runtime, found, sizeof found);
    if (module)
        dlclose(module); /* contexts have it open */
    return n == 5;
}

static void pause_for(int milliseconds)
{
    const struct timespec time = {0, milliseconds * 1000000L};
    nanosleep(&time, NULL);
}

/* The thread records in the mode that the runtime and PyTorch have where nothing else is said, while a peer is late. */
static void record_beside_a_collective(struct nccl_rank *r)
{
    enum { GLOBAL = 0, NON_BLOCKING = 1 };
    void *memory = NULL, *stream = NULL, *graph = NULL;
    struct runtime runtime;
    if (!CHECK(find_runtime(&runtime)))
        return;
    CHECK_STATUS(stni_device_allocate(r->context->device, N * sizeof(float), &memory), STN_OK);
    CHECK_I64(runtime.create(&stream, NON_BLOCKING), 0);
    if (r->rank == 1)
        pause_for(200);
    CHECK_STATUS(stn_comm_all_reduce(r->comm, memory, memory, N, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    if (r->rank == 0) {
        CHECK_I64(runtime.begin(stream, GLOBAL), 0);
        pause_for(150); /* the watch looks each 5 ms */
        CHECK_I64(runtime.end(stream, &graph), 0);
        runtime.destroy_graph(graph);
    }
    CHECK_STATUS(stn_queue_sync(stn_context_queue(r->context)), STN_OK);
    CHECK_I64(runtime.destroy(stream), 0);
    stni_device_deallocate(r->context->device, memory, N * sizeof(float));
}

static void a_program_records_while_collectives_are_watched(void)
{
    nccl_reset();
    nccl_run(2, 60, 0, record_beside_a_collective, NULL);
}

/* The stream of a queue, recorded past the queue: the call is refused, and nothing else has failed. */
static void record_past_the_queue(struct nccl_rank *r)
{
    enum { THREAD_LOCAL = 1 };
    stn_queue *queue = stn_context_queue(r->context);
    void *memory = NULL, *graph = NULL, *stream = stn_queue_native(queue);
    struct runtime runtime;
    if (!CHECK(find_runtime(&runtime)))
        return;
    CHECK_STATUS(stni_device_allocate(r->context->device, N * sizeof(float), &memory), STN_OK);
    CHECK_I64(runtime.begin(stream, THREAD_LOCAL), 0);
    CHECK_STATUS(stn_comm_all_reduce(r->comm, memory, memory, N, STN_DTYPE_F32, STN_SUM, NULL), STN_ERR_STATE);
    nccl_check_holds(stn_comm_error_text(r->comm), "all_reduce: the queue's stream is being recorded, wanted it to be");
    CHECK_I64(runtime.end(stream, &graph), 0);
    runtime.destroy_graph(graph);
    stni_device_deallocate(r->context->device, memory, N * sizeof(float));
}

static void a_stream_that_the_program_records_is_refused(void)
{
    nccl_reset();
    nccl_run(RANKS, 60, 0, record_past_the_queue, NULL);
    nccl_check_calls("ncclCommAbort", 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"what_began_before_a_step_ends_before_it", what_began_before_a_step_ends_before_it},
        {"a_communicator_may_go_while_a_step_is_captured", a_communicator_may_go_while_a_step_is_captured},
        {"a_communicator_that_goes_while_a_queue_records_fails_it",
         a_communicator_that_goes_while_a_queue_records_fails_it},
        {"a_communicator_may_go_before_its_graphs", a_communicator_may_go_before_its_graphs},
        {"a_stream_that_the_program_records_is_refused", a_stream_that_the_program_records_is_refused},
        {"a_program_records_while_collectives_are_watched", a_program_records_while_collectives_are_watched},
    };
    return TEST_MAIN(argc, argv, cases);
}
