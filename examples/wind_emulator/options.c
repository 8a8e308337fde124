#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1024 };

static const struct options defaults = {
    .epochs = 16, .lead = 6, .threads = 1, .out = "out/wind",
    .source = {.folder = "/usr/share/ferret-vis/data", .variables = {"UWND", "VWND"}, .components = 2}};

enum { DEFAULT_RANKS = 2 };

void options_print_help(void)
{
    printf("usage: wind_emulator [--mesh DxHxW] [--ranks N] [--epochs E] [--seed S] [--data DIR] [--file F --vars A,B] "
           "[--out DIR]\n"
           "                     [--lead L] [--parameters FILE] [--trace FILE] [--threads T] [--check]\n"
           "Trains a neural emulator of monthly mean winds, its fields spread over ranks, and scores it on months that "
           "it never saw.\n"
           "  --mesh DxHxW   D groups of ranks share a batch, H cut the latitudes, W the longitudes (1x%dx1)\n"
           "  --ranks N      alone: --mesh 1xNx1\n"
           "  --epochs E     (%d)      --seed S  (0)      --threads T  compute threads of a rank (%d)\n"
           "  --lead L       months ahead up to which runs on its own forecasts are scored (%d), at most %d\n"
           "  --data DIR     of monthly_navy_winds.cdf and etopo120.cdf (%s)\n"
           "  --file F --vars A,B   another file of monthly (time, latitude, longitude) variables, at least %d months\n"
           "  --out DIR      for metrics.json, maps and parameters (%s)\n"
           "  --parameters FILE   what an earlier run saved: training begins there; with --epochs 0 they are scored\n"
           "  --trace FILE   what each rank did when, for Perfetto; rank r > 0 writes FILE.r\n"
           "  --check        trains 20 steps and rolls out on 1 rank and on all, and compares losses, gradients, "
           "parameters, forecasts\n"
           "Under mpirun the processes are the ranks.\n",
           DEFAULT_RANKS, defaults.epochs, defaults.threads, defaults.lead, MOST_LEAD, defaults.source.folder,
           LEAST_MONTHS, defaults.out);
}

static int complain(const char *name, const char *got, const char *wanted)
{
    fprintf(stderr, "wind_emulator: %s got '%s', wanted %s\n", name, got ? got : "nothing", wanted);
    return 0;
}

static int parse_number(const char *name, const char *text, long long least, long long most, long long *out)
{
    char *end, wanted[64];
    errno = 0;
    *out = text ? strtoll(text, &end, 10) : 0;
    if (text && !errno && end != text && !*end && *out >= least && *out <= most)
        return 1;
    snprintf(wanted, sizeof wanted, "a number from %lld to %lld", least, most);
    return complain(name, text, wanted);
}

static int parse_int(const char *name, const char *text, int least, int most, int *out)
{
    long long n;
    int ok = parse_number(name, text, least, most, &n);
    if (ok)
        *out = (int)n;
    return ok;
}

static int parse_seed(const char *text, uint64_t *out)
{
    long long n;
    int ok = parse_number("--seed", text, 0, INT64_MAX, &n);
    *out = (uint64_t)n;
    return ok;
}

static int parse_text(const char *name, const char *text, const char **out)
{
    if (!text || !text[0])
        return complain(name, NULL, "a path");
    *out = text;
    return 1;
}

static int parse_mesh(const char *text, int mesh[AXES])
{
    int used = 0;
    long long ranks = 1;
    if (!text || sscanf(text, "%4dx%4dx%4d%n", &mesh[0], &mesh[1], &mesh[2], &used) != AXES || text[used])
        return complain("--mesh", text, "DxHxW, as 1x2x1");
    for (int a = 0; a < AXES; a++)
        ranks *= mesh[a] < 1 ? 0 : mesh[a];
    return ranks >= 1 && ranks <= MOST_RANKS ? 1 : complain("--mesh", text, "sizes of at least 1, 1024 ranks at most");
}

static int parse_variables(const char *text, struct options *o)
{
    free(o->variables);
    o->variables = text ? malloc(strlen(text) + 1) : NULL;
    if (!o->variables || !text[0])
        return complain("--vars", text, "names with commas between them");
    char *at = strcpy(o->variables, text);
    for (o->source.components = 0; at; o->source.components++) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = 0;
        if (!*at || o->source.components == MOST_COMPONENTS)
            return complain("--vars", text, "1 to 8 names with commas between them");
        o->source.variables[o->source.components] = at;
        at = comma ? comma + 1 : NULL;
    }
    return 1;
}

/* Takes an option and its value; returns how many arguments that were, 0 on a failure. */
static int parse_one(const char *name, const char *next, struct options *o)
{
    if (strcmp(name, "--check") == 0)
        return o->check = 1;
    if (strcmp(name, "--help") == 0)
        return o->help = 1;
    if (strcmp(name, "--mesh") == 0)
        return 2 * parse_mesh(next, o->mesh);
    if (strcmp(name, "--ranks") == 0)
        return 2 * parse_int(name, next, 1, MOST_RANKS, &o->ranks);
    if (strcmp(name, "--epochs") == 0)
        return 2 * parse_int(name, next, 0, 1000000, &o->epochs);
    if (strcmp(name, "--lead") == 0)
        return 2 * parse_int(name, next, 1, MOST_LEAD, &o->lead);
    if (strcmp(name, "--threads") == 0)
        return 2 * parse_int(name, next, 1, 1024, &o->threads);
    if (strcmp(name, "--seed") == 0)
        return 2 * parse_seed(next, &o->seed);
    if (strcmp(name, "--data") == 0)
        return 2 * parse_text(name, next, &o->source.folder);
    if (strcmp(name, "--file") == 0)
        return 2 * parse_text(name, next, &o->source.file);
    if (strcmp(name, "--vars") == 0)
        return 2 * parse_variables(next, o);
    if (strcmp(name, "--out") == 0)
        return 2 * parse_text(name, next, &o->out);
    if (strcmp(name, "--parameters") == 0)
        return 2 * parse_text(name, next, &o->parameters);
    if (strcmp(name, "--trace") == 0)
        return 2 * parse_text(name, next, &o->trace);
    fprintf(stderr, "wind_emulator: no option '%s'; --help lists them\n", name);
    return 0;
}

/* Mesh and ranks, each from the other where only one was given, both from the job that a launcher started; whether they
 * fit that is for stn_launch to judge. */
static int settle_mesh(struct options *o)
{
    int job = stn_job_size();
    if (o->mesh[0] == 0) {
        int ranks = o->ranks ? o->ranks : job > 0 ? job : DEFAULT_RANKS;
        memcpy(o->mesh, (int[AXES]){1, ranks, 1}, sizeof o->mesh);
    }
    int product = o->mesh[0] * o->mesh[1] * o->mesh[2];
    if (o->ranks && o->ranks != product) {
        fprintf(stderr, "wind_emulator: --mesh %dx%dx%d has %d ranks, --ranks got %d\n", o->mesh[0], o->mesh[1],
                o->mesh[2], product, o->ranks);
        return 0;
    }
    o->ranks = product;
    return 1;
}

int options_parse(int argc, char **argv, struct options *options)
{
    *options = defaults;
    for (int i = 1; i < argc;) {
        int taken = parse_one(argv[i], i + 1 < argc ? argv[i + 1] : NULL, options);
        if (!taken)
            return 0;
        i += taken;
    }
    if (options->source.file && !options->variables)
        return complain("--vars", NULL, "the names of the variables in --file");
    if (options->variables && !options->source.file)
        return complain("--file", NULL, "the file that --vars are in");
    return settle_mesh(options);
}

void options_fini(struct options *options)
{
    free(options->variables);
    options->variables = NULL;
}
