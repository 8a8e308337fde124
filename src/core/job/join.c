/* Ranks of a job: MPI's, or processes that meet over TCP. */
#include "core/job/job.h"

#include <shardtensor/module.h>
#include <shardtensor/tcp.h>

#include <stdatomic.h>
#include <stdio.h>

/* The n-th launch of one process joins the n-th of each other. */
static stn_status meet(const stn_launch_options *options, const struct stni_job *job, stn_comm **out, char *why,
                       size_t size)
{
    static atomic_int launches;
    char name[sizeof job->name + 32];
    snprintf(name, sizeof name, "%s, launch %d", job->name, atomic_fetch_add(&launches, 1));
    const stn_tcp_options how = {.size = sizeof how,
                                 .host = job->host,
                                 .port = job->port,
                                 .rank = job->rank,
                                 .ranks = job->size,
                                 .job = name,
                                 .deadline_seconds = options->context.deadline_seconds,
                                 .error_text = why,
                                 .error_text_size = size};
    return stn_comm_create_tcp(&how, out);
}

/* The module refuses a world of another size than the launcher's before the ranks of it communicate: processes that
 * each have a world of one would be told of nobody, and all be rank 0. */
static stn_status join_mpi(const stn_launch_options *options, const struct stni_job *job, stn_comm **out, char *why,
                           size_t size)
{
    char text[96] = "";
    double seconds = options->context.deadline_seconds;
    int n = 0;
    if (seconds != 0)
        n = snprintf(text, sizeof text, "deadline=%.17g ", seconds);
    if (job->is_own_size)
        snprintf(text + n, sizeof text - (size_t)n, "ranks=%d", job->size);
    const stn_comm_options how = {.size = sizeof how,
                                  .module_path = options->context.module_path,
                                  .text = text,
                                  .error_text = why,
                                  .error_text_size = size};
    return stn_comm_open("mpi", &how, out);
}

/* The job's world, of as many ranks as were requested. */
stn_status stni_world_join(const struct stni_job *job, const stn_launch_options *options, stn_comm **out,
                           struct stni_error *error)
{
    char why[STNI_ERROR_TEXT] = "";
    if (job->size && options->ranks && job->size != options->ranks)
        return stni_error_set(error, STN_ERR_ARGUMENT, "stn_launch: ranks got %d, but %s started a job of %d",
                              options->ranks, job->launcher, job->size);
    stn_status status =
        job->host ? meet(options, job, out, why, sizeof why) : join_mpi(options, job, out, why, sizeof why);
    if (status != STN_OK)
        return stni_error_set(error, status, "stn_launch: %s started this process: %s", job->launcher, why);
    if (options->ranks != 0 && options->ranks != stn_comm_size(*out))
        stni_error_set(error, STN_ERR_ARGUMENT, "stn_launch: ranks got %d, but %s started a job of %d", options->ranks,
                       job->launcher, stn_comm_size(*out));
    else
        stni_world_use_nccl(options, out, error);
    if (error->status != STN_OK)
        stn_comm_destroy(out);
    return error->status;
}
