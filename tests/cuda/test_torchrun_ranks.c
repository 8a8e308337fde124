/* stn_launch on a CUDA device in processes that torchrun started. NCCL moves the data; where it is not there, or not
 * wanted, the hosts do, and what is computed is the same. (The stand-in's NCCL joins devices of one process.) */
#include "ranks.h"

#include "core/comm/comm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int warnings;

static void count_warning(void *arg, stn_log_level level, int rank, const char *text)
{
    (void)arg, (void)rank;
    warnings += level == STN_LOG_WARNING && strstr(text, "NCCL was not found") != NULL;
}

/* What a rank has seen. */
struct seen {
    int calls, by_nccl;
    int32_t gpu;
};

static const char *folder_of_module(void)
{
    const char *folder = getenv("STN_TEST_CUDA_FOLDER"); /* another build of the module: real GPUs' */
    return folder ? folder : CUDA_FOLDER;
}

static int find(void *library, const char *name, void *function)
{
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Whether this process has begun to use a GPU, as the stand-in knows, or else the driver. */
static int has_context(int gpu)
{
    char path[4096];
    int (*of_standin)(int gpu), (*of_driver)(int device, unsigned *flags, int *is_active), is_active = -1;
    unsigned flags;
    snprintf(path, sizeof path, "%s/libshardtensor-cuda.so", folder_of_module());
    if (find(dlopen(path, RTLD_NOW | RTLD_NOLOAD), "standin_has_context", &of_standin))
        return of_standin(gpu);
    if (find(dlopen("libcuda.so.1", RTLD_NOW), "cuDevicePrimaryCtxGetState", &of_driver))
        CHECK_I64(of_driver(gpu, &flags, &is_active), 0);
    return is_active;
}

static double number(int64_t i)
{
    return (double)(i % 7);
}

/* Rows become columns, and the sum of all is pending in between. */
static stn_status device_main(stn_context *context, void *arg)
{
    enum { ROWS = 5, COLUMNS = 4, N = ROWS * COLUMNS };
    const stn_placement rows = stn_shard(0), columns = stn_shard(1);
    const int64_t shape[] = {ROWS, COLUMNS};
    double whole[N], sum = 0, wanted = 0;
    test_set_rank(stn_context_rank(context));
    for (int i = 0; i < N; i++)
        whole[i] = 2 * number(i), wanted += whole[i];
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F32, 2, shape, NULL, number);
    stn_tensor *y = stn_redistribute_to(stn_add(x, x), &columns);
    test_compare(y, whole, N, 0);
    CHECK_STATUS(stn_item(stn_sum(y, 0, NULL, 0), &sum), STN_OK);
    CHECK_NEAR(sum, wanted, 0);
    struct seen *seen = arg;
    int32_t type = 0;
    CHECK_STATUS(stn_context_dlpack_device(context, &type, &seen->gpu), STN_OK);
    seen->calls++;
    seen->by_nccl = strcmp(stn_context_comm(context)->ops->name, "nccl") == 0;
    return stn_scope_end(context);
}

static void launch(const char *without, int wanted_warnings, int by_nccl)
{
    char text[256] = "";
    struct seen seen = {0};
    const stn_launch_options options = {
        .size = sizeof options,
        .context = {.size = sizeof options.context,
                    .device = "cuda",
                    .module_path = folder_of_module(),
                    .without = without,
                    .log = count_warning,
                    .log_level = STN_LOG_WARNING,
                    .error_text = text,
                    .error_text_size = sizeof text},
    };
    warnings = 0;
    CHECK_STATUS(stn_launch(&options, device_main, &seen), STN_OK);
    CHECK_STR(text, "");
    CHECK_I64(seen.calls, 1);
    CHECK_I64(seen.by_nccl, by_nccl);
    CHECK_I64(warnings, wanted_warnings);
    CHECK_I64(has_context(seen.gpu), 1);
    CHECK_I64(has_context(0), seen.gpu == 0); /* where eight processes would begin eight contexts */
}

static void absent_nccl_is_told_and_the_hosts_move_the_data(void)
{
    launch(NULL, 1, 0);
}

static void unwanted_nccl_is_not_looked_for(void)
{
    launch("nccl", 0, 0);
}

static void nccl_joins_the_processes(void)
{
    launch(NULL, 0, 1);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"absent_nccl_is_told_and_the_hosts_move_the_data", absent_nccl_is_told_and_the_hosts_move_the_data},
        {"unwanted_nccl_is_not_looked_for", unwanted_nccl_is_not_looked_for},
        {"nccl_joins_the_processes", nccl_joins_the_processes},
    };
    return TEST_MAIN(argc, argv, cases);
}
