/* Captured steps over ranks of NCCL: their collectives are in the graph, so that a repetition is one launch, with the
 * bits of steps that are called; and what hangs or fails in a repetition ends as in a call, with the text of the
 * collective that it came to. */
#include "lent_memory.h"
#include "nccl_ranks.h"

#include "ranks.h"

#include "core/comm/comm.h"
#include "core/context/context.h"
#include "core/device/device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { STEPS = 5, BATCH = 2, CHANNELS = 3, ROWS = 9, COLUMNS = 6, PARAMETERS = 3, MOST = 512 };

/* A convolution with halos over uneven rows, a row of a bias, and a loss; gradients are copied to where they can be
 * read. */
struct program {
    stn_context *context;
    const stn_mesh *mesh;
    stn_tensor *input, *target, *parameters[PARAMETERS], *gradients[PARAMETERS];
    stn_optimizer *optimizer;
};

static _Thread_local int filling;

static double filled(int64_t i)
{
    return test_value(i + 1000 * filling);
}

static double small(int64_t i)
{
    return 0.25 * test_value(i + 7);
}

static stn_tensor *field(const struct program *p, int64_t channels, double (*value)(int64_t i))
{
    const int64_t shape[] = {BATCH, channels, ROWS, COLUMNS}, three[] = {6, 1, 2}, two[] = {2, 7};
    const int64_t *sizes[STN_MAX_NDIM] = {NULL, NULL, stn_mesh_size(p->mesh) == 3 ? three : two};
    const stn_placement rows = stn_shard(2);
    return test_tensor(p->context, p->mesh, &rows, STN_DTYPE_F32, 4, shape, sizes, value);
}

static stn_tensor *whole(const struct program *p, int ndim, const int64_t *shape)
{
    const stn_placement all = stn_replicate();
    return test_tensor(p->context, p->mesh, &all, STN_DTYPE_F32, ndim, shape, NULL, small);
}

static struct program program_create(struct nccl_rank *r)
{
    const int64_t first[] = {CHANNELS, 1, 5, 3}, bias[] = {CHANNELS}, second[] = {1, CHANNELS, 3, 3};
    const int64_t *const shapes[PARAMETERS] = {first, bias, second};
    const int ndims[PARAMETERS] = {4, 1, 4};
    struct program p = {.context = r->context, .mesh = test_mesh(r->context, r->size, 0)};
    p.input = field(&p, 1, test_value);
    p.target = field(&p, 1, small);
    const stn_sgd_options sgd = {.size = sizeof sgd, .rate = 0.1};
    CHECK_STATUS(stn_sgd_create(r->context, &sgd, &p.optimizer), STN_OK);
    stn_named_tensor list[PARAMETERS];
    static const char *const names[] = {"w0", "b0", "w1"};
    for (int i = 0; i < PARAMETERS; i++) {
        p.parameters[i] = whole(&p, ndims[i], shapes[i]);
        p.gradients[i] = whole(&p, ndims[i], shapes[i]);
        stn_set_requires_grad(p.parameters[i], 1);
        list[i] = (stn_named_tensor){names[i], p.parameters[i]};
    }
    const stn_parameter_group group = {.size = sizeof group, .n = PARAMETERS, .parameters = list};
    CHECK_STATUS(stn_optimizer_add_group(p.optimizer, &group), STN_OK);
    return p;
}

static void program_release(struct program *p)
{
    stn_optimizer_destroy(&p->optimizer);
    stn_tensor_release(&p->input);
    stn_tensor_release(&p->target);
    for (int i = 0; i < PARAMETERS; i++) {
        stn_tensor_release(&p->parameters[i]);
        stn_tensor_release(&p->gradients[i]);
    }
}

static void fill_input(const struct program *p, int step)
{
    filling = step;
    stn_scope_begin(p->context);
    stn_copy_(p->input, field(p, 1, filled));
    CHECK_STATUS(stn_scope_end(p->context), STN_OK);
}

/* Forward, backward with gradients reduced in buckets, and with `updates` an update. */
static stn_tensor *run_step(const struct program *p, int updates)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .same = 1};
    stn_scope_begin(p->context);
    stn_tensor *hidden = stn_gelu(stn_conv2d(p->input, p->parameters[0], p->parameters[1], &attrs), STN_GELU_TANH);
    stn_tensor *loss =
        stn_mse_loss(stn_conv2d(hidden, p->parameters[2], NULL, &attrs), p->target, NULL, STN_REDUCE_MEAN);
    stn_backward(loss);
    for (int i = 0; i < PARAMETERS; i++) {
        stn_tensor *gradient = NULL;
        CHECK_STATUS(stn_grad_of(p->parameters[i], &gradient), STN_OK);
        stn_copy_(p->gradients[i], gradient);
    }
    if (updates)
        stn_optimizer_step(p->optimizer);
    stn_optimizer_zero_grad(p->optimizer);
    stn_tensor *mean = stn_full_tensor(loss);
    CHECK_STATUS(stn_scope_end_keep(p->context, mean, &mean), STN_OK);
    return mean;
}

static void check_same(stn_tensor *got, stn_tensor *want)
{
    char a[MOST], b[MOST];
    const size_t bytes = (size_t)stn_spec_local_numel(stn_tensor_spec(want)) * sizeof(float);
    if (bytes == 0 || !CHECK(bytes <= MOST))
        return;
    CHECK_STATUS(stn_to_host(got, a, bytes), STN_OK);
    CHECK_STATUS(stn_to_host(want, b, bytes), STN_OK);
    CHECK_BYTES(a, b, bytes);
}

static void check_programs(const struct program *got, const struct program *want)
{
    for (int i = 0; i < PARAMETERS; i++) {
        check_same(got->parameters[i], want->parameters[i]);
        check_same(got->gradients[i], want->gradients[i]);
    }
}

static int64_t bytes_sent(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    return stats.bytes_sent;
}

static int host_calls(void)
{
    return nccl_calls("ncclAllReduce") + nccl_calls("ncclReduce") + nccl_calls("ncclReduceScatter") +
           nccl_calls("ncclAllGather") + nccl_calls("ncclBroadcast") + nccl_calls("ncclSend");
}

/* What a called step sends but for the words by which its backward agrees. */
static void check_cost(int64_t repeated, int64_t called)
{
    enum { MOST_WORDS = 16 };
    CHECK(repeated < called);
    CHECK(repeated >= called - MOST_WORDS * (int64_t)sizeof(int64_t));
}

struct scene {
    int updates, is_lent;
    pthread_barrier_t together;
};

static void compare_steps(struct nccl_rank *r)
{
    struct scene *scene = r->arg;
    struct program called = program_create(r), captured = program_create(r);
    stn_step *step = NULL;
    if (scene->is_lent)
        lent_alone(r->context);
    stn_set_grad_overlap(r->context, 1);
    for (int s = 0; s < STEPS; s++) {
        fill_input(&called, s);
        fill_input(&captured, s);
        int64_t sent = bytes_sent(r->context);
        stn_tensor *want = run_step(&called, scene->updates), *got = NULL;
        const int64_t cost = bytes_sent(r->context) - sent;
        if (s == 1)
            CHECK_STATUS(stn_capture_begin(r->context), STN_OK);
        if (s <= 1)
            got = run_step(&captured, scene->updates);
        if (s == 1)
            CHECK_STATUS(stn_capture_end(r->context, &step), STN_OK);
        sent = bytes_sent(r->context);
        pthread_barrier_wait(&scene->together);
        const int calls = host_calls();
        pthread_barrier_wait(&scene->together);
        if (s > 1) {
            CHECK_STATUS(stn_step_run(step), STN_OK);
            check_cost(bytes_sent(r->context) - sent, cost);
        }
        pthread_barrier_wait(&scene->together);
        CHECK_I64(host_calls(), calls);
        pthread_barrier_wait(&scene->together);
        check_programs(&captured, &called);
        if (got)
            check_same(got, want);
        stn_tensor_release(&got);
        stn_tensor_release(&want);
    }
    if (nccl_is_scripted())
        CHECK(nccl_calls("ncclSend of a graph") > 0);
    CHECK_I64(stn_step_graphs(step), scene->updates ? 2 : 1);
    CHECK_I64(stn_step_calls(step) == 0, !scene->updates);
    for (int i = 0; i < stn_step_calls(step); i++)
        CHECK(strcmp(stn_step_call_name(step, i), "optimizer") == 0 ||
              strcmp(stn_step_call_name(step, i), "update") == 0);
    CHECK(stn_step_call_name(step, stn_step_calls(step)) == NULL);
    stn_step_destroy(&step);
    program_release(&called);
    program_release(&captured);
}

static void compare_on(int ranks, int updates, int is_lent)
{
    struct scene scene = {.updates = updates, .is_lent = is_lent};
    pthread_barrier_init(&scene.together, NULL, (unsigned)ranks);
    nccl_reset();
    nccl_run(ranks, 60, 0, compare_steps, &scene);
    pthread_barrier_destroy(&scene.together);
    nccl_check_calls("ncclCommAbort", 0);
}

static void a_step_is_one_graph(void)
{
    compare_on(2, 0, 0);
    compare_on(3, 0, 0);
}

static void an_optimizer_is_what_the_host_does(void)
{
    compare_on(2, 1, 0);
    compare_on(3, 1, 0);
}

/* What collectives are staged in too, called ones and those of the graph. */
static void all_memory_may_be_the_callers(void)
{
    if (!lent_begin())
        return;
    nccl_lend(&lent_allocator);
    compare_on(2, 0, 1);
    compare_on(3, 1, 1);
    nccl_lend(NULL);
    CHECK(lent_counts().given > 0);
    CHECK_I64(lent_elsewhere(), 0);
    lent_end();
}

/* Collectives of the program's own on memory of the device: two of different sizes, and between them what the third
 * argument says. */
enum { RANKS = 3, FIRST = 600, SECOND = 300, LAUNCHES = 3 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *device_memory(struct nccl_rank *r)
{
    void *memory = NULL;
    CHECK_STATUS(stni_device_allocate(r->context->device, FIRST * sizeof(float), &memory), STN_OK);
    return memory;
}

static stn_step *capture_two(struct nccl_rank *r, float *data, int barrier)
{
    stn_step *step = NULL;
    CHECK_STATUS(stn_capture_begin(r->context), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(r->comm, data, data, FIRST, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    if (barrier)
        CHECK_STATUS(stn_comm_barrier(r->comm, NULL), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(r->comm, data, data, SECOND, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    CHECK_STATUS(stn_capture_end(r->context, &step), STN_OK);
    return step;
}

static void bring_barrier(struct nccl_rank *r)
{
    float *data = device_memory(r);
    stn_step *step = capture_two(r, data, 1);
    CHECK_I64(stn_step_graphs(step), 2);
    if (CHECK_I64(stn_step_calls(step), 1))
        CHECK_STR(stn_step_call_name(step, 0), "barrier");
    CHECK_STATUS(stn_step_run(step), STN_OK);
    stn_step_destroy(&step);
    stni_device_deallocate(r->context->device, data, FIRST * sizeof(float));
}

static void a_barrier_is_a_call_between_graphs(void)
{
    nccl_reset();
    nccl_run(RANKS, 60, 0, bring_barrier, NULL);
}

/* In checks mode the hosts compare each collective, so that each is a call, and nothing is left for graphs. */
static void bring_checks(struct nccl_rank *r)
{
    float *data = device_memory(r);
    r->comm->checks = 1;
    stn_step *step = capture_two(r, data, 0);
    CHECK_I64(stn_step_graphs(step), 0);
    CHECK_I64(stn_step_calls(step), 2);
    for (int i = 0; i < stn_step_calls(step); i++)
        CHECK_STR(stn_step_call_name(step, i), "all_reduce");
    CHECK_STATUS(stn_step_run(step), STN_OK);
    stn_step_destroy(&step);
    stni_device_deallocate(r->context->device, data, FIRST * sizeof(float));
}

static void what_hosts_compare_is_called(void)
{
    nccl_reset();
    nccl_run(RANKS, 60, 0, bring_checks, NULL);
    nccl_check_calls("ncclAllReduce of a graph", 0);
}

/* A program's own graph, without a step: it does nothing while it is recorded. Sums of 1 over three ranks, three
 * times. */
static void launch_own_graph(struct nccl_rank *r)
{
    float *data = device_memory(r), host[FIRST];
    stn_queue *queue = stn_context_queue(r->context);
    stn_graph *graph = NULL;
    for (int i = 0; i < FIRST; i++)
        host[i] = 1;
    CHECK_STATUS(stni_queue_copy(queue, data, host, sizeof host, STNI_COPY_TO_DEVICE), STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    CHECK_STATUS(stn_queue_capture_begin(queue), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(r->comm, data, data, FIRST, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    CHECK_STATUS(stn_queue_capture_end(queue, &graph), STN_OK);
    for (int i = 0; i < LAUNCHES; i++)
        CHECK_STATUS(stn_graph_launch(graph, queue), STN_OK);
    CHECK_STATUS(stni_queue_copy(queue, host, data, sizeof host, STNI_COPY_TO_HOST), STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    CHECK_NEAR(host[0], 27, 0);
    CHECK_NEAR(host[FIRST - 1], 27, 0);
    stn_graph_destroy(&graph);
    stni_device_deallocate(r->context->device, data, FIRST * sizeof(float));
}

static void a_programs_own_graph_has_collectives(void)
{
    nccl_reset();
    if (nccl_run(RANKS, 60, 0, launch_own_graph, NULL))
        nccl_check_calls("ncclAllReduce of a graph", RANKS * LAUNCHES);
    nccl_check_calls("ncclCommAbort", 0);
}

static void run_far_ahead(struct nccl_rank *r)
{
    enum { FAR = 300 };
    float *data = device_memory(r), zeros[FIRST] = {0}, back[FIRST];
    stn_queue *queue = stn_context_queue(r->context);
    CHECK_STATUS(stni_queue_copy(queue, data, zeros, sizeof zeros, STNI_COPY_TO_DEVICE), STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    stn_step *step = capture_two(r, data, 0);
    CHECK_I64(stn_step_calls(step), 0);
    for (int i = 0; i < FAR; i++)
        CHECK_STATUS(stn_step_run(step), STN_OK);
    CHECK_STATUS(stni_queue_copy(queue, back, data, sizeof back, STNI_COPY_TO_HOST), STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    CHECK_BYTES(back, zeros, sizeof back);
    stn_step_destroy(&step);
    stni_device_deallocate(r->context->device, data, FIRST * sizeof(float));
}

static void the_host_may_run_far_ahead(void)
{
    nccl_reset();
    nccl_run(RANKS, 60, 0, run_far_ahead, NULL);
    nccl_check_calls("ncclCommAbort", 0);
    nccl_check_none_is_left();
}

/* What a rank's repetitions ended with. */
struct outcome {
    stn_status status;
    char text[512];
    double seconds;
};

struct failing {
    int absent; /* a rank that does not repeat before the others have failed; -1: none */
    pthread_barrier_t captured, others_ended;
    struct outcome outcomes[RANKS];
};

static void repeat_and_wait(struct nccl_rank *r)
{
    struct failing *scene = r->arg;
    struct outcome *o = &scene->outcomes[r->rank];
    stn_queue *queue = stn_context_queue(r->context);
    float *data = device_memory(r);
    stn_step *step = capture_two(r, data, 0);
    pthread_barrier_wait(&scene->captured);
    if (r->rank == scene->absent)
        pthread_barrier_wait(&scene->others_ended);
    const double begun = seconds();
    o->status = STN_OK;
    for (int i = 1; i < LAUNCHES && o->status == STN_OK; i++)
        o->status = stn_step_run(step);
    const stn_status waited = stn_queue_sync(queue);
    o->status = o->status == STN_OK ? waited : o->status;
    o->seconds = seconds() - begun;
    snprintf(o->text, sizeof o->text, "%s", stn_queue_error_text(queue));
    if (scene->absent >= 0 && r->rank != scene->absent)
        pthread_barrier_wait(&scene->others_ended);
    stn_step_destroy(&step);
    stni_device_deallocate(r->context->device, data, FIRST * sizeof(float));
}

static int play(struct failing *scene, double deadline)
{
    pthread_barrier_init(&scene->captured, NULL, RANKS);
    pthread_barrier_init(&scene->others_ended, NULL, RANKS);
    const int has_run = nccl_run(RANKS, deadline, 0, repeat_and_wait, scene);
    pthread_barrier_destroy(&scene->others_ended);
    pthread_barrier_destroy(&scene->captured);
    if (has_run) {
        nccl_check_none_is_left();
        nccl_check_calls("ncclCommAbort", RANKS);
    }
    return has_run;
}

static void check_late(const struct failing *scene, const char *part, double deadline)
{
    for (int r = 0; r < RANKS; r++) {
        const struct outcome *o = &scene->outcomes[r];
        CHECK(o->status == STN_ERR_TIMEOUT || o->status == STN_ERR_PEER);
        nccl_check_holds(o->text, part);
        CHECK(r == scene->absent || o->seconds >= deadline * 0.9);
        CHECK(o->seconds < deadline + 5);
    }
}

/* Each launch has two: the fifth is the second one of the third launch, which stands in line behind the one before
 * it. */
static void a_part_that_never_comes_is_found_by_the_deadline(void)
{
    static const char *const parts[] = {
        "all_reduce of 600 elements: deadline of 0.5 s passed on the GPU, not all of 3 ranks had come",
        "all_reduce of 300 elements: deadline of 0.5 s passed on the GPU, not all of 3 ranks had come"};
    for (int i = 0; i < 2; i++) {
        struct failing scene = {.absent = -1};
        nccl_reset();
        nccl_tell(1, "ncclAllReduce of a graph", 2 + i, STANDIN_NCCL_LOST);
        play(&scene, 0.5);
        check_late(&scene, parts[i], 0.5);
    }
}

static void a_rank_that_does_not_repeat_is_told_when_it_does(void)
{
    struct failing scene = {.absent = 2};
    const double deadline = nccl_short_deadline();
    char part[96];
    snprintf(part, sizeof part, "all_reduce of 600 elements: deadline of %g s passed on the GPU", deadline);
    nccl_reset();
    if (!play(&scene, deadline))
        return;
    check_late(&scene, part, deadline);
    CHECK_STATUS(scene.outcomes[2].status, STN_ERR_PEER);
    CHECK(scene.outcomes[2].seconds < deadline);
}

static void an_error_of_a_repetition_is_told_to_all(void)
{
    struct failing scene = {.absent = -1};
    nccl_reset();
    nccl_tell(2, "ncclAllReduce of a graph", 3, STANDIN_NCCL_LATER);
    play(&scene, 60);
    for (int r = 0; r < RANKS; r++) {
        const struct outcome *o = &scene.outcomes[r];
        CHECK_STATUS(o->status, r == 2 ? STN_ERR_COMM : STN_ERR_PEER);
        nccl_check_holds(o->text, "NCCL answers \"unhandled system error\"");
        if (r != 2)
            nccl_check_holds(o->text, "rank 2: ");
        CHECK(o->seconds < 20);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_step_is_one_graph", a_step_is_one_graph},
        {"all_memory_may_be_the_callers", all_memory_may_be_the_callers},
        {"an_optimizer_is_what_the_host_does", an_optimizer_is_what_the_host_does},
        {"a_barrier_is_a_call_between_graphs", a_barrier_is_a_call_between_graphs},
        {"what_hosts_compare_is_called", what_hosts_compare_is_called},
        {"a_programs_own_graph_has_collectives", a_programs_own_graph_has_collectives},
        {"the_host_may_run_far_ahead", the_host_may_run_far_ahead},
        {"a_part_that_never_comes_is_found_by_the_deadline", a_part_that_never_comes_is_found_by_the_deadline},
        {"a_rank_that_does_not_repeat_is_told_when_it_does", a_rank_that_does_not_repeat_is_told_when_it_does},
        {"an_error_of_a_repetition_is_told_to_all", an_error_of_a_repetition_is_told_to_all},
    };
    return TEST_MAIN(argc, argv, cases);
}
