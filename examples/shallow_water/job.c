#include "job.h"

#include <stdio.h>

struct shared {
    const struct job *job;
    struct grid grid;
    double dt;
};

static stn_status rank_main(stn_context *context, void *arg)
{
    const struct shared *shared = arg;
    struct model model;
    stn_status status = model_create(context, &shared->grid, shared->job->ranks, shared->dt, &model);
    if (status == STN_OK)
        status = shared->job->work(&model, shared->job->arg);
    model_fini(&model);
    return status;
}

int job_run(const struct job *job)
{
    char why[512] = "no memory for the grid";
    stn_launch_options options = {
        .size = sizeof options,
        .ranks = stn_job_size() > 0 ? 0 : job->ranks[0] * job->ranks[1],
        .context = {.size = sizeof options.context, .error_text = why, .error_text_size = sizeof why}};
    struct shared shared = {.job = job};
    stn_status status = STN_ERR_MEMORY;
    if (model_grid(job->scenario, job->n, &shared.grid, &shared.dt)) {
        status = stn_launch(&options, rank_main, &shared);
        grid_fini(&shared.grid); /* the contexts that read it are gone */
    }
    if (status != STN_OK)
        fprintf(stderr, "shallow_water: %s: %s\n", stn_status_text(status), why);
    return status == STN_OK;
}
