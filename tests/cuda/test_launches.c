/* How many copies ranks on CUDA devices launch: one for all boxes of an exchange, and as many as there are boxes
 * without the kernel for lists. The values are the same. */
#include "ranks.h"

#include "core/context/context.h"
#include "core/device/device.h"

#include <stdlib.h>

enum { ALL = 8, MOST_PARTS = 32 };

/* Kernels that count how often they are launched, before the device's own. Each rank launches on its own thread. */
static _Thread_local struct {
    stn_kernel_fn copy, copies;
    int64_t n;
} launches;

static stn_status counted_copy(stn_queue *queue, const void *args)
{
    launches.n++;
    return launches.copy(queue, args);
}

static stn_status counted_copies(stn_queue *queue, const void *args)
{
    launches.n++;
    return launches.copies(queue, args);
}

/* Counts from here on, with or without lists. */
static void count(stn_context *context, int with_lists)
{
    stn_device *device = context->device;
    if (!launches.copy) {
        launches.copy = device->box_copy;
        launches.copies = device->box_copies;
    }
    CHECK(launches.copies != NULL);
    device->box_copy = counted_copy;
    device->box_copies = with_lists ? counted_copies : NULL;
    launches.n = 0;
}

static void on_ranks(int n, stn_rank_main body)
{
    const char *folder = getenv("STN_TEST_CUDA_FOLDER"); /* another build of the module: a real GPU's */
    const stn_context_options options = {.device = "cuda", .module_path = folder ? folder : CUDA_FOLDER};
    CHECK_STATUS(test_launch(n, &options, body, NULL), STN_OK);
}

/* Elements that go from one rank to another: none to three. */
static int64_t part(int from, int to)
{
    return (from + 2 * to) % 4;
}

static float element(int from, int to, int64_t i)
{
    return (float)(from * 100 + to * 10 + (int)i);
}

static stn_tensor *line_of(stn_context *context, const float *host, int64_t n)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, host);
    stn_spec_release(&spec);
    return tensor;
}

static void all_to_all(stn_context *context, int64_t launched)
{
    int64_t out[ALL], in[ALL], n = 0;
    float sent[MOST_PARTS] = {0}, got[MOST_PARTS], *at = sent;
    const int rank = stn_context_rank(context);
    for (int r = 0; r < ALL; r++) {
        out[r] = part(rank, r);
        in[r] = part(r, rank);
        for (int64_t i = 0; i < out[r]; i++)
            *at++ = element(rank, r, i);
    }
    stn_tensor *send = line_of(context, sent, MOST_PARTS), *recv = line_of(context, sent, MOST_PARTS);
    launches.n = 0;
    CHECK_STATUS(stn_comm_all_to_all(stn_context_comm(context), stn_tensor_data(send), out, stn_tensor_data(recv), in,
                                     STN_DTYPE_F32, NULL),
                 STN_OK);
    CHECK_I64(launches.n, launched);
    CHECK_STATUS(stn_to_host(recv, got, sizeof got), STN_OK);
    for (int r = 0; r < ALL; r++)
        for (int64_t i = 0; i < in[r]; i++)
            CHECK_NEAR(got[n++], element(r, rank, i), 0);
    stn_tensor_release(&send);
    stn_tensor_release(&recv);
}

/* Two of a rank's eight parts are empty. */
static stn_status eight_ranks(stn_context *context, void *arg)
{
    (void)arg;
    int64_t parts = 0;
    for (int r = 0; r < ALL; r++)
        parts += part(r, stn_context_rank(context)) > 0;
    CHECK_I64(parts, 6);
    count(context, 0);
    all_to_all(context, parts);
    count(context, 1);
    all_to_all(context, 1);
    return stn_context_status(context);
}

static void all_to_all_of_eight_is_one_launch(void)
{
    on_ranks(ALL, eight_ranks);
}

static double number(int64_t i)
{
    return (double)(i % 1009);
}

static void reshard(stn_context *context, int with_lists, int64_t launched)
{
    enum { ROWS = 13, COLUMNS = 11 };
    const stn_placement rows = {.kind = STN_PLACE_SHARD, .dim = 0}, columns = {.kind = STN_PLACE_SHARD, .dim = 1};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    double want[ROWS * COLUMNS];
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        want[i] = number(i);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F32, 2, (const int64_t[]){ROWS, COLUMNS}, NULL, number);
    count(context, with_lists);
    stn_tensor *y = stn_redistribute_to(x, &columns);
    CHECK_I64(launches.n, launched);
    test_compare(y, want, ROWS * COLUMNS, 0);
    stn_tensor_release(&x);
    stn_tensor_release(&y);
}

static stn_status four_ranks(stn_context *context, void *arg)
{
    (void)arg;
    reshard(context, 0, 4);
    reshard(context, 1, 1);
    return stn_context_status(context);
}

static void rows_become_columns_in_one_launch(void)
{
    on_ranks(4, four_ranks);
}

/* Each rank of a 2 x 2 mesh fetches an edge from two neighbours and a corner from the third, writes the pad along the
 * domain's edges and what it has itself, all in one launch. */
static void pool(stn_context *context, int with_lists, int64_t *launched)
{
    enum { SIDE = 12 };
    const stn_placement both[] = {{.kind = STN_PLACE_SHARD, .dim = 2}, {.kind = STN_PLACE_SHARD, .dim = 3}};
    const stn_pool_attrs window = {
        .size = sizeof window, .kernel_size = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .divisor_override = 1};
    const stn_mesh *mesh = test_mesh(context, 2, 2);
    double want[SIDE * SIDE];
    for (int at = 0; at < SIDE * SIDE; at++) {
        want[at] = 0;
        for (int y = at / SIDE - 1; y <= at / SIDE + 1; y++)
            for (int x = at % SIDE - 1; x <= at % SIDE + 1; x++)
                want[at] += y >= 0 && y < SIDE && x >= 0 && x < SIDE ? number(y * SIDE + x) : 0;
    }
    stn_tensor *x =
        test_tensor(context, mesh, both, STN_DTYPE_F32, 4, (const int64_t[]){1, 1, SIDE, SIDE}, NULL, number);
    count(context, with_lists);
    stn_tensor *y = stn_avg_pool2d(x, &window);
    *launched = launches.n;
    test_compare(y, want, SIDE * SIDE, 0);
    stn_tensor_release(&x);
    stn_tensor_release(&y);
}

static stn_status two_by_two(stn_context *context, void *arg)
{
    int64_t one_by_one = 0, in_lists = 0;
    (void)arg;
    pool(context, 0, &one_by_one);
    pool(context, 1, &in_lists);
    CHECK_I64(one_by_one, 6);
    CHECK_I64(in_lists, 1);
    return stn_context_status(context);
}

static void a_halo_with_a_corner_is_one_launch(void)
{
    on_ranks(4, two_by_two);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"all_to_all_of_eight_is_one_launch", all_to_all_of_eight_is_one_launch},
        {"rows_become_columns_in_one_launch", rows_become_columns_in_one_launch},
        {"a_halo_with_a_corner_is_one_launch", a_halo_with_a_corner_is_one_launch},
    };
    return TEST_MAIN(argc, argv, cases);
}
