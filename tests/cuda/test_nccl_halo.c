/* Convolutions of ranks of NCCL whose halo goes beside their interior: that has run on the device when a peer has not
 * called yet, the bits are those of a halo that comes first, and what fails on its way is told to all. */
#include "nccl_ranks.h"

#include "ops/conv/overlap.h"
#include "ranks.h"

#include "core/comm/comm.h"
#include "core/context/context.h"
#include "core/shard/mesh.h"
#include "dispatch/registry.h"
#include "ops/conv/conv_kernel.h"
#include "ops/conv/conv_solve.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 24, COLUMNS = 9, IN = 2, OUT = 3 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static stn_tensor *filled(stn_context *context, const stn_mesh *mesh, stn_placement placement, const int64_t *shape)
{
    return test_tensor(context, mesh, &placement, STN_DTYPE_F32, 4, shape, NULL, test_value);
}

struct inputs {
    stn_tensor *x, *weight;
};

/* Rows are cut over the ranks. */
static struct inputs make_inputs(const struct nccl_rank *r)
{
    static const int64_t x[] = {1, IN, ROWS, COLUMNS}, w[] = {OUT, IN, 3, 3};
    const stn_mesh *mesh = test_mesh(r->context, r->size, 0);
    return (struct inputs){filled(r->context, mesh, stn_shard(2), x), filled(r->context, mesh, stn_replicate(), w)};
}

static stn_tensor *convolve(const struct inputs *in)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .padding = {1, 1}};
    return stn_conv2d(in->x, in->weight, NULL, &attrs);
}

/* The same bits, messages and bytes */

static void compare_body(struct nccl_rank *r)
{
    enum { EACH_FOURTH = 4 };
    conv_overlap_compare(r->context, r->arg, EACH_FOURTH);
}

static void bits_messages_and_bytes_are_those_of_a_halo_that_comes_first(void)
{
    static struct conv_grid grids[] = {{1, 0}, {2, 0}, {3, 0}, {2, 2}};
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        nccl_reset();
        nccl_run(grids[i].rows * (grids[i].columns ? grids[i].columns : 1), 60, 0, compare_body, &grids[i]);
        nccl_check_none_is_left();
    }
}

/* The order on the device */

struct scene {
    stn_halo_overlap when;
    double patience; /* of the ranks that come later, seconds */
    struct nccl_gate gate;
};

enum { MOST_RANKS = 3 };

/* The module's kernel, each rank's by itself, behind whose first launch on rank 0's queue an event is recorded: the
 * interior's end on the device. */
static struct {
    stn_kernel_fn function[MOST_RANKS];
    stn_event *interior;
} watched;

static stn_status note_first(stn_queue *queue, const void *args)
{
    const stn_status status = watched.function[stn_context_rank(queue->context)](queue, args);
    if (stn_context_rank(queue->context) == 0 && !watched.interior) {
        CHECK_STATUS(stni_event_create(queue->device, &watched.interior), STN_OK);
        CHECK_STATUS(stni_event_record(watched.interior, queue), STN_OK);
    }
    return status;
}

static void watch_solver(stn_context *context, stn_kernel_fn watch)
{
    const struct stni_slot *slot = &stni_registry_find(context, "conv2d")->slots[STNI_CONV_SOLVE];
    watched.function[stn_context_rank(context)] = slot->winner[STN_DTYPE_F32].function;
    const stn_kernel kernel = {.size = sizeof kernel,
                               .name = "conv2d.solve",
                               .device = "cuda",
                               .dtypes = UINT32_C(1) << STN_DTYPE_F32,
                               .args_size = sizeof(struct stni_conv_args),
                               .function = watch,
                               .workspace = slot->winner[STN_DTYPE_F32].workspace};
    CHECK_STATUS(stn_kernel_register(context, &kernel), STN_OK);
}

/* The first convolution makes what later ones use. In the second the others let rank 0 wait for its halo. */
static void order_body(struct nccl_rank *r)
{
    struct scene *scene = r->arg;
    float first[OUT * ROWS * COLUMNS], second[OUT * ROWS * COLUMNS];
    stn_scope_begin(r->context);
    const struct inputs in = make_inputs(r);
    CHECK_STATUS(stn_set_halo_overlap(r->context, STN_HALO_OVERLAP_NEVER), STN_OK);
    stn_tensor *y = convolve(&in);
    const size_t bytes = (size_t)stn_spec_local_numel(stn_tensor_spec(y)) * sizeof *first;
    CHECK_STATUS(stn_to_host(y, first, bytes), STN_OK);
    CHECK_STATUS(stn_agree(r->context, STN_OK, NULL), STN_OK);
    CHECK_STATUS(stn_set_halo_overlap(r->context, scene->when), STN_OK);
    if (r->rank == 0)
        watch_solver(r->context, note_first);
    else
        nccl_gate_pass(&scene->gate, scene->patience);
    y = convolve(&in);
    if (r->rank == 0 && CHECK_PTR(watched.interior)) {
        CHECK_STATUS(stni_event_sync(watched.interior), STN_OK);
        nccl_gate_open(&scene->gate);
        stni_event_destroy(&watched.interior);
    }
    CHECK_STATUS(stn_to_host(y, second, bytes), STN_OK);
    CHECK_BYTES(second, first, bytes);
    CHECK_STATUS(stn_scope_end(r->context), STN_OK);
}

/* Returns whether rank 0's interior had ended before the others called. */
static int interior_comes_first(int ranks, stn_halo_overlap when, double patience)
{
    struct scene scene = {.when = when, .patience = patience};
    nccl_gate_init(&scene.gate);
    nccl_reset();
    nccl_run(ranks, 60, 0, order_body, &scene);
    nccl_gate_fini(&scene.gate);
    nccl_check_none_is_left();
    return !scene.gate.was_late;
}

static void the_interior_runs_while_a_peer_is_missing(void)
{
    for (int ranks = 2; ranks <= 3 && nccl_fits(ranks); ranks++)
        CHECK(interior_comes_first(ranks, STN_HALO_OVERLAP_ALWAYS, 20));
}

/* What the test above sees is not there by itself. */
static void without_overlap_it_waits_for_the_peer(void)
{
    CHECK(!interior_comes_first(2, STN_HALO_OVERLAP_NEVER, 0.5));
}

/* How many problems */

static int solved[MOST_RANKS];

static stn_status count_solved(stn_queue *queue, const void *args)
{
    solved[stn_context_rank(queue->context)]++;
    return watched.function[stn_context_rank(queue->context)](queue, args);
}

/* The rank in the middle lacks a row above and one below. */
static void problems_body(struct nccl_rank *r)
{
    stn_scope_begin(r->context);
    const struct inputs in = make_inputs(r);
    watch_solver(r->context, count_solved);
    for (int apart = 0; apart < 2; apart++) {
        solved[r->rank] = 0;
        const stn_halo_overlap when = apart ? STN_HALO_OVERLAP_ALWAYS : STN_HALO_OVERLAP_NEVER;
        CHECK_STATUS(stn_set_halo_overlap(r->context, when), STN_OK);
        convolve(&in);
        CHECK_I64(solved[r->rank], !apart ? 1 : r->rank == 1 ? 3 : 2);
    }
    CHECK_STATUS(stn_scope_end(r->context), STN_OK);
}

static void chunk_and_halo_are_one_problem_but_with_overlap(void)
{
    nccl_reset();
    if (nccl_fits(MOST_RANKS))
        nccl_run(MOST_RANKS, 60, 0, problems_body, NULL);
}

/* Where it goes */

/* What the main queue gets after the exchange was begun may fill the device before its messages are packed. */
static void beside_body(struct nccl_rank *r)
{
    stn_comm *comm = NULL;
    stn_scope_begin(r->context);
    const struct inputs in = make_inputs(r);
    CHECK_STATUS(stni_mesh_comm(stn_spec_mesh(stn_tensor_spec(in.x)), 1, &comm), STN_OK);
    CHECK_I64(stni_comm_goes_beside(comm, stn_context_queue(r->context)), 1);
    CHECK(comm->side_queue == NULL);
    convolve(&in); /* too little work by itself */
    CHECK(comm->side_queue == NULL);
    CHECK_STATUS(stn_set_halo_overlap(r->context, STN_HALO_OVERLAP_ALWAYS), STN_OK);
    convolve(&in);
    if (CHECK_PTR(comm->side_queue))
        CHECK(nccl_script()->priority(comm->side_queue->impl) <
              nccl_script()->priority(stn_context_queue(r->context)->impl));
    CHECK_STATUS(stn_scope_end(r->context), STN_OK);
}

static void messages_are_packed_on_a_stream_that_goes_first(void)
{
    nccl_reset();
    nccl_run(2, 60, 0, beside_body, NULL);
}

/* Failures */

enum { RANKS = 3, CALLS = 3, NONE = -1 };

struct outcome {
    stn_status status;
    char text[512];
    double seconds;
};

struct failure {
    int absent; /* a rank that calls when the others have failed; NONE */
    pthread_barrier_t others_ended;
    struct outcome outcomes[RANKS];
};

/* A first exchange, for which NCCL keeps the hosts: peers that do not come are missed on the device then. */
static stn_status connect_ranks(const struct nccl_rank *r, const struct inputs *in)
{
    convolve(in);
    return stn_agree(r->context, stn_queue_sync(stn_context_queue(r->context)), NULL);
}

static void failing_body(struct nccl_rank *r)
{
    struct failure *failure = r->arg;
    struct outcome *o = &failure->outcomes[r->rank];
    stn_scope_begin(r->context);
    const struct inputs in = make_inputs(r);
    CHECK_STATUS(stn_set_halo_overlap(r->context, STN_HALO_OVERLAP_ALWAYS), STN_OK);
    if (failure->absent != NONE)
        CHECK_STATUS(connect_ranks(r, &in), STN_OK);
    if (r->rank == failure->absent)
        pthread_barrier_wait(&failure->others_ended);
    const double begun = seconds();
    for (int i = 0; i < CALLS && stn_context_status(r->context) == STN_OK; i++)
        convolve(&in);
    const stn_status waited = stn_queue_sync(stn_context_queue(r->context));
    snprintf(o->text, sizeof o->text, "%s", stn_queue_error_text(stn_context_queue(r->context)));
    o->status =
        stn_context_take_error(r->context, o->text, stn_context_status(r->context) == STN_OK ? 0 : sizeof o->text);
    o->status = o->status == STN_OK ? waited : o->status;
    o->seconds = seconds() - begun;
    if (failure->absent != NONE && r->rank != failure->absent)
        pthread_barrier_wait(&failure->others_ended);
    stn_scope_end(r->context);
}

static int play(struct failure *failure, double deadline)
{
    pthread_barrier_init(&failure->others_ended, NULL, RANKS);
    const int has_run = nccl_run(RANKS, deadline, 0, failing_body, failure);
    pthread_barrier_destroy(&failure->others_ended);
    if (has_run) {
        nccl_check_none_is_left();
        nccl_check_calls("ncclCommAbort", RANKS);
    }
    return has_run;
}

/* Rank 1's call of NCCL's fails, at once or later: in the first convolution and in the second. */
static void an_error_of_nccl_is_told_to_all(void)
{
    static const struct {
        const char *function;
        int call;
        enum standin_nccl_fate fate;
    } errors[] = {{"ncclSend", 0, STANDIN_NCCL_ANSWERS},
                  {"ncclRecv", 3, STANDIN_NCCL_ANSWERS},
                  {"ncclSend", 1, STANDIN_NCCL_LATER},
                  {"ncclRecv", 2, STANDIN_NCCL_LATER}};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct failure failure = {.absent = NONE};
        nccl_reset();
        nccl_tell(1, errors[i].function, errors[i].call, errors[i].fate);
        play(&failure, 60);
        for (int r = 0; r < RANKS; r++) {
            const struct outcome *o = &failure.outcomes[r];
            CHECK_STATUS(o->status, r == 1 ? STN_ERR_COMM : STN_ERR_PEER);
            nccl_check_holds(o->text, "NCCL answers \"unhandled system error\"");
            nccl_check_holds(o->text, r == 1 ? "group of 2 sends and 2 receives" : "rank 1: ");
            CHECK(o->seconds < 20);
        }
    }
}

/* Each rank's deadline passed, or it was told so by another. */
static void check_late(const struct failure *failure, double deadline)
{
    char part[96];
    snprintf(part, sizeof part, "deadline of %g s passed on the GPU, not all of 3 ranks had come", deadline);
    for (int r = 0; r < RANKS; r++) {
        const struct outcome *o = &failure->outcomes[r];
        CHECK(o->status == STN_ERR_TIMEOUT || o->status == STN_ERR_PEER);
        nccl_check_holds(o->text, part);
        CHECK(r == failure->absent || o->seconds >= deadline * 0.9);
        CHECK(o->seconds < deadline + 5);
    }
}

static void a_message_that_never_comes_is_found_by_the_deadline(void)
{
    struct failure failure = {.absent = NONE};
    nccl_reset();
    nccl_tell(2, "ncclSend", 1, STANDIN_NCCL_LOST);
    play(&failure, 0.5);
    check_late(&failure, 0.5);
}

static void a_peer_that_never_comes_is_found_by_the_deadline(void)
{
    struct failure failure = {.absent = 2};
    const double deadline = nccl_short_deadline();
    nccl_reset();
    if (!play(&failure, deadline))
        return;
    check_late(&failure, deadline);
    CHECK(failure.outcomes[2].seconds < deadline);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"bits_messages_and_bytes_are_those_of_a_halo_that_comes_first",
         bits_messages_and_bytes_are_those_of_a_halo_that_comes_first},
        {"the_interior_runs_while_a_peer_is_missing", the_interior_runs_while_a_peer_is_missing},
        {"without_overlap_it_waits_for_the_peer", without_overlap_it_waits_for_the_peer},
        {"chunk_and_halo_are_one_problem_but_with_overlap", chunk_and_halo_are_one_problem_but_with_overlap},
        {"messages_are_packed_on_a_stream_that_goes_first", messages_are_packed_on_a_stream_that_goes_first},
        {"an_error_of_nccl_is_told_to_all", an_error_of_nccl_is_told_to_all},
        {"a_message_that_never_comes_is_found_by_the_deadline", a_message_that_never_comes_is_found_by_the_deadline},
        {"a_peer_that_never_comes_is_found_by_the_deadline", a_peer_that_never_comes_is_found_by_the_deadline},
    };
    return TEST_MAIN(argc, argv, cases);
}
