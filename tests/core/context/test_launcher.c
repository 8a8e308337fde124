/* Which launcher started a process, from made-up environments. */
#include "harness.h"

#include "core/context/launcher.h"

#include <string.h>

struct variable {
    const char *name, *value;
};

static const char *look_up(void *arg, const char *name)
{
    for (const struct variable *v = arg; v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v->value;
    return NULL;
}

/* Launcher NULL: threads. */
static void check(struct variable *environment, const char *launcher, int size)
{
    struct stni_job job = stni_job_of(look_up, environment);
    CHECK_STR(job.launcher, launcher);
    CHECK_I64(job.size, size);
}

static void an_empty_environment_is_no_job(void)
{
    check((struct variable[]){{0}}, NULL, 0);
}

static void mpirun_of_open_mpi_is_a_job(void)
{
    check((struct variable[]){{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}, {0}},
          "Open MPI's mpirun", 4);
    check((struct variable[]){{"OMPI_COMM_WORLD_SIZE", "1"}, {0}}, "Open MPI's mpirun", 1);
}

static void mpiexec_of_mpich_is_a_job(void)
{
    check((struct variable[]){{"PMI_SIZE", "6"}, {"PMI_RANK", "0"}, {0}}, "PMI", 6);
}

static void a_rank_without_a_size_is_no_job_of_pmi(void)
{
    check((struct variable[]){{"PMI_RANK", "0"}, {0}}, NULL, 0);
    check((struct variable[]){{"PMI_SIZE", "6"}, {0}}, NULL, 0);
}

static void srun_with_pmix_is_a_job_of_the_steps_size(void)
{
    check((struct variable[]){{"SLURM_JOB_ID", "7"},
                              {"SLURM_NTASKS", "8"},
                              {"SLURM_STEP_NUM_TASKS", "3"},
                              {"SLURM_PROCID", "1"},
                              {"PMIX_RANK", "1"},
                              {0}},
          "PMIx", 3);
    check((struct variable[]){{"SLURM_NTASKS", "8"}, {"PMIX_RANK", "1"}, {0}}, "PMIx", 8);
}

static void what_was_allocated_is_not_the_launchers_own_size(void)
{
    struct variable own[] = {{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"PMIX_RANK", "1"}, {0}};
    struct variable allocated[] = {{"SLURM_NTASKS", "8"}, {"PMIX_RANK", "1"}, {0}}, none[] = {{"PMIX_RANK", "1"}, {0}};
    CHECK_I64(stni_job_of(look_up, own).is_own_size, 1);
    CHECK_I64(stni_job_of(look_up, allocated).is_own_size, 0);
    CHECK_I64(stni_job_of(look_up, none).is_own_size, 0);
}

static void pmix_alone_leaves_the_size_to_mpi(void)
{
    check((struct variable[]){{"PMIX_RANK", "0"}, {0}}, "PMIx", 0);
}

static void srun_with_pmi2_is_a_job(void)
{
    check((struct variable[]){{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "1"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {0}},
          "PMI", 2);
}

static void a_shell_in_an_allocation_of_slurm_starts_threads(void)
{
    check(
        (struct variable[]){
            {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "2"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {0}},
        NULL, 0);
}

static void check_apart(struct variable *environment, const char *starter, int size)
{
    struct stni_job job = stni_job_of(look_up, environment);
    CHECK(job.launcher == NULL);
    CHECK_STR(job.apart, starter);
    if (starter)
        CHECK_I64(job.size, size);
}

static void processes_that_were_started_apart_are_told(void)
{
    check_apart(
        (struct variable[]){{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "here"}, {0}},
        "torchrun", 4);
    check_apart(
        (struct variable[]){{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "here"}, {0}},
        NULL, 0);
    check_apart((struct variable[]){{"RANK", "1"}, {"WORLD_SIZE", "4"}, {0}}, "torchrun", 4);
    check_apart((struct variable[]){{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "a"},
                                    {0}}, "torchrun", 4);
    check_apart((struct variable[]){{"WORLD_SIZE", "4"}, {0}}, NULL, 0);
    check_apart((struct variable[]){{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "3"}, {0}},
                "srun without PMI", 8);
    /* The shell of sbatch has SLURM_PROCID too, but no step. */
    check_apart((struct variable[]){{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {0}}, NULL, 0);
    check_apart((struct variable[]){{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {0}},
                NULL, 0);
}

static void check_meets(struct variable *environment, const char *launcher, int rank, int size, const char *name)
{
    struct stni_job job = stni_job_of(look_up, environment);
    CHECK_STR(job.launcher, launcher);
    CHECK_STR(job.host, "here");
    CHECK_I64(job.port, 29501);
    CHECK_I64(job.rank, rank);
    CHECK_I64(job.size, size);
    CHECK_STR(job.name, name);
}

static void processes_that_know_a_place_meet_there(void)
{
    check_meets((struct variable[]){{"RANK", "0"},
                                    {"WORLD_SIZE", "4"},
                                    {"LOCAL_RANK", "0"},
                                    {"MASTER_ADDR", "here"},
                                    {"MASTER_PORT", "29500"},
                                    {"TORCHELASTIC_RUN_ID", "mine"},
                                    {"TORCHELASTIC_RESTART_COUNT", "2"},
                                    {0}},
                "torchrun", 0, 4, "mine.2 at 29500");
    check_meets(
        (struct variable[]){{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "here"}, {"MASTER_PORT", "29500"}, {0}},
        "torchrun", 3, 4, ". at 29500");
    check_meets((struct variable[]){{"SLURM_PROCID", "1"},
                                    {"SLURM_STEP_NUM_TASKS", "2"},
                                    {"SLURM_JOB_ID", "7"},
                                    {"SLURM_STEP_ID", "1"},
                                    {"MASTER_ADDR", "here"},
                                    {"MASTER_PORT", "29500"},
                                    {0}},
                "srun without PMI", 1, 2, "7.1 at 29500");
    check_apart((struct variable[]){{"RANK", "first"},
                                    {"WORLD_SIZE", "4"},
                                    {"LOCAL_RANK", "1"},
                                    {"MASTER_ADDR", "here"},
                                    {"MASTER_PORT", "29500"},
                                    {0}},
                "torchrun", 4);
    const struct stni_job job =
        stni_job_of(look_up, (struct variable[]){{"RANK", "first"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "here"}, {0}});
    CHECK_STR(job.rank_variable, "RANK");
    /* MPI's own world comes first. */
    check((struct variable[]){{"OMPI_COMM_WORLD_SIZE", "2"},
                              {"RANK", "1"},
                              {"WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "here"},
                              {"MASTER_PORT", "29500"},
                              {0}},
          "Open MPI's mpirun", 2);
}

static void sizes_that_are_no_numbers_are_as_if_absent(void)
{
    static const char *const bad[] = {"", "0", "-1", "four", "4 ranks", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check((struct variable[]){{"OMPI_COMM_WORLD_SIZE", bad[i]}, {0}}, NULL, 0);
        check((struct variable[]){{"PMI_RANK", "0"}, {"PMI_SIZE", bad[i]}, {0}}, NULL, 0);
        check((struct variable[]){{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", bad[i]}, {"SLURM_NTASKS", "5"}, {0}},
              "PMIx", 5);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_empty_environment_is_no_job", an_empty_environment_is_no_job},
        {"mpirun_of_open_mpi_is_a_job", mpirun_of_open_mpi_is_a_job},
        {"mpiexec_of_mpich_is_a_job", mpiexec_of_mpich_is_a_job},
        {"a_rank_without_a_size_is_no_job_of_pmi", a_rank_without_a_size_is_no_job_of_pmi},
        {"srun_with_pmix_is_a_job_of_the_steps_size", srun_with_pmix_is_a_job_of_the_steps_size},
        {"what_was_allocated_is_not_the_launchers_own_size", what_was_allocated_is_not_the_launchers_own_size},
        {"pmix_alone_leaves_the_size_to_mpi", pmix_alone_leaves_the_size_to_mpi},
        {"srun_with_pmi2_is_a_job", srun_with_pmi2_is_a_job},
        {"a_shell_in_an_allocation_of_slurm_starts_threads", a_shell_in_an_allocation_of_slurm_starts_threads},
        {"processes_that_were_started_apart_are_told", processes_that_were_started_apart_are_told},
        {"processes_that_know_a_place_meet_there", processes_that_know_a_place_meet_there},
        {"sizes_that_are_no_numbers_are_as_if_absent", sizes_that_are_no_numbers_are_as_if_absent},
    };
    return TEST_MAIN(argc, argv, cases);
}
