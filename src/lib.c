/* Wires the layers together: contexts with registry, tape and place cache; ranks as threads, or as processes that a
 * launcher started. */
#include "autograd/tape.h"
#include "core/context/context.h"
#include "core/context/environment.h"
#include "core/base/host_alloc.h"
#include "core/device/trace.h"
#include "core/job/job.h"
#include "core/step/step.h"
#include "dispatch/place_cache.h"
#include "dispatch/registry.h"
#include "ops/common/bad_value.h"
#include "ops/dist/by_name.h"
#include "ops/table.h"
#include "train/update.h"

#include <shardtensor/module.h>
#include <shardtensor/trace.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

enum { MAX_THREAD_RANKS = 1024 };

static void destroy(stn_context *context)
{
    stni_steps_close(context);
    stni_context_tell_refusal(context);
    stni_context_drop_graph(context);
    stni_tape_destroy(context);
    stni_place_cache_destroy(context);
    stni_context_destroy_core(context);
}

static stn_status create(const stn_context_options *options, stn_context **out, struct stni_error *error)
{
    stn_context *context;
    stn_status status;
    STNI_TRY(stni_context_create_core(options, &context, error));
    STNI_TRY_GOTO(stni_tape_create(context), fail);
    STNI_TRY_GOTO(stni_place_cache_create(context), fail);
    STNI_TRY_GOTO(stni_registry_create(context, stni_op_table, STNI_OP_COUNT), fail);
    STNI_TRY_GOTO(stni_registry_add(context, &stni_op_update), fail);
    context->value_text = stni_bad_value_text;
    context->registry->refused = stni_dist_refused;
    if (!context->device->is_cpu)
        STNI_TRY_GOTO(stn_context_load_module(context, context->device->name), fail);
    *out = context;
    return STN_OK;
fail:
    *error = context->error;
    stni_error_set(error, status, "context: %s", stn_status_text(status));
    if (options && options->comm) {
        stni_comm_give_back(options->comm);
        context->comm = NULL;
    }
    destroy(context);
    return status;
}

static void give_text(const stn_context_options *options, const struct stni_error *error)
{
    if (options && options->error_text && options->error_text_size > 0)
        snprintf(options->error_text, options->error_text_size, "%s", error->text);
}

stn_status stn_context_create(const stn_context_options *options, stn_context **out)
{
    struct stni_error error = {0};
    if (!out)
        return STN_ERR_ARGUMENT;
    stn_status status = create(options, out, &error);
    if (status != STN_OK)
        give_text(options, &error);
    return status;
}

void stn_context_destroy(stn_context **context)
{
    if (context && *context) {
        destroy(*context);
        *context = NULL;
    }
}

/* Thread ranks */

struct launch {
    stn_launch_options options; /* with what the environment adds */
    stn_rank_main main;
    void *arg;
    struct stni_environment_trace trace;
    struct stni_error refused; /* why no rank runs: known to each before it has a context */
};

struct rank {
    pthread_t thread;
    stn_comm *comm;
    const struct launch *launch;
    struct stni_error error; /* what the rank ended with */
};

/* A rank that failed on its own tells the others, so that nobody waits for it: what could not wait it has told them
 * when it failed, the rest is known to those who come to wait for it. A slower peer may yet find the same error, and
 * would hear of another rank's failure in place of its own. What all agreed on it does not tell: a peer may still be on
 * its way out of that agreement. */
static void end_failed(struct rank *rank, stn_context *context, stn_status status)
{
    const char *text = stn_context_error_text(context);
    if ((unsigned)status >= STN_STATUS_COUNT)
        stni_error_set(&rank->error, status, "rank_main returned %d, which is no stn_status", (int)status);
    else
        stni_error_set(&rank->error, status, "%s", text[0] ? text : stni_context_failure_text(context, status));
    const int all_know = status == context->all_know; /* taken or not */
    if (status != STN_ERR_PEER && !all_know && context->size > 1)
        stni_context_leave(context, status, rank->error.text);
}

/* Nobody may have asked for what failed meanwhile: it is known in the end. What is wrong in data alone keeps no peer
 * from going on. */
static void end_rank(struct rank *rank, stn_context *context, stn_status status)
{
    char text[sizeof rank->error.text];
    const int is_over = context->capture == NULL && context->queue->capture == NULL;
    if (status == STN_OK)
        status = is_over ? stni_context_sync(context, STN_SYNC_AGREEMENT) : context->error.status;
    if (status != STN_OK)
        end_failed(rank, context, status);
    else if (is_over && stni_value_take(context, text, sizeof text))
        stni_error_set(&rank->error, STN_ERR_VALUE, "%s", text);
}

/* Known now, not after a day of work. */
static stn_status check_writable(stn_context *context, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return stni_fail(context, STN_ERR_IO, "stn_launch: the environment's STN_TRACE: cannot write %s: %s", path,
                         strerror(errno));
    fclose(file);
    return STN_OK;
}

static stn_status run_main(const struct launch *launch, stn_context *context)
{
    char path[4096];
    if (launch->trace.nvtx)
        STNI_TRY(stn_trace_nvtx(context, 1));
    if (!launch->trace.prefix)
        return launch->main(context, launch->arg);
    snprintf(path, sizeof path, "%s.%d.json", launch->trace.prefix, context->rank);
    STNI_TRY(check_writable(context, path));
    STNI_TRY(stn_trace_align_clocks(context));
    stn_context_stats_reset(context); /* counters are those of a run without a trace */
    STNI_TRY(stn_trace_begin(context));
    stn_status status = launch->main(context, launch->arg), traced = STN_OK;
    if (stni_trace_records(context->trace)) /* else the program has ended it itself */
        traced = stn_trace_end(context, path);
    return status != STN_OK ? status : traced;
}

static void *rank_thread(void *arg)
{
    struct rank *rank = arg;
    stn_context_options options = rank->launch->options.context;
    stn_context *context;
    options.size = sizeof options;
    options.comm = rank->comm;
    rank->error = rank->launch->refused;
    if (rank->error.status != STN_OK || create(&options, &context, &rank->error) != STN_OK) {
        stni_comm_abort(rank->comm, rank->error.status, rank->error.text);
        stn_comm_destroy(&rank->comm);
        return NULL;
    }
    end_rank(rank, context, run_main(rank->launch, context));
    destroy(context);
    return NULL;
}

static void start_failed(struct rank *rank)
{
    stni_error_set(&rank->error, STN_ERR_MEMORY, "stn_launch: no thread could be started");
    stni_comm_abort(rank->comm, rank->error.status, rank->error.text);
    stn_comm_destroy(&rank->comm);
}

/* The first failure that is a rank's own; else the first that a rank was told of. */
static const struct stni_error *first_error(const struct rank *ranks, int n)
{
    const struct stni_error *told = NULL;
    for (int r = 0; r < n; r++) {
        const struct stni_error *error = &ranks[r].error;
        if (error->status != STN_OK && error->status != STN_ERR_PEER)
            return error;
        if (error->status != STN_OK && !told)
            told = error;
    }
    return told;
}

static void run_ranks(int n, struct rank *ranks, struct stni_error *error)
{
    int started = 0;
    for (; started < n; started++)
        if (pthread_create(&ranks[started].thread, NULL, rank_thread, &ranks[started]) != 0)
            break;
    for (int r = started; r < n; r++)
        start_failed(&ranks[r]);
    for (int r = 0; r < started; r++)
        pthread_join(ranks[r].thread, NULL);
    const struct stni_error *first = first_error(ranks, n);
    if (first)
        *error = *first;
}

static stn_status make_ranks(const struct launch *launch, int n, struct rank *ranks)
{
    stn_comm **comms = stni_calloc((size_t)n, sizeof *comms);
    if (!comms)
        return STN_ERR_MEMORY;
    stn_status status = stni_comm_create_threads(n, launch->options.context.deadline_seconds, comms);
    for (int r = 0; r < n && status == STN_OK; r++)
        ranks[r] = (struct rank){.comm = comms[r], .launch = launch};
    stni_free(comms);
    return status;
}

static void launch_threads(const struct launch *launch, struct stni_error *error)
{
    int n = launch->options.ranks ? launch->options.ranks : 1;
    struct rank *ranks = stni_calloc((size_t)n, sizeof *ranks);
    stn_status status = ranks ? make_ranks(launch, n, ranks) : STN_ERR_MEMORY;
    if (status == STN_OK)
        run_ranks(n, ranks, error);
    else
        stni_error_set(error, status, "stn_launch: out of memory: %d ranks", n);
    stni_free(ranks);
}

/* Ranks of a job */

static void launch_joined(const struct launch *launch, const struct stni_job *job, struct stni_error *error)
{
    struct rank rank = {.launch = launch};
    if (stni_world_join(job, &launch->options, &rank.comm, &rank.error) == STN_OK)
        rank_thread(&rank);
    *error = rank.error;
}

static stn_status check_launch(const stn_launch_options *options, stn_rank_main rank_main, const struct stni_job *job,
                               struct stni_error *error)
{
    size_t size = options->context.size;
    if (!rank_main)
        return stni_error_set(error, STN_ERR_ARGUMENT, "stn_launch: rank_main got NULL");
    if (options->ranks < 0 || options->ranks > MAX_THREAD_RANKS)
        return stni_error_set(error, STN_ERR_ARGUMENT, "stn_launch: ranks got %d, wanted 0 to %d", options->ranks,
                              MAX_THREAD_RANKS);
    if (size != 0 && size != sizeof options->context)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "stn_launch: context.size got %zu bytes, wanted sizeof(stn_context_options) = %zu, or 0",
                              size, sizeof options->context);
    if (options->context.comm)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "stn_launch: context.comm got a communicator, wanted NULL: the ranks get theirs here");
    if (job->rank_variable && options->ranks == 0)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "stn_launch: %s started %d processes (%s are set), but %s is no number from 0 on",
                              job->apart, job->size, job->by, job->rank_variable);
    if (job->apart && options->ranks == 0)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "stn_launch: %s started %d processes (%s are set), which have no world to join: set "
                              "MASTER_ADDR and MASTER_PORT (a number), "
                              "or start them with mpirun, mpiexec or srun --mpi=pmix, or set ranks to 1 or more for "
                              "threads of each process",
                              job->apart, job->size, job->by);
    return STN_OK;
}

stn_status stn_launch(const stn_launch_options *options, stn_rank_main rank_main, void *arg)
{
    struct launch launch = {.options = {.size = sizeof launch.options}, .main = rank_main, .arg = arg};
    struct stni_error error = {0};
    struct stni_job job = stni_job_here();
    if (options && options->size != sizeof *options)
        return STN_ERR_ARGUMENT; /* where a text could go is not known either */
    if (options)
        launch.options = *options;
    if (check_launch(&launch.options, rank_main, &job, &error) == STN_OK) {
        stni_environment_fill_here(&launch.options.context, &launch.trace, &launch.refused);
        if (job.launcher)
            launch_joined(&launch, &job, &error);
        else
            launch_threads(&launch, &error);
    }
    if (error.status != STN_OK)
        give_text(&launch.options.context, &error);
    return error.status;
}

int stn_job_size(void)
{
    struct stni_job job = stni_job_here();
    return job.launcher == NULL ? 0 : job.size > 0 ? job.size : -1;
}
