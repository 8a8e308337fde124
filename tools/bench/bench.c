/* Statistics and rows. */
#include "bench.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Below this a difference of two times is noise. */
static const double CLOCK_SECONDS = 1e-9;

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_times(double ours, double peer, double limit)
{
    (void)limit;
    return peer / ours;
}

double bench_allowance(double ours, double peer, double limit)
{
    return limit / fmax(ours - peer, CLOCK_SECONDS);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The value at a part of the way through sorted values, between two of them where need be. */
static double quantile(const double *sorted, int n, double part)
{
    double at = part * (n - 1);
    int low = (int)at, high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

static double median_of(const double *values, int n)
{
    double sorted[BENCH_MAX_PAIRS];
    memcpy(sorted, values, sizeof *values * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return quantile(sorted, n, 0.5);
}

void row_measure(struct row *row, const struct samples *s, bench_score score, double limit, double unit_seconds)
{
    double scores[BENCH_MAX_PAIRS];
    row->ours = row->peer = row->ratio = row->spread = NAN;
    if (s->n == 0)
        return;
    for (int i = 0; i < s->n; i++)
        scores[i] = score(s->ours[i], s->peer[i], limit);
    qsort(scores, (size_t)s->n, sizeof *scores, by_value);
    row->ours = median_of(s->ours, s->n) / unit_seconds;
    row->peer = median_of(s->peer, s->n) / unit_seconds;
    row->ratio = quantile(scores, s->n, 0.5);
    row->spread = (quantile(scores, s->n, 0.75) - quantile(scores, s->n, 0.25)) / row->ratio;
}

void row_count(struct row *row, const char *name, double value)
{
    if (row->n_counters < BENCH_MAX_COUNTERS)
        row->counters[row->n_counters++] = (struct counter){name, value};
}

static int passes(const struct row *row)
{
    return !row->broken && (isnan(row->gate) || row->ratio >= row->gate);
}

static void print_json(const struct row *row)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", row->name);
    cJSON_AddStringToObject(object, "case", row->label);
    cJSON_AddNumberToObject(object, "ours", row->ours);
    cJSON_AddNumberToObject(object, "peer", row->peer);
    cJSON_AddStringToObject(object, "unit", row->unit);
    cJSON_AddNumberToObject(object, "ratio", row->ratio);
    cJSON_AddNumberToObject(object, "spread", row->spread);
    cJSON_AddNumberToObject(object, "gate", row->gate);
    cJSON_AddNumberToObject(object, "goal", row->goal);
    cJSON_AddBoolToObject(object, "passes", passes(row));
    cJSON *counters = cJSON_AddObjectToObject(object, "counters");
    for (int i = 0; i < row->n_counters; i++)
        cJSON_AddNumberToObject(counters, row->counters[i].name, row->counters[i].value);
    char *text = cJSON_PrintUnformatted(object);
    if (text != NULL)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(object);
}

static void print_text(const struct row *row)
{
    printf("%-14s %-34s %11.4g %11.4g %-4s %8.3f %5.1f%%", row->name, row->label, row->ours, row->peer, row->unit,
           row->ratio, 100 * row->spread);
    if (isnan(row->gate))
        printf("  reported");
    else
        printf("  gate %.3g goal %.3g %s", row->gate, row->goal, passes(row) ? "passes" : "MISSES");
    for (int i = 0; i < row->n_counters; i++)
        printf(" %s=%.10g", row->counters[i].name, row->counters[i].value);
    putchar('\n');
}

void row_print(struct bench *bench, const struct row *row)
{
    if (isnan(row->ours)) {
        bench_fail(bench, "%s %s: not measured", row->name, row->label);
        return;
    }
    if (bench->json)
        print_json(row);
    else
        print_text(row);
    fflush(stdout);
}

void bench_fail(struct bench *bench, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    bench->failed++;
}
