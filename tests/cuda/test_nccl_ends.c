/* How communicators of NCCL end that have worked: they are finalized and destroyed, or aborted where that fails or
 * does not come, all in time. */
#include "nccl_ranks.h"

#include "harness.h"

#include "core/comm/comm.h"
#include "core/context/context.h"

#include <time.h>

enum { RANKS = 2, N = 600 };

static void reduce_once(struct nccl_rank *r)
{
    float *memory = NULL;
    CHECK_STATUS(stni_device_allocate(r->context->device, N * sizeof(float), (void **)&memory), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(r->comm, memory, memory, N, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(r->context)), STN_OK);
    stni_device_deallocate(r->context->device, memory, N * sizeof(float));
}

static void ends_in_time(int aborts)
{
    const time_t begun = time(NULL);
    if (!nccl_run(RANKS, 60, 0, reduce_once, NULL))
        return;
    CHECK(time(NULL) - begun < 30);
    nccl_check_calls("ncclCommAbort", aborts);
    nccl_check_calls("ncclCommDestroy", RANKS - aborts);
    nccl_check_none_is_left();
}

static void communicators_are_finalized_and_destroyed(void)
{
    nccl_reset();
    if (nccl_is_scripted())
        nccl_script()->delay(4);
    ends_in_time(0);
}

static void an_end_that_never_comes_is_an_abort(void)
{
    nccl_reset();
    nccl_tell(1, "ncclCommFinalize", 0, STANDIN_NCCL_LOST);
    ends_in_time(RANKS);
}

static void an_end_that_fails_is_an_abort(void)
{
    nccl_reset();
    nccl_tell(1, "ncclCommFinalize", 0, STANDIN_NCCL_ANSWERS);
    ends_in_time(RANKS);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"communicators_are_finalized_and_destroyed", communicators_are_finalized_and_destroyed},
        {"an_end_that_never_comes_is_an_abort", an_end_that_never_comes_is_an_abort},
        {"an_end_that_fails_is_an_abort", an_end_that_fails_is_an_abort},
    };
    return TEST_MAIN(argc, argv, cases);
}
