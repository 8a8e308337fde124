/* Processes of an MPI job whose data is in a CUDA device's memory: every kind of collective between kernels, waited for
 * and with requests; and the same layouts and values as on the CPU. MPI moves memory of the host, so that the library
 * stages. */
#include "module/device_ranks.h"
#include "ranks.h"

#include "core/context/context.h"

#include <shardtensor/module.h>

#include <stdio.h>
#include <stdlib.h>

static stn_comm *job(void)
{
    char why[256] = "";
    stn_comm *comm = NULL;
    const stn_comm_options options = {sizeof options, getenv("STN_TEST_MODULES"), "deadline=60", why, sizeof why};
    if (!CHECK_STATUS(stn_comm_open("mpi", &options, &comm), STN_OK))
        fprintf(stderr, "%s\n", why);
    return comm;
}

static void run(rank_body body)
{
    stn_comm *comm = job();
    if (comm)
        device_rank_run(comm, body);
}

static void blocking_steps(struct rank *r)
{
    device_rank_steps(r, 0);
    device_rank_check(r);
}

static void request_steps(struct rank *r)
{
    device_rank_steps(r, 1);
    device_rank_check(r);
}

static double number(int64_t i)
{
    return (double)i;
}

/* Chunks of rows become chunks of columns, uneven ones too; what is pending is added up. */
static void change_layouts(struct rank *r)
{
    enum { ROWS = 7, COLUMNS = 5, N = ROWS * COLUMNS };
    const stn_placement rows = {.kind = STN_PLACE_SHARD, .dim = 0}, columns = {.kind = STN_PLACE_SHARD, .dim = 1};
    const int64_t shape[] = {ROWS, COLUMNS};
    double whole[N], sum = 0;
    for (int i = 0; i < N; i++)
        whole[i] = i;
    stn_scope_begin(r->context);
    const stn_mesh *mesh = test_mesh(r->context, r->size, 0);
    stn_tensor *x =
        stn_redistribute_to(test_tensor(r->context, mesh, &rows, STN_DTYPE_F32, 2, shape, NULL, number), &columns);
    test_compare(x, whole, N, 0);
    CHECK_STATUS(stn_item(stn_sum(x, 0, NULL, 0), &sum), STN_OK);
    CHECK_NEAR(sum, N * (N - 1) / 2.0, 0);
    CHECK_STATUS(stn_scope_end(r->context), STN_OK);
}

static void collectives_wait_for_the_queue_and_are_waited_for(void)
{
    run(blocking_steps);
}

static void requests_come_behind_what_is_queued(void)
{
    run(request_steps);
}

static void layouts_change_as_on_the_cpu(void)
{
    run(change_layouts);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"collectives_wait_for_the_queue_and_are_waited_for", collectives_wait_for_the_queue_and_are_waited_for},
        {"requests_come_behind_what_is_queued", requests_come_behind_what_is_queued},
        {"layouts_change_as_on_the_cpu", layouts_change_as_on_the_cpu},
    };
    return TEST_MAIN(argc, argv, cases);
}
