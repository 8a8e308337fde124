/* The modules' door: what is found, what is refused, and a device and a communicator that come through it and do the library's work. */
#include "harness.h"
#include "module/probe.h"

#include "core/context.h"
#include "core/dtype.h"
#include "core/module.h"
#include "core/tensor.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[512];

/* What is refused */

static stn_status open_comm(const char *module, const char *words)
{
    stn_comm_options options = {.size = sizeof options, .module_path = PROBE_FOLDER, .text = words, .error_text = text,
                                .error_text_size = sizeof text};
    stn_comm *comm = NULL;
    text[0] = '\0';
    stn_status status = stn_comm_open(module, &options, &comm);
    stn_comm_destroy(&comm);
    return status;
}

static stn_status open_device(const char *device)
{
    stn_context_options options = {.size = sizeof options, .device = device, .module_path = PROBE_FOLDER, .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    text[0] = '\0';
    stn_status status = stn_context_create(&options, &context);
    stn_context_destroy(&context);
    return status;
}

static void check_text(const char *part)
{
    if (!CHECK(strstr(text, part) != NULL))
        fprintf(stderr, "  \"%s\" is not in \"%s\"\n", part, text);
}

static void module_that_is_nowhere_is_named_with_the_folders(void)
{
    CHECK_STATUS(open_comm("absent", NULL), STN_ERR_NOT_FOUND);
    check_text("libshardtensor-absent.so");
    check_text(PROBE_FOLDER);
    CHECK_STATUS(open_device("absent:1"), STN_ERR_NOT_FOUND);
    check_text("libshardtensor-absent.so");
    CHECK_STATUS(stn_comm_open("absent", NULL, &(stn_comm *){NULL}), STN_ERR_NOT_FOUND);
}

static void names_that_are_paths_are_refused(void)
{
    static const char *const wrong[] = {"", "../probe", "a/b", "Probe", "probe.so", "a_name_that_is_longer_than_any_module", NULL};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_STATUS(open_comm(wrong[i], NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(open_device("probe:"), STN_ERR_ARGUMENT);
    CHECK_STATUS(open_device("probe:1x"), STN_ERR_ARGUMENT);
    CHECK_STATUS(open_device("probe:-1"), STN_ERR_ARGUMENT);
    check_text("probe:-1");
}

static void another_abi_is_refused_with_both_numbers(void)
{
    CHECK_STATUS(open_comm("other_abi", NULL), STN_ERR_VERSION);
    check_text("4711");
    check_text("wanted 1");
    CHECK_STATUS(open_device("other_abi"), STN_ERR_VERSION);
}

static void entries_beyond_a_smaller_table_are_absent(void)
{
    CHECK_STATUS(open_comm("short_table", NULL), STN_ERR_UNSUPPORTED);
    check_text("no communicator");
    CHECK_STATUS(open_device("short_table"), STN_ERR_UNSUPPORTED);
    check_text("core.box_copy");
}

static void file_without_the_function_is_refused(void)
{
    CHECK_STATUS(open_comm("no_function", NULL), STN_ERR_NOT_FOUND);
    check_text("stn_module_no_function");
}

static void what_the_module_refuses_comes_back_as_its_status(void)
{
    CHECK_STATUS(open_comm("probe", "nonsense"), STN_ERR_ARGUMENT);
    check_text("'probe'");
    CHECK_STATUS(open_device("probe:7"), STN_ERR_DEVICE);
    check_text("device 7");
}

/* Ranks on the module's communicator */

typedef void (*rank_body)(stn_context *context);

struct rank {
    pthread_t thread;
    const char *device;
    rank_body body;
    int rank, size, world;
};

static stn_queue_options queue_of_run(uint64_t seed)
{
    stn_queue_options options = {.size = sizeof options};
    if (test_queue() == TEST_QUEUE_WORKER)
        options = (stn_queue_options){sizeof options, STN_QUEUE_WORKER, seed};
    return options;
}

static void *rank_main(void *arg)
{
    const struct rank *rank = arg;
    char words[64];
    snprintf(words, sizeof words, "world=w%d rank=%d size=%d", rank->world, rank->rank, rank->size);
    stn_comm_options comm_options = {.size = sizeof comm_options, .module_path = PROBE_FOLDER, .text = words};
    stn_context_options options = {.size = sizeof options, .device = rank->device, .module_path = PROBE_FOLDER,
                                   .queue = queue_of_run((uint64_t)rank->rank + 1)};
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

/* Device memory with a copy of host memory. */
static void *upload(stn_context *context, const void *host, size_t bytes)
{
    void *data = NULL;
    CHECK_STATUS(stni_device_allocate(context->device, bytes + 1, &data), STN_OK);
    CHECK_STATUS(stni_queue_copy(context->queue, data, host, bytes, STNI_COPY_TO_DEVICE), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    return data;
}

static void download(stn_context *context, void *data, void *host, size_t bytes)
{
    CHECK_STATUS(stni_queue_copy(context->queue, host, data, bytes, STNI_COPY_TO_HOST), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
}

static void discard(stn_context *context, void *data, size_t bytes)
{
    stni_device_deallocate(context->device, data, bytes + 1);
}

enum { MOST = 256 };

/* Element i of rank r. */
static double value(int rank, int64_t i)
{
    return (double)(rank * 1000 + i) + 0.25;
}

/* A rank's send buffer of n elements, and room for as many results. */
struct verb {
    stn_context *context;
    stn_comm *comm;
    int rank, size;
    double host[MOST];
    void *send, *recv;
};

static struct verb verb_begin(stn_context *context, int64_t n)
{
    struct verb v = {.context = context, .comm = context->comm, .rank = context->rank, .size = context->size};
    for (int64_t i = 0; i < n; i++)
        v.host[i] = value(v.rank, i);
    v.send = upload(context, v.host, sizeof v.host);
    for (int64_t i = 0; i < MOST; i++)
        v.host[i] = -1;
    v.recv = upload(context, v.host, sizeof v.host);
    return v;
}

static void verb_end(struct verb *v)
{
    discard(v->context, v->send, sizeof v->host);
    discard(v->context, v->recv, sizeof v->host);
}

static void fetch(struct verb *v)
{
    download(v->context, v->recv, v->host, sizeof v->host);
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
    struct verb v = verb_begin(context, MOST);
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
    verb_end(&v);
}

static void moves(stn_context *context)
{
    int64_t counts[8], all = counts_of(context->size, counts), at = 0;
    struct verb v = verb_begin(context, MOST);
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
    CHECK_STATUS(stn_comm_broadcast(v.comm, v.rank == v.size - 1 ? v.send : v.recv, 9, STN_DTYPE_F64, v.size - 1, NULL), STN_OK);
    fetch(&v);
    if (v.rank < v.size - 1)
        for (int64_t i = 0; i < 9; i++)
            CHECK_NEAR(v.host[i], value(v.size - 1, i), 0);
    CHECK_STATUS(stn_comm_gather(v.comm, v.send, v.recv, counts, STN_DTYPE_F64, 0, NULL), STN_OK);
    fetch(&v);
    if (v.rank == 0 && v.size > 2)
        CHECK_NEAR(v.host[counts[0]], value(2, 0), 0);
    CHECK_STATUS(stn_comm_barrier(v.comm, NULL), STN_OK);
    verb_end(&v);
}

/* Rank r sends r + s + 1 elements to rank s, by a verb and by a request. */
static void all_to_all(stn_context *context)
{
    int64_t send_counts[8], recv_counts[8], from = 0, at = 0;
    struct verb v = verb_begin(context, MOST);
    stn_request *request = NULL;
    for (int r = 0; r < v.size; r++)
        send_counts[r] = recv_counts[r] = v.rank + r + 1;
    CHECK_STATUS(stn_comm_all_to_all(v.comm, v.send, send_counts, v.recv, recv_counts, STN_DTYPE_F64, &request), STN_OK);
    CHECK_STATUS(stn_request_wait(&request), STN_OK);
    fetch(&v);
    for (int r = 0; r < v.size; r++) {
        from = 0;
        for (int s = 0; s < v.rank; s++)
            from += r + s + 1;
        for (int64_t i = 0; i < recv_counts[r]; i++, at++)
            CHECK_NEAR(v.host[at], value(r, from + i), 0);
    }
    verb_end(&v);
}

static stn_box box_at(void *data, int64_t offset, int64_t rows, int64_t columns, int64_t stride)
{
    return (stn_box){.data = (char *)data + offset * 8, .ndim = 2, .shape = {rows, columns}, .strides = {stride, 1}};
}

/* Each rank sends a 2 x 3 window of its 10 columns to every rank, which transposes nothing but places it in its own columns. */
static void exchanges(stn_context *context)
{
    struct verb v = verb_begin(context, MOST);
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
    verb_end(&v);
}

/* A ring: not all ranks need to be in a group. */
static void groups(stn_context *context)
{
    struct verb v = verb_begin(context, MOST);
    int next = (v.rank + 1) % v.size, last = (v.rank + v.size - 1) % v.size;
    stn_message send = {next, {.data = v.send, .ndim = 1, .shape = {6}, .strides = {1}}};
    stn_message recv = {last, {.data = v.recv, .ndim = 1, .shape = {6}, .strides = {1}}};
    stn_exchange messages = {.dtype = STN_DTYPE_F64, .n_send = 1, .n_recv = 1, .send = &send, .recv = &recv};
    CHECK_STATUS(stn_comm_group(v.comm, &messages, NULL), STN_OK);
    fetch(&v);
    for (int64_t i = 0; i < 6; i++)
        CHECK_NEAR(v.host[i], value(last, i), 0);
    verb_end(&v);
}

static void subsets(stn_context *context)
{
    int ranks[8], n = 0, parity = context->rank % 2;
    stn_comm *half = NULL;
    struct verb v = verb_begin(context, MOST);
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
    verb_end(&v);
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

/* The device alone */

static stn_context *device_context(void)
{
    stn_context_options options = {.size = sizeof options, .device = "probe:1", .module_path = PROBE_FOLDER, .queue = queue_of_run(5),
                                   .error_text = text, .error_text_size = sizeof text};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    return context;
}

static void tensors_live_in_device_memory_and_come_back(void)
{
    stn_context *context = device_context();
    int64_t shape[3] = {3, 5, 7};
    float host[105], back[105];
    if (!context)
        return;
    for (int i = 0; i < 105; i++)
        host[i] = (float)i;
    const stn_spec *spec = NULL;
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 3, shape, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, host);
    memset(back, 0, sizeof back);
    CHECK(!stn_tensor_is_error(tensor));
    CHECK(probe_is_hidden(stn_tensor_data(tensor)));
    CHECK_STATUS(stn_to_host(tensor, back, sizeof back), STN_OK);
    CHECK_BYTES(back, host, sizeof host);
    stn_tensor_release(&tensor);
    stn_context_destroy(&context);
}

/* Dims in another order than memory, with gaps. */
static void boxes_are_copied_by_the_devices_kernel(void)
{
    stn_context *context = device_context();
    int32_t host[240], back[240], want[240];
    if (!context)
        return;
    for (int i = 0; i < 240; i++) {
        host[i] = i;
        back[i] = want[i] = -i;
    }
    void *src = upload(context, host, sizeof host), *dst = upload(context, back, sizeof back);
    stn_box from = {.data = (char *)src + 8, .ndim = 3, .shape = {3, 4, 5}, .strides = {60, 11, 2}};
    stn_box to = {.data = (char *)dst + 12, .ndim = 3, .shape = {3, 4, 5}, .strides = {1, 20, 4}};
    CHECK_STATUS(stni_box_copy(context->queue, &to, &from, sizeof *host), STN_OK);
    memset(&from, 0, sizeof from);
    download(context, dst, back, sizeof back);
    for (int i = 0; i < 60; i++)
        want[3 + i / 20 + i / 5 % 4 * 20 + i % 5 * 4] = host[2 + i / 20 * 60 + i / 5 % 4 * 11 + i % 5 * 2];
    CHECK_BYTES(back, want, sizeof want);
    discard(context, src, sizeof host);
    discard(context, dst, sizeof back);
    stn_context_destroy(&context);
}

static void copy_from_the_wrong_side_fails_its_queue(void)
{
    stn_context *context = device_context();
    int32_t host[4] = {0};
    if (!context)
        return;
    void *device = upload(context, host, sizeof host);
    CHECK_STATUS(stni_queue_copy(context->queue, host, device, sizeof host, STNI_COPY_DEVICE), STN_ERR_DEVICE);
    stn_box wrong = {.data = host, .ndim = 1, .shape = {4}, .strides = {1}};
    stn_box right = {.data = device, .ndim = 1, .shape = {4}, .strides = {1}};
    CHECK_STATUS(stni_box_copy(context->queue, &right, &wrong, sizeof *host), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_ERR_DEVICE);
    CHECK(strstr(stn_queue_error_text(context->queue), "address of the host") != NULL);
    stni_queue_recover(context->queue);
    discard(context, device, sizeof host);
    stn_context_destroy(&context);
}

static void queues_of_the_device_wait_for_each_other(void)
{
    stn_context *context = device_context();
    int64_t host[2] = {41, 42}, back[2] = {0, 0};
    stn_queue *other = NULL;
    stn_event *event = NULL;
    stn_queue_options options = {sizeof options, STN_QUEUE_WORKER, 77};
    if (!context)
        return;
    void *device = upload(context, back, sizeof back);
    CHECK_STATUS(stni_queue_create(context->device, &options, &other), STN_OK);
    CHECK_STATUS(stni_event_create(context->device, &event), STN_OK);
    CHECK_PTR(stn_queue_native(other));
    for (int i = 0; i < 50; i++) {
        host[0] = i;
        CHECK_STATUS(stni_queue_copy(other, device, host, sizeof host, STNI_COPY_TO_DEVICE), STN_OK);
        CHECK_STATUS(stni_event_record(event, other), STN_OK);
        CHECK_STATUS(stni_queue_wait(context->queue, event), STN_OK);
        CHECK_STATUS(stni_queue_copy(context->queue, back, device, sizeof back, STNI_COPY_TO_HOST), STN_OK);
        CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
        CHECK_STATUS(stni_event_sync(event), STN_OK);
        CHECK_I64(back[0], i);
    }
    stni_event_destroy(&event);
    stni_queue_destroy(&other);
    discard(context, device, sizeof back);
    stn_context_destroy(&context);
}

/* An op of an embedder whose kernel is the module's */

struct probe_attrs {
    double factor;
};

static stn_status probe_check(stn_op_call *call)
{
    const stn_spec *spec = call->in_spec[0];
    call->out_meta[0].dtype = stn_spec_dtype(spec);
    call->out_meta[0].ndim = stn_spec_ndim(spec);
    for (int d = 0; d < stn_spec_ndim(spec); d++)
        call->out_meta[0].shape[d] = stn_spec_shape(spec)[d];
    return STN_OK;
}

static stn_status probe_place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status probe_run(stn_op_call *call)
{
    const struct probe_attrs *attrs = call->attrs;
    struct probe_scale_args args = {stn_tensor_data(call->out[0]), attrs->factor, 6};
    return stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
}

static const stn_op_desc *probe_op(void)
{
    static const stn_input_schema inputs[] = {{.name = "input"}};
    static const stn_attr_schema attrs[] = {{"factor", STN_ATTR_FLOAT, offsetof(struct probe_attrs, factor), NULL}};
    static const stn_kernel_slot slots[] = {{"probe.scale", sizeof(struct probe_scale_args)}};
    static const stn_op_desc desc = {.size = sizeof desc, .name = "probe", .inputs = inputs, .n_inputs = 1, .attrs = attrs,
                                     .n_attrs = 1, .attrs_size = sizeof(struct probe_attrs), .n_outputs = 1, .flags = STN_OP_IN_PLACE,
                                     .check = probe_check, .place = probe_place, .run = probe_run, .slots = slots, .n_slots = 1};
    return &desc;
}

static void kernels_attach_to_an_op_of_the_embedder(void)
{
    stn_context *context = device_context();
    const stn_op *op = NULL;
    const stn_spec *spec = NULL;
    int64_t shape[1] = {6};
    double host[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
    struct probe_attrs attrs = {2.5};
    stn_tensor *out = NULL;
    if (!context)
        return;
    CHECK_STATUS(stn_op_register(context, probe_op(), &op), STN_OK);
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F64, 1, shape, &spec), STN_OK);
    stn_tensor *in = stn_from_host(context, spec, host);
    CHECK_STATUS(stn_op_apply(op, 1, &in, &attrs, 1, &out), STN_ERR_UNSUPPORTED); /* no kernel yet */
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_UNSUPPORTED);
    CHECK_STATUS(stn_context_load_module(context, "probe"), STN_OK);
    CHECK_STATUS(stn_op_apply(op, 1, &in, &attrs, 1, &out), STN_OK);
    CHECK_STATUS(stn_to_host(in, back, sizeof back), STN_OK);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(back[i], 2.5 * host[i], 0);
    attrs.factor = 0; /* which the kernel refuses, later, on its queue */
    stn_op_apply(op, 1, &in, &attrs, 1, &out);
    CHECK_STATUS(stn_to_host(in, back, sizeof back), STN_ERR_VALUE);
    CHECK(strstr(stn_context_error_text(context), "factor got 0") != NULL);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_VALUE);
    stn_tensor_release(&in);
    CHECK_STATUS(stn_context_load_module(context, "absent"), STN_ERR_NOT_FOUND);
    stn_context_destroy(&context);
}

/* Last: all devices are gone. */
static void device_memory_was_all_given_back(void)
{
    void *object = dlopen(PROBE_FOLDER "/libshardtensor-probe.so", RTLD_NOW | RTLD_NOLOAD);
    if (!CHECK_PTR(object))
        return;
    atomic_long *leaks = dlsym(object, "probe_leaks");
    if (CHECK_PTR(leaks))
        CHECK_I64(atomic_load(leaks), 0);
    dlclose(object);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"module_that_is_nowhere_is_named_with_the_folders", module_that_is_nowhere_is_named_with_the_folders},
        {"names_that_are_paths_are_refused", names_that_are_paths_are_refused},
        {"another_abi_is_refused_with_both_numbers", another_abi_is_refused_with_both_numbers},
        {"entries_beyond_a_smaller_table_are_absent", entries_beyond_a_smaller_table_are_absent},
        {"file_without_the_function_is_refused", file_without_the_function_is_refused},
        {"what_the_module_refuses_comes_back_as_its_status", what_the_module_refuses_comes_back_as_its_status},
        {"reductions_match_serial_sums", reductions_match_serial_sums},
        {"gathers_scatters_and_broadcasts_move_the_right_parts", gathers_scatters_and_broadcasts_move_the_right_parts},
        {"all_to_all_by_request_moves_the_right_parts", all_to_all_by_request_moves_the_right_parts},
        {"exchanges_place_and_reduce_strided_boxes", exchanges_place_and_reduce_strided_boxes},
        {"groups_send_around_a_ring", groups_send_around_a_ring},
        {"subsets_reduce_among_themselves", subsets_reduce_among_themselves},
        {"ranks_agree_on_what_one_of_them_found", ranks_agree_on_what_one_of_them_found},
        {"tensors_are_scattered_and_redistributed", tensors_are_scattered_and_redistributed},
        {"abort_reaches_the_peers_with_its_text", abort_reaches_the_peers_with_its_text},
        {"tensors_live_in_device_memory_and_come_back", tensors_live_in_device_memory_and_come_back},
        {"boxes_are_copied_by_the_devices_kernel", boxes_are_copied_by_the_devices_kernel},
        {"copy_from_the_wrong_side_fails_its_queue", copy_from_the_wrong_side_fails_its_queue},
        {"queues_of_the_device_wait_for_each_other", queues_of_the_device_wait_for_each_other},
        {"kernels_attach_to_an_op_of_the_embedder", kernels_attach_to_an_op_of_the_embedder},
        {"device_memory_was_all_given_back", device_memory_was_all_given_back},
    };
    return TEST_MAIN(argc, argv, cases);
}
