/* Communicators made from a caller's ncclComm_t: it is split, asked and left alone; and what is refused before anything
 * is made, on all ranks. */
#include "nccl_ranks.h"
#include "raw_nccl.h"

#include "harness.h"

#include <shardtensor/shardtensor.h>

#include <stdio.h>
#include <string.h>

enum { RANKS = 3, N = 6 };

/* What each rank does, and what it is answered. */
struct scene {
    struct raw_nccl_id id; /* of the caller's communicator */
    int reversed;    /* the caller's communicator has the ranks in the other order */
    int wrong;       /* this rank passes what differs; -1: none */
    int device;      /* what it passes as its device; -1: none */
    int rank_order;  /* what it passes */
    int without;     /* it makes a communicator anew */
    double deadline; /* 0: 20 s */
    const char *refusal;
    stn_status status;
    char text[RANKS][256];
};

static stn_status open(const struct scene *scene, const struct nccl_rank *r, struct ncclComm *comm, int as_told,
                       stn_comm **out, char *text)
{
    const int differs = as_told && (scene->wrong < 0 || scene->wrong == r->rank);
    const stn_nccl_options options = {.size = sizeof options,
                                      .module_path = nccl_folder(),
                                      .has_device = differs && scene->device >= 0,
                                      .device = scene->device,
                                      .deadline_seconds = scene->deadline > 0 ? scene->deadline : 20,
                                      .rank_order = differs && scene->rank_order,
                                      .error_text = text,
                                      .error_text_size = 256};
    if (differs && scene->without)
        return stn_comm_create_nccl(r->comm, &options, out);
    return stn_comm_from_nccl(comm, r->comm, &options, out);
}

/* Each rank gives its number in a sum on its device. */
static void add_up(const struct nccl_rank *r, stn_comm *comm)
{
    char device[16];
    stn_context *context = NULL;
    snprintf(device, sizeof device, "cuda:%d", r->rank);
    const stn_context_options options = {
        .size = sizeof options, .comm = comm, .device = device, .module_path = nccl_folder()};
    if (!CHECK_STATUS(stn_context_create(&options, &context), STN_OK)) {
        stn_comm_destroy(&comm);
        return;
    }
    const int64_t shape[] = {N};
    const int ranks = r->size;
    const stn_mesh *mesh = NULL;
    double sum = -1;
    stn_scope_begin(context);
    CHECK_STATUS(stn_mesh_create(context, 1, &ranks, NULL, NULL, &mesh), STN_OK);
    stn_tensor *x = stn_full(context, stn_spec_of(mesh, STN_DTYPE_F32, "S0", 1, shape), 2);
    CHECK_STATUS(stn_item(stn_sum(x, 0, NULL, 0), &sum), STN_OK);
    CHECK_NEAR(sum, 2 * N, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

static const struct raw_nccl *raw(void)
{
    return raw_nccl(nccl_folder());
}

static struct ncclComm *callers_comm(const struct scene *scene, const struct nccl_rank *r)
{
    const int rank = scene->reversed ? r->size - 1 - r->rank : r->rank;
    struct ncclComm *comm = NULL;
    CHECK_I64(raw()->cudaSetDevice(r->rank), 0);
    CHECK_I64(raw()->ncclCommInitRank(&comm, r->size, scene->id, rank), 0);
    return comm;
}

/* A refusal first, if there is to be one, after which the control serves still; then one that works. */
static void run_rank(struct nccl_rank *r)
{
    struct scene *scene = r->arg;
    stn_comm *comm = NULL;
    char *text = scene->text[r->rank];
    struct ncclComm *own = callers_comm(scene, r);
    if (scene->refusal) {
        CHECK_STATUS(open(scene, r, own, 1, &comm, text), scene->status);
        CHECK(comm == NULL);
        nccl_check_holds(text, scene->refusal);
    }
    if (scene->reversed) {
        stn_comm_destroy(&r->comm);
    } else if (CHECK_STATUS(open(scene, r, own, 0, &comm, text), STN_OK)) {
        add_up(r, comm);
    } else {
        fprintf(stderr, "%s\n", text);
        stn_comm_destroy(&r->comm);
    }
    CHECK_I64(raw()->ncclCommDestroy(own), 0);
}

static int begin(struct scene *scene)
{
    nccl_reset();
    return CHECK_PTR(raw()) && CHECK_I64(raw()->ncclGetUniqueId(&scene->id), 0);
}

/* How many communicators the library has made anew and split. */
static void end(int made, int split)
{
    nccl_check_calls("ncclCommInitRankConfig", made);
    nccl_check_calls("ncclCommSplit", split);
    nccl_check_none_is_left();
}

static void play(struct scene scene, int ranks, int split)
{
    if (!begin(&scene))
        return;
    nccl_run_controls(ranks, run_rank, &scene);
    end(0, split);
}

static void a_callers_communicator_is_split_and_left_alone(void)
{
    const int ranks = nccl_at_most(RANKS);
    play((struct scene){.wrong = -1, .device = -1}, ranks, ranks);
}

static void refuse_splits(struct nccl_rank *r)
{
    struct scene *scene = r->arg;
    const struct standin_nccl_line line = {r->rank, "ncclCommSplit", 0, STANDIN_NCCL_ANSWERS, 5 /* ncclInvalidUsage */};
    nccl_script()->tell(&line);
    struct ncclComm *own = callers_comm(scene, r);
    stn_comm *comm = NULL;
    if (CHECK_STATUS(open(scene, r, own, 0, &comm, scene->text[r->rank]), STN_OK))
        add_up(r, comm);
    else
        stn_comm_destroy(&r->comm);
    CHECK_I64(raw()->ncclCommDestroy(own), 0);
}

static void where_no_split_is_given_one_is_made_anew(void)
{
    struct scene scene = {.wrong = -1, .device = -1};
    if (!begin(&scene))
        return;
    nccl_run_controls(RANKS, refuse_splits, &scene);
    end(RANKS, RANKS);
}

static void what_is_refused_is_refused_on_all_ranks_and_the_control_serves_on(void)
{
    static const struct {
        struct scene scene;
        int splits; /* of the call that works */
    } refused[] = {
        {{.wrong = 1, .device = 7, .status = STN_ERR_ARGUMENT, .refusal = "device got 7, wanted 1, the communicator's"},
         RANKS},
        {{.wrong = 2,
          .device = -1,
          .rank_order = 1,
          .status = STN_ERR_MISMATCH,
          .refusal = "ranks differ in rank_order"},
         RANKS},
        {{.wrong = 0,
          .device = -1,
          .without = 1,
          .status = STN_ERR_MISMATCH,
          .refusal = "or in whether they pass an ncclComm_t"},
         RANKS},
        {{.wrong = -1,
          .device = 99,
          .without = 1,
          .status = STN_ERR_DEVICE,
          .refusal = "device got 99, wanted less than"},
         RANKS},
        {{.wrong = -1,
          .device = -1,
          .reversed = 1,
          .status = STN_ERR_ARGUMENT,
          .refusal = "comm got rank 2 of 3, wanted 0 of 3, the control's"},
         0},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused && nccl_fits(RANKS); i++)
        play(refused[i].scene, RANKS, refused[i].splits);
}

static void bad_arguments_are_refused(void)
{
    stn_comm *control = NULL, *comm = NULL;
    const stn_nccl_options older = {.size = sizeof older - 1};
    CHECK_STATUS(stn_comm_create_threads(1, &control), STN_OK);
    CHECK_STATUS(stn_comm_from_nccl(NULL, control, NULL, &comm), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_create_nccl(NULL, NULL, &comm), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_create_nccl(control, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_create_nccl(control, &older, &comm), STN_ERR_ARGUMENT);
    CHECK(comm == NULL);
    stn_comm_destroy(&control);
}

static void make_without_nccl(struct nccl_rank *r)
{
    char text[256] = "";
    stn_comm *comm = NULL;
    CHECK_STATUS(nccl_create(r->comm, 20, 0, &comm, text), STN_ERR_NOT_FOUND);
    CHECK(strstr(text, "NCCL was not found: the loader has neither libnccl.so.2 nor libnccl.so") != NULL);
    CHECK_STATUS(stn_comm_barrier(r->comm, NULL), STN_OK);
    stn_comm_destroy(&r->comm);
}

/* Run alone, with STANDIN_LIBRARIES=0. */
static void where_nccl_is_absent_the_text_says_what_was_looked_for(void)
{
    nccl_run_controls(RANKS, make_without_nccl, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_callers_communicator_is_split_and_left_alone", a_callers_communicator_is_split_and_left_alone},
        {"where_no_split_is_given_one_is_made_anew", where_no_split_is_given_one_is_made_anew},
        {"what_is_refused_is_refused_on_all_ranks_and_the_control_serves_on",
         what_is_refused_is_refused_on_all_ranks_and_the_control_serves_on},
        {"bad_arguments_are_refused", bad_arguments_are_refused},
        {"where_nccl_is_absent_the_text_says_what_was_looked_for",
         where_nccl_is_absent_the_text_says_what_was_looked_for},
    };
    return TEST_MAIN(argc, argv, cases);
}
