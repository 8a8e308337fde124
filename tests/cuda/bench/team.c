/* Thread ranks of one device, and what they wait for together. */
#include "team.h"

#include "runtime.h"

#include "core/context/context.h"
#include "core/device/device.h"

#include <shardtensor/nccl.h>

#include <stdio.h>

static const char device[] = "cuda:0";

void team_wait(struct bench_team *team)
{
    pthread_barrier_wait(&team->barrier);
}

double team_slowest(struct bench_rank *rank, double found)
{
    struct bench_team *team = rank->team;
    double slowest = 0;
    team->found[rank->rank] = found;
    team_wait(team);
    for (int r = 0; r < team->size && slowest >= 0; r++)
        slowest = team->found[r] < 0 || team->found[r] > slowest ? team->found[r] : slowest;
    team_wait(team);
    return slowest;
}

stn_status bench_explain(struct bench_rank *rank, stn_status status)
{
    const char *queued = stn_queue_error_text(rank->context->queue), *kept = stn_context_error_text(rank->context);
    char *text = rank->team->texts[rank->rank];
    if (status != STN_OK && !text[0])
        snprintf(text, BENCH_MOST_TEXT, "%s", queued[0] ? queued : kept[0] ? kept : stn_status_text(status));
    return status;
}

void team_fail(struct bench_rank *rank, const char *name, const char *label)
{
    struct bench_team *team = rank->team;
    team_wait(team);
    for (int r = 0; r < team->size && rank->rank == 0; r++) {
        if (!team->texts[r][0])
            continue;
        printf("%-8s %-50s not measured: %s\n", name, label, team->texts[r]);
        break;
    }
    if (rank->rank == 0)
        team->bench->failed++;
    team_wait(team);
    team->texts[rank->rank][0] = '\0';
}

int bench_ready(struct bench_rank *rank, const char *name, stn_status status)
{
    if (team_slowest(rank, bench_explain(rank, status) == STN_OK ? 0 : -1) >= 0)
        return 1;
    team_fail(rank, name, "all");
    return 0;
}

static void free_copy(struct bench_rank *rank)
{
    stni_device_deallocate(rank->context->device, rank->from, rank->room);
    stni_device_deallocate(rank->context->device, rank->to, rank->room);
}

/* Events are made behind the context, which has chosen the device by then. */
static stn_status rank_main(stn_context *context, void *arg)
{
    struct bench_team *team = arg;
    struct bench_rank rank = {
        .team = team, .bench = team->bench, .context = context, .rank = stn_context_rank(context), .size = team->size};
    const int error = runtime_event_create(&rank.events[0]) | runtime_event_create(&rank.events[1]);
    if (bench_ready(&rank, "events", error ? STN_ERR_DEVICE : STN_OK))
        team->body(&rank);
    stn_queue_sync(context->queue);
    free_copy(&rank);
    runtime_event_destroy(rank.events[0]);
    runtime_event_destroy(rank.events[1]);
    return STN_OK;
}

static void say(struct bench *bench, int ranks, stn_status status, const char *text)
{
    if (status == STN_OK)
        return;
    printf("%d ranks: not measured: %s\n", ranks, text[0] ? text : stn_status_text(status));
    bench->failed++;
}

static int team_init(struct bench_team *team, struct bench *bench, int ranks, void (*body)(struct bench_rank *rank))
{
    *team = (struct bench_team){.bench = bench, .body = body, .size = ranks};
    return pthread_barrier_init(&team->barrier, NULL, (unsigned)ranks) == 0;
}

void bench_launch(struct bench *bench, int ranks, void (*body)(struct bench_rank *rank))
{
    struct bench_team team;
    char text[BENCH_MOST_TEXT] = "";
    const stn_launch_options options = {
        .size = sizeof options,
        .ranks = ranks,
        .context = {.size = sizeof options.context,
                    .device = device,
                    .module_path = bench->folder,
                    .error_text = text,
                    .error_text_size = sizeof text},
    };
    if (!team_init(&team, bench, ranks, body)) {
        say(bench, ranks, STN_ERR_MEMORY, "");
        return;
    }
    say(bench, ranks, stn_launch(&options, rank_main, &team), text);
    pthread_barrier_destroy(&team.barrier);
}

/* A world of one whose communicator is NCCL's. */
static stn_status run_on_nccl(struct bench_team *team, stn_comm **comm, char *text)
{
    stn_context *context = NULL;
    const stn_nccl_options nccl = {.size = sizeof nccl,
                                   .module_path = team->bench->folder,
                                   .has_device = 1,
                                   .error_text = text,
                                   .error_text_size = BENCH_MOST_TEXT};
    stn_comm *made = NULL;
    stn_status status = stn_comm_create_nccl(*comm, &nccl, &made);
    if (status != STN_OK)
        return status;
    *comm = made;
    const stn_context_options options = {.size = sizeof options,
                                         .comm = made,
                                         .device = device,
                                         .module_path = team->bench->folder,
                                         .error_text = text,
                                         .error_text_size = BENCH_MOST_TEXT};
    status = stn_context_create(&options, &context);
    if (status != STN_OK)
        return status;
    *comm = NULL; /* the context's */
    status = rank_main(context, team);
    stn_context_destroy(&context);
    return status;
}

void bench_launch_nccl(struct bench *bench, void (*body)(struct bench_rank *rank))
{
    struct bench_team team;
    stn_comm *comm = NULL;
    char text[BENCH_MOST_TEXT] = "";
    if (!team_init(&team, bench, 1, body)) {
        say(bench, 1, STN_ERR_MEMORY, "");
        return;
    }
    stn_status status = stn_comm_create_threads(1, &comm);
    if (status == STN_OK)
        status = run_on_nccl(&team, &comm, text);
    say(bench, 1, status, text);
    stn_comm_destroy(&comm);
    pthread_barrier_destroy(&team.barrier);
}
