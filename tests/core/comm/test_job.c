/* stn_launch in a process that mpirun or torchrun started: it joins the job, once per process, again and again. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* This rank and the job's size, as the launcher says. */
static int from_launcher(const char *openmpi, const char *pmi, const char *torchrun)
{
    const char *text = getenv(openmpi);
    text = text ? text : getenv(pmi);
    text = text ? text : getenv(torchrun);
    return text ? atoi(text) : -1;
}

static int job_size(void)
{
    return from_launcher("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE");
}

static stn_status launch(int ranks, char text[256], stn_rank_main rank_main, void *arg)
{
    const stn_launch_options options = {
        .size = sizeof options,
        .ranks = ranks,
        .context = {.size = sizeof options.context,
                    .module_path = getenv("STN_TEST_MODULES"),
                    .error_text = text,
                    .error_text_size = 256},
    };
    text[0] = '\0';
    return stn_launch(&options, rank_main, arg);
}

static stn_status count_main(stn_context *context, void *arg)
{
    ++*(int *)arg;
    test_set_rank(stn_context_rank(context));
    CHECK_I64(stn_context_rank(context), from_launcher("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"));
    CHECK_I64(stn_context_size(context), job_size());
    int64_t sum = stn_context_rank(context), size = job_size();
    CHECK_STATUS(stn_comm_all_reduce(stn_context_comm(context), &sum, &sum, 1, STN_DTYPE_I64, STN_SUM, NULL), STN_OK);
    CHECK_I64(sum, size * (size - 1) / 2);
    return STN_OK;
}

static void each_process_is_one_rank_of_the_job(void)
{
    char text[256];
    int calls = 0;
    for (int round = 0; round < 100; round++)
        CHECK_STATUS(launch(round % 2 ? job_size() : 0, text, count_main, &calls), STN_OK);
    CHECK_I64(calls, 100);
    CHECK_STR(text, "");
}

static void another_number_of_ranks_is_refused(void)
{
    char text[256], wanted[64];
    int calls = 0;
    CHECK_STATUS(launch(job_size() + 1, text, count_main, &calls), STN_ERR_ARGUMENT);
    snprintf(wanted, sizeof wanted, "stn_launch: ranks got %d, but ", job_size() + 1);
    CHECK(strncmp(text, wanted, strlen(wanted)) == 0);
    snprintf(wanted, sizeof wanted, " started a job of %d", job_size());
    CHECK(strstr(text, wanted) != NULL);
    CHECK_I64(calls, 0);
}

/* As where a program runs with another MPI than its launcher's: every process is a world of its own then. */
static void a_world_of_another_size_than_the_launchers_is_refused(void)
{
    char text[256], wanted[160], said[16], was[16];
    int calls = 0;
    const char *variable = getenv("OMPI_COMM_WORLD_SIZE") ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE";
    const int size = job_size();
    CHECK_STATUS(launch(0, text, count_main, &calls), STN_OK); /* MPI has read its environment */
    snprintf(was, sizeof was, "%d", size);
    snprintf(said, sizeof said, "%d", size + 3);
    setenv(variable, said, 1);
    CHECK_STATUS(launch(0, text, count_main, &calls), STN_ERR_MISMATCH);
    setenv(variable, was, 1);
    snprintf(wanted, sizeof wanted, ": the launcher started %d processes, but MPI opened a world of %d", size + 3,
             size);
    CHECK(strncmp(text, "stn_launch: ", 12) == 0);
    if (!CHECK(strstr(text, wanted) != NULL))
        fprintf(stderr, "\"%s\"\n", text);
    CHECK_STATUS(launch(0, text, count_main, &calls), STN_OK);
    CHECK_I64(calls, 2);
}

static void a_folder_without_the_module_is_told(void)
{
    char text[256] = "";
    int calls = 0;
    const stn_launch_options options = {
        .size = sizeof options,
        .context = {.size = sizeof options.context,
                    .module_path = "/nowhere",
                    .error_text = text,
                    .error_text_size = sizeof text},
    };
    /* The program's own folder has none either; an installed library's would serve. */
    stn_status status = stn_launch(&options, count_main, &calls);
    CHECK(status == STN_ERR_NOT_FOUND ? strstr(text, "no libshardtensor-mpi.so in /nowhere") != NULL
                                      : status == STN_OK && calls == 1);
}

/* A logical computation on all ranks. */
static stn_status tensor_main(stn_context *context, void *arg)
{
    (void)arg;
    int size = stn_context_size(context);
    const stn_placement shard = stn_shard(0), replicate = stn_replicate();
    const int64_t shape[] = {7, 5};
    double got[35];
    stn_scope_begin(context);
    stn_tensor *x =
        test_tensor(context, test_mesh(context, size, 0), &shard, STN_DTYPE_F64, 2, shape, NULL, test_value);
    test_read(stn_redistribute_to(stn_add(x, x), &replicate), got, 35);
    for (int i = 0; i < 35; i++)
        CHECK_NEAR(got[i], 2 * test_value(i), 1e-15);
    return stn_scope_end(context);
}

static void tensors_are_spread_over_the_job(void)
{
    char text[256];
    CHECK_STATUS(launch(0, text, tensor_main, NULL), STN_OK);
    CHECK_STR(text, "");
}

/* As a program ends that has looked at a file on rank 0: in a scope, which takes the error, or outside of any. */
static stn_status agree_main(stn_context *context, void *arg)
{
    const int in_scope = *(int *)arg;
    if (in_scope)
        stn_scope_begin(context);
    const stn_status status = stn_agree(context, stn_context_rank(context) == 0 ? STN_ERR_IO : STN_OK, "no such file");
    CHECK_STATUS(status, STN_ERR_IO);
    return in_scope ? stn_scope_end(context) : status;
}

static void what_ranks_agree_on_ends_each_of_them_with_the_same(void)
{
    char text[256];
    for (int round = 0; round < 40; round++) {
        int in_scope = round % 2;
        CHECK_STATUS(launch(0, text, agree_main, &in_scope), STN_ERR_IO);
        CHECK_STR(text, "rank 0: no such file");
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"each_process_is_one_rank_of_the_job", each_process_is_one_rank_of_the_job},
        {"another_number_of_ranks_is_refused", another_number_of_ranks_is_refused},
        {"a_world_of_another_size_than_the_launchers_is_refused",
         a_world_of_another_size_than_the_launchers_is_refused},
        {"a_folder_without_the_module_is_told", a_folder_without_the_module_is_told},
        {"tensors_are_spread_over_the_job", tensors_are_spread_over_the_job},
        {"what_ranks_agree_on_ends_each_of_them_with_the_same", what_ranks_agree_on_ends_each_of_them_with_the_same},
    };
    return TEST_MAIN(argc, argv, cases);
}
