/* How a row is measured and printed. */
#include "runtime.h"
#include "team.h"

#include "core/context/context.h"
#include "core/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int calls_of(const struct bench_row *row)
{
    return row->burst > 0 ? row->burst : 1;
}

/* What the calls make goes with their scope. */
static stn_status run_burst(struct bench_rank *rank, const struct bench_row *row, bench_call call)
{
    stn_status status = STN_OK;
    stn_scope_begin(rank->context);
    for (int i = 0; i < calls_of(row) && status == STN_OK; i++)
        status = call(rank);
    const stn_status ended = stn_scope_end(rank->context);
    return ended != STN_OK ? ended : status;
}

static stn_status time_host(struct bench_rank *rank, const struct bench_row *row, bench_call call, double *seconds)
{
    *seconds = 0;
    for (int i = 0; i < rank->bench->calls; i++) {
        STNI_TRY(stn_queue_sync(rank->context->queue));
        const double started = now();
        STNI_TRY(run_burst(rank, row, call));
        *seconds += now() - started;
    }
    return stn_queue_sync(rank->context->queue);
}

static stn_status time_device(struct bench_rank *rank, const struct bench_row *row, bench_call call, double *seconds)
{
    stn_queue *queue = rank->context->queue;
    void *stream = stn_queue_native(queue);
    if (runtime_event_record(rank->events[0], stream) != 0)
        return STN_ERR_DEVICE;
    for (int i = 0; i < rank->bench->calls; i++)
        STNI_TRY(run_burst(rank, row, call));
    if (runtime_event_record(rank->events[1], stream) != 0)
        return STN_ERR_DEVICE;
    STNI_TRY(stn_queue_sync(queue));
    return runtime_elapsed(seconds, rank->events[0], rank->events[1]) == 0 ? STN_OK : STN_ERR_DEVICE;
}

/* Seconds of one call on the slowest rank; negative where one failed. */
static double run_trial(struct bench_rank *rank, const struct bench_row *row, bench_call call)
{
    double seconds = 0;
    stn_status status = stn_queue_sync(rank->context->queue);
    team_wait(rank->team);
    if (status == STN_OK)
        status = (row->clock == BENCH_HOST ? time_host : time_device)(rank, row, call, &seconds);
    bench_explain(rank, status);
    return team_slowest(rank, status == STN_OK ? seconds / rank->bench->calls / calls_of(row) : -1);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_of(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* Waits of the host and launches of one of our calls: the most of any rank; negative where a call failed. */
struct counts {
    double waits, launches;
};

static struct counts count_calls(struct bench_rank *rank, const struct bench_row *row)
{
    stn_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    stn_context_stats(rank->context, &before);
    const stn_status status = run_burst(rank, row, row->ours);
    stn_context_stats(rank->context, &after);
    bench_explain(rank, status);
    const double waits = (double)(after.host_syncs - before.host_syncs),
                 launches = (double)(after.kernels - before.kernels), n = calls_of(row);
    return (struct counts){team_slowest(rank, status == STN_OK ? waits / n : -1), team_slowest(rank, launches / n)};
}

void bench_print(const struct bench_rank *rank, const char *name, const char *label, double ours, double peer,
                 const char *unit, double ratio)
{
    if (rank->rank == 0)
        printf("%-8s %-50s %10.4g %10.4g %-8s %7.3f\n", name, label, ours, peer, unit, ratio);
}

/* A rate where the row has one, else microseconds. */
static double shown(const struct bench_row *row, double seconds)
{
    return row->unit ? row->work / seconds : seconds * 1e6;
}

static void print_row(const struct bench_rank *rank, const struct bench_row *row, const struct bench_times *times,
                      double ratio, struct counts counts)
{
    if (rank->rank != 0)
        return;
    printf("%-8s %-50s %10.4g %10.4g %-8s %7.3f %6.3g waits %6.3g launches\n", row->name, row->label,
           shown(row, times->ours), shown(row, times->peer), row->unit ? row->unit : "us", ratio, counts.waits,
           counts.launches);
    fflush(stdout);
}

struct bench_times bench_measure(struct bench_rank *rank, const struct bench_row *row)
{
    double ours[BENCH_MOST_PAIRS], peer[BENCH_MOST_PAIRS], ratios[BENCH_MOST_PAIRS];
    struct bench_times times = {0, 0};
    struct counts counts = {0, 0};
    const int pairs = rank->bench->pairs;
    rank->arg = row->arg;
    for (int i = -1; i < pairs && times.ours >= 0 && times.peer >= 0;
         i++) { /* the first pair loads kernels and fills caches */
        times.ours = run_trial(rank, row, row->ours);
        times.peer = row->peer ? run_trial(rank, row, row->peer) : row->peer_seconds;
        if (i < 0)
            continue;
        ours[i] = times.ours;
        peer[i] = times.peer;
        ratios[i] = times.peer / times.ours;
    }
    if (times.ours >= 0 && times.peer >= 0)
        counts = count_calls(rank, row);
    if (times.ours < 0 || times.peer < 0 || counts.waits < 0) {
        team_fail(rank, row->name, row->label);
        return (struct bench_times){-1, -1};
    }
    times = (struct bench_times){median_of(ours, pairs), median_of(peer, pairs)};
    print_row(rank, row, &times, median_of(ratios, pairs), counts);
    return times;
}
