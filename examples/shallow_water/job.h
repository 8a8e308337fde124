/* A piece of work on a model, on thread ranks (under mpirun on the job's). */
#ifndef EXAMPLES_SHALLOW_WATER_JOB_H
#define EXAMPLES_SHALLOW_WATER_JOB_H

#include "model.h"

struct job {
    enum scenario scenario;
    int64_t n;      /* rows of the grid */
    int ranks[2];   /* rows x columns of the mesh */
    stn_status (*work)(const struct model *model, void *arg);
    void *arg;      /* every rank's: what several would write, the first does */
};

/* Runs it. Returns 1, or 0 with one line on standard error. */
int job_run(const struct job *job);

#endif
