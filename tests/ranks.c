#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    stn_rank_main body;
    void *arg;
};

static stn_status rank_main(stn_context *context, void *arg)
{
    const struct run *run = arg;
    test_set_rank(stn_context_rank(context));
    stn_status status = run->body(context, run->arg);
    if (status == STN_OK) {
        stn_stats stats = {.size = sizeof stats};
        stn_context_stats(context, &stats);
        CHECK_I64(stats.live_tensors, 0);
    } else {
        fprintf(stderr, "rank %d: %s: %s\n", stn_context_rank(context), stn_status_text(status),
                stn_context_error_text(context));
    }
    test_set_rank(-1);
    return status;
}

/* What options leave open, tests of a device do not. */
static void use_device(stn_context_options *options)
{
    const char *device = getenv("STN_TEST_DEVICE");
    if (!device || options->device)
        return;
    options->device = device;
    options->module_path = getenv("STN_TEST_DEVICE_MODULES");
}

stn_status test_launch(int n, const stn_context_options *options, stn_rank_main body, void *arg)
{
    struct run run = {body, arg};
    stn_launch_options launch = {.size = sizeof launch, .ranks = n};
    if (options)
        launch.context = *options;
    launch.context.size = sizeof launch.context;
    if (!launch.context.isa)
        launch.context.isa = test_isa();
    use_device(&launch.context);
    if (!launch.context.module_path)
        launch.context.module_path = getenv("STN_TEST_MODULES"); /* under mpirun */
    launch.context.queue = (stn_queue_options){.size = sizeof(stn_queue_options), .kind = STN_QUEUE_IMMEDIATE};
    if (test_queue() == TEST_QUEUE_WORKER) {
        launch.context.queue.kind = STN_QUEUE_WORKER;
        launch.context.queue.delay_seed = 7;
    }
    return stn_launch(&launch, rank_main, &run);
}

void test_ranks(int n, stn_rank_main body, void *arg)
{
    CHECK_STATUS(test_launch(n, NULL, body, arg), STN_OK);
}

void test_worlds(stn_rank_main body, void *arg)
{
    static const int worlds[] = {1, 2, 3, 6};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        test_ranks(worlds[i], body, arg);
}

bool test_check_error(stn_context *context, stn_status status, const char *text, int is_part, const char *file,
                      int line)
{
    char got[2048] = "";
    const bool held =
        test_check_status((int)stn_context_take_error(context, got, sizeof got), (int)status, file, line, "kept error");
    if (is_part && strstr(got, text) != NULL)
        return test_check(true, file, line, text) && held;
    return test_check_str(got, text, file, line, "kept error") && held;
}

const stn_mesh *test_mesh(stn_context *context, int rows, int columns)
{
    const stn_mesh *mesh = NULL;
    const char *names[] = {"y", "x"};
    int sizes[] = {rows, columns};
    CHECK_STATUS(stn_mesh_create(context, columns ? 2 : 1, sizes, names, NULL, &mesh), STN_OK);
    return mesh;
}

double test_value(int64_t i)
{
    return sin(1.0 + 0.7 * (double)i) + 0.001 * (double)(i % 17);
}

/* Linear global index of element `at` of a chunk. */
static int64_t global_index(const stn_spec *spec, int64_t at)
{
    const int64_t *shape = stn_spec_shape(spec), *local = stn_spec_local_shape(spec),
                  *offset = stn_spec_local_offset(spec);
    int64_t index = 0, stride = 1;
    for (int d = stn_spec_ndim(spec) - 1; d >= 0; d--) {
        index += (offset[d] + at % local[d]) * stride;
        at /= local[d];
        stride *= shape[d];
    }
    return index;
}

static int holds_values(const stn_spec *spec)
{
    const stn_mesh *mesh = stn_spec_mesh(spec);
    for (int a = 0; mesh && a < stn_mesh_ndim(mesh); a++)
        if (stn_spec_placement(spec, a).kind == STN_PLACE_PARTIAL && stn_mesh_coordinate(mesh, a) != 0)
            return 0;
    return 1;
}

stn_tensor *test_tensor(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype,
                        int ndim, const int64_t *shape, const int64_t *const *sizes, double (*value)(int64_t i))
{
    stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_spec *spec;
    if (!CHECK_STATUS(stn_spec_create(context, mesh, placements, dtype, ndim, shape, &options, &spec), STN_OK))
        return NULL;
    int64_t n = stn_spec_local_numel(spec);
    void *data = calloc((size_t)n + 1, stn_dtype_size(dtype));
    for (int64_t i = 0; i < n && holds_values(spec); i++) {
        double x = value(global_index(spec, i));
        if (dtype == STN_DTYPE_F64)
            ((double *)data)[i] = x;
        else
            ((float *)data)[i] = (float)x;
    }
    stn_tensor *tensor = stn_from_host(context, spec, data);
    free(data);
    stn_spec_release(&spec);
    return tensor;
}

void test_read(stn_tensor *tensor, double *out, int64_t n)
{
    stn_context *context = stn_tensor_context(tensor);
    stn_scope_begin(context);
    stn_tensor *full = stn_spec_mesh(stn_tensor_spec(tensor)) ? stn_full_tensor(tensor) : tensor;
    stn_dtype dtype = stn_tensor_dtype(tensor);
    void *data = calloc((size_t)n + 1, stn_dtype_size(dtype));
    CHECK_STATUS(stn_to_host(full, data, (size_t)n * stn_dtype_size(dtype)), STN_OK);
    for (int64_t i = 0; i < n; i++)
        out[i] = dtype == STN_DTYPE_F64   ? ((double *)data)[i]
                 : dtype == STN_DTYPE_I64 ? (double)((int64_t *)data)[i]
                                          : ((float *)data)[i];
    free(data);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

void test_gather(stn_context *context, const void *mine, int64_t n, stn_dtype dtype, void *all)
{
    const int64_t shape = n * stn_context_size(context);
    const stn_placement cut = stn_shard(0);
    const stn_spec *spec;
    stn_scope_begin(context);
    if (CHECK_STATUS(stn_spec_create(context, test_mesh(context, stn_context_size(context), 0), &cut, dtype, 1, &shape,
                                     NULL, &spec),
                     STN_OK)) {
        stn_tensor *whole = stn_full_tensor(stn_from_host(context, spec, mine));
        CHECK_STATUS(stn_to_host(whole, all, (size_t)shape * stn_dtype_size(dtype)), STN_OK);
        stn_spec_release(&spec);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

void test_sum(stn_context *context, double *values, int n)
{
    const int size = stn_context_size(context);
    double *all = calloc((size_t)(n * size) + 1, sizeof *all);
    test_gather(context, values, n, STN_DTYPE_F64, all);
    for (int i = 0; i < n; i++) {
        values[i] = 0;
        for (int r = 0; r < size; r++)
            values[i] += all[r * n + i];
    }
    free(all);
}

void test_same_text(stn_context *context, const char *text)
{
    enum { TEXT = 512 };
    char mine[TEXT] = "", *all = calloc((size_t)stn_context_size(context), TEXT);
    snprintf(mine, sizeof mine, "%s", text);
    test_gather(context, mine, TEXT, STN_DTYPE_U8, all);
    CHECK_STR(mine, all);
    free(all);
}

void test_compare(stn_tensor *tensor, const double *want, int64_t n, double tolerance)
{
    if (!stn_mesh_contains_me(stn_spec_mesh(stn_tensor_spec(tensor))))
        return;
    double *got = calloc((size_t)n + 1, sizeof *got);
    test_read(tensor, got, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(got[i], want[i], tolerance);
    free(got);
}
