/* What becomes of ranks of NCCL when something fails, by the script of the stand-in: each of them ends in time, with a
 * text that says what and whose it was, and NCCL's communicators are gone. */
#include "nccl_ranks.h"

#include "harness.h"

#include "core/comm/comm.h"
#include "core/comm/tcp/tcp.h"
#include "core/context/context.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { RANKS = 3, N = 600, CALLS = 3 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What a rank ended with. */
struct outcome {
    stn_status status;
    char text[512];
    double seconds;
};

struct scene {
    stn_status (*call)(const struct nccl_rank *r, float *send, float *recv);
    int absent; /* a rank that does not call before the others have failed; -1: none */
    int dies;   /* the absent rank does, over TCP */
    pthread_barrier_t others_ended;
    struct outcome outcomes[RANKS];
};

static stn_status all_reduce(const struct nccl_rank *r, float *send, float *recv)
{
    return stn_comm_all_reduce(r->comm, send, recv, N, STN_DTYPE_F32, STN_SUM, NULL);
}

/* Of different sizes: a group of sends and receives. */
static stn_status gather_uneven(const struct nccl_rank *r, float *send, float *recv)
{
    const int64_t counts[RANKS] = {10, 0, 30};
    return stn_comm_all_gather(r->comm, send, recv, counts, STN_DTYPE_F32, NULL);
}

static stn_status reduce_uneven(const struct nccl_rank *r, float *send, float *recv)
{
    const int64_t counts[RANKS] = {10, 20, 30};
    return stn_comm_reduce_scatter(r->comm, send, recv, counts, STN_DTYPE_F32, STN_SUM, NULL);
}

static stn_status with_request(const struct nccl_rank *r, float *send, float *recv)
{
    stn_request *request = NULL;
    stn_status status = stn_comm_all_reduce(r->comm, send, recv, N, STN_DTYPE_F32, STN_SUM, &request);
    return status == STN_OK ? stn_request_wait(&request) : status;
}

/* More than a stream has room for. */
static stn_status call_far_ahead(const struct nccl_rank *r, float *send, float *recv)
{
    enum { FAR = 2000 };
    stn_status status = STN_OK;
    for (int i = 0; i < FAR && status == STN_OK; i++)
        status = all_reduce(r, send, recv);
    return status;
}

/* Rank 0's GPU fails before the first. */
static stn_status call_on_a_broken_gpu(const struct nccl_rank *r, float *send, float *recv)
{
    if (r->rank == 0)
        nccl_script()->break_gpu(0);
    return call_far_ahead(r, send, recv);
}

/* The same with copies between, so many that they fill the queue; it is full at a call. */
static stn_status copy_far_ahead(const struct nccl_rank *r, float *send, float *recv)
{
    enum { FAR = 200, COPIES = 14 };
    stn_queue *queue = stn_context_queue(r->context);
    stn_status status = STN_OK;
    for (int i = 0; i < FAR * (COPIES + 1) && status == STN_OK; i++)
        status = i % (COPIES + 1) == 0 ? all_reduce(r, send, recv)
                                       : stni_queue_copy(queue, recv, send, sizeof *recv, STNI_COPY_DEVICE);
    return status;
}

/* The queue waits for the first of two requests, and the second is begun meanwhile. A queue that is done with the first
 * has its result; rank 1, which the test lets lose it, does not wait. */
static stn_status first_of_two(const struct nccl_rank *r, float *send, float *recv)
{
    stn_request *first = NULL, *second = NULL;
    STNI_TRY(stn_comm_all_reduce(r->comm, send, recv, N, STN_DTYPE_F32, STN_SUM, &first));
    stn_status status = stn_request_wait(&first);
    if (status == STN_OK)
        status = stn_comm_all_reduce(r->comm, send, send, N, STN_DTYPE_F32, STN_SUM, &second);
    if (status == STN_OK) {
        status = stn_queue_sync(stn_context_queue(r->context));
        CHECK(r->rank == 1 || status != STN_OK);
    }
    const stn_status waited = second ? stn_request_wait(&second) : STN_OK;
    return status == STN_OK ? waited : status;
}

static void note(struct outcome *outcome, stn_status status, const char *text, double begun)
{
    outcome->status = status;
    snprintf(outcome->text, sizeof outcome->text, "%s", text);
    outcome->seconds = seconds() - begun;
}

/* A first call, for which NCCL keeps the hosts: who does not come is missed on the device then. */
static stn_status connect_ranks(const struct nccl_rank *r, float *send, float *recv)
{
    const struct scene *scene = r->arg;
    const stn_status status = scene->call(r, send, recv);
    return stn_agree(r->context, status == STN_OK ? stn_queue_sync(stn_context_queue(r->context)) : status, NULL);
}

/* What the system does to the connections of a process that was killed. */
static void end_connections(stn_comm *control)
{
    struct stni_tcp_family *family = ((struct stni_tcp_member *)control->impl)->family;
    stni_tcp_lock(family);
    for (int r = 0; r < family->size; r++)
        for (int lane = 0; lane < STNI_TCP_LANES; lane++)
            if (family->peers[r].lanes[lane] >= 0)
                CHECK_I64(shutdown(family->peers[r].lanes[lane], SHUT_RDWR), 0);
    stni_tcp_unlock(family);
}

/* The absent rank calls when the others have failed, or it dies and does not call. Returns how often it does. */
static int be_absent(const struct nccl_rank *r, struct scene *scene)
{
    if (scene->dies)
        end_connections(r->control);
    else
        pthread_barrier_wait(&scene->others_ended);
    return scene->dies ? 0 : CALLS;
}

/* Calls until something fails, and waits for the queue. */
static void call_and_wait(struct nccl_rank *r)
{
    struct scene *scene = r->arg;
    stn_queue *queue = stn_context_queue(r->context);
    void *memory = NULL;
    CHECK_STATUS(stni_device_allocate(r->context->device, 2 * N * sizeof(float), &memory), STN_OK);
    float *send = memory, *recv = send + N;
    if (scene->absent >= 0)
        CHECK_STATUS(connect_ranks(r, send, recv), STN_OK);
    const int calls = r->rank == scene->absent ? be_absent(r, scene) : CALLS;
    const double begun = seconds();
    stn_status status = STN_OK;
    for (int i = 0; i < calls && status == STN_OK; i++)
        status = scene->call(r, send, recv);
    const stn_status waited = stn_queue_sync(queue);
    const char *text = stn_queue_error_text(queue)[0] ? stn_queue_error_text(queue) : stn_comm_error_text(r->comm);
    note(&scene->outcomes[r->rank], status == STN_OK ? waited : status, text, begun);
    if (scene->absent >= 0 && r->rank != scene->absent && !scene->dies)
        pthread_barrier_wait(&scene->others_ended);
    stni_device_deallocate(r->context->device, memory, 2 * N * sizeof(float));
}

static int play(struct scene *scene, double deadline)
{
    pthread_barrier_init(&scene->others_ended, NULL, RANKS);
    const int has_run = nccl_run(RANKS, deadline, 0, call_and_wait, scene);
    pthread_barrier_destroy(&scene->others_ended);
    if (has_run) {
        nccl_check_none_is_left();
        nccl_check_others_are_unused();
    }
    return has_run;
}

/* Rank `who` failed with `status` and a text with `part` in it, and the others were told so. */
static void check_told(const struct scene *scene, int who, stn_status status, const char *part, double most_seconds)
{
    char told[32];
    snprintf(told, sizeof told, "rank %d: ", who);
    for (int r = 0; r < RANKS; r++) {
        const struct outcome *o = &scene->outcomes[r];
        CHECK_STATUS(o->status, r == who ? status : STN_ERR_PEER);
        nccl_check_holds(o->text, part);
        if (r != who)
            nccl_check_holds(o->text, told);
        CHECK(o->seconds < most_seconds);
    }
}

/* Each rank's own deadline passed, or it was told so by another, which may have begun to wait before it. */
static void check_late(const struct scene *scene, const char *part, double deadline)
{
    int late = 0;
    for (int r = 0; r < RANKS; r++) {
        const struct outcome *o = &scene->outcomes[r];
        CHECK(o->status == STN_ERR_TIMEOUT || o->status == STN_ERR_PEER);
        nccl_check_holds(o->text, part);
        late += o->seconds >= deadline * 0.9;
        CHECK(o->status == STN_ERR_PEER || o->seconds >= deadline * 0.9);
        CHECK(o->seconds < deadline + 5);
    }
    CHECK(late > 0);
}

static void an_error_of_a_call_is_told_to_all(void)
{
    struct scene scene = {.call = all_reduce, .absent = -1};
    nccl_reset();
    nccl_tell(1, "ncclAllReduce", 1, STANDIN_NCCL_ANSWERS);
    play(&scene, 60);
    check_told(&scene, 1, STN_ERR_COMM, "all_reduce of 600 elements: NCCL answers \"unhandled system error\"", 20);
    nccl_check_calls("ncclCommAbort", RANKS);
}

static void an_error_that_comes_later_is_told_to_all(void)
{
    struct scene scene = {.call = all_reduce, .absent = -1};
    nccl_reset();
    nccl_tell(2, "ncclAllReduce", 0, STANDIN_NCCL_LATER);
    play(&scene, 60);
    check_told(&scene, 2, STN_ERR_COMM, "all_reduce of 600 elements: NCCL answers \"unhandled system error\"", 20);
    nccl_check_calls("ncclCommAbort", RANKS);
}

static void an_error_within_a_group_ends_the_group(void)
{
    static const char *const functions[] = {"ncclSend", "ncclRecv"};
    for (int i = 0; i < 2; i++) {
        struct scene scene = {.call = gather_uneven, .absent = -1};
        nccl_reset();
        nccl_tell(0, functions[i], 1, STANDIN_NCCL_ANSWERS);
        play(&scene, 60);
        check_told(&scene, 0, STN_ERR_COMM, "all_gather of 40 elements: NCCL answers", 20);
    }
}

static void a_part_that_never_comes_is_found_by_the_deadline(void)
{
    struct scene scene = {.call = all_reduce, .absent = -1};
    nccl_reset();
    nccl_tell(1, "ncclAllReduce", 1, STANDIN_NCCL_LOST);
    play(&scene, 0.5);
    check_late(&scene, "all_reduce of 600 elements: deadline of 0.5 s passed on the GPU, not all of 3 ranks had come",
               0.5);
    nccl_check_calls("ncclCommAbort", RANKS);
}

static void a_message_that_never_comes_is_found_by_the_deadline(void)
{
    struct scene scene = {.call = gather_uneven, .absent = -1};
    nccl_reset();
    nccl_tell(2, "ncclSend", 0, STANDIN_NCCL_LOST);
    play(&scene, 0.5);
    check_late(&scene, "all_gather of 40 elements: deadline of 0.5 s passed on the GPU", 0.5);
}

static void a_rank_that_does_not_call_is_told_when_it_does(void)
{
    struct scene scene = {.call = all_reduce, .absent = 2};
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

static void a_host_far_ahead_of_a_lost_rank_ends_by_the_deadline(void)
{
    struct scene scenes[] = {{.call = call_far_ahead, .absent = 2}, {.call = copy_far_ahead, .absent = 2}};
    nccl_script()->reset();
    for (int i = 0; i < 2; i++) {
        play(&scenes[i], 0.5);
        check_late(&scenes[i], "all_reduce of 600 elements: deadline of 0.5 s passed on the GPU", 0.5);
    }
}

/* Its host waits for room behind collectives that never end, and the others for it. */
static void a_gpu_that_has_failed_is_told_to_all(void)
{
    struct scene scene = {.call = call_on_a_broken_gpu, .absent = -1};
    nccl_script()->reset();
    play(&scene, 60);
    nccl_script()->break_gpu(-1);
    check_told(&scene, 0, STN_ERR_DEVICE, "all_reduce of 600 elements: the GPU has failed: an illegal memory access",
               20);
}

static void a_request_that_fails_is_told_to_all(void)
{
    struct scene scene = {.call = with_request, .absent = -1};
    nccl_reset();
    nccl_tell(1, "ncclAllReduce", 1, STANDIN_NCCL_ANSWERS);
    play(&scene, 60);
    check_told(&scene, 1, STN_ERR_COMM, "all_reduce of 600 elements: NCCL answers", 20);
}

static void a_lost_request_fails_who_waits_for_it(void)
{
    struct scene scene = {.call = first_of_two, .absent = -1};
    nccl_script()->reset();
    nccl_tell(1, "ncclAllReduce", 0, STANDIN_NCCL_LOST);
    play(&scene, 0.5);
    check_late(&scene, "all_reduce of 600 elements: deadline of 0.5 s passed on the GPU", 0.5);
}

static void a_call_that_stays_in_progress_is_found_by_the_deadline(void)
{
    struct scene scene = {.call = reduce_uneven, .absent = -1};
    nccl_reset();
    nccl_script()->delay(2);
    nccl_tell(1, "ncclReduce", 4, STANDIN_NCCL_LOST);
    play(&scene, 0.5);
    check_late(&scene, "reduce_scatter of 60 elements: deadline of 0.5 s passed", 0.5);
}

/* Two communicators on one queue: the second one's work stands behind the first one's, which hangs, and NCCL's abort of
 * the second waits for it. */
static void call_behind_another(struct nccl_rank *r)
{
    static const int all[RANKS] = {0, 1, 2};
    struct scene *scene = r->arg;
    stn_queue *queue = stn_context_queue(r->context);
    void *memory = NULL;
    stn_comm *behind = NULL;
    CHECK_STATUS(stni_device_allocate(r->context->device, 2 * N * sizeof(float), &memory), STN_OK);
    CHECK_STATUS(stn_comm_subset(r->comm, all, RANKS, &behind), STN_OK);
    float *send = memory, *recv = send + N;
    const double begun = seconds();
    stn_status status = all_reduce(r, send, recv);
    if (status == STN_OK)
        status = stn_comm_all_reduce(behind, recv, recv, N / 2, STN_DTYPE_F32, STN_SUM, NULL);
    const stn_status waited = stn_queue_sync(queue);
    note(&scene->outcomes[r->rank], status == STN_OK ? waited : status, stn_queue_error_text(queue), begun);
    stn_comm_destroy(&behind);
    stni_device_deallocate(r->context->device, memory, 2 * N * sizeof(float));
}

static void communicators_that_stand_behind_each_other_are_ended_together(void)
{
    struct scene scene = {.absent = -1};
    nccl_reset();
    nccl_tell(1, "ncclAllReduce", 0, STANDIN_NCCL_LOST);
    nccl_run(RANKS, 0.5, 0, call_behind_another, &scene);
    nccl_check_none_is_left();
    check_late(&scene, "all_reduce of 600 elements: deadline of 0.5 s passed on the GPU", 0.5);
    nccl_check_calls("ncclCommAbort", 2 * RANKS);
}

/* What is called fails at once, and what was begun is ended. */
static void abort_by_rank_one(struct nccl_rank *r)
{
    struct scene *scene = r->arg;
    if (r->rank == 1) {
        stni_comm_abort(r->comm, STN_ERR_CALLBACK, "the caller gives up");
        note(&scene->outcomes[1], STN_ERR_CALLBACK, "the caller gives up", seconds());
        return;
    }
    call_and_wait(r);
}

static void an_abort_ends_what_waits_on_the_gpu(void)
{
    struct scene scene = {.call = all_reduce, .absent = -1};
    nccl_reset();
    if (!nccl_run(RANKS, 60, 0, abort_by_rank_one, &scene))
        return;
    check_told(&scene, 1, STN_ERR_CALLBACK, "the caller gives up", 20);
    nccl_check_none_is_left();
}

/* Only the watch looks while a host waits for its GPU. */
static void a_process_that_dies_is_named_long_before_the_deadline(void)
{
    struct scene scene = {.call = all_reduce, .absent = 2, .dies = 1};
    nccl_reset();
    nccl_meet_over_tcp(1);
    const int has_run = play(&scene, 60);
    nccl_meet_over_tcp(0);
    for (int r = 0; r < scene.absent && has_run; r++) {
        CHECK_STATUS(scene.outcomes[r].status, STN_ERR_PEER);
        nccl_check_holds(scene.outcomes[r].text, "rank 2: its process or its connection has ended");
        CHECK(scene.outcomes[r].seconds < 10);
    }
}

/* Making */

static void make_only(struct nccl_rank *r)
{
    struct scene *scene = r->arg;
    struct outcome *o = &scene->outcomes[r->rank];
    stn_comm *comm = NULL;
    const double begun = seconds();
    o->status = nccl_create(r->comm, 0.5, 0, &comm, o->text);
    o->seconds = seconds() - begun;
    stn_comm_destroy(comm ? &comm : &r->comm);
}

static void an_error_of_making_is_told_to_all(void)
{
    struct scene scene = {.absent = -1};
    nccl_reset();
    nccl_tell(1, "ncclCommInitRankConfig", 0, STANDIN_NCCL_ANSWERS);
    nccl_run_controls(RANKS, make_only, &scene);
    check_told(&scene, 1, STN_ERR_COMM, "ncclCommInitRankConfig: NCCL answers \"unhandled system error\"", 5);
    nccl_check_none_is_left();
}

static void an_error_of_making_that_comes_later_is_told_to_all(void)
{
    struct scene scene = {.absent = -1};
    nccl_reset();
    nccl_tell(0, "ncclCommInitRankConfig", 0, STANDIN_NCCL_LATER);
    nccl_run_controls(RANKS, make_only, &scene);
    check_told(&scene, 0, STN_ERR_COMM, "ncclCommInitRankConfig: NCCL answers \"unhandled system error\"", 5);
    nccl_check_none_is_left();
}

static void a_rank_that_never_joins_is_found_by_the_deadline(void)
{
    struct scene scene = {.absent = -1};
    nccl_reset();
    nccl_tell(2, "ncclCommInitRankConfig", 0, STANDIN_NCCL_LOST);
    nccl_run_controls(RANKS, make_only, &scene);
    check_late(&scene, "ncclCommInitRankConfig: deadline of 0.5 s passed, NCCL is still in progress with it on 3 ranks",
               0.5);
    nccl_check_none_is_left();
}

/* Before anything is begun all ranks get one text, and the control serves on. */
static void make_twice(struct nccl_rank *r)
{
    struct scene *scene = r->arg;
    struct outcome *o = &scene->outcomes[r->rank];
    stn_comm *comm = NULL;
    char text[256] = "";
    o->status = nccl_create(r->comm, 20, 0, &comm, o->text);
    CHECK(comm == NULL);
    if (CHECK_STATUS(nccl_create(r->comm, 20, 0, &comm, text), STN_OK))
        stn_comm_destroy(&comm);
    else
        stn_comm_destroy(&r->comm);
}

static void an_id_that_is_refused_leaves_the_control_usable(void)
{
    struct scene scene = {.absent = -1};
    nccl_reset();
    nccl_tell(0, "ncclGetUniqueId", 0, STANDIN_NCCL_ANSWERS);
    nccl_run_controls(RANKS, make_twice, &scene);
    for (int r = 0; r < RANKS; r++) {
        CHECK_STATUS(scene.outcomes[r].status, STN_ERR_COMM);
        nccl_check_holds(scene.outcomes[r].text, "ncclGetUniqueId: NCCL answers");
    }
    nccl_check_none_is_left();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_error_of_a_call_is_told_to_all", an_error_of_a_call_is_told_to_all},
        {"an_error_that_comes_later_is_told_to_all", an_error_that_comes_later_is_told_to_all},
        {"an_error_within_a_group_ends_the_group", an_error_within_a_group_ends_the_group},
        {"a_part_that_never_comes_is_found_by_the_deadline", a_part_that_never_comes_is_found_by_the_deadline},
        {"a_message_that_never_comes_is_found_by_the_deadline", a_message_that_never_comes_is_found_by_the_deadline},
        {"a_rank_that_does_not_call_is_told_when_it_does", a_rank_that_does_not_call_is_told_when_it_does},
        {"a_host_far_ahead_of_a_lost_rank_ends_by_the_deadline", a_host_far_ahead_of_a_lost_rank_ends_by_the_deadline},
        {"a_gpu_that_has_failed_is_told_to_all", a_gpu_that_has_failed_is_told_to_all},
        {"a_request_that_fails_is_told_to_all", a_request_that_fails_is_told_to_all},
        {"a_lost_request_fails_who_waits_for_it", a_lost_request_fails_who_waits_for_it},
        {"a_call_that_stays_in_progress_is_found_by_the_deadline",
         a_call_that_stays_in_progress_is_found_by_the_deadline},
        {"communicators_that_stand_behind_each_other_are_ended_together",
         communicators_that_stand_behind_each_other_are_ended_together},
        {"an_abort_ends_what_waits_on_the_gpu", an_abort_ends_what_waits_on_the_gpu},
        {"a_process_that_dies_is_named_long_before_the_deadline",
         a_process_that_dies_is_named_long_before_the_deadline},
        {"an_error_of_making_is_told_to_all", an_error_of_making_is_told_to_all},
        {"an_error_of_making_that_comes_later_is_told_to_all", an_error_of_making_that_comes_later_is_told_to_all},
        {"a_rank_that_never_joins_is_found_by_the_deadline", a_rank_that_never_joins_is_found_by_the_deadline},
        {"an_id_that_is_refused_leaves_the_control_usable", an_id_that_is_refused_leaves_the_control_usable},
    };
    return TEST_MAIN(argc, argv, cases);
}
