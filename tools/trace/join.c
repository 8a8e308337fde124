/* stn-trace-join: the traces of all ranks as one file, which Perfetto and chrome://tracing show with a process per
 * rank.
 *
 *     stn-trace-join OUT IN...
 *
 * Files are read line by line, in the form in which stn_trace_end writes them: a line that begins the list of events,
 * one event a line, a line that ends it. What is written is complete, or is not there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: stn-trace-join OUT IN...\n"
                            "Joins the traces of ranks (PREFIX.0.json PREFIX.1.json ...) in the file OUT.\n";

struct join {
    FILE *out;
    int n_events, n_ranks;
    long long dropped;
    long long *ranks; /* that have been read */
};

/* Without the end of the line, and the comma before it. */
static void strip(char *line)
{
    size_t n = strlen(line);
    if (n > 0 && line[n - 1] == '\n')
        line[--n] = '\0';
    if (n > 0 && line[n - 1] == ',')
        line[n - 1] = '\0';
}

static int begins(const char *line, long long *rank, long long *dropped)
{
    static const char end[] = "\"traceEvents\":[";
    const size_t n = strlen(line);
    return sscanf(line, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"rank\":%lld,\"dropped\":%lld", rank, dropped) ==
               2 &&
           n > sizeof end && strcmp(line + n - (sizeof end - 1), end) == 0;
}

static int says(const char *path, const char *what)
{
    fprintf(stderr, "stn-trace-join: %s %s\n", path, what);
    return 0;
}

static int is_new(struct join *join, long long rank)
{
    for (int i = 0; i < join->n_ranks; i++)
        if (join->ranks[i] == rank)
            return 0;
    join->ranks[join->n_ranks++] = rank;
    return 1;
}

static int copy_events(struct join *join, FILE *in, const char *path, char **line, size_t *size)
{
    while (getline(line, size, in) > 0) {
        strip(*line);
        if (strcmp(*line, "]}") == 0)
            return 1;
        if (fprintf(join->out, "%s%s", join->n_events++ ? ",\n" : "", *line) < 0)
            return says(path, "cannot be copied: the output cannot be written");
    }
    return says(path, "ends in the middle of its events");
}

static int add_open_file(struct join *join, FILE *in, const char *path)
{
    long long rank = 0, dropped = 0;
    char *line = NULL;
    size_t size = 0;
    int good = getline(&line, &size, in) > 0;
    if (good)
        strip(line);
    if (!good || !begins(line, &rank, &dropped))
        good = says(path, "is no trace of a rank");
    else if (!is_new(join, rank))
        good = says(path, "is of a rank that another of the files is of, too");
    else
        good = copy_events(join, in, path, &line, &size);
    join->dropped += dropped;
    free(line);
    return good;
}

static int add_file(struct join *join, const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in)
        return says(path, "cannot be read");
    const int good = add_open_file(join, in, path);
    fclose(in);
    return good;
}

static int add_all(struct join *join, int n, char **paths)
{
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", join->out);
    for (int i = 0; i < n; i++)
        if (!add_file(join, paths[i]))
            return 0;
    fprintf(join->out, "\n],\"otherData\":{\"ranks\":%d,\"dropped\":%lld}}\n", join->n_ranks, join->dropped);
    return 1;
}

/* A rank's trace in the output's place: the first file, where the output was forgotten or is an input by another
 * name. */
static int is_trace(const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in)
        return 0;
    long long rank, dropped;
    char *line = NULL;
    size_t size = 0;
    const int is = getline(&line, &size, in) > 0 && (strip(line), begins(line, &rank, &dropped));
    free(line);
    fclose(in);
    return is;
}

static int write_joined(const char *path, int n, char **paths)
{
    struct join join = {.out = fopen(path, "w"), .ranks = calloc((size_t)n, sizeof *join.ranks)};
    int good = join.out && join.ranks;
    if (!good)
        says(path, "cannot be written");
    good = good && add_all(&join, n, paths);
    if (join.out && (ferror(join.out) | fclose(join.out)) != 0 && good)
        good = says(path, "cannot be written");
    free(join.ranks);
    return good;
}

static int write_beside(const char *path, int n, char **paths)
{
    char *part = malloc(strlen(path) + sizeof ".part");
    if (!part)
        return says(path, "cannot be written: out of memory");
    sprintf(part, "%s.part", path);
    int good = write_joined(part, n, paths);
    if (good && rename(part, path) != 0)
        good = says(path, "cannot be written");
    if (!good)
        remove(part);
    free(part);
    return good;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs(usage, stderr);
        return 2;
    }
    if (is_trace(argv[1])) {
        says(argv[1], "is the trace of a rank, and would be overwritten: name the file for all of them first");
        return 1;
    }
    return write_beside(argv[1], argc - 2, argv + 2) ? 0 : 1;
}
