/* A communicator from the caller's MPI_Comm: the program has initialised MPI itself, for one thread, and goes on
 * using it. */
#include "harness.h"

#include <shardtensor/mpi.h>
#include <shardtensor/shardtensor.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static char why[256];

static stn_comm_options options(void)
{
    why[0] = '\0';
    return (stn_comm_options){sizeof(stn_comm_options), getenv("STN_TEST_MODULES"), NULL, why, sizeof why};
}

static stn_comm *from(MPI_Comm comm)
{
    stn_comm_options with = options();
    stn_comm *out = NULL;
    CHECK_STATUS(stn_comm_from_mpi(comm, 30, &with, &out), STN_OK);
    CHECK_STR(why, "");
    return out;
}

static int world_rank(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static int world_size(void)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

/* Its ranks are those of the caller's, in an order that is not the world's. */
static void ranks_are_those_of_the_callers_communicator(void)
{
    int rank = world_rank(), size = world_size();
    MPI_Comm turned, halves;
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &turned);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &halves);
    stn_comm *a = from(turned), *b = from(halves);
    MPI_Comm_free(&turned); /* the duplicates stay */
    MPI_Comm_free(&halves);
    CHECK_I64(stn_comm_rank(a), size - 1 - rank);
    CHECK_I64(stn_comm_size(a), size);
    CHECK_I64(stn_comm_rank(b), rank / 2);
    int64_t all[16], own = rank, counts[16], sum = rank;
    for (int r = 0; r < size; r++)
        counts[r] = 1;
    CHECK_STATUS(stn_comm_all_gather(a, &own, all, counts, STN_DTYPE_I64, NULL), STN_OK);
    for (int r = 0; r < size; r++)
        CHECK_I64(all[r], size - 1 - r);
    CHECK_STATUS(stn_comm_all_reduce(b, &sum, &sum, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    int64_t n = stn_comm_size(b);
    CHECK_I64(sum, n * (n - 1) + n * (rank % 2));
    stn_comm_destroy(&a);
    stn_comm_destroy(&b);
}

/* A message of the caller's that waits for any tag is not taken by ours, nor ours by it. */
static void the_callers_messages_are_left_alone(void)
{
    int rank = world_rank(), size = world_size(), got = -1, sent = rank;
    MPI_Request request;
    stn_comm *comm = from(MPI_COMM_WORLD);
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    int64_t sum = rank;
    CHECK_STATUS(stn_comm_all_reduce(comm, &sum, &sum, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    CHECK_I64(sum, size * (size - 1) / 2);
    CHECK_I64(got, -1);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    MPI_Send(&sent, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_I64(got, (rank + size - 1) % size);
    stn_comm_destroy(&comm);
}

static void a_context_owns_it(void)
{
    stn_context_options with = {.size = sizeof with, .comm = from(MPI_COMM_WORLD)};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&with, &context), STN_OK);
    CHECK_I64(stn_context_rank(context), world_rank());
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    stn_context_destroy(&context);
}

static void a_communicator_between_two_groups_is_refused(void)
{
    MPI_Comm half, between;
    int rank = world_rank();
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &between);
    stn_comm_options with = options();
    stn_comm *out = NULL;
    CHECK_STATUS(stn_comm_from_mpi(between, 0, &with, &out), STN_ERR_ARGUMENT);
    CHECK(strstr(why, "inter-communicator") != NULL);
    CHECK(out == NULL);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

static void no_communicator_and_another_mpi_are_refused(void)
{
    stn_comm_options with = options();
    stn_comm *out = NULL;
    CHECK_STATUS(stn_comm_from_mpi(MPI_COMM_NULL, 0, &with, &out), STN_ERR_ARGUMENT);
    with.text = "mpi=hand-made comm=1";
    CHECK_STATUS(stn_comm_open("mpi", &with, &out), STN_ERR_VERSION);
    CHECK(strstr(why, "the caller's MPI is hand-made") != NULL);
    with.text = "colour=blue";
    CHECK_STATUS(stn_comm_open("mpi", &with, &out), STN_ERR_ARGUMENT);
    CHECK(strstr(why, "colour=blue") != NULL);
    CHECK(out == NULL);
}

/* As a language does that cannot compile mpi.h. */
static void a_number_serves_for_a_communicator(void)
{
    stn_comm_options with = options();
    const int64_t world = MPI_Comm_c2f(MPI_COMM_WORLD);
    stn_comm *out = NULL;
    CHECK_STATUS(stn_comm_open_mpi(STN_MPI_NAME, world, 30, &with, &out), STN_OK);
    CHECK_I64(stn_comm_rank(out), world_rank());
    CHECK_I64(stn_comm_size(out), world_size());
    CHECK_STATUS(stn_comm_barrier(out, NULL), STN_OK);
    stn_comm_destroy(&out);
    CHECK_STATUS(stn_comm_open_mpi("another", world, 0, &with, &out), STN_ERR_VERSION);
    CHECK(strstr(why, "the caller's MPI is another, the module's is ") != NULL);
    CHECK_STATUS(stn_comm_open_mpi(NULL, world, 0, &with, &out), STN_ERR_ARGUMENT);
    with.text = "deadline=3";
    CHECK_STATUS(stn_comm_open_mpi(STN_MPI_NAME, world, 0, &with, &out), STN_ERR_ARGUMENT);
    CHECK(out == NULL);
}

static void *ask(void *comm)
{
    const stn_exchange none = {.dtype = STN_DTYPE_U8};
    CHECK_STATUS(stn_comm_group(comm, &none, NULL), STN_OK);
    return NULL;
}

/* As the watch of a communicator of NCCL does, whatever threads MPI was initialised for. */
static void another_thread_may_ask_whether_ranks_have_failed(void)
{
    stn_comm *comm = from(MPI_COMM_WORLD);
    pthread_t thread;
    if (CHECK_I64(pthread_create(&thread, NULL, ask, comm), 0))
        pthread_join(thread, NULL);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
    stn_comm_destroy(&comm);
}

/* MPI was initialised for the main thread alone, and a collective with a request runs on another. */
static void another_thread_is_refused_where_mpi_has_one(void)
{
    stn_comm *comm = from(MPI_COMM_WORLD);
    int level, rank = world_rank();
    float x = 1;
    stn_request *request = NULL;
    MPI_Query_thread(&level);
    if (level >= MPI_THREAD_SERIALIZED) {
        stn_comm_destroy(&comm);
        SKIP("this MPI gives more threads than it was asked for");
    }
    /* Rank 0 alone, so that the others are told by it. */
    stn_status status = rank == 0 ? stn_comm_all_reduce(comm, &x, &x, 1, STN_DTYPE_F32, STN_SUM, &request) : STN_OK;
    if (rank == 0 && status == STN_OK)
        status = stn_request_wait(&request);
    CHECK_STATUS(status, rank == 0 ? STN_ERR_UNSUPPORTED : STN_OK);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), rank == 0 ? STN_ERR_UNSUPPORTED : STN_ERR_PEER);
    CHECK(strstr(stn_comm_error_text(comm), "MPI was initialised for its main thread alone") != NULL);
    stn_comm_destroy(&comm);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"ranks_are_those_of_the_callers_communicator", ranks_are_those_of_the_callers_communicator},
        {"the_callers_messages_are_left_alone", the_callers_messages_are_left_alone},
        {"a_context_owns_it", a_context_owns_it},
        {"a_communicator_between_two_groups_is_refused", a_communicator_between_two_groups_is_refused},
        {"no_communicator_and_another_mpi_are_refused", no_communicator_and_another_mpi_are_refused},
        {"a_number_serves_for_a_communicator", a_number_serves_for_a_communicator},
        {"another_thread_may_ask_whether_ranks_have_failed", another_thread_may_ask_whether_ranks_have_failed},
        {"another_thread_is_refused_where_mpi_has_one", another_thread_is_refused_where_mpi_has_one},
    };
    MPI_Init(&argc, &argv);
    test_set_rank(world_rank());
    int status = TEST_MAIN(argc, argv, cases);
    MPI_Finalize();
    return status;
}
