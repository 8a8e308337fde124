/* A halo that goes beside the interior: the same bits, messages and bytes as one that is waited for first; what is
 * computed before it has come; and what becomes of it where a rank fails meanwhile. */
#include "core/comm/comm.h"
#include "ops/conv/cases.h"
#include "ops/conv/conv_kernel.h"
#include "ops/conv/overlap.h"
#include "ops/exchange/halo_overlap.h"
#include "ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The same bits, messages and bytes */

static stn_status same_body(stn_context *context, void *arg)
{
    conv_overlap_compare(context, arg, 1);
    return STN_OK;
}

static void bits_messages_and_bytes_are_those_of_a_halo_that_comes_first(void)
{
    static struct conv_grid grids[] = {{1, 0}, {2, 0}, {3, 0}, {2, 2}, {2, 3}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        test_ranks(grids[i].rows * (grids[i].columns ? grids[i].columns : 1), same_body, &grids[i]);
}

/* Ranks of MPI run this one. */
static void two_ranks_get_the_bits_of_a_halo_that_comes_first(void)
{
    static struct conv_grid grid = {2, 0};
    test_ranks(2, same_body, &grid);
}

/* What is done meanwhile */

enum meanwhile { NOTHING, FAILS, ABORTS, TELLS };

enum { UNUSUAL = 1 /* the rank to which something happens */ };

/* The first kernel of this rank's convolution, which solves the interior. On the thread that runs the queue. */
static _Atomic(enum meanwhile) at_first[2];
static _Atomic(stn_comm *) own_comm;
static atomic_int interior_done;

static int rank_of(const stn_queue *queue)
{
    return stn_context_rank(queue->context);
}

static stn_status first_kernel(stn_queue *queue, const void *args)
{
    const int rank = rank_of(queue);
    const enum meanwhile happens = rank < 2 ? atomic_exchange(&at_first[rank], NOTHING) : NOTHING;
    if (happens == FAILS)
        return stn_queue_fail(queue, STN_ERR_DEVICE, "a fan has stopped");
    if (happens == ABORTS)
        stni_comm_abort(atomic_load(&own_comm), STN_ERR_DEVICE, "a fan has stopped");
    const stn_status status = stni_conv_cpu(queue, args);
    if (happens == TELLS)
        atomic_store(&interior_done, 1);
    return status;
}

static void watch_kernels(stn_context *context)
{
    const stn_kernel kernel = {.size = sizeof kernel,
                               .name = "conv2d.solve",
                               .device = "cpu",
                               .dtypes = STNI_CONV_DTYPES,
                               .args_size = sizeof(struct stni_conv_args),
                               .function = first_kernel,
                               .workspace = stni_conv_cpu_workspace};
    CHECK_STATUS(stn_kernel_register(context, &kernel), STN_OK);
}

static stn_tensor *call(stn_context *context, const stn_mesh *mesh)
{
    static const int64_t x[] = {1, 2, 24, 9}, w[] = {3, 2, 3, 3};
    const stn_conv_attrs attrs = {.size = sizeof attrs, .padding = {1, 1}};
    stn_tensor *in[] = {conv_filled(context, mesh, stn_shard(2), 4, x, NULL),
                        conv_filled(context, mesh, stn_replicate(), 4, w, NULL)};
    return stn_conv2d(in[0], in[1], NULL, &attrs);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The last rank comes when the first one's interior is done: which, waiting for its halo first, would never be. */
static stn_status late_body(stn_context *context, void *arg)
{
    const double start = now(), soon = 20; /* seconds */
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    stn_scope_begin(context);
    watch_kernels(context);
    CHECK_STATUS(stn_set_halo_overlap(context, STN_HALO_OVERLAP_ALWAYS), STN_OK);
    if (stn_context_rank(context) != 0)
        while (!atomic_load(&interior_done) && now() - start < soon)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK(stn_context_rank(context) == 0 || atomic_load(&interior_done));
    call(context, mesh);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    return stn_scope_end(context);
}

static void interior_is_done_before_the_halo_has_come(void)
{
    atomic_store(&at_first[0], TELLS);
    atomic_store(&interior_done, 0);
    test_ranks(2, late_body, NULL);
    CHECK(atomic_load(&at_first[0]) == NOTHING);
}

/* What happens to one rank while its halo is on its way: all are told which one and why, by this op or by their next
 * collective. */
static stn_status failing_body(stn_context *context, void *arg)
{
    const enum meanwhile happens = *(const enum meanwhile *)arg;
    const int rank = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const double start = now(), soon = 25; /* seconds, long before the deadline */
    char text[512] = "";
    stn_status status = STN_OK;
    stn_scope_begin(context);
    watch_kernels(context);
    CHECK_STATUS(stn_set_halo_overlap(context, STN_HALO_OVERLAP_ALWAYS), STN_OK);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    if (rank == UNUSUAL) {
        atomic_store(&own_comm, stn_context_comm(context));
        atomic_store(&at_first[UNUSUAL], happens);
    }
    while (status == STN_OK && now() - start < soon) {
        call(context, mesh);
        status = stn_queue_sync(stn_context_queue(context));
        status = stn_context_status(context) != STN_OK ? stn_context_status(context) : status;
    }
    stn_queue_sync(stn_context_queue(context));
    if (stn_context_status(context) == STN_OK)
        stn_agree(context, STN_OK, NULL);
    status = stn_context_take_error(context, text, sizeof text);
    CHECK(now() - start < soon);
    CHECK_STATUS(status, rank == UNUSUAL ? STN_ERR_DEVICE : STN_ERR_PEER);
    if (!CHECK(strstr(text, "a fan has stopped") != NULL))
        printf("  rank %d got \"%s\"\n", rank, text);
    CHECK(rank == UNUSUAL || strstr(text, "rank 1") != NULL);
    stn_scope_end(context);
    return STN_OK;
}

static void a_rank_that_fails_meanwhile_is_named_by_all(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    for (int ranks = 2; ranks <= 3; ranks++)
        for (int i = FAILS; i <= ABORTS; i++) {
            enum meanwhile happens = (enum meanwhile)i;
            test_launch(ranks, &options, failing_body, &happens);
            CHECK(atomic_load(&at_first[UNUSUAL]) == NOTHING);
        }
}

/* Ranks of MPI run this one, once a job. */
static void a_rank_that_aborts_meanwhile_is_named_by_two(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    enum meanwhile happens = ABORTS;
    test_launch(2, &options, failing_body, &happens);
}

/* When */

static int pays(int beside, int64_t bytes, int64_t work)
{
    const struct stni_halo_terms terms = {.beside = beside, .dtype = STN_DTYPE_F32, .bytes = bytes, .work = work};
    return stni_halo_pays(&terms);
}

static void it_pays_where_cores_are_free_and_both_take_time(void)
{
    const int64_t kib = 1 << 10, million = 1000 * 1000;
    CHECK_I64(pays(1, 16 * kib, 10 * million), 1);
    CHECK_I64(pays(1, INT64_MAX, INT64_MAX), 1);
    CHECK_I64(pays(0, INT64_MAX, INT64_MAX), 0);
    CHECK_I64(pays(1, 16 * kib - 1, INT64_MAX), 0);
    CHECK_I64(pays(1, INT64_MAX, 10 * million - 1), 0);
}

static int pays_on_device(stn_dtype dtype, int64_t bytes, int64_t work)
{
    const struct stni_halo_terms terms = {.beside = 1, .on_device = 1, .dtype = dtype, .bytes = bytes, .work = work};
    return stni_halo_pays(&terms);
}

static void on_a_device_it_pays_where_both_take_time(void)
{
    const int64_t mib = 1 << 20, million = 1000 * 1000;
    const struct stni_halo_terms through_host = {.on_device = 1, .bytes = INT64_MAX, .work = INT64_MAX};
    CHECK_I64(pays_on_device(STN_DTYPE_F32, 2 * mib, 1200 * million), 1);
    CHECK_I64(pays_on_device(STN_DTYPE_F64, 2 * mib, 1200 * million), 1);
    CHECK_I64(pays_on_device(STN_DTYPE_F32, INT64_MAX, 1200 * million - 1), 0);
    CHECK_I64(pays_on_device(STN_DTYPE_F32, 2 * mib - 1, INT64_MAX), 0);
    CHECK_I64(pays_on_device(STN_DTYPE_BF16, 2 * mib, 9600 * million), 1);
    CHECK_I64(pays_on_device(STN_DTYPE_BF16, INT64_MAX, 9600 * million - 1), 0);
    CHECK_I64(pays_on_device(STN_DTYPE_F16, INT64_MAX, 9600 * million - 1), 0);
    CHECK_I64(stni_halo_pays(&through_host), 0);
}

static stn_status choice_body(stn_context *context, void *arg)
{
    (void)arg;
    CHECK_STATUS(stn_set_halo_overlap(NULL, STN_HALO_OVERLAP_NEVER), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_set_halo_overlap(context, (stn_halo_overlap)3), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "set_halo_overlap: when got 3, wanted 0 to 2");
    return STN_OK;
}

static void another_choice_is_refused(void)
{
    test_ranks(1, choice_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"bits_messages_and_bytes_are_those_of_a_halo_that_comes_first",
         bits_messages_and_bytes_are_those_of_a_halo_that_comes_first},
        {"two_ranks_get_the_bits_of_a_halo_that_comes_first", two_ranks_get_the_bits_of_a_halo_that_comes_first},
        {"interior_is_done_before_the_halo_has_come", interior_is_done_before_the_halo_has_come},
        {"a_rank_that_fails_meanwhile_is_named_by_all", a_rank_that_fails_meanwhile_is_named_by_all},
        {"a_rank_that_aborts_meanwhile_is_named_by_two", a_rank_that_aborts_meanwhile_is_named_by_two},
        {"it_pays_where_cores_are_free_and_both_take_time", it_pays_where_cores_are_free_and_both_take_time},
        {"on_a_device_it_pays_where_both_take_time", on_a_device_it_pays_where_both_take_time},
        {"another_choice_is_refused", another_choice_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
