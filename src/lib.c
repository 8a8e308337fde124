/* Wires the rooms together: contexts with registry, tape and place cache; ranks as threads, or as processes that a launcher started. */
#include "autograd/tape.h"
#include "core/context.h"
#include "core/host_alloc.h"
#include "core/launcher.h"
#include "dispatch/place_cache.h"
#include "dispatch/registry.h"
#include "ops/table.h"

#include <shardtensor/module.h>

#include <pthread.h>
#include <stdio.h>

enum { MAX_THREAD_RANKS = 1024 };

static void destroy(stn_context *context)
{
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

struct rank {
    pthread_t thread;
    stn_comm *comm;
    const stn_launch_options *options;
    stn_rank_main main;
    void *arg;
    struct stni_error error; /* what the rank ended with */
};

/* A rank that failed on its own tells the others, so that nobody waits for it. */
static void end_rank(struct rank *rank, stn_context *context, stn_status status)
{
    if (status == STN_OK)
        return;
    const char *text = stn_context_error_text(context);
    stni_error_set(&rank->error, status, "%s", text[0] ? text : stn_status_text(status));
    if (status != STN_ERR_PEER && context->size > 1)
        stni_context_abort(context, status, rank->error.text);
}

static void *rank_thread(void *arg)
{
    struct rank *rank = arg;
    stn_context_options options = rank->options->context;
    stn_context *context;
    options.size = sizeof options;
    options.comm = rank->comm;
    if (create(&options, &context, &rank->error) != STN_OK) {
        stni_comm_abort(rank->comm, rank->error.status, rank->error.text);
        stn_comm_destroy(&rank->comm);
        return NULL;
    }
    end_rank(rank, context, rank->main(context, rank->arg));
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

static stn_status run_ranks(const stn_launch_options *options, int n, struct rank *ranks)
{
    int started = 0;
    for (; started < n; started++)
        if (pthread_create(&ranks[started].thread, NULL, rank_thread, &ranks[started]) != 0)
            break;
    for (int r = started; r < n; r++)
        start_failed(&ranks[r]);
    for (int r = 0; r < started; r++)
        pthread_join(ranks[r].thread, NULL);
    const struct stni_error *error = first_error(ranks, n);
    if (error)
        give_text(&options->context, error);
    return error ? error->status : STN_OK;
}

static stn_status make_ranks(const stn_launch_options *options, int n, stn_rank_main rank_main, void *arg, struct rank *ranks)
{
    stn_comm **comms = stni_calloc((size_t)n, sizeof *comms);
    if (!comms)
        return STN_ERR_MEMORY;
    stn_status status = stni_comm_create_threads(n, options->context.deadline_seconds, comms);
    for (int r = 0; r < n && status == STN_OK; r++)
        ranks[r] = (struct rank){.comm = comms[r], .options = options, .main = rank_main, .arg = arg};
    stni_free(comms);
    return status;
}

static stn_status launch_threads(const stn_launch_options *options, int n, stn_rank_main rank_main, void *arg)
{
    struct rank *ranks = stni_calloc((size_t)n, sizeof *ranks);
    if (!ranks)
        return STN_ERR_MEMORY;
    stn_status status = make_ranks(options, n, rank_main, arg, ranks);
    if (status == STN_OK)
        status = run_ranks(options, n, ranks);
    stni_free(ranks);
    return status;
}

/* Ranks of a job */

/* The job's world, of as many ranks as were asked for. */
static stn_status join(const stn_launch_options *options, const struct stni_job *job, stn_comm **out, struct stni_error *error)
{
    char text[64] = "", why[STNI_ERROR_TEXT] = "";
    double seconds = options->context.deadline_seconds;
    if (job->size && options->ranks && job->size != options->ranks)
        return stni_error_set(error, STN_ERR_ARGUMENT, "stn_launch: ranks got %d, but %s started a job of %d", options->ranks, job->launcher,
                              job->size);
    if (seconds != 0)
        snprintf(text, sizeof text, "deadline=%.17g", seconds);
    const stn_comm_options how = {.size = sizeof how, .module_path = options->context.module_path, .text = text, .error_text = why,
                                  .error_text_size = sizeof why};
    stn_status status = stn_comm_open("mpi", &how, out);
    if (status != STN_OK)
        return stni_error_set(error, status, "stn_launch: %s started this process: %s", job->launcher, why);
    if (options->ranks == 0 || options->ranks == stn_comm_size(*out))
        return STN_OK;
    stni_error_set(error, STN_ERR_ARGUMENT, "stn_launch: ranks got %d, but %s started a job of %d", options->ranks, job->launcher,
                   stn_comm_size(*out));
    stn_comm_destroy(out);
    return error->status;
}

static stn_status launch_joined(const stn_launch_options *options, const struct stni_job *job, stn_rank_main rank_main, void *arg)
{
    struct rank rank = {.options = options, .main = rank_main, .arg = arg};
    if (join(options, job, &rank.comm, &rank.error) == STN_OK)
        rank_thread(&rank);
    if (rank.error.status != STN_OK)
        give_text(&options->context, &rank.error);
    return rank.error.status;
}

stn_status stn_launch(const stn_launch_options *options, stn_rank_main rank_main, void *arg)
{
    static const stn_launch_options one = {.size = sizeof one};
    if (!options)
        options = &one;
    int n = options->ranks ? options->ranks : 1;
    if (!rank_main || options->size != sizeof *options || n < 1 || n > MAX_THREAD_RANKS || options->context.comm)
        return STN_ERR_ARGUMENT;
    struct stni_job job = stni_job_here();
    return job.launcher ? launch_joined(options, &job, rank_main, arg) : launch_threads(options, n, rank_main, arg);
}

int stn_job_size(void)
{
    struct stni_job job = stni_job_here();
    return job.launcher == NULL ? 0 : job.size > 0 ? job.size : -1;
}
