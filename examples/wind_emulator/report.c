#include "report.h"

#include "maps.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* With its parents. */
static int make_folder(const char *path)
{
    char part[1024];
    if (strlen(path) >= sizeof part)
        return 0;
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return 0;
    }
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static void print_number(FILE *file, const char *name, double value, const char *after)
{
    if (isfinite(value))
        fprintf(file, "    \"%s\": %.6f%s\n", name, value, after);
    else
        fprintf(file, "    \"%s\": null%s\n", name, after);
}

static void print_table(FILE *file, const char *name, const double values[METHODS], const char *after)
{
    fprintf(file, "  \"%s\": {\n", name);
    for (int m = 0; m < METHODS; m++)
        print_number(file, method_names[m], values[m], m + 1 < METHODS ? "," : "");
    fprintf(file, "  }%s\n", after);
}

static void print_list(FILE *file, const char *name, int n, const double *values, const char *after)
{
    fprintf(file, "    \"%s\": [", name);
    for (int i = 0; i < n; i++) {
        fprintf(file, "%s", i ? ", " : "");
        fprintf(file, isfinite(values[i]) ? "%.6f" : "null", values[i]);
    }
    fprintf(file, "]%s\n", after);
}

/* A method's scores, lead after lead. */
static void by_lead(const struct rollout_scores *r, int method, int is_rmse, double values[MOST_LEAD])
{
    for (int l = 0; l < r->leads; l++)
        values[l] = is_rmse ? r->lead[l].rmse[method] : r->lead[l].acc[method];
}

static void print_leads(FILE *file, const char *name, const struct rollout_scores *r, int is_rmse)
{
    fprintf(file, "  \"%s\": {\n", name);
    for (int m = 0; m < METHODS; m++) {
        double values[MOST_LEAD];
        by_lead(r, m, is_rmse, values);
        print_list(file, method_names[m], r->leads, values, m + 1 < METHODS ? "," : "");
    }
    fprintf(file, "  },\n");
}

static int write_metrics(const struct report *r, const struct options *o, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    fprintf(file,
            "{\n  \"ranks\": %d,\n  \"mesh\": \"%dx%dx%d\",\n  \"seed\": %llu,\n  \"epochs\": %d,\n  "
            "\"seconds_per_epoch\": %.4f,\n",
            o->ranks, o->mesh[0], o->mesh[1], o->mesh[2], (unsigned long long)o->seed, o->epochs, r->seconds_per_epoch);
    fprintf(file, "  \"peak_bytes\": %lld,\n", (long long)r->peak_bytes);
    print_table(file, "test_rmse", r->scores.rmse, ",");
    print_table(file, "test_acc", r->scores.acc, ",");
    fprintf(file, "  \"rollout_starts\": %d,\n", r->rollout.starts);
    print_leads(file, "rollout_rmse", &r->rollout, 1);
    print_leads(file, "rollout_acc", &r->rollout, 0);
    fprintf(file, "  \"free_run\": {\n");
    print_list(file, "mean", 1 + FREE_RUN, r->rollout.mean, ",");
    print_list(file, "deviation", 1 + FREE_RUN, r->rollout.deviation, "");
    fprintf(file, "  }\n}\n");
    int bad = ferror(file);
    return fclose(file) == 0 && !bad;
}

static const char *readable(int method, char name[40])
{
    snprintf(name, 40, "%s", method_names[method]);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    return name;
}

static void print_scores(const struct report *r, const struct data *d)
{
    printf("\ntest months %d to %d           RMSE   correlation\n", d->first_test, d->months - 1);
    for (int m = 0; m < METHODS; m++) {
        char name[40];
        printf("  %-28s %6.3f   ", readable(m, name), r->scores.rmse[m]);
        printf(isfinite(r->scores.acc[m]) ? "%6.3f\n" : "     -\n", r->scores.acc[m]);
    }
    printf(
        "damped persistence keeps %.3f of the last anomaly; %.2f s an epoch; at most %.1f MB of tensors on this rank\n",
        r->scores.damping, r->seconds_per_epoch, (double)r->peak_bytes / 1e6);
}

static void print_rollout_table(const struct rollout_scores *r, const char *what, int is_rmse)
{
    char name[40];
    printf("  %-30s", what);
    for (int l = 1; l <= r->leads; l++)
        printf(" %6d", l);
    for (int m = 0; m < METHODS; m++) {
        double values[MOST_LEAD];
        by_lead(r, m, is_rmse, values);
        printf("\n    %-28s", readable(m, name));
        for (int l = 0; l < r->leads; l++)
            printf(isfinite(values[l]) ? " %6.3f" : "      -", values[l]);
    }
    printf("\n");
}

/* Of the fields that came, of forecasts one month ahead and whole years ahead. */
static void print_years(const char *what, const double values[1 + FREE_RUN])
{
    printf("    %-28s %6.3f %6.3f", what, values[0], values[1]);
    for (int month = YEAR; month <= FREE_RUN; month += YEAR)
        printf(" %6.3f", values[month]);
    printf("\n");
}

static void print_rollout(const struct rollout_scores *r)
{
    printf("\non its own forecasts, from %d test months\n", r->starts);
    print_rollout_table(r, "RMSE, months ahead", 1);
    print_rollout_table(r, "correlation, months ahead", 0);
    printf("  %-30s   came      1", "free run, months ahead");
    for (int month = YEAR; month <= FREE_RUN; month += YEAR)
        printf(" %6d", month);
    printf("\n");
    print_years("deviation over the globe", r->deviation);
    print_years("largest mean over the globe", r->mean);
}

/* Rank 0's findings are for all to hear. */
static stn_status agree(stn_context *context, int ok, const char *path)
{
    char text[1200];
    snprintf(text, sizeof text, "%s: cannot be written: %s", path, ok ? "" : strerror(errno));
    return stn_agree(context, ok ? STN_OK : STN_ERR_IO, text);
}

stn_status report_prepare(stn_context *context, const struct options *o)
{
    errno = 0;
    return agree(context, stn_context_rank(context) != 0 || make_folder(o->out), o->out);
}

stn_status report_write(const struct report *r, const struct data *d, const struct model *model,
                        const struct options *o)
{
    char path[1100];
    int first = stn_context_rank(d->context) == 0;
    snprintf(path, sizeof path, "%s/metrics.json", o->out);
    stn_status status = agree(d->context, !first || write_metrics(r, o, path), path);
    snprintf(path, sizeof path, "%s/parameters.safetensors", o->out);
    if (status == STN_OK)
        status = stn_save(d->context, path, PARAMETERS, model->parameter, 0, NULL);
    if (status == STN_OK)
        status = maps_write(d, model, o->out);
    if (status == STN_OK && first) {
        print_scores(r, d);
        print_rollout(&r->rollout);
        printf("written to %s: metrics.json, parameters.safetensors%s\n", o->out, maps_names());
    }
    return status;
}
