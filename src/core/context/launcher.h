/* Which launcher started this process. */
#ifndef STNI_CORE_CONTEXT_LAUNCHER_H
#define STNI_CORE_CONTEXT_LAUNCHER_H

/* A job of processes. */
struct stni_job {
    const char *launcher; /* for texts; NULL: none, ranks are threads of this process */
    int size;             /* ranks; 0: the launcher does not say */
    int is_own_size;      /* the launcher's own number, not that of an allocation, which a job need not fill */
    const char *host;     /* the ranks meet there over TCP; NULL: they are MPI's */
    int port, rank;       /* where there is a host: from which port on, and which of the ranks this is */
    char name[128];       /* what tells this job from others that may meet at one of the same ports */
    const char *apart;    /* without a launcher: what started this process as one of several that nothing joins; NULL: nothing did */
    const char *by;       /* the variables that say so */
    const char *rank_variable; /* of one apart whose rank is no number from 0 on; else NULL */
};

/* The environment: the value of a variable, NULL where it is not set. */
typedef const char *(*stni_environment)(void *arg, const char *name);

/* A pure function of the environment:
 *     OMPI_COMM_WORLD_SIZE               mpirun of Open MPI
 *     PMIX_RANK                          srun --mpi=pmix, prterun; Slurm says the size of the step
 *     PMI_RANK and PMI_SIZE              mpiexec of MPICH, srun --mpi=pmi2
 *     SLURM_* alone                      a shell of salloc or sbatch: no job of MPI
 *     RANK, WORLD_SIZE above 1           with MASTER_ADDR and MASTER_PORT: torchrun; the ranks meet from the port behind that on, which is its own
 *     SLURM_STEP_NUM_TASKS above 1       with SLURM_PROCID and none of the above: srun without PMI; the ranks meet where MASTER_ADDR and MASTER_PORT
 *                                        are set as well, else the processes are apart
 *     RANK, WORLD_SIZE above 1           without them: processes apart
 * SLURM_NTASKS, of what was allocated, is the size where nothing else says it.
 * A size that is no number from 1 on is as if it were not set. */
struct stni_job stni_job_of(stni_environment get, void *arg);

/* That of this process. */
struct stni_job stni_job_here(void);

#endif
