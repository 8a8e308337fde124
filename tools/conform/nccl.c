#include "nccl.h"

#include <shardtensor/nccl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ERROR = 256 };

struct nccl_rank {
    pthread_t thread;
    int started;
    stn_comm *comm; /* of the hosts, then NCCL's */
    const stn_context_options *context;
    stn_rank_main main;
    void *arg;
    stn_status status;
    char error[MAX_ERROR];
};

static stn_status join_nccl(struct nccl_rank *r)
{
    stn_comm *made = NULL;
    const stn_nccl_options options = {.size = sizeof options,
                                      .module_path = r->context->module_path,
                                      .deadline_seconds = r->context->deadline_seconds,
                                      .error_text = r->error,
                                      .error_text_size = sizeof r->error};
    const stn_status status = stn_comm_create_nccl(r->comm, &options, &made);
    if (status == STN_OK)
        r->comm = made;
    return status;
}

static stn_status run_in_context(struct nccl_rank *r)
{
    stn_context *context = NULL;
    stn_context_options options = *r->context;
    options.comm = r->comm;
    options.error_text = r->error;
    options.error_text_size = sizeof r->error;
    stn_status status = stn_context_create(&options, &context);
    if (status != STN_OK)
        return status;
    r->comm = NULL; /* the context's */
    status = r->main(context, r->arg);
    stn_context_destroy(&context);
    return status;
}

/* A communicator that is destroyed early is known to those that wait for its rank. */
static void *rank_thread(void *arg)
{
    struct nccl_rank *r = arg;
    r->status = join_nccl(r);
    if (r->status == STN_OK)
        r->status = run_in_context(r);
    stn_comm_destroy(&r->comm);
    return NULL;
}

static void start(int ranks, struct nccl_rank *list)
{
    for (int i = 0; i < ranks; i++) {
        struct nccl_rank *r = &list[i];
        r->started = pthread_create(&r->thread, NULL, rank_thread, r) == 0;
        if (r->started)
            continue;
        r->status = STN_ERR_MEMORY;
        snprintf(r->error, sizeof r->error, "no thread could be started");
        stn_comm_destroy(&r->comm);
    }
    for (int i = 0; i < ranks; i++)
        if (list[i].started)
            pthread_join(list[i].thread, NULL);
}

/* What a rank was told by another is only said where no rank has a failure of its own. */
static stn_status first_failure(int ranks, const struct nccl_rank *list, char *error, size_t error_size)
{
    const struct nccl_rank *first = NULL;
    for (int i = 0; i < ranks; i++)
        if (list[i].status != STN_OK && (!first || (first->status == STN_ERR_PEER && list[i].status != STN_ERR_PEER)))
            first = &list[i];
    if (first)
        snprintf(error, error_size, "%s", first->error);
    return first ? first->status : STN_OK;
}

static stn_status run_ranks(int ranks, stn_comm **comms, struct nccl_rank *list, const struct nccl_rank *like)
{
    const stn_status status = stn_comm_create_threads(ranks, comms);
    if (status != STN_OK)
        return status;
    for (int i = 0; i < ranks; i++) {
        list[i] = *like;
        list[i].comm = comms[i];
    }
    start(ranks, list);
    return STN_OK;
}

stn_status nccl_launch(int ranks, const stn_context_options *context, stn_rank_main rank_main, void *arg, char *error,
                       size_t error_size)
{
    const struct nccl_rank like = {.context = context, .main = rank_main, .arg = arg};
    stn_comm **comms = calloc((size_t)ranks, sizeof *comms);
    struct nccl_rank *list = calloc((size_t)ranks, sizeof *list);
    stn_status status = comms && list ? run_ranks(ranks, comms, list, &like) : STN_ERR_MEMORY;
    if (status == STN_OK)
        status = first_failure(ranks, list, error, error_size);
    else
        snprintf(error, error_size, "%s", stn_status_text(status));
    free(comms);
    free(list);
    return status;
}
