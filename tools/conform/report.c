/* Lines and the table. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

/* The row of an op, made on first use; NULL when memory is out: the table then lacks it. */
static struct op_row *row_of(struct report *report, const char *name)
{
    for (int i = 0; i < report->n_rows; i++)
        if (strcmp(report->rows[i].name, name) == 0)
            return &report->rows[i];
    if (report->n_rows == report->cap_rows) {
        int cap = report->cap_rows ? 2 * report->cap_rows : 16;
        struct op_row *rows = realloc(report->rows, sizeof *rows * (size_t)cap);
        if (rows == NULL)
            return NULL;
        report->rows = rows;
        report->cap_rows = cap;
    }
    struct op_row *row = &report->rows[report->n_rows++];
    *row = (struct op_row){0};
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

/* The entry of a kernel that the device lacks; NULL when memory is out: the configuration is counted all the same. */
static struct missing_kernel *missing_of(struct report *report, const char *slot)
{
    for (int i = 0; i < report->n_missing; i++)
        if (strcmp(report->missing[i].slot, slot) == 0)
            return &report->missing[i];
    if (report->n_missing == report->cap_missing) {
        int cap = report->cap_missing ? 2 * report->cap_missing : 16;
        struct missing_kernel *missing = realloc(report->missing, sizeof *missing * (size_t)cap);
        if (missing == NULL)
            return NULL;
        report->missing = missing;
        report->cap_missing = cap;
    }
    struct missing_kernel *entry = &report->missing[report->n_missing++];
    *entry = (struct missing_kernel){0};
    snprintf(entry->slot, sizeof entry->slot, "%.*s", (int)sizeof entry->slot - 1, slot);
    return entry;
}

static void count_unsupported(struct report *report, const char *slot)
{
    struct missing_kernel *entry = missing_of(report, slot);
    report->unsupported++;
    if (entry != NULL)
        entry->configurations++;
}

static void describe_grid(const struct grid *grid, char *text, size_t size)
{
    int length = snprintf(text, size, grid->ndim == 1 ? "--ranks %d" : "--mesh %d", grid->sizes[0]);
    for (int a = 1; a < grid->ndim; a++)
        length += snprintf(text + length, size - (size_t)length, "x%d", grid->sizes[a]);
}

static void print_failure(const struct report *report, const struct conform_case *c, const struct grid *grid,
                          const struct configuration *configuration, const struct verdict *verdict)
{
    const struct run_options *options = report->options;
    char mesh[128], placements[32] = "all", layout[4096], job[32] = "", device[4096] = "";
    if (options->processes)
        snprintf(job, sizeof job, "mpirun -n %d ", grid->ranks);
    if (options->device)
        snprintf(device, sizeof device, " --device %s%s%s", options->device,
                 options->module_path ? " --module-path " : "", options->module_path ? options->module_path : "");
    if (options->scratch > 0)
        snprintf(device + strlen(device), sizeof device - strlen(device), " --scratch %lld",
                 (long long)(options->scratch >> 20));
    if (options->ring_attention == STN_RING_ATTENTION_ALWAYS)
        strncat(device, " --ring-attention always", sizeof device - strlen(device) - 1);
    describe_grid(grid, mesh, sizeof mesh);
    if (options->placements != INT64_MAX)
        snprintf(placements, sizeof placements, "%lld", (long long)options->placements);
    fprintf(report->out, "FAIL %s %s", c->name, configuration->uneven ? "uneven" : "balanced");
    for (int i = 0; i < c->n_inputs; i++) {
        layout_describe(grid, &configuration->layouts[i], c->input[i].ndim, layout, sizeof layout);
        fprintf(report->out, " %s=%s", c->input_name[i], layout);
    }
    fprintf(
        report->out, ": %s | %sstn-conform%s%s %s --placements %s --seed %llu --queue %s%s%s%s%s --only %lld %s\n",
        verdict->text, job,
        options->processes ? " --comm mpi"
        : options->nccl    ? " --comm nccl"
                           : "",
        device, mesh, placements, (unsigned long long)options->seed,
        options->queue == STN_QUEUE_WORKER ? "worker" : "immediate", options->dtype == STN_DTYPE_F32 ? "" : " --dtype ",
        options->dtype == STN_DTYPE_F32 ? "" : stn_dtype_name(options->dtype), options->without ? " --without " : "",
        options->without ? options->without : "", (long long)configuration->number, c->path);
    fflush(report->out);
}

void report_configuration(void *arg, const struct conform_case *c, const struct grid *grid,
                          const struct configuration *configuration, const struct verdict *verdict)
{
    struct report *report = arg;
    if (verdict->unsupported) {
        count_unsupported(report, verdict->text);
        return;
    }
    struct op_row *row = row_of(report, c->op);
    report->passed += verdict->passed;
    report->failed += !verdict->passed;
    if (row != NULL) {
        row->native += !verdict->fallback;
        row->fallback += verdict->fallback;
        row->failed += !verdict->passed;
        row->bytes += verdict->bytes;
        row->error = verdict->error > row->error ? verdict->error : row->error;
        row->peak = verdict->peak > row->peak ? verdict->peak : row->peak;
    }
    if (!verdict->passed)
        print_failure(report, c, grid, configuration, verdict);
}

void report_file(struct report *report, const char *path, const char *text)
{
    report->failed++;
    fprintf(report->out, "FAIL %s: %s\n", path, text);
}

void report_end(struct report *report)
{
    if (report->n_rows > 0)
        fprintf(report->out, "%-24s %10s %10s %10s %14s %12s %11s\n", "op", "native", "fallback", "failed",
                "bytes moved", "worst error", "peak/bound");
    for (int i = 0; i < report->n_rows; i++) {
        const struct op_row *row = &report->rows[i];
        fprintf(report->out, "%-24s %10lld %10lld %10lld %14lld %12.2e %11.2f\n", row->name, (long long)row->native,
                (long long)row->fallback, (long long)row->failed, (long long)row->bytes, row->error, row->peak);
    }
    for (int i = 0; i < report->n_missing; i++)
        fprintf(report->out, "no kernel %s: %lld configurations\n", report->missing[i].slot,
                (long long)report->missing[i].configurations);
    fprintf(report->out, "%lld passed, %lld failed, %lld skipped", (long long)report->passed, (long long)report->failed,
            (long long)report->skipped);
    if (report->unsupported > 0)
        fprintf(report->out, ", %lld unsupported", (long long)report->unsupported);
    fprintf(report->out, "\n");
}

void report_free(struct report *report)
{
    free(report->rows);
    free(report->missing);
    report->missing = NULL;
    report->n_missing = report->cap_missing = 0;
    report->rows = NULL;
    report->n_rows = report->cap_rows = 0;
}
