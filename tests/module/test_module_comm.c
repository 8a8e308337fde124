/* A communicator that comes through the modules' door does the library's work, on the CPU and on the module's
 * device. */
#include "harness.h"
#include "module/door.h"

#include "core/context/module.h"
#include "core/tensor/tensor.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef void (*rank_body)(stn_context *context);

struct rank {
    pthread_t thread;
    const char *device;
    rank_body body;
    int rank, size, world;
};

static void *rank_main(void *arg)
{
    const struct rank *rank = arg;
    char words[64];
    snprintf(words, sizeof words, "world=w%d rank=%d size=%d", rank->world, rank->rank, rank->size);
    stn_comm_options comm_options = {.size = sizeof comm_options, .module_path = PROBE_FOLDER, .text = words};
    stn_context_options options = {.size = sizeof options, .device = rank->device, .module_path = PROBE_FOLDER,
                                   .queue = door_queue((uint64_t)rank->rank + 1)};
    stn_context *context = NULL;
    test_set_rank(rank->rank);
    if (!CHECK_STATUS(stn_comm_open("probe", &comm_options, &options.comm), STN_OK) ||
        !CHECK_STATUS(stn_context_create(&options, &context), STN_OK))
        return NULL;
    CHECK_I64(stn_context_rank(context), rank->rank);
    CHECK_I64(stn_context_size(context), rank->size);
    rank->body(context);
    stn_context_destroy(&context);
    return NULL;
}

static void run_ranks(int size, const char *device, rank_body body)
{
    static int worlds;
    struct rank ranks[8];
    worlds++;
    for (int r = 0; r < size; r++) {
        ranks[r] = (struct rank){.device = device, .body = body, .rank = r, .size = size, .world = worlds};
        pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < size; r++)
        pthread_join(ranks[r].thread, NULL);
}

/* 1, 2, 3 and 5 ranks, on the CPU and on the module's device. */
static void run_worlds(rank_body body)
{
    static const int sizes[] = {1, 2, 3, 5};
    for (int i = 0; i < 4; i++) {
        run_ranks(sizes[i], NULL, body);
        run_ranks(sizes[i], "probe", body);
    }
}

enum { MOST = 256 };

/* Element i of rank r. */
static double value(int rank, int64_t i)
{
    return (double)(rank * 1000 + i) + 0.25;
}

/* A rank's send buffer of n elements, and space for as many results. */
struct coll {
    stn_context *context;
    stn_comm *comm;
    int rank, size;
    double host[MOST];
    void *send, *recv;
};

static struct coll coll_begin(stn_context *context, int64_t n)
{
    struct coll v = {.context = context, .comm = context->comm, .rank = context->rank, .size = context->size};
    for (int64_t i = 0; i < n; i++)
        v.host[i] = value(v.rank, i);
    v.send = door_upload(context, v.host, sizeof v.host);
    for (int64_t i = 0; i < MOST; i++)
        v.host[i] = -1;
    v.recv = door_upload(context, v.host, sizeof v.host);
    return v;
}

static void coll_end(struct coll *v)
{
    door_discard(v->context, v->send, sizeof v->host);
    door_discard(v->context, v->recv, sizeof v->host);
}

static void fetch(struct coll *v)
{
    door_download(v->context, v->recv, v->host, sizeof v->host);
}

static int64_t counts_of(int size, int64_t *counts)
{
    static const int64_t base[] = {3, 0, 5, 1, 7};
    int64_t all = 0;
    for (int r = 0; r < size; r++)
        all += counts[r] = base[r];
    return all;
}

static double sum_of(int size, int64_t i)
{
    double sum = 0;
    for (int r = 0; r < size; r++)
        sum += value(r, i);
    return sum;
}

static void reductions(stn_context *context)
{
    enum { N = 17 };
    int64_t counts[8], all = counts_of(context->size, counts), at = 0;
    struct coll v = coll_begin(context, MOST);
    CHECK_STATUS(stn_comm_all_reduce(v.comm, v.send, v.recv, N, STN_DTYPE_F64, STN_SUM, NULL), STN_OK);
    fetch(&v);
    for (int64_t i = 0; i < N; i++)
        CHECK_NEAR(v.host[i], sum_of(v.size, i), 0);
    CHECK_NEAR(v.host[N], -1, 0);
    CHECK_STATUS(stn_comm_reduce(v.comm, v.send, v.recv, N, STN_DTYPE_F64, STN_MAX, v.size - 1, NULL), STN_OK);
    fetch(&v);
    CHECK_NEAR(v.host[5], v.rank == v.size - 1 ? value(v.size - 1, 5) : sum_of(v.size, 5), 0);
    CHECK_STATUS(stn_comm_reduce_scatter(v.comm, v.send, v.recv, counts, STN_DTYPE_F64, STN_SUM, NULL), STN_OK);
    fetch(&v);
    for (int r = 0; r < v.rank; r++)
        at += counts[r];
    for (int64_t i = 0; i < counts[v.rank]; i++)
        CHECK_NEAR(v.host[i], sum_of(v.size, at + i), 0);
    CHECK(all > 0);
    coll_end(&v);
}

static void moves(stn_context *context)
{
    int64_t counts[8], all = counts_of(context->size, counts), at = 0;
    struct coll v = coll_begin(context, MOST);
    CHECK_STATUS(stn_comm_all_gather(v.comm, v.send, v.recv, counts, STN_DTYPE_F64, NULL), STN_OK);
    fetch(&v);
    for (int r = 0; r < v.size; r++)
        for (int64_t i = 0; i < counts[r]; i++, at++)
            CHECK_NEAR(v.host[at], value(r, i), 0);
    CHECK_I64(at, all);
    CHECK_STATUS(stn_comm_scatter(v.comm, v.send, v.recv, counts, STN_DTYPE_F64, 0, NULL), STN_OK);
    fetch(&v);
    at = 0;
    for (int r = 0; r < v.rank; r++)
        at += counts[r];
    for (int64_t i = 0; i < counts[v.rank]; i++)
        CHECK_NEAR(v.host[i], value(0, at + i), 0);
    CHECK_STATUS(stn_comm_broadcast(v.comm, v.rank == v.size - 1 ? v.send : v.recv, 9, STN_DTYPE_F64, v.size - 1, NULL),
                 STN_OK);
    fetch(&v);
    if (v.rank < v.size - 1)
        for (int64_t i = 0; i < 9; i++)
            CHECK_NEAR(v.host[i], value(v.size - 1, i), 0);
    CHECK_STATUS(stn_comm_gather(v.comm, v.send, v.recv, counts, STN_DTYPE_F64, 0, NULL), STN_OK);
    fetch(&v);
    if (v.rank == 0 && v.size > 2)
        CHECK_NEAR(v.host[counts[0]], value(2, 0), 0);
    CHECK_STATUS(stn_comm_barrier(v.comm, NULL), STN_OK);
    coll_end(&v);
}

/* Rank r sends r + s + 1 elements to rank s, by a collective and by a request. */
static void all_to_all(stn_context *context)
{
    int64_t send_counts[8], recv_counts[8], from = 0, at = 0;
    struct coll v = coll_begin(context, MOST);
    stn_request *request = NULL;
    for (int r = 0; r < v.size; r++)
        send_counts[r] = recv_counts[r] = v.rank + r + 1;
    CHECK_STATUS(stn_comm_all_to_all(v.comm, v.send, send_counts, v.recv, recv_counts, STN_DTYPE_F64, &request),
                 STN_OK);
    CHECK_STATUS(stn_request_wait(&request), STN_OK);
    fetch(&v);
    for (int r = 0; r < v.size; r++) {
        from = 0;
        for (int s = 0; s < v.rank; s++)
            from += r + s + 1;
        for (int64_t i = 0; i < recv_counts[r]; i++, at++)
            CHECK_NEAR(v.host[at], value(r, from + i), 0);
    }
    coll_end(&v);
}

static stn_box box_at(void *data, int64_t offset, int64_t rows, int64_t columns, int64_t stride)
{
    return (stn_box){.data = (char *)data + offset * 8, .ndim = 2, .shape = {rows, columns}, .strides = {stride, 1}};
}

/* Each rank sends a 2 x 3 window of its 10 columns to every rank, which transposes nothing but places it in its own
 * columns. */
static void exchanges(stn_context *context)
{
    struct coll v = coll_begin(context, MOST);
    stn_message send[8], recv[8];
    for (int r = 0; r < v.size; r++) {
        send[r] = (stn_message){r, box_at(v.send, 4 + r, 2, 3, 10)};
        recv[r] = (stn_message){r, box_at(v.recv, 3 * r, 2, 3, 20)};
    }
    stn_exchange exchange = {.dtype = STN_DTYPE_F64, .n_send = v.size, .n_recv = v.size, .send = send, .recv = recv};
    CHECK_STATUS(stn_comm_exchange(v.comm, &exchange, NULL), STN_OK);
    fetch(&v);
    for (int r = 0; r < v.size; r++)
        for (int64_t i = 0; i < 6; i++)
            CHECK_NEAR(v.host[3 * r + i / 3 * 20 + i % 3], value(r, 4 + v.rank + i / 3 * 10 + i % 3), 0);
    CHECK_NEAR(v.host[3 * v.size], -1, 0);
    for (int r = 0; r < v.size; r++)
        recv[r].box = box_at(v.recv, 100, 2, 3, 20);
    exchange.reduce = 1;
    exchange.op = STN_AVG;
    CHECK_STATUS(stn_comm_exchange(v.comm, &exchange, NULL), STN_OK);
    fetch(&v);
    CHECK_NEAR(v.host[121], sum_of(v.size, 4 + v.rank + 11) / v.size, 1e-15);
    coll_end(&v);
}

/* A ring: not all ranks need to be in a group. */
static void groups(stn_context *context)
{
    struct coll v = coll_begin(context, MOST);
    int next = (v.rank + 1) % v.size, last = (v.rank + v.size - 1) % v.size;
    stn_message send = {next, {.data = v.send, .ndim = 1, .shape = {6}, .strides = {1}}};
    stn_message recv = {last, {.data = v.recv, .ndim = 1, .shape = {6}, .strides = {1}}};
    stn_exchange messages = {.dtype = STN_DTYPE_F64, .n_send = 1, .n_recv = 1, .send = &send, .recv = &recv};
    CHECK_STATUS(stn_comm_group(v.comm, &messages, NULL), STN_OK);
    fetch(&v);
    for (int64_t i = 0; i < 6; i++)
        CHECK_NEAR(v.host[i], value(last, i), 0);
    coll_end(&v);
}

static void subsets(stn_context *context)
{
    int ranks[8], n = 0, parity = context->rank % 2;
    stn_comm *half = NULL;
    struct coll v = coll_begin(context, MOST);
    double want = 0;
    for (int r = context->size - 1; r >= 0; r--)
        if (r % 2 == parity) {
            ranks[n++] = r;
            want += value(r, 2);
        }
    CHECK_STATUS(stn_comm_subset(v.comm, ranks, n, &half), STN_OK);
    CHECK_I64(stn_comm_size(half), n);
    CHECK_I64(ranks[stn_comm_rank(half)], context->rank);
    CHECK_STATUS(stn_comm_all_reduce(half, v.send, v.recv, 4, STN_DTYPE_F64, STN_SUM, NULL), STN_OK);
    fetch(&v);
    CHECK_NEAR(v.host[2], want, 0);
    stn_comm_destroy(&half);
    coll_end(&v);
}

static void reductions_match_serial_sums(void) { run_worlds(reductions); }
static void gathers_scatters_and_broadcasts_move_the_right_parts(void) { run_worlds(moves); }
static void all_to_all_by_request_moves_the_right_parts(void) { run_worlds(all_to_all); }
static void exchanges_place_and_reduce_strided_boxes(void) { run_worlds(exchanges); }
static void groups_send_around_a_ring(void) { run_worlds(groups); }
static void subsets_reduce_among_themselves(void) { run_worlds(subsets); }

static void agreement(stn_context *context)
{
    int found = context->size > 1 ? 1 : 0;
    stn_status mine = context->rank == found ? STN_ERR_IO : STN_OK;
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    CHECK_STATUS(stn_agree(context, mine, "no such tile"), STN_ERR_IO);
    CHECK(strstr(stn_context_error_text(context), "no such tile") != NULL);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_IO);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
}

static void ranks_agree_on_what_one_of_them_found(void) { run_worlds(agreement); }

/* Values by global place, in row-major order. */
static double element(int64_t i)
{
    return (double)(i * i % 101) + 0.5;
}

static stn_tensor *scattered(stn_context *context, const stn_spec *spec)
{
    int64_t shape[2] = {11, 7};
    double host[77];
    for (int64_t i = 0; i < 77; i++)
        host[i] = element(i);
    const stn_spec *whole = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &whole), STN_OK);
    stn_tensor *local = context->rank == 0 ? stn_from_host(context, whole, host) : NULL;
    stn_tensor *tensor = stn_scatter(context, local, 0, spec, 0);
    stn_tensor_release(&local);
    stn_spec_release(&whole);
    return tensor;
}

/* `times` each value, wherever it lies. */
static void check_whole(stn_tensor *tensor, double times)
{
    double back[77] = {0};
    stn_tensor *full = stn_full_tensor(tensor);
    CHECK_STATUS(stn_to_host(full, back, sizeof back), STN_OK);
    for (int64_t i = 0; i < 77; i++)
        CHECK_NEAR(back[i], times * element(i), 0);
    stn_tensor_release(&full);
}

/* Rows, columns, everywhere, pending sum, rows again. */
static void redistributions(stn_context *context)
{
    stn_placement steps[] = {stn_shard(0), stn_shard(1), stn_replicate(), stn_partial(STN_SUM), stn_shard(1)};
    int64_t shape[2] = {11, 7};
    int sizes[1] = {context->size};
    const stn_mesh *mesh = NULL;
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_mesh_create(context, 1, sizes, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, steps, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = scattered(context, spec);
    if (!CHECK(!stn_tensor_is_error(tensor)))
        fprintf(stderr, "  %s\n", stn_context_error_text(context));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        stn_tensor *moved = stn_redistribute_to(tensor, &steps[i]);
        if (!CHECK(!stn_tensor_is_error(moved)))
            fprintf(stderr, "  step %zu: %s\n", i, stn_context_error_text(context));
        check_whole(moved, 1);
        stn_tensor_release(&tensor);
        tensor = moved;
    }
    stn_tensor_release(&tensor);
    stn_spec_release(&spec);
}

static void tensors_are_scattered_and_redistributed(void) { run_worlds(redistributions); }

static void abortion(stn_context *context)
{
    if (context->rank == 1) {
        stni_context_abort(context, STN_ERR_DEVICE, "the lamp went out");
        return;
    }
    CHECK_STATUS(stn_comm_barrier(context->comm, NULL), STN_ERR_PEER);
    CHECK(strstr(stn_comm_error_text(context->comm), "rank 1: the lamp went out") != NULL);
}

static void abort_reaches_the_peers_with_its_text(void)
{
    run_ranks(3, NULL, abortion);
    run_ranks(3, "probe", abortion);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"reductions_match_serial_sums", reductions_match_serial_sums},
        {"gathers_scatters_and_broadcasts_move_the_right_parts", gathers_scatters_and_broadcasts_move_the_right_parts},
        {"all_to_all_by_request_moves_the_right_parts", all_to_all_by_request_moves_the_right_parts},
        {"exchanges_place_and_reduce_strided_boxes", exchanges_place_and_reduce_strided_boxes},
        {"groups_send_around_a_ring", groups_send_around_a_ring},
        {"subsets_reduce_among_themselves", subsets_reduce_among_themselves},
        {"ranks_agree_on_what_one_of_them_found", ranks_agree_on_what_one_of_them_found},
        {"tensors_are_scattered_and_redistributed", tensors_are_scattered_and_redistributed},
        {"abort_reaches_the_peers_with_its_text", abort_reaches_the_peers_with_its_text},
        {"door_gave_all_memory_back", door_gave_all_memory_back},
    };
    return TEST_MAIN(argc, argv, cases);
}
