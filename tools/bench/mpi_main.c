/* stn-bench-mpi: the peer process of peer_mpi.h. Rank 0 reads orders; the others sleep until it wakes them by a
 * signal: looking for an order now and then takes a core that is being measured away from who measures. It serves as
 * the peer of thread ranks, and measures the library's own ranks of MPI beside it. */
#include "mpi_fftw.h"
#include "mpi_model.h"

#include <shardtensor/mpi.h>
#include <shardtensor/shardtensor.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BARRIER, ALLREDUCE, ALLTOALLV, OUR_BARRIER, OUR_ALLREDUCE, OUR_ALLTOALLV, FFT, RFFT };
enum { UNET = RFFT + 1, TRANSFORMER, SFNO, COLLECTIVES };
enum { TAG = 1, MOST_RANKS = 64, WAKE = SIGUSR1 };

struct order {
    long long coll, first, second, n; /* collective -1: the end */
};

struct buffers {
    float *send, *recv;
    long long capacity; /* elements */
};

static const char *const collectives[COLLECTIVES] = {"barrier",       "allreduce",     "alltoallv", "our-barrier",
                                                     "our-allreduce", "our-alltoallv", "fft",       "rfft",
                                                     "U-Net",         "transformer",   "SFNO"};

static int reserve(struct buffers *b, long long n)
{
    if (n <= b->capacity)
        return 1;
    free(b->send);
    free(b->recv);
    b->send = malloc(sizeof *b->send * (size_t)n);
    b->recv = malloc(sizeof *b->recv * (size_t)n);
    b->capacity = b->send != NULL && b->recv != NULL ? n : 0;
    for (long long i = 0; i < b->capacity; i++)
        b->send[i] = b->recv[i] = (float)(i % 100);
    return b->capacity > 0;
}

static stn_status run_ours(const struct order *o, struct buffers *b, stn_comm *comm)
{
    const int64_t counts[2] = {stn_comm_rank(comm) == 0 ? o->first : o->second,
                               stn_comm_rank(comm) == 0 ? o->second : o->first};
    if (o->coll == OUR_BARRIER)
        return stn_comm_barrier(comm, NULL);
    if (o->coll == OUR_ALLREDUCE)
        return stn_comm_all_reduce(comm, b->send, b->recv, o->first, STN_DTYPE_F32, STN_SUM, NULL);
    return stn_comm_all_to_all(comm, b->send, counts, b->recv, counts, STN_DTYPE_F32, NULL);
}

static void run_collective(const struct order *o, struct buffers *b, int rank)
{
    int counts[2] = {(int)o->first, (int)o->second}, at[2];
    if (rank == 1) {
        counts[0] = (int)o->second;
        counts[1] = (int)o->first;
    }
    at[0] = 0;
    at[1] = counts[0];
    if (o->coll == BARRIER)
        MPI_Barrier(MPI_COMM_WORLD);
    else if (o->coll == ALLREDUCE)
        MPI_Allreduce(b->send, b->recv, (int)o->first, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else /* the counts are symmetric: what goes to the other comes from it */
        MPI_Alltoallv(b->send, counts, at, MPI_FLOAT, b->recv, counts, at, MPI_FLOAT, MPI_COMM_WORLD);
}

/* Of the slowest rank; negative where one failed. */
static double run_program(const struct order *o)
{
    const double seconds = o->coll >= UNET ? mpi_model_run(collectives[o->coll], o->first, (int)o->second, o->n)
                                           : mpi_fftw_run(o->first, o->coll == RFFT, o->second == 1, o->n);
    double ends[2] = {seconds, -seconds}, most[2];
    MPI_Allreduce(ends, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most[1] > 0 ? -1 : most[0];
}

static double run_order(const struct order *o, struct buffers *b, int rank, stn_comm *comm)
{
    if (o->coll >= FFT)
        return run_program(o);
    int ours = o->coll >= OUR_BARRIER, good = reserve(b, o->first + o->second + 1) && (!ours || comm != NULL), all;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all)
        return -1;
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = -MPI_Wtime(), slowest;
    for (long long i = 0; i < o->n && good; i++)
        if (!ours)
            run_collective(o, b, rank);
        else
            good = run_ours(o, b, comm) == STN_OK;
    seconds += MPI_Wtime();
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all ? slowest : -1;
}

static void read_order(struct order *o, int size, const int *processes)
{
    char line[256], coll[32];
    o->coll = -1;
    if (fgets(line, sizeof line, stdin) != NULL &&
        sscanf(line, "%31s %lld %lld %lld", coll, &o->first, &o->second, &o->n) == 4)
        for (int v = 0; v < COLLECTIVES; v++)
            if (strcmp(coll, collectives[v]) == 0)
                o->coll = v;
    for (int r = 1; r < size; r++) {
        kill(processes[r], WAKE);
        MPI_Send(o, 4, MPI_LONG_LONG, r, TAG, MPI_COMM_WORLD);
    }
}

static void await_order(struct order *o, const sigset_t *wake)
{
    int signal;
    sigwait(wake, &signal);
    MPI_Recv(o, 4, MPI_LONG_LONG, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size, processes[MOST_RANKS], own = (int)getpid();
    struct buffers buffers = {0};
    struct order order;
    sigset_t wake;
    sigemptyset(&wake);
    sigaddset(&wake, WAKE);
    pthread_sigmask(SIG_BLOCK, &wake, NULL); /* before there is any other thread */
    stn_comm *comm = NULL; /* stays NULL where there is no module */
    MPI_Init(&argc, &argv);
    stn_comm_from_mpi(MPI_COMM_WORLD, 60, NULL, &comm);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > MOST_RANKS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allgather(&own, 1, MPI_INT, processes, 1, MPI_INT, MPI_COMM_WORLD);
    for (;;) {
        if (rank == 0)
            read_order(&order, size, processes);
        else
            await_order(&order, &wake);
        if (order.coll < 0)
            break;
        double seconds = run_order(&order, &buffers, rank, comm);
        if (rank == 0) {
            printf("%.12g\n", seconds);
            fflush(stdout);
        }
    }
    mpi_fftw_end();
    mpi_model_end();
    stn_comm_destroy(&comm);
    free(buffers.send);
    free(buffers.recv);
    MPI_Finalize();
    return 0;
}
