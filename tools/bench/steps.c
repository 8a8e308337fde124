/* Both sides of a contest of training steps. */
#include "steps.h"

#include <math.h>
#include <time.h>

enum { CHECKED = 2 }; /* losses: the second one is behind gradients and an update */

static const int one_rank[] = {1, 1};

static struct model describe(const struct steps_world *world, stn_context *context, const int *sizes)
{
    return (struct model){.context = context,
                          .kind = world->c->kind,
                          .sizes = sizes,
                          .samples = world->c->samples,
                          .n_parts = world->c->n_parts,
                          .is_small = world->world.bench->quick};
}

static stn_status losses_of(struct model *model, double *loss)
{
    stn_status status = model_make(model);
    for (int i = 0; i < CHECKED && status == STN_OK; i++)
        status = model_step(model, &loss[i]);
    return status;
}

/* All samples on one rank. */
static void find_whole(struct steps_world *world)
{
    stn_context *context = world_alone(world->world.bench);
    struct model model = describe(world, context, one_rank);
    for (int i = 0; i < CHECKED; i++)
        world->whole[i] = NAN;
    if (context)
        losses_of(&model, world->whole);
    model_drop(&model);
    stn_context_destroy(&context);
}

/* 0, and said on rank 0, where the ranks' losses are not those of one. */
static int is_same(const struct steps_rank *rank, const double *loss)
{
    struct steps_world *world = rank->world;
    if (rank->rank == 0)
        find_whole(world);
    team_wait(&world->world.team);
    for (int i = 0; i < CHECKED; i++)
        if (!(fabs(loss[i] - world->whole[i]) <= 1e-4 * fabs(world->whole[i]))) {
            if (rank->rank == 0)
                bench_fail(world->world.bench, "%s: loss %d is %.9g, that of one rank %.9g", world->c->kind->name, i,
                           loss[i], world->whole[i]);
            return 0;
        }
    return 1;
}

stn_status steps_make(struct steps_rank *rank, stn_context *context, struct steps_world *world)
{
    double loss[CHECKED];
    *rank = (struct steps_rank){.world = world, .context = context, .rank = stn_context_rank(context)};
    rank->ours.model = describe(world, context, world->c->sizes);
    stn_status status = losses_of(&rank->ours.model, loss);
    if (status != STN_OK)
        return status;
    if (!is_same(rank, loss))
        return STN_ERR_MISMATCH;
    rank->alone = world_alone(world->world.bench);
    if (rank->alone == NULL)
        return STN_ERR_MEMORY;
    rank->peer.model = describe(world, rank->alone, one_rank);
    rank->peer.model.samples /= world->c->ranks;
    rank->peer.model.share = rank->rank;
    rank->peer.model.n_shares = world->c->ranks;
    return model_make(&rank->peer.model);
}

void steps_drop(struct steps_rank *rank)
{
    model_drop(&rank->ours.model);
    model_drop(&rank->peer.model);
    stn_context_destroy(&rank->alone);
}

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double steps_run(void *arg, int64_t n)
{
    struct steps_side *side = arg;
    const double start = bench_now(), cpu = cpu_now();
    for (int64_t i = 0; i < n; i++)
        if (model_step(&side->model, NULL) != STN_OK)
            return -1;
    side->cpu_seconds += cpu_now() - cpu;
    side->steps += n;
    return bench_now() - start;
}

void steps_contest(struct steps_rank *rank, struct row *row)
{
    struct world *world = &rank->world->world;
    struct steps_side *sides[] = {&rank->ours, &rank->peer};
    static const char *const names[] = {"cpu_us", "peer_cpu_us"};
    const struct contest contest = {
        .ours = steps_run, .peer = steps_run, .ours_arg = &rank->ours, .peer_arg = &rank->peer};
    for (int i = 0; i < 2; i++) {
        steps_run(sides[i], 1);
        sides[i]->steps = 0;
        sides[i]->cpu_seconds = 0;
    }
    world_measure(world, rank->rank, &contest, row);
    for (int i = 0; i < 2; i++)
        row_count(row, names[i], round(1e6 * sides[i]->cpu_seconds / (double)sides[i]->steps));
    stn_context_stats_reset(rank->context);
    model_step(&rank->ours.model, NULL);
    const stn_stats stats = world_stats(rank->context);
    row_count(row, "bytes_sent", (double)stats.bytes_sent);
    row_count(row, "messages", (double)stats.messages);
    if (rank->rank == 0)
        row_print(world->bench, row);
}
