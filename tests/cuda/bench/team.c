/* Thread ranks of one device or of several, and what they wait for together. */
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

/* A rank in a world of NCCL. */
struct start {
    struct bench_team *team;
    stn_comm *comm; /* the hosts', then NCCL's, then the context's: NULL */
    int rank;
    stn_status status;
    char text[BENCH_MOST_TEXT];
    pthread_t thread;
};

/* Its context, on a device of its own. */
static stn_status open_context(struct start *start, stn_context **out)
{
    char name[16];
    const char *folder = start->team->bench->folder;
    const stn_nccl_options nccl = {.size = sizeof nccl,
                                   .module_path = folder,
                                   .has_device = 1,
                                   .device = start->rank,
                                   .error_text = start->text,
                                   .error_text_size = sizeof start->text};
    stn_comm *made = NULL;
    STNI_TRY(runtime_choose(start->rank) == 0 ? STN_OK : STN_ERR_DEVICE);
    STNI_TRY(stn_comm_create_nccl(start->comm, &nccl, &made));
    start->comm = made;
    snprintf(name, sizeof name, "cuda:%d", start->rank);
    const stn_context_options options = {.size = sizeof options,
                                         .comm = made,
                                         .device = name,
                                         .module_path = folder,
                                         .error_text = start->text,
                                         .error_text_size = sizeof start->text};
    STNI_TRY(stn_context_create(&options, out));
    start->comm = NULL;
    return STN_OK;
}

/* The body runs where all ranks have a context. */
static void *nccl_main(void *arg)
{
    struct start *start = arg;
    struct bench_rank asking = {.team = start->team, .rank = start->rank};
    stn_context *context = NULL;
    start->status = open_context(start, &context);
    if (team_slowest(&asking, start->status == STN_OK ? 0 : -1) >= 0)
        start->status = rank_main(context, start->team);
    stn_context_destroy(&context);
    stn_comm_destroy(&start->comm);
    return NULL;
}

static void run_starts(struct bench_team *team, stn_comm **comms)
{
    struct start starts[BENCH_MOST_RANKS];
    int failed = 0;
    for (int r = 0; r < team->size; r++) {
        starts[r] = (struct start){.team = team, .comm = comms[r], .rank = r};
        pthread_create(&starts[r].thread, NULL, nccl_main, &starts[r]);
    }
    for (int r = 0; r < team->size; r++)
        pthread_join(starts[r].thread, NULL);
    while (failed < team->size - 1 && starts[failed].status == STN_OK)
        failed++;
    say(team->bench, team->size, starts[failed].status, starts[failed].text);
}

void bench_launch_nccl(struct bench *bench, int ranks, void (*body)(struct bench_rank *rank))
{
    struct bench_team team;
    stn_comm *comms[BENCH_MOST_RANKS];
    if (!team_init(&team, bench, ranks, body)) {
        say(bench, ranks, STN_ERR_MEMORY, "");
        return;
    }
    const stn_status status = stn_comm_create_threads(ranks, comms);
    if (status == STN_OK)
        run_starts(&team, comms);
    else
        say(bench, ranks, status, "");
    pthread_barrier_destroy(&team.barrier);
}
