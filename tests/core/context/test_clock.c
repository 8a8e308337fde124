/* Clocks of several machines: what each rank adds to its own to have rank 0's. */
#include "core/core_ranks.h"
#include "harness.h"

#include "core/context/clock.h"

#include <time.h>

enum { RANKS = 5 };

/* Whose clock is how far from rank 0's, nanoseconds. */
static const struct machine {
    uint64_t id;
    int64_t ahead;
} machines[RANKS] = {
    {7, 0}, {9, INT64_C(5000000000000)}, {7, 0}, {3, -INT64_C(40000000000000)}, {9, INT64_C(5000000000000)}};

static int64_t shifted(void *arg)
{
    const struct machine *machine = arg;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec + machine->ahead;
}

static struct stni_clock clock_of(int rank)
{
    return (struct stni_clock){machines[rank].id, shifted, (void *)(uintptr_t)&machines[rank]};
}

/* Half a round trip is far below a second. */
static int is_near(int64_t offset, int64_t wanted)
{
    return offset > wanted - INT64_C(1000000000) && offset < wanted + INT64_C(1000000000);
}

static void measure(stn_context *context, void *arg)
{
    int64_t *offsets = arg;
    const int rank = context->rank;
    const struct stni_clock clock = clock_of(rank);
    int64_t offset = 1;
    CHECK_STATUS(stni_clock_offset(context, &clock, &offset), STN_OK);
    CHECK(is_near(offset, -machines[rank].ahead));
    if (machines[rank].id == machines[0].id)
        CHECK_I64(offset, 0);
    if (!ranks_are_processes)
        offsets[rank] = offset;
}

static void ranks_of_a_machine_have_one_offset_and_others_are_measured(void)
{
    int64_t offsets[RANKS] = {0};
    on_ranks(RANKS, measure, offsets);
    if (!ranks_are_processes)
        CHECK_I64(offsets[4], offsets[1]);
}

static void one_rank_has_its_own_clock(void)
{
    int64_t offset = 1;
    on_one_rank(measure, &offset);
    CHECK_I64(offset, 0);
}

/* A peer that is gone ends it. */
static void measure_without_rank_1(stn_context *context, void *arg)
{
    const struct stni_clock clock = clock_of(context->rank);
    int64_t offset;
    (void)arg;
    if (context->rank == 1) {
        stni_fail_memory(context, "a clock", 5);
        return;
    }
    CHECK_STATUS(stni_clock_offset(context, &clock, &offset), STN_ERR_PEER);
}

static void a_rank_that_fails_ends_it_on_all(void)
{
    on_ranks(3, measure_without_rank_1, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"ranks_of_a_machine_have_one_offset_and_others_are_measured",
         ranks_of_a_machine_have_one_offset_and_others_are_measured},
        {"one_rank_has_its_own_clock", one_rank_has_its_own_clock},
        {"a_rank_that_fails_ends_it_on_all", a_rank_that_fails_ends_it_on_all},
    };
    return TEST_MAIN(argc, argv, cases);
}
