/* What NCCL is not asked for, because it would give other values or leave them open: minima and maxima of numbers that
 * may be NaN, sums in the order of ranks, messages without elements. NCCL's calls are counted, so that a value that
 * merely happens to be right does not pass. */
#include "nccl_ranks.h"

#include "harness.h"

#include "core/context/context.h"

#include <math.h>
#include <string.h>

enum { RANKS = 3, N = 4, MOST_BYTES = 64 };

/* One collective on one rank, from host memory to host memory. */
struct call {
    stn_status (*run)(stn_comm *comm, const void *send, void *recv);
    const void *send[RANKS];
    size_t send_bytes, recv_bytes;
    unsigned char recv[RANKS][MOST_BYTES];
};

static void run_call(struct nccl_rank *r)
{
    struct call *call = r->arg;
    stn_queue *queue = stn_context_queue(r->context);
    char *memory = NULL;
    void *at = NULL;
    CHECK_STATUS(stni_device_allocate(r->context->device, 2 * MOST_BYTES, &at), STN_OK);
    memory = at;
    CHECK_STATUS(stni_queue_copy(queue, memory, call->send[r->rank], call->send_bytes, STNI_COPY_TO_DEVICE), STN_OK);
    CHECK_STATUS(call->run(r->comm, memory, memory + MOST_BYTES), STN_OK);
    if (call->recv_bytes > 0)
        CHECK_STATUS(
            stni_queue_copy(queue, call->recv[r->rank], memory + MOST_BYTES, call->recv_bytes, STNI_COPY_TO_HOST),
            STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    stni_device_deallocate(r->context->device, memory, 2 * MOST_BYTES);
}

static int play(struct call *call, int rank_order)
{
    nccl_reset();
    return nccl_run(RANKS, 60, rank_order, run_call, call);
}

static stn_status least_f32(stn_comm *comm, const void *send, void *recv)
{
    return stn_comm_all_reduce(comm, send, recv, N, STN_DTYPE_F32, STN_MIN, NULL);
}

static stn_status largest_f64(stn_comm *comm, const void *send, void *recv)
{
    return stn_comm_all_reduce(comm, send, recv, N, STN_DTYPE_F64, STN_MAX, NULL);
}

/* A NaN of the first, of a middle and of the last rank; the last element has none. */
static void a_nan_stays_the_least_and_the_largest(void)
{
    static const float f32[RANKS][N] = {{NAN, 3, 1, 5}, {1, NAN, 2, -4}, {2, 1, NAN, 0}};
    static const double f64[RANKS][N] = {{NAN, 3, 1, 5}, {1, NAN, 2, -4}, {2, 1, NAN, 0}};
    struct call least = {.run = least_f32, .send_bytes = sizeof f32[0], .recv_bytes = sizeof f32[0]},
                largest = {.run = largest_f64};
    largest.send_bytes = largest.recv_bytes = sizeof f64[0];
    for (int r = 0; r < RANKS; r++) {
        least.send[r] = f32[r];
        largest.send[r] = f64[r];
    }
    if (!play(&least, 0))
        return;
    nccl_check_calls("ncclAllReduce", 0);
    play(&largest, 0);
    nccl_check_calls("ncclAllReduce", 0);
    for (int r = 0; r < RANKS; r++) {
        float got32[N];
        double got64[N];
        memcpy(got32, least.recv[r], sizeof got32);
        memcpy(got64, largest.recv[r], sizeof got64);
        for (int i = 0; i < N - 1; i++)
            CHECK(isnan(got32[i]) && isnan(got64[i]));
        CHECK_NEAR(got32[N - 1], -4, 0);
        CHECK_NEAR(got64[N - 1], 5, 0);
    }
}

static stn_status largest_i32(stn_comm *comm, const void *send, void *recv)
{
    return stn_comm_all_reduce(comm, send, recv, N, STN_DTYPE_I32, STN_MAX, NULL);
}

static void extrema_of_whole_numbers_are_nccls(void)
{
    static const int32_t send[RANKS][N] = {
        {1, -2, 3, INT32_MIN}, {0, -1, 9, INT32_MIN}, {-5, -3, INT32_MAX, INT32_MIN}};
    static const int32_t want[N] = {1, -1, INT32_MAX, INT32_MIN};
    struct call call = {.run = largest_i32,
                        .send = {send[0], send[1], send[2]},
                        .send_bytes = sizeof send[0],
                        .recv_bytes = sizeof send[0]};
    if (!play(&call, 0))
        return;
    nccl_check_calls("ncclAllReduce", RANKS);
    for (int r = 0; r < RANKS; r++)
        CHECK_BYTES(call.recv[r], want, sizeof want);
}

static stn_status sum_f32(stn_comm *comm, const void *send, void *recv)
{
    return stn_comm_all_reduce(comm, send, recv, N, STN_DTYPE_F32, STN_SUM, NULL);
}

/* (2^25 + 1) - 2^25 is 0 from rank 0 on, and 1 where the addition begins with ranks 1 and 2, as the stand-in's does. */
static void sums_are_in_the_order_of_ranks_on_request(void)
{
    static const float big = 1 << 25, send[RANKS][N] = {{1, 1, 2, 3}, {1 << 25, 2, 2, 2}, {-(1 << 25), 3, 2, 1}};
    for (int rank_order = 0; rank_order < 2; rank_order++) {
        const float want[N] = {rank_order ? (1 + big) - big : 1 + (big - big), 6, 6, 6};
        struct call call = {.run = sum_f32,
                            .send = {send[0], send[1], send[2]},
                            .send_bytes = sizeof send[0],
                            .recv_bytes = sizeof send[0]};
        if (!play(&call, rank_order))
            return;
        nccl_check_calls("ncclAllReduce", rank_order ? 0 : RANKS);
        for (int r = 0; r < RANKS && (rank_order || nccl_is_scripted()); r++) /* a GPU's NCCL has an order of its own */
            CHECK_BYTES(call.recv[r], want, sizeof want);
    }
}

static const int64_t counts[RANKS] = {1, 0, 2}, no_counts[RANKS] = {0, 0, 0};

static stn_status gather(stn_comm *comm, const void *send, void *recv)
{
    return stn_comm_all_gather(comm, send, recv, counts, STN_DTYPE_I32, NULL);
}

static stn_status gather_nothing(stn_comm *comm, const void *send, void *recv)
{
    return stn_comm_all_gather(comm, send, recv, no_counts, STN_DTYPE_I32, NULL);
}

/* Rank 1 has nothing: nobody receives from it, and it sends nothing, while it receives what the others have. The
 * stand-in ends the program at a call without elements, and waits for ever where only one end leaves it out. */
static void messages_without_elements_are_left_out_at_both_ends(void)
{
    static const int32_t send[RANKS][2] = {{7, 0}, {0, 0}, {8, 9}}, want[] = {7, 8, 9};
    struct call call = {
        .run = gather, .send = {send[0], send[1], send[2]}, .send_bytes = sizeof send[0], .recv_bytes = sizeof want};
    if (!play(&call, 0))
        return;
    nccl_check_calls("ncclSend", 2 * (RANKS - 1));
    nccl_check_calls("ncclRecv", 2 * (RANKS - 1));
    for (int r = 0; r < RANKS; r++)
        CHECK_BYTES(call.recv[r], want, sizeof want);
    struct call nothing = {.run = gather_nothing, .send = {send[0], send[1], send[2]}, .send_bytes = sizeof send[0]};
    play(&nothing, 0);
    nccl_check_calls("ncclSend", 0);
    nccl_check_calls("ncclAllGather", 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_nan_stays_the_least_and_the_largest", a_nan_stays_the_least_and_the_largest},
        {"extrema_of_whole_numbers_are_nccls", extrema_of_whole_numbers_are_nccls},
        {"sums_are_in_the_order_of_ranks_on_request", sums_are_in_the_order_of_ranks_on_request},
        {"messages_without_elements_are_left_out_at_both_ends", messages_without_elements_are_left_out_at_both_ends},
    };
    return TEST_MAIN(argc, argv, cases);
}
