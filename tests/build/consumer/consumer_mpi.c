/* A program outside the tree that brings its own MPI: the module is found in the installed library's folder. */
#include <shardtensor/mpi.h>
#include <shardtensor/shardtensor.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    char why[256] = "";
    const stn_comm_options options = {sizeof options, NULL, NULL, why, sizeof why};
    stn_context_options with = {.size = sizeof with};
    stn_context *context = NULL;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    stn_status status = stn_comm_from_mpi(MPI_COMM_WORLD, 30, &options, &with.comm);
    if (status == STN_OK)
        status = stn_context_create(&with, &context);
    int right = status == STN_OK && stn_context_rank(context) == rank && stn_context_size(context) == size && size == 2;
    int64_t sum = rank + 1;
    if (right)
        right = stn_comm_all_reduce(stn_context_comm(context), &sum, &sum, 1, STN_DTYPE_I64, STN_SUM, NULL) == STN_OK &&
                sum == 3;
    printf("rank %d of %d: %s %s\n", rank, size, right ? "right" : "wrong", why);
    stn_context_destroy(&context);
    MPI_Finalize();
    return !right;
}
