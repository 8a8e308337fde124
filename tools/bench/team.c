/* Pairs on a team of ranks. Whatever decides how ranks go on is computed alike by all of them from the team's shared
 * times. */
#include "team.h"

#include <math.h>
#include <string.h>

enum { MOST_REPETITIONS = 100000000 };

int team_init(struct team *team, const struct bench *bench, int ranks)
{
    memset(team, 0, sizeof *team);
    team->bench = bench;
    team->ranks = ranks;
    return ranks <= TEAM_MAX_RANKS && pthread_barrier_init(&team->barrier, NULL, (unsigned)ranks) == 0;
}

void team_fini(struct team *team)
{
    pthread_barrier_destroy(&team->barrier);
}

void team_wait(struct team *team)
{
    pthread_barrier_wait(&team->barrier);
}

/* Seconds of the slowest rank; negative where one failed. */
static double run_trial(struct team *team, int rank, team_trial trial, void *arg, int64_t n)
{
    team_wait(team);
    team->seconds[rank] = trial(arg, n);
    team_wait(team);
    double slowest = 0;
    for (int r = 0; r < team->ranks; r++) {
        if (team->seconds[r] < 0)
            return -1;
        slowest = team->seconds[r] > slowest ? team->seconds[r] : slowest;
    }
    return slowest;
}

/* Repetitions that last as long as a measurement should; it warms up what is measured. */
static int64_t calibrate(struct team *team, int rank, team_trial trial, void *arg)
{
    const double wanted = team->bench->seconds;
    int64_t n = 1;
    for (;;) {
        double seconds = run_trial(team, rank, trial, arg, n);
        if (seconds < 0)
            return 0;
        if (seconds >= wanted / 2 || n >= MOST_REPETITIONS) {
            double scaled = (double)n * wanted / (seconds > 0 ? seconds : wanted);
            return scaled < 1 ? 1 : (int64_t)scaled;
        }
        n *= seconds < wanted / 16 ? 8 : 2;
    }
}

void team_choose(struct team *team, int rank, int ways, void (*choose)(void *arg, int way), team_trial trial, void *arg)
{
    int best = 0;
    double best_seconds = HUGE_VAL;
    for (int way = 0; way < ways; way++) {
        double least = HUGE_VAL;
        choose(arg, way);
        run_trial(team, rank, trial, arg, 1);
        for (int attempt = 0; attempt < 5; attempt++)
            least = fmin(least, run_trial(team, rank, trial, arg, 2));
        if (least < best_seconds) {
            best_seconds = least;
            best = way;
        }
    }
    choose(arg, best);
}

void team_measure(struct team *team, int rank, const struct contest *contest, struct samples *samples)
{
    int64_t n_ours = contest->repetitions, n_peer = contest->repetitions;
    if (contest->repetitions == 0) {
        n_ours = calibrate(team, rank, contest->ours, contest->ours_arg);
        n_peer = calibrate(team, rank, contest->peer, contest->peer_arg);
    }
    struct samples found = {0};
    for (int i = 0; n_ours > 0 && n_peer > 0 && i < team->bench->pairs; i++) {
        double ours = run_trial(team, rank, contest->ours, contest->ours_arg, n_ours);
        double peer = run_trial(team, rank, contest->peer, contest->peer_arg, n_peer);
        if (ours < 0 || peer < 0) {
            found.n = 0;
            break;
        }
        found.ours[i] = ours / (double)n_ours;
        found.peer[i] = peer / (double)n_peer;
        found.n = i + 1;
    }
    team_wait(team);
    if (rank == 0)
        *samples = found;
    team_wait(team);
}
