#include "on_ranks.h"

#include "harness.h"

#include "core/context/context.h"

#include <stdlib.h>

struct run {
    stn_rank_main work;
    void *arg;
};

static stn_status run_checked(stn_context *context, void *arg)
{
    const struct run *run = arg;
    stni_context_check_scratch(context);
    return run->work(context, run->arg);
}

static void launch(const char *device, int ranks, stn_rank_main work, void *arg)
{
    struct run run = {work, arg};
    const char *folder = getenv("STN_TEST_CUDA_FOLDER");
    const stn_launch_options options = {.size = sizeof options, .ranks = ranks,
        .context = {.size = sizeof options.context, .device = device, .module_path = folder ? folder : CUDA_FOLDER,
                    .deadline_seconds = 300}}; /* whole kernels on the stand-in, under a sanitizer too */
    CHECK_STATUS(stn_launch(&options, run_checked, &run), STN_OK);
}

void on_ranks(int ranks, stn_rank_main work, void *want, void *got)
{
    launch("cpu", 1, work, want);
    launch("cuda:0", ranks, work, got);
}

const stn_mesh *on_ranks_line(stn_context *context)
{
    const int size = stn_context_size(context);
    const stn_mesh *mesh = NULL;
    CHECK_STATUS(stn_mesh_create(context, 1, &size, NULL, NULL, &mesh), STN_OK);
    return mesh;
}

void on_ranks_keep(stn_context *context, stn_tensor *tensor, double *to)
{
    stn_tensor *const whole = stn_cast(stn_full_tensor(tensor), STN_DTYPE_F64);
    const size_t bytes = (size_t)stn_spec_numel(stn_tensor_spec(whole)) * sizeof *to;
    if (stn_context_rank(context) == 0)
        CHECK_STATUS(stn_to_host(whole, to, bytes), STN_OK);
}
