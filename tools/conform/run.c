/* Configurations on ranks. The ranks of a launch walk through a batch of configurations and meet after each one;
 * when one of them was left in a state from which the ranks cannot go on together, all leave, and a new launch takes
 * up the rest. */
#include "nccl.h"
#include "rank.h"

#include <shardtensor/module.h>
#include <shardtensor/shardtensor.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64 };

/* Longer than any configuration takes, short enough for a run with a fault in it. */
static const double DEADLINE_SECONDS = 60;

struct batch {
    const struct run_options *options;
    const struct conform_case *c;
    const struct grid *grid;
    int n, next; /* configurations; the next one to run */
    struct configuration configurations[BATCH];
    struct layout *layouts;   /* BATCH times inputs */
    struct outcome *outcomes; /* BATCH times ranks */
    char refused[256];        /* why the ranks could not be started */
    pthread_barrier_t meeting;
};

static struct outcome *outcome_of(const struct batch *batch, int i, int rank)
{
    return &batch->outcomes[i * batch->grid->ranks + rank];
}

/* A rank that could not tell what it found. It has run the configuration, so that no rank takes it up again. */
static void set_unheard(struct outcome *outcome, const char *why)
{
    *outcome = (struct outcome){.begun = 1, .status = STN_ERR_PEER};
    snprintf(outcome->text, sizeof outcome->text, "nothing was heard of it: %s", why);
}

/* After this every rank knows what all found: threads write into one memory, processes send it. Where they cannot,
 * all of them end here: none has got what all have sent. The context's communicator would take what is sent for
 * memory of its device, and is gone after a failure. */
static void meet(struct batch *batch, int i, int rank)
{
    int64_t counts[GRID_MAX_RANKS] = {0};
    const int ranks = batch->grid->ranks;
    stn_comm *comm = batch->options->hosts;
    if (!comm) {
        pthread_barrier_wait(&batch->meeting);
        return;
    }
    for (int r = 0; r < ranks; r++)
        counts[r] = (int64_t)sizeof(struct outcome);
    stn_status status =
        stn_comm_all_gather(comm, outcome_of(batch, i, rank), outcome_of(batch, i, 0), counts, STN_DTYPE_U8, NULL);
    for (int r = 0; r < ranks && status != STN_OK; r++)
        if (r != rank)
            set_unheard(outcome_of(batch, i, r), stn_comm_error_text(comm));
}

/* Ranks go on together after a success or a refusal that all have met alike. */
static int can_go_on(const struct batch *batch, int i)
{
    static const stn_status fatal[] = {STN_ERR_PEER, STN_ERR_COMM, STN_ERR_TIMEOUT, STN_ERR_MEMORY, STN_ERR_DEVICE};
    const stn_status first = outcome_of(batch, i, 0)->status;
    for (int rank = 1; rank < batch->grid->ranks; rank++)
        if (outcome_of(batch, i, rank)->status != first)
            return 0;
    for (size_t f = 0; f < sizeof fatal / sizeof fatal[0]; f++)
        if (first == fatal[f])
            return 0;
    return 1;
}

static stn_status rank_main(stn_context *context, void *arg)
{
    struct batch *batch = arg;
    const int first = batch->next, rank = stn_context_rank(context);
    const stn_mesh *mesh;
    stn_status status = stn_mesh_create(context, batch->grid->ndim, batch->grid->sizes, NULL, NULL, &mesh);
    if (status == STN_OK)
        status = stn_set_ring_attention(context, batch->options->ring_attention);
    if (status != STN_OK)
        return status;
    for (int i = first; i < batch->n; i++) {
        rank_run(context, mesh, batch->c, &batch->configurations[i], outcome_of(batch, i, rank));
        meet(batch, i, rank);
        if (!can_go_on(batch, i))
            break;
    }
    return STN_OK;
}

/* Judging */

static void fail(struct verdict *verdict, const char *text, int rank)
{
    if (verdict->text[0] == '\0')
        snprintf(verdict->text, sizeof verdict->text, rank < 0 ? "%s" : "%s (rank %d)", text, rank);
    verdict->passed = 0;
}

static void judge_refusal(const struct batch *batch, int i, struct verdict *verdict)
{
    const struct outcome *first = outcome_of(batch, i, 0);
    for (int rank = 0; rank < batch->grid->ranks; rank++) {
        const struct outcome *o = outcome_of(batch, i, rank);
        char text[RUN_MAX_TEXT + 64];
        if (o->status != first->status || o->refused != first->refused || strcmp(o->text, first->text) != 0) {
            snprintf(text, sizeof text, "ranks fail differently: \"%.160s\" on rank 0, \"%.160s\"", first->text,
                     o->text);
            fail(verdict, text, rank);
        } else if (o->communicated) {
            snprintf(text, sizeof text, "refused after communication: %s", o->text);
            fail(verdict, text, rank);
        }
    }
}

/* Which kernel the devices of ranks lack, from the message of the first that needed it: the others, if they failed,
 * were told by it. "" where it is not that. */
static void find_missing_kernel(const struct batch *batch, int i, char *text, size_t size)
{
    static const char mark[] = "no kernel '";
    text[0] = '\0';
    for (int rank = 0; rank < batch->grid->ranks && batch->options->device; rank++) {
        const struct outcome *o = outcome_of(batch, i, rank);
        const char *slot = strstr(o->text, mark);
        const char *end = slot ? strchr(slot + sizeof mark - 1, '\'') : NULL;
        if (o->text[0] != '\0' && !end) {
            text[0] = '\0';
            return;
        }
        if (end && o->status == STN_ERR_UNSUPPORTED)
            snprintf(text, size, "%.*s", (int)(end - slot - (long)sizeof mark + 1), slot + sizeof mark - 1);
    }
}

static struct verdict judge(const struct batch *batch, int i)
{
    struct verdict verdict = {.passed = 1};
    const struct outcome *first = outcome_of(batch, i, 0);
    int failures = 0;
    find_missing_kernel(batch, i, verdict.text, sizeof verdict.text);
    if (verdict.text[0] != '\0') {
        verdict.unsupported = 1;
        verdict.passed = 0;
        return verdict;
    }
    for (int rank = 0; rank < batch->grid->ranks; rank++)
        failures += outcome_of(batch, i, rank)->status != STN_OK;
    if (failures > 0)
        judge_refusal(batch, i, &verdict);
    for (int rank = 0; rank < batch->grid->ranks; rank++) {
        const struct outcome *o = outcome_of(batch, i, rank);
        if (!o->begun)
            fail(&verdict, batch->refused[0] ? batch->refused : "the ranks could not be started", -1);
        if (o->text[0] != '\0')
            fail(&verdict, o->text, rank);
        if (o->specs != first->specs)
            fail(&verdict, "the ranks' specs differ", rank);
        verdict.compared += o->compared;
        verdict.fallback |= o->fallbacks > 0;
        verdict.bytes += o->bytes;
        verdict.error = o->error > verdict.error ? o->error : verdict.error;
        verdict.peak = o->peak > verdict.peak ? o->peak : verdict.peak;
    }
    if (verdict.compared == 0)
        fail(&verdict, "nothing was compared", -1);
    return verdict;
}

/* Launching */

static stn_status find_main(stn_context *context, void *arg)
{
    int *job = arg;
    job[0] = stn_context_rank(context);
    job[1] = stn_context_size(context);
    return STN_OK;
}

int run_find_job(int *rank, int *size, char *error, size_t error_size)
{
    int job[2] = {0, 1};
    const stn_launch_options options = {
        .size = sizeof options,
        .context = {.size = sizeof options.context, .error_text = error, .error_text_size = error_size},
    };
    stn_status status = stn_launch(&options, find_main, job);
    *rank = job[0];
    *size = job[1];
    return status == STN_OK;
}

/* Whoever waits here waits for ranks that may each wait out a deadline of their own. */
int run_join_hosts(const char *module_path, stn_comm **hosts, char *error, size_t error_size)
{
    char deadline[32];
    const stn_comm_options options = {.size = sizeof options,
                                      .module_path = module_path,
                                      .text = deadline,
                                      .error_text = error,
                                      .error_text_size = error_size};
    snprintf(deadline, sizeof deadline, "deadline=%g", 2 * DEADLINE_SECONDS);
    return stn_comm_open("mpi", &options, hosts) == STN_OK;
}

int run_takes_without(const char *without)
{
    const stn_context_options options = {.size = sizeof options, .without = without};
    stn_context *context = NULL;
    stn_status status = stn_context_create(&options, &context);
    stn_context_destroy(&context);
    return status == STN_OK;
}

static void launch(struct batch *batch)
{
    const stn_launch_options options = {
        .size = sizeof options,
        .ranks = batch->grid->ranks,
        .context = {
            .size = sizeof options.context,
            .queue = {
                .size = sizeof options.context.queue,
                .kind = batch->options->queue,
                .delay_seed = batch->options->queue == STN_QUEUE_WORKER ? batch->options->seed + 1 : 0,
            },
            .seed = batch->options->seed,
            .deadline_seconds = DEADLINE_SECONDS,
            .without = batch->options->without,
            .isa = batch->options->isa,
            .device = batch->options->device,
            .module_path = batch->options->module_path,
            .error_text = batch->refused,
            .error_text_size = sizeof batch->refused,
        },
    };
    batch->refused[0] = '\0';
    const stn_status status = batch->options->nccl ? nccl_launch(batch->grid->ranks, &options.context, rank_main, batch,
                                                                 batch->refused, sizeof batch->refused)
                                                   : stn_launch(&options, rank_main, batch);
    for (int rank = 0; rank < batch->grid->ranks; rank++) {
        struct outcome *o = outcome_of(batch, batch->next, rank);
        if (!o->begun && status != STN_OK)
            o->status = status;
    }
}

static void run_batch(struct batch *batch, run_report_fn report, void *arg)
{
    memset(batch->outcomes, 0, sizeof *batch->outcomes * (size_t)(BATCH * batch->grid->ranks));
    batch->next = 0;
    while (batch->next < batch->n) {
        launch(batch);
        /* At least one is checked, so that this ends also where no rank could be started. */
        do {
            const struct verdict verdict = judge(batch, batch->next);
            report(arg, batch->c, batch->grid, &batch->configurations[batch->next], &verdict);
            batch->next++;
        } while (batch->next < batch->n && outcome_of(batch, batch->next, 0)->begun);
    }
    batch->n = 0;
}

static void add_configuration(struct batch *batch, const struct subject *subjects, int64_t combination, int64_t number,
                              int uneven)
{
    struct configuration *configuration = &batch->configurations[batch->n];
    const uint64_t seed = rng_mix_text(rng_mix(batch->options->seed, (uint64_t)combination), batch->c->name);
    *configuration = (struct configuration){
        .number = number,
        .uneven = uneven,
        .pullbacks = batch->options->pullbacks,
        .on_device = batch->options->device != NULL,
        .scratch = batch->options->scratch,
        .seed = rng_mix(seed, (uint64_t)uneven),
        .layouts = batch->layouts + batch->n * batch->c->n_inputs,
    };
    layouts_nth(batch->grid, batch->c->n_inputs, subjects, combination, configuration->layouts);
    if (uneven)
        layouts_cut(batch->grid, batch->c->n_inputs, subjects, configuration->seed, configuration->layouts);
    batch->n++;
}

/* One rank cuts nothing, and every dual of its layouts is the same again. */
static int passes_of(const struct grid *grid)
{
    return grid->ranks > 1 ? 2 : 1;
}

static int run_all(struct batch *batch, const struct subject *subjects, run_report_fn report, void *arg)
{
    const struct run_options *options = batch->options;
    const int64_t count = layouts_count(batch->grid, batch->c->n_inputs, subjects);
    const int passes = passes_of(batch->grid);
    int64_t n = count, *drawn = NULL;
    if (count > options->placements) {
        uint64_t seed = rng_mix_text(options->seed, batch->c->name);
        for (int a = 0; a < batch->grid->ndim; a++)
            seed = rng_mix(seed, (uint64_t)batch->grid->sizes[a]);
        n = options->placements;
        drawn = malloc(sizeof *drawn * (size_t)n);
        if (drawn == NULL)
            return 0;
        layouts_draw(count, n, seed, drawn);
    }
    for (int64_t number = 0; number < n * passes; number++) {
        if (options->only >= 0 && number != options->only)
            continue;
        int64_t i = number / passes;
        add_configuration(batch, subjects, drawn ? drawn[i] : i, number, (int)(number % passes));
        if (batch->n == BATCH)
            run_batch(batch, report, arg);
    }
    run_batch(batch, report, arg);
    free(drawn);
    return 1;
}

int run_case(const struct run_options *options, const struct conform_case *c, const struct grid *grid,
             run_report_fn report, void *arg)
{
    struct subject subjects[STN_MAX_INPUTS];
    for (int i = 0; i < c->n_inputs; i++)
        subjects[i] = (struct subject){c->input[i].dtype, c->input[i].ndim, c->input[i].shape};
    struct batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL)
        return 0;
    batch->options = options;
    batch->c = c;
    batch->grid = grid;
    batch->layouts = calloc((size_t)(BATCH * c->n_inputs) + 1, sizeof *batch->layouts);
    batch->outcomes = calloc((size_t)(BATCH * grid->ranks), sizeof *batch->outcomes);
    int good = batch->layouts != NULL && batch->outcomes != NULL &&
               pthread_barrier_init(&batch->meeting, NULL, (unsigned)grid->ranks) == 0;
    if (good) {
        good = run_all(batch, subjects, report, arg);
        pthread_barrier_destroy(&batch->meeting);
    }
    free(batch->layouts);
    free(batch->outcomes);
    free(batch);
    return good;
}
