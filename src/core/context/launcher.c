/* Jobs by their environment: a row for each way in which a process can have been started. */
#include "core/context/launcher.h"

#include <limits.h>
#include <stdlib.h>

static const struct row {
    const char *launcher;
    const char *needs; /* a variable that must be set; NULL: the size is enough */
    const char *sizes[3];
    int size_needed;
} rows[] = {
    {"Open MPI's mpirun", NULL, {"OMPI_COMM_WORLD_SIZE"}, 1},
    {"PMIx", "PMIX_RANK", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "PMI_SIZE"}, 0},
    {"PMI", "PMI_RANK", {"PMI_SIZE"}, 1},
};

/* Processes that were started together and have no world of MPI. */
static const struct {
    const char *starter, *by;
    const char *size; /* a variable that is above 1 */
    const char *needs[3];
} apart[] = {
    {"torchrun", "RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR", "WORLD_SIZE", {"RANK", "LOCAL_RANK", "MASTER_ADDR"}},
    {"srun without PMI", "SLURM_PROCID and SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS", {"SLURM_PROCID"}},
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
    for (int i = 0; i < 3 && row->sizes[i] && !size; i++)
        size = number(get(arg, row->sizes[i]));
    return size;
}

struct stni_job stni_job_of(stni_environment get, void *arg)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int size = size_of(&rows[i], get, arg);
        if ((!rows[i].needs || get(arg, rows[i].needs)) && (size || !rows[i].size_needed))
            return (struct stni_job){.launcher = rows[i].launcher, .size = size};
    }
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        int size = number(get(arg, apart[i].size)), all = 1;
        for (int k = 0; k < 3 && apart[i].needs[k]; k++)
            all &= get(arg, apart[i].needs[k]) != NULL;
        if (all && size > 1)
            return (struct stni_job){.size = size, .apart = apart[i].starter, .by = apart[i].by};
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
