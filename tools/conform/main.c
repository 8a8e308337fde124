/* stn-conform: runs conformance cases on meshes of ranks, in many layouts, and compares with what one process gave. */
#include "cast.h"
#include "common/isa_option.h"
#include "common/thread_ranks.h"
#include "options.h"
#include "report.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static void run_read(const struct options *options, struct report *report, const char *path, struct conform_case *c)
{
    char error[512];
    if (options->run.dtype != STN_DTYPE_F32) {
        const enum cast_result cast = case_cast(c, options->run.dtype, error, sizeof error);
        if (cast == CAST_FAILED)
            report_file(report, path, error);
        report->skipped += cast == CAST_NOTHING;
        if (cast != CAST_DONE)
            return;
    }
    for (int i = 0; i < options->n_grids; i++)
        if (!run_case(&options->run, c, &options->grids[i], report_configuration, report))
            report_file(report, path, "out of memory");
}

static void run_file(const struct options *options, struct report *report, const char *path)
{
    char error[512] = "out of memory";
    struct conform_case *c = malloc(sizeof *c);
    if (c == NULL || !case_read(path, c, error, sizeof error)) {
        report_file(report, path, error);
        free(c);
        return;
    }
    run_read(options, report, path, c);
    case_free(c);
    free(c);
}

static int is_case(const struct dirent *entry)
{
    const char *ending = strrchr(entry->d_name, '.');
    return ending != NULL && strcmp(ending, ".safetensors") == 0;
}

static void run_path(const struct options *options, struct report *report, const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_case, alphasort);
    if (n < 0) {
        run_file(options, report, path);
        return;
    }
    if (n == 0)
        report_file(report, path, "no cases in this folder");
    for (int i = 0; i < n; i++) {
        char file[4096];
        if (snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name) < (int)sizeof file)
            run_file(options, report, file);
        else
            report_file(report, path, "a path is too long");
        free(entries[i]);
    }
    free(entries);
}

/* Where this process of a job writes: every rank knows the same verdicts, so rank 0 is enough. NULL when it has said
 * why not. */
static FILE *join(struct options *options)
{
    char error[512] = "";
    int rank, size;
    if (!run_find_job(&rank, &size, error, sizeof error) || !options_fit(options, size, error, sizeof error) ||
        !run_join_hosts(options->run.module_path, &options->run.hosts, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return NULL;
    }
    return rank == 0 ? stdout : fopen("/dev/null", "w");
}

int main(int argc, char **argv)
{
    struct options options;
    char error[512];
    if (!options_parse(argc, argv, &options, error, sizeof error)) {
        fprintf(stderr, "%s%s%s", error, error[0] ? "\n" : "", error[0] ? "" : options_usage);
        return EXIT_USAGE;
    }
    int lacking = isa_option_check(options.run.isa);
    if (!lacking && !options.run.processes)
        lacking = thread_ranks_check("--comm mpi runs cases on the job's ranks");
    if (lacking)
        return lacking;
    FILE *out = options.run.processes ? join(&options) : stdout;
    if (out == NULL)
        return EXIT_USAGE;
    struct report report = {.out = out, .options = &options.run};
    for (int i = 0; i < options.n_paths; i++)
        run_path(&options, &report, options.paths[i]);
    report_end(&report);
    int good = report.failed == 0 && report.passed > 0;
    report_free(&report);
    stn_comm_destroy(&options.run.hosts);
    if (out != stdout)
        fclose(out);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
