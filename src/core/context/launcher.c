/* Jobs by their environment: a row for each way in which a process can have been started. */
#include "core/context/launcher.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *launcher;
    const char *needs; /* a variable that must be set; NULL: the size is enough */
    const char *sizes[2];
    const char *allocated; /* the size where those do not say it; NULL: nothing else does */
    int size_needed;
} rows[] = {
    {"Open MPI's mpirun", NULL, {"OMPI_COMM_WORLD_SIZE"}, NULL, 1},
    {"PMIx", "PMIX_RANK", {"SLURM_STEP_NUM_TASKS", "PMI_SIZE"}, "SLURM_NTASKS", 0},
    {"PMI", "PMI_RANK", {"PMI_SIZE"}, NULL, 1},
};

/* Processes that were started together and have no world of MPI. With MASTER_ADDR and MASTER_PORT they meet over
 * TCP. */
static const struct {
    const char *starter, *by;
    const char *size, *rank; /* variables: the size is above 1 */
    const char *names[2];    /* of this job */
} apart[] = {
    {"torchrun", "RANK and WORLD_SIZE", "WORLD_SIZE", "RANK", {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"srun without PMI", "SLURM_PROCID and SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

static int number(const char *text)
{
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;
    return text && end != text && *end == '\0' && n >= 1 && n <= INT_MAX ? (int)n : 0;
}

static int size_of(const struct row *row, stni_environment get, void *arg)
{
    int size = 0;
    for (int i = 0; i < 2 && row->sizes[i] && !size; i++)
        size = number(get(arg, row->sizes[i]));
    return size;
}

/* -1: it is no number from 0 on. */
static int rank_of(const char *text)
{
    return text && strcmp(text, "0") == 0 ? 0 : number(text) - !number(text);
}

static struct stni_job job_apart(size_t i, stni_environment get, void *arg)
{
    struct stni_job job = {.size = number(get(arg, apart[i].size)), .rank = rank_of(get(arg, apart[i].rank))};
    if (job.size <= 1 || !get(arg, apart[i].rank))
        return (struct stni_job){0};
    const char *host = get(arg, "MASTER_ADDR"), *first = get(arg, apart[i].names[0]),
               *second = get(arg, apart[i].names[1]);
    job.port = number(get(arg, "MASTER_PORT"));
    snprintf(job.name, sizeof job.name, "%s.%s at %d", first ? first : "", second ? second : "", job.port);
    if (host && *host && job.port > 0 && job.rank >= 0) {
        job.launcher = apart[i].starter;
        job.host = host;
        job.port++;
        return job;
    }
    return (struct stni_job){.size = job.size,
                             .apart = apart[i].starter,
                             .by = apart[i].by,
                             .rank_variable = job.rank < 0 ? apart[i].rank : NULL};
}

struct stni_job stni_job_of(stni_environment get, void *arg)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int own = size_of(&rows[i], get, arg);
        const int size = own || !rows[i].allocated ? own : number(get(arg, rows[i].allocated));
        if ((!rows[i].needs || get(arg, rows[i].needs)) && (size || !rows[i].size_needed))
            return (struct stni_job){.launcher = rows[i].launcher, .size = size, .is_own_size = own > 0};
    }
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        struct stni_job job = job_apart(i, get, arg);
        if (job.launcher || job.apart)
            return job;
    }
    return (struct stni_job){0};
}

static const char *from_process(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

struct stni_job stni_job_here(void)
{
    return stni_job_of(from_process, NULL);
}
