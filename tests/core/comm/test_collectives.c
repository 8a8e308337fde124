/* Every collective of a communicator, whichever it is, against a serial computation: all dtypes and ops, 1 to 8
 * ranks, uneven sizes with zeros, of few elements and of many. */
#include "team.h"

#include "core/box/box.h"

#include <math.h>

static const int worlds[] = {1, 2, 3, 5, 8};
enum { N_WORLDS = sizeof worlds / sizeof *worlds };

struct shape {
    stn_dtype dtype;
    stn_reduce_op op;
    int64_t scale; /* sizes are multiples of it */
};

/* Uneven, and zero for some ranks. */
static int64_t count_of(int rank, int64_t scale)
{
    static const int64_t base[] = {5, 0, 3, 1, 0, 7, 2, 4};
    return base[rank % 8] * scale;
}

static int64_t *counts_of(int size, int64_t scale)
{
    int64_t *counts = malloc((size_t)size * sizeof *counts);
    for (int r = 0; r < size; r++)
        counts[r] = count_of(r, scale);
    return counts;
}

static int64_t before(const int64_t *counts, int rank)
{
    int64_t sum = 0;
    for (int r = 0; r < rank; r++)
        sum += counts[r];
    return sum;
}

static void check_same(const void *got, const void *want, int64_t n, stn_dtype dtype)
{
    if (n > 0)
        CHECK_BYTES(got, want, (size_t)n * stn_dtype_size(dtype));
    else
        CHECK(n == 0);
}

/* What one communicator is called for, one after the other. */
struct calls {
    team_body body;
    struct shape shapes[2 * STN_DTYPE_COUNT * STN_REDUCE_OP_COUNT];
    int n;
};

static void calls_body(stn_comm *comm, void *arg)
{
    struct calls *calls = arg;
    for (int i = 0; i < calls->n; i++)
        calls->body(comm, &calls->shapes[i]);
}

static void add_scales(struct calls *calls, stn_dtype dtype, stn_reduce_op op)
{
    static const int64_t scales[] = {1, 173};
    for (int s = 0; s < 2; s++)
        calls->shapes[calls->n++] = (struct shape){dtype, op, scales[s]};
}

static void in_each_world(struct calls *calls)
{
    for (int w = 0; w < N_WORLDS; w++)
        team_run(worlds[w], calls_body, calls);
}

static void each_dtype(team_body body)
{
    struct calls calls = {.body = body};
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        add_scales(&calls, (stn_dtype)d, STN_SUM);
    in_each_world(&calls);
}

static void each_op(team_body body)
{
    struct calls calls = {.body = body};
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        for (int op = 0; op < STN_REDUCE_OP_COUNT; op++)
            if (stni_box_reduces((stn_dtype)d, (stn_reduce_op)op))
                add_scales(&calls, (stn_dtype)d, (stn_reduce_op)op);
    in_each_world(&calls);
}

static void all_reduce_body(stn_comm *comm, void *arg)
{
    const struct shape *s = arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    int64_t n = 13 * s->scale;
    void *want = team_reduced(0, n, size, s->dtype, s->op);
    void *send = team_buffer(rank, 0, n, size, s->dtype, s->op), *recv = malloc((size_t)n * stn_dtype_size(s->dtype));
    CHECK_STATUS(stn_comm_all_reduce(comm, send, recv, n, s->dtype, s->op, NULL), STN_OK);
    check_same(recv, want, n, s->dtype);
    CHECK_STATUS(stn_comm_all_reduce(comm, send, send, n, s->dtype, s->op, NULL), STN_OK);
    check_same(send, want, n, s->dtype);
    CHECK_STATUS(stn_comm_all_reduce(comm, NULL, NULL, 0, s->dtype, s->op, NULL), STN_OK);
    free(send);
    free(recv);
    free(want);
}

static void all_reduce_matches_serial_reduction(void)
{
    each_op(all_reduce_body);
}

static void reduce_body(stn_comm *comm, void *arg)
{
    const struct shape *s = arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm), root = size - 1;
    int64_t n = 13 * s->scale;
    void *want = team_reduced(0, n, size, s->dtype, s->op), *send = team_buffer(rank, 0, n, size, s->dtype, s->op);
    void *recv = rank == root ? malloc((size_t)n * stn_dtype_size(s->dtype)) : NULL;
    CHECK_STATUS(stn_comm_reduce(comm, send, recv, n, s->dtype, s->op, root, NULL), STN_OK);
    if (rank == root)
        check_same(recv, want, n, s->dtype);
    CHECK_STATUS(stn_comm_reduce(comm, send, send, n, s->dtype, s->op, 0, NULL), STN_OK);
    if (rank == 0)
        check_same(send, want, n, s->dtype);
    free(send);
    free(recv);
    free(want);
}

static void reduce_matches_serial_reduction_at_the_root(void)
{
    each_op(reduce_body);
}

static void reduce_scatter_body(stn_comm *comm, void *arg)
{
    const struct shape *s = arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    int64_t *counts = counts_of(size, s->scale), n = before(counts, size);
    void *want = team_reduced(before(counts, rank), counts[rank], size, s->dtype, s->op);
    void *send = team_buffer(rank, 0, n, size, s->dtype, s->op);
    void *recv = malloc((size_t)counts[rank] * stn_dtype_size(s->dtype) + 1);
    CHECK_STATUS(stn_comm_reduce_scatter(comm, send, recv, counts, s->dtype, s->op, NULL), STN_OK);
    check_same(recv, want, counts[rank], s->dtype);
    free(counts);
    free(send);
    free(recv);
    free(want);
}

static void reduce_scatter_uneven_sizes_match_full_reduction(void)
{
    each_op(reduce_scatter_body);
}

/* All ranks' parts, one after the other. */
static void *gathered(const int64_t *counts, int size, stn_dtype dtype)
{
    size_t element = stn_dtype_size(dtype);
    char *all = malloc((size_t)before(counts, size) * element + 1);
    for (int r = 0; r < size; r++) {
        void *part = team_buffer(r, 0, counts[r], size, dtype, STN_SUM);
        memcpy(all + (size_t)before(counts, r) * element, part, (size_t)counts[r] * element);
        free(part);
    }
    return all;
}

static void all_gather_body(stn_comm *comm, void *arg)
{
    const struct shape *s = arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    int64_t *counts = counts_of(size, s->scale), n = before(counts, size);
    size_t element = stn_dtype_size(s->dtype);
    void *want = gathered(counts, size, s->dtype), *send = team_buffer(rank, 0, counts[rank], size, s->dtype, STN_SUM);
    char *recv = calloc((size_t)n + 1, element);
    CHECK_STATUS(stn_comm_all_gather(comm, send, recv, counts, s->dtype, NULL), STN_OK);
    check_same(recv, want, n, s->dtype);

    memset(recv, 0, (size_t)n * element);
    char *own = recv + (size_t)before(counts, rank) * element;
    memcpy(own, send, (size_t)counts[rank] * element);
    CHECK_STATUS(stn_comm_all_gather(comm, own, recv, counts, s->dtype, NULL), STN_OK);
    check_same(recv, want, n, s->dtype);
    free(counts);
    free(send);
    free(recv);
    free(want);
}

static void all_gather_uneven_sizes_in_rank_order_also_in_place(void)
{
    each_dtype(all_gather_body);
}

static void gather_body(stn_comm *comm, void *arg)
{
    const struct shape *s = arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm), root = size / 2;
    int64_t *counts = counts_of(size, s->scale), n = before(counts, size);
    void *want = gathered(counts, size, s->dtype), *send = team_buffer(rank, 0, counts[rank], size, s->dtype, STN_SUM);
    void *recv = rank == root ? calloc((size_t)n + 1, stn_dtype_size(s->dtype)) : NULL;
    CHECK_STATUS(stn_comm_gather(comm, send, recv, counts, s->dtype, root, NULL), STN_OK);
    if (rank == root)
        check_same(recv, want, n, s->dtype);
    free(counts);
    free(send);
    free(recv);
    free(want);
}

static void gather_uneven_sizes_at_the_root(void)
{
    each_dtype(gather_body);
}

static void scatter_body(stn_comm *comm, void *arg)
{
    const struct shape *s = arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm), root = size / 2;
    int64_t *counts = counts_of(size, s->scale), n = before(counts, size);
    void *want = team_buffer(root, before(counts, rank), counts[rank], size, s->dtype, STN_SUM);
    void *send = rank == root ? team_buffer(root, 0, n, size, s->dtype, STN_SUM) : NULL;
    void *recv = malloc((size_t)counts[rank] * stn_dtype_size(s->dtype) + 1);
    CHECK_STATUS(stn_comm_scatter(comm, send, recv, counts, s->dtype, root, NULL), STN_OK);
    check_same(recv, want, counts[rank], s->dtype);
    free(counts);
    free(send);
    free(recv);
    free(want);
}

static void scatter_uneven_sizes_from_the_root(void)
{
    each_dtype(scatter_body);
}

static void broadcast_body(stn_comm *comm, void *arg)
{
    const struct shape *s = arg;
    int size = stn_comm_size(comm), root = size - 1;
    int64_t n = 13 * s->scale;
    void *want = team_buffer(root, 0, n, size, s->dtype, STN_SUM);
    void *buffer = team_buffer(stn_comm_rank(comm), 0, n, size, s->dtype, STN_SUM);
    CHECK_STATUS(stn_comm_broadcast(comm, buffer, n, s->dtype, root, NULL), STN_OK);
    check_same(buffer, want, n, s->dtype);
    free(buffer);
    free(want);
}

static void broadcast_gives_the_roots_elements(void)
{
    each_dtype(broadcast_body);
}

/* What rank r sends to rank s; also zero. */
static int64_t pair_count(int r, int s, int64_t scale)
{
    return (r * 3 + s * 5) % 4 * scale;
}

static void all_to_all_body(stn_comm *comm, void *arg)
{
    const struct shape *sh = arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    size_t element = stn_dtype_size(sh->dtype);
    int64_t *out = malloc((size_t)size * sizeof *out), *in = malloc((size_t)size * sizeof *in);
    for (int r = 0; r < size; r++) {
        out[r] = pair_count(rank, r, sh->scale);
        in[r] = pair_count(r, rank, sh->scale);
    }
    int64_t n = before(in, size);
    void *send = team_buffer(rank, 0, before(out, size), size, sh->dtype, STN_SUM);
    char *recv = malloc((size_t)n * element + 1), *want = malloc((size_t)n * element + 1), *at = want;
    for (int r = 0; r < size; r++) {
        int64_t from = 0;
        for (int s = 0; s < rank; s++)
            from += pair_count(r, s, sh->scale);
        void *part = team_buffer(r, from, in[r], size, sh->dtype, STN_SUM);
        memcpy(at, part, (size_t)in[r] * element);
        at += (size_t)in[r] * element;
        free(part);
    }
    CHECK_STATUS(stn_comm_all_to_all(comm, send, out, recv, in, sh->dtype, NULL), STN_OK);
    check_same(recv, want, n, sh->dtype);
    free(out);
    free(in);
    free(send);
    free(recv);
    free(want);
}

static void all_to_all_uneven_pairs(void)
{
    each_dtype(all_to_all_body);
}

/* Values whose sum depends on the order: all ranks must have added in rank order. */
static void order_body(stn_comm *comm, void *arg)
{
    int64_t n = *(int64_t *)arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    float *data = malloc((size_t)n * sizeof *data), *want = malloc((size_t)n * sizeof *want);
    for (int64_t i = 0; i < n; i++) {
        want[i] = 0;
        for (int r = 0; r < size; r++) {
            float v = (float)sin((double)i * 0.37 + r) * powf(10, (float)((i + r * 5) % 9 - 4));
            want[i] = r == 0 ? v : want[i] + v;
            if (r == rank)
                data[i] = v;
        }
    }
    CHECK_STATUS(stn_comm_all_reduce(comm, data, data, n, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    CHECK_BYTES(data, want, (size_t)n * sizeof *data);
    free(data);
    free(want);
}

static void all_reduce_adds_in_rank_order(void)
{
    static int64_t sizes[] = {3, 255, 5001, 300007};
    for (int w = 0; w < N_WORLDS; w++)
        for (int i = 0; i < 4; i++)
            team_run(worlds[w], order_body, &sizes[i]);
}

/* Every rank sends two messages to each rank, itself included, and receives in an order of its own. */
static void group_body(stn_comm *comm, void *arg)
{
    int64_t n = *(int64_t *)arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm), m = 2 * size;
    stn_message *send = calloc((size_t)m, sizeof *send), *recv = calloc((size_t)m, sizeof *recv);
    int32_t *out = malloc((size_t)(m * n) * sizeof *out), *in = calloc((size_t)(m * n), sizeof *in);
    for (int k = 0; k < m; k++) {
        send[k] = (stn_message){k / 2, {out + k * n, 1, {n}, {1}}};
        recv[k] = (stn_message){k / 2, {in + k * n, 1, {n}, {1}}};
        for (int64_t i = 0; i < n; i++)
            out[k * n + i] = (int32_t)(rank * 1000 + k * 10 + i % 10);
    }
    stn_exchange all = {STN_DTYPE_I32, 0, STN_SUM, m, m, send, recv};
    for (int round = 0; round < 5; round++) {
        memset(in, 0, (size_t)(m * n) * sizeof *in);
        if (!CHECK_STATUS(stn_comm_group(comm, &all, NULL), STN_OK))
            break;
        int wrong = 0;
        for (int k = 0; k < m; k++)
            for (int64_t i = 0; i < n; i++)
                wrong += in[k * n + i] != k / 2 * 1000 + (rank * 2 + k % 2) * 10 + i % 10;
        CHECK_I64(wrong, 0);
    }
    free(send);
    free(recv);
    free(out);
    free(in);
}

static void group_messages_meet_in_the_order_of_issue(void)
{
    static int64_t sizes[] = {0, 1, 5000};
    for (int w = 0; w < N_WORLDS; w++)
        for (int i = 0; i < 3; i++)
            team_run(worlds[w], group_body, &sizes[i]);
}

/* A chain in which only the named ranks take part: 0 -> 1 -> 2 ..., the last calls nothing else. */
static void chain_body(stn_comm *comm, void *arg)
{
    (void)arg;
    int rank = stn_comm_rank(comm), size = stn_comm_size(comm);
    int64_t value = 7;
    stn_message from = {rank - 1, {&value, 0, {0}, {0}}}, to = {rank + 1, {&value, 0, {0}, {0}}};
    stn_exchange receive = {STN_DTYPE_I64, 0, STN_SUM, 0, 1, NULL, &from},
                 pass = {STN_DTYPE_I64, 0, STN_SUM, 1, 0, &to, NULL};
    if (rank > 0) {
        value = 0;
        CHECK_STATUS(stn_comm_group(comm, &receive, NULL), STN_OK);
        CHECK_I64(value, 6 + rank);
        value++;
    }
    if (rank + 1 < size)
        CHECK_STATUS(stn_comm_group(comm, &pass, NULL), STN_OK);
}

static void group_is_not_collective(void)
{
    team_run(5, chain_body, NULL);
}

static void bad_arguments_body(stn_comm *comm, void *arg)
{
    (void)arg;
    float x[2] = {0};
    CHECK_STATUS(stn_comm_all_reduce(comm, x, x, -1, STN_DTYPE_F32, STN_SUM, NULL), STN_ERR_ARGUMENT);
    CHECK_STR(stn_comm_error_text(comm), "all_reduce: count got -1, wanted 0 or more");
    CHECK_STATUS(stn_comm_all_reduce(comm, NULL, x, 1, STN_DTYPE_F32, STN_SUM, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_all_reduce(comm, x, x, 1, STN_DTYPE_C64, STN_MAX, NULL), STN_ERR_DTYPE);
    CHECK_STATUS(stn_comm_broadcast(comm, x, 1, STN_DTYPE_F32, 1, NULL), STN_ERR_ARGUMENT);
    CHECK_STR(stn_comm_error_text(comm), "broadcast: root got 1, wanted 0 to 0");
    CHECK_STATUS(stn_comm_all_gather(comm, x, x, NULL, STN_DTYPE_F32, NULL), STN_ERR_ARGUMENT);
    stn_message bad[2] = {{0, {x, 1, {2}, {2}}}, {1, {x, 1, {1}, {1}}}};
    stn_exchange strided = {STN_DTYPE_F32, 0, STN_SUM, 1, 0, bad, NULL},
                 outside = {STN_DTYPE_F32, 0, STN_SUM, 2, 0, bad, NULL};
    CHECK_STATUS(stn_comm_group(comm, &strided, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_comm_exchange(comm, &outside, NULL), STN_ERR_ARGUMENT);
    const stn_message nothing = {0, {NULL, 2, {3, 0}, {1, 1}}}; /* as a tensor's strides are */
    const stn_exchange empty = {STN_DTYPE_F32, 0, STN_SUM, 1, 1, &nothing, &nothing};
    CHECK_STATUS(stn_comm_group(comm, &empty, NULL), STN_OK);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), STN_OK);
}

static void bad_arguments_are_refused_with_a_text(void)
{
    team_run(1, bad_arguments_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"all_reduce_matches_serial_reduction", all_reduce_matches_serial_reduction},
        {"reduce_matches_serial_reduction_at_the_root", reduce_matches_serial_reduction_at_the_root},
        {"reduce_scatter_uneven_sizes_match_full_reduction", reduce_scatter_uneven_sizes_match_full_reduction},
        {"all_gather_uneven_sizes_in_rank_order_also_in_place", all_gather_uneven_sizes_in_rank_order_also_in_place},
        {"gather_uneven_sizes_at_the_root", gather_uneven_sizes_at_the_root},
        {"scatter_uneven_sizes_from_the_root", scatter_uneven_sizes_from_the_root},
        {"broadcast_gives_the_roots_elements", broadcast_gives_the_roots_elements},
        {"all_to_all_uneven_pairs", all_to_all_uneven_pairs},
        {"all_reduce_adds_in_rank_order", all_reduce_adds_in_rank_order},
        {"group_messages_meet_in_the_order_of_issue", group_messages_meet_in_the_order_of_issue},
        {"group_is_not_collective", group_is_not_collective},
        {"bad_arguments_are_refused_with_a_text", bad_arguments_are_refused_with_a_text},
    };
    return TEST_MAIN(argc, argv, cases);
}
