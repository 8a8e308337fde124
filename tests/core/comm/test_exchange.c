/* Exchanges of random boxes between ranks: straight from box to box, and staged through groups in pieces of a few
 * elements, as for communicators that have no exchange of their own. Both give what a serial program computes, and
 * touch nothing else. */
#include "team.h"

#include "core/box/box.h"
#include "core/comm/launch.h"
#include "core/base/dtype.h"

enum { MAX_MESSAGES = 3, MAX_RANKS = 8, BOXES = 3 };

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint32_t x = a * 2654435761u + b * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ x >> 13;
}

/* A stream of numbers that only depends on its seed. */
static int draw(uint32_t *state, int n)
{
    *state = mix(*state, 77);
    return (int)(*state % (uint32_t)n);
}

struct setup {
    uint32_t seed;
    stn_dtype dtype;
    size_t staging; /* 0: the communicator's own exchange; else one made of groups */
};

static struct setup setup_of(uint32_t seed, stn_dtype dtype, size_t staging)
{
    return (struct setup){seed, dtype, staging};
}

static stn_status run_without_exchange(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    if (coll->kind == STNI_COLL_EXCHANGE)
        return stni_comm_exchange_staged(comm, queue, coll->messages);
    return stni_thread_run(comm, queue, coll);
}

static void apply(stn_comm *comm, const struct setup *setup)
{
    if (!setup->staging)
        return;
    if (comm->run == stni_thread_run)
        comm->run = run_without_exchange;
    comm->staging_limit = setup->staging;
}

struct messages {
    int n[MAX_RANKS][MAX_RANKS]; /* from, to */
    int ndim[MAX_RANKS][MAX_RANKS][MAX_MESSAGES];
    int64_t shape[MAX_RANKS][MAX_RANKS][MAX_MESSAGES][4];
};

/* Every rank makes the same plan. */
static void make_plan(struct messages *m, uint32_t seed, int size)
{
    uint32_t state = seed;
    for (int r = 0; r < size; r++)
        for (int s = 0; s < size; s++) {
            m->n[r][s] = draw(&state, MAX_MESSAGES + 1);
            for (int k = 0; k < m->n[r][s]; k++) {
                m->ndim[r][s][k] = draw(&state, 5);
                for (int d = 0; d < 4; d++)
                    m->shape[r][s][k][d] = draw(&state, 8) == 0 ? 0 : 1 + draw(&state, 4);
            }
        }
}

/* A box of this shape with gaps, its dims in some order; `memory` is taken from `*at` on. */
static stn_box lay_out(char *memory, int64_t *at, int ndim, const int64_t *shape, size_t element, uint32_t *state)
{
    stn_box box = {.data = memory + *at * (int64_t)element, .ndim = ndim};
    int order[4] = {0, 1, 2, 3};
    for (int d = 0; d < ndim; d++) {
        int other = d + draw(state, ndim - d), swap = order[d];
        order[d] = order[other];
        order[other] = swap;
    }
    int64_t stride = 1 + draw(state, 2);
    for (int i = 0; i < ndim; i++) {
        int d = order[i];
        box.shape[d] = shape[d];
        box.strides[d] = stride;
        stride *= shape[d] + draw(state, 2);
        stride = stride > 0 ? stride : 1;
    }
    *at += stride + 3;
    return box;
}

/* Calls put(data, element index in memory, index in the box) for every element. */
static void walk(const stn_box *box, void (*put)(void *arg, int64_t in_memory, int64_t in_box), void *arg)
{
    int64_t n = stni_box_numel(box);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = 0;
        for (int d = box->ndim - 1; d >= 0; d--) {
            at += rest % box->shape[d] * box->strides[d];
            rest /= box->shape[d];
        }
        put(arg, at, i);
    }
}

struct filling {
    void *data;
    stn_dtype dtype;
    uint32_t key;
};

static void fill_one(void *arg, int64_t in_memory, int64_t in_box)
{
    const struct filling *f = arg;
    int value = (int)(mix(f->key, (uint32_t)in_box) % 100);
    team_put(f->data, f->dtype, in_memory, f->dtype == STN_DTYPE_BOOL ? value % 2 : value, STN_SUM);
}

static void fill(const stn_box *box, stn_dtype dtype, int from, int to, int k)
{
    struct filling f = {box->data, dtype, (uint32_t)(from * 1000 + to * 10 + k)};
    walk(box, fill_one, &f);
}

enum { MEMORY = 40000 }; /* elements */

static void copy_body(stn_comm *comm, void *arg)
{
    const struct setup *setup = arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    size_t element = stn_dtype_size(setup->dtype);
    static _Thread_local struct messages plan;
    static _Thread_local stn_message send[MAX_RANKS * MAX_MESSAGES], recv[MAX_RANKS * MAX_MESSAGES];
    char *out = malloc(MEMORY * element), *in = malloc(MEMORY * element), *want = malloc(MEMORY * element);
    stn_exchange e = {.dtype = setup->dtype, .send = send, .recv = recv};
    apply(comm, setup);
    for (uint32_t round = 0; round < 5; round++) {
        uint32_t state = mix(setup->seed + round, (uint32_t)rank);
        int64_t out_at = 0, in_at = 0;
        make_plan(&plan, setup->seed * 100 + round, size);
        memset(out, 0x5a, MEMORY * element);
        memset(in, 0x5a, MEMORY * element);
        memset(want, 0x5a, MEMORY * element);
        e.n_send = e.n_recv = 0;
        for (int peer = 0; peer < size; peer++) {
            for (int k = 0; k < plan.n[rank][peer]; k++) {
                stn_box box =
                    lay_out(out, &out_at, plan.ndim[rank][peer][k], plan.shape[rank][peer][k], element, &state);
                fill(&box, setup->dtype, rank, peer, k);
                send[e.n_send++] = (stn_message){peer, box};
            }
            for (int k = 0; k < plan.n[peer][rank]; k++) {
                stn_box box = lay_out(in, &in_at, plan.ndim[peer][rank][k], plan.shape[peer][rank][k], element, &state);
                recv[e.n_recv++] = (stn_message){peer, box};
                box.data = want + ((char *)box.data - in);
                fill(&box, setup->dtype, peer, rank, k);
            }
        }
        CHECK(in_at < MEMORY && out_at < MEMORY);
        if (!CHECK_STATUS(stn_comm_exchange(comm, &e, NULL), STN_OK))
            break;
        CHECK_BYTES(in, want, MEMORY * element);
        CHECK(comm->staging_bytes <= comm->staging_limit);
    }
    free(out);
    free(in);
    free(want);
}

static void copies_on(size_t staging)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_U8, STN_DTYPE_C128, STN_DTYPE_BF16, STN_DTYPE_I64};
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t d = 0; d < 5; d++) {
            struct setup setup = setup_of(1 + i * 10 + d, dtypes[d], staging);
            team_run(sizes[i], copy_body, &setup);
        }
}

static void random_boxes_arrive_and_nothing_else_changes(void)
{
    copies_on(0);
}

static void random_boxes_arrive_staged_in_one_piece(void)
{
    copies_on(64 << 20);
}

static void random_boxes_arrive_staged_in_small_pieces(void)
{
    copies_on(320);
}

/* Contributions that are not exact, so that the order shows. */
static float addend(int from, int to, int box, int64_t i)
{
    return (float)((int)(mix((uint32_t)(from * 100 + to * 10 + box), (uint32_t)i) % 20001) - 10000) / 777.0f;
}

static int contributes(uint32_t seed, int from, int to, int box)
{
    return mix(seed + (uint32_t)box * 7, (uint32_t)(from * 16 + to)) % 3 != 0;
}

struct adding {
    void *data;
    stn_dtype dtype;
    int from, to, box, size;
    uint32_t seed;
};

static void store_float(void *data, stn_dtype dtype, int64_t i, float v)
{
    if (dtype == STN_DTYPE_F32)
        ((float *)data)[i] = v;
    else
        ((uint16_t *)data)[i] = stni_f32_to_bf16(v);
}

static float load_float(float v, stn_dtype dtype)
{
    return dtype == STN_DTYPE_F32 ? v : stni_bf16_to_f32(stni_f32_to_bf16(v));
}

static void put_addend(void *arg, int64_t in_memory, int64_t in_box)
{
    const struct adding *a = arg;
    store_float(a->data, a->dtype, in_memory, addend(a->from, a->to, a->box, in_box));
}

static void put_sum(void *arg, int64_t in_memory, int64_t in_box)
{
    const struct adding *a = arg;
    float sum = 0;
    for (int r = 0, n = 0; r < a->size; r++)
        if (contributes(a->seed, r, a->to, a->box)) {
            float v = load_float(addend(r, a->to, a->box, in_box), a->dtype);
            sum = n++ == 0 ? v : sum + v;
        }
    store_float(a->data, a->dtype, in_memory, sum);
}

static int64_t box_shape(uint32_t seed, int to, int box, int d)
{
    return 1 + (int64_t)(mix(seed + (uint32_t)d, (uint32_t)(to * 8 + box)) % 6);
}

static void reduce_body(stn_comm *comm, void *arg)
{
    const struct setup *setup = arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    size_t element = stn_dtype_size(setup->dtype);
    stn_message send[MAX_RANKS * BOXES], recv[MAX_RANKS * BOXES];
    char *out = malloc(MEMORY * element), *in = malloc(MEMORY * element), *want = malloc(MEMORY * element);
    stn_exchange e = {setup->dtype, 1, STN_SUM, 0, 0, send, recv};
    stn_box mine[BOXES];
    uint32_t state = mix(setup->seed, (uint32_t)rank);
    int64_t out_at = 0, in_at = 0;
    memset(in, 0x5a, MEMORY * element);
    memset(want, 0x5a, MEMORY * element);
    apply(comm, setup);
    for (int b = 0; b < BOXES; b++) {
        int64_t shape[4];
        for (int d = 0; d < 3; d++)
            shape[d] = box_shape(setup->seed, rank, b, d);
        mine[b] = lay_out(in, &in_at, 3, shape, element, &state);
    }
    for (int peer = 0; peer < size; peer++)
        for (int b = 0; b < BOXES; b++) {
            int64_t shape[4];
            for (int d = 0; d < 3; d++)
                shape[d] = box_shape(setup->seed, peer, b, d);
            if (contributes(setup->seed, rank, peer, b)) {
                stn_box box = lay_out(out, &out_at, 3, shape, element, &state);
                struct adding a = {box.data, setup->dtype, rank, peer, b, size, setup->seed};
                walk(&box, put_addend, &a);
                send[e.n_send++] = (stn_message){peer, box};
            }
            if (contributes(setup->seed, peer, rank, b)) {
                recv[e.n_recv++] = (stn_message){peer, mine[b]};
                struct adding a = {want + ((char *)mine[b].data - in), setup->dtype, 0, rank, b, size, setup->seed};
                walk(&mine[b], put_sum, &a);
            }
        }
    CHECK(in_at < MEMORY && out_at < MEMORY);
    if (CHECK_STATUS(stn_comm_exchange(comm, &e, NULL), STN_OK))
        CHECK_BYTES(in, want, MEMORY * element);
    CHECK(comm->staging_bytes <= comm->staging_limit);
    free(out);
    free(in);
    free(want);
}

static void reductions_on(size_t staging)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t seed = 1; seed < 8; seed++) {
            struct setup setup = setup_of(seed * 31, seed % 2 ? STN_DTYPE_F32 : STN_DTYPE_BF16, staging);
            team_run(sizes[i], reduce_body, &setup);
        }
}

static void contributions_are_added_in_rank_order(void)
{
    reductions_on(0);
}

static void staged_contributions_are_added_in_rank_order(void)
{
    reductions_on(64 << 20);
}

static void staged_contributions_in_small_pieces_too(void)
{
    reductions_on(1000);
}

static void mismatch_body(stn_comm *comm, void *arg)
{
    int kind = *(int *)arg, rank = stn_comm_rank(comm);
    float x[6] = {0}, y[6];
    stn_message send = {1 - rank, {x, 1, {3}, {1}}}, recv = {1 - rank, {y, 1, {rank == 0 && kind == 0 ? 4 : 3}, {1}}};
    stn_exchange e = {STN_DTYPE_F32, 0,    STN_SUM, rank == 1 && kind == 1 ? 0 : 1, rank == 1 && kind == 2 ? 0 : 1,
                      &send,         &recv};
    stn_status status = stn_comm_exchange(comm, &e, NULL);
    int finds = kind == 2 ? rank == 1 : rank == 0;
    CHECK_STATUS(status, finds ? STN_ERR_MISMATCH : STN_ERR_PEER);
    static const char *const texts[] = {"message 0 from rank 1 to rank 0 has different shapes",
                                        "message 0 from rank 1 to rank 0 is wanted but not sent",
                                        "message 0 from rank 0 to rank 1 is sent but not wanted"};
    CHECK(strstr(stn_comm_error_text(comm), texts[kind]) != NULL);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), status);
}

static void messages_that_do_not_fit_are_named(void)
{
    for (int kind = 0; kind < 3; kind++)
        team_run(2, mismatch_body, &kind);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_boxes_arrive_and_nothing_else_changes", random_boxes_arrive_and_nothing_else_changes},
        {"random_boxes_arrive_staged_in_one_piece", random_boxes_arrive_staged_in_one_piece},
        {"random_boxes_arrive_staged_in_small_pieces", random_boxes_arrive_staged_in_small_pieces},
        {"contributions_are_added_in_rank_order", contributions_are_added_in_rank_order},
        {"staged_contributions_are_added_in_rank_order", staged_contributions_are_added_in_rank_order},
        {"staged_contributions_in_small_pieces_too", staged_contributions_in_small_pieces_too},
        {"messages_that_do_not_fit_are_named", messages_that_do_not_fit_are_named},
    };
    return TEST_MAIN(argc, argv, cases);
}
