#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 256, MOST_ROWS = 100000, MOST_ITERATIONS = 10000 };

static const struct options defaults = {
    .scenario = DROP, .rows = 128, .ranks = {2, 1}, .hours = 24, .every = 6, .out = "out/shallow_water"};

static void print_help(void)
{
    printf(
        "usage: shallow_water [--case drop|zonal] [--rows N] [--mesh YxX] [--hours H] [--every H] [--out DIR] "
        "[--restart FILE]\n"
        "                     [--assimilate ITERATIONS] [--check]\n"
        "Rotating shallow water, its grid spread over ranks.\n"
        "  --case drop    a dome of water on a turning plane falls apart (the default)\n"
        "         zonal   the steady flow of Williamson et al. 1992 (case 2) between 60 S and 60 N; its error is told\n"
        "  --rows N       of the grid (%d)       --mesh YxX  ranks along rows and columns (%dx%d)\n"
        "  --hours H      of the run (%g)          --every H   hours between pictures and tiles (%g)\n"
        "  --out DIR      for pictures of h, a NetCDF tile of each rank, and state.safetensors (%s)\n"
        "  --restart FILE a state.safetensors, of any mesh\n"
        "  --assimilate N drop: finds the dome again from the height after --hours, by N runs of the adjoint model\n"
        "  --check        conservation, balance, the same bits on one rank and on the mesh, gradients; exit status 1 "
        "if one fails\n"
        "Under mpirun the processes are the ranks.\n",
        (int)defaults.rows, defaults.ranks[0], defaults.ranks[1], defaults.hours, defaults.every, defaults.out);
}

static int complain(const char *name, const char *got, const char *wanted)
{
    fprintf(stderr, "shallow_water: %s got '%s', wanted %s\n", name, got ? got : "nothing", wanted);
    return 0;
}

static int parse_number(const char *name, const char *text, double least, double most, double *out)
{
    char *end, wanted[64];
    errno = 0;
    *out = text ? strtod(text, &end) : 0;
    if (text && !errno && end != text && !*end && *out >= least && *out <= most)
        return 1;
    snprintf(wanted, sizeof wanted, "a number from %g to %g", least, most);
    return complain(name, text, wanted);
}

static int parse_whole(const char *name, const char *text, int least, int most, int *out)
{
    double value;
    char wanted[64];
    if (!parse_number(name, text, least, most, &value))
        return 0;
    *out = (int)value;
    snprintf(wanted, sizeof wanted, "a whole number");
    return *out == value ? 1 : complain(name, text, wanted);
}

static int parse_mesh(const char *text, int ranks[2])
{
    int used = 0;
    if (text && sscanf(text, "%4dx%4d%n", &ranks[0], &ranks[1], &used) == 2 && !text[used] && ranks[0] > 0 &&
        ranks[1] > 0 && ranks[0] * ranks[1] <= MOST_RANKS)
        return 1;
    return complain("--mesh", text, "two numbers of ranks like 2x3, at most 256 in all");
}

static int parse_case(const char *text, enum scenario *out)
{
    if (text && (strcmp(text, "drop") == 0 || strcmp(text, "zonal") == 0)) {
        *out = strcmp(text, "drop") == 0 ? DROP : ZONAL;
        return 1;
    }
    return complain("--case", text, "drop or zonal");
}

static int parse_path(const char *name, const char *text, const char **out)
{
    *out = text;
    return text && text[0] ? 1 : complain(name, NULL, "a path");
}

static int parse_one(const char *name, const char *value, struct options *o)
{
    int rows;
    if (strcmp(name, "--case") == 0)
        return parse_case(value, &o->scenario);
    if (strcmp(name, "--mesh") == 0)
        return parse_mesh(value, o->ranks);
    if (strcmp(name, "--hours") == 0)
        return parse_number(name, value, 0, 1e6, &o->hours);
    if (strcmp(name, "--every") == 0)
        return parse_number(name, value, 1e-3, 1e6, &o->every);
    if (strcmp(name, "--out") == 0)
        return parse_path(name, value, &o->out);
    if (strcmp(name, "--restart") == 0)
        return parse_path(name, value, &o->restart);
    if (strcmp(name, "--assimilate") == 0)
        return parse_whole(name, value, 1, MOST_ITERATIONS, &o->assimilate);
    if (strcmp(name, "--rows") != 0)
        return complain("the command line", name, "an option of --help");
    if (!parse_whole(name, value, 4, MOST_ROWS, &rows))
        return 0;
    o->rows = rows;
    return 1;
}

int options_parse(int argc, char **argv, struct options *options)
{
    *options = defaults;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help();
            return -1;
        }
        if (strcmp(argv[i], "--check") == 0) {
            options->check = 1;
            continue;
        }
        if (!parse_one(argv[i], i + 1 < argc ? argv[i + 1] : NULL, options))
            return 0;
        i++;
    }
    if (options->assimilate && (options->scenario != DROP || options->restart))
        return complain("--assimilate", options->restart ? "--restart" : "--case zonal", "the drop from its beginning");
    return 1;
}
